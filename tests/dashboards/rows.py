"""Rows for pages: a quiet store, the product's own example, and rows full of markup."""

from datetime import timedelta
from typing import Any

from ingest.store import Store, memory_store
from tests.dashboards.insert import NOW, put
from tests.dashboards.surroundings import crowd, house

MARKUP = (
    "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
    " [x](javascript:alert(4)) **bold** :red[red] :fire: $x^2$ `code` # heading\n# second line"
    ' \u202eright to left &amp; "><svg onload=alert(3)> | =HYPERLINK(1)'
)
LONG = "x" * 5_000


def example() -> Store:
    """Agent a1 is denied crm.export_contacts three times from 09:00; alert al_7f3a."""
    store = memory_store()
    fill(
        store,
        agent="a1",
        tool="crm.export_contacts",
        reason="exports need an approval",
        trace="t-17",
        title="a1: 3 denials in a row for crm.export_contacts",
        alert="al_7f3a",
        rule="no-bulk-export",
        params={"list": "customers", "export_all": True},
    )
    crowd(store)
    return store


def hostile() -> Store:
    """Every text that comes from a log, a message or a person tries to be more than text."""
    store = memory_store()
    fill(
        store,
        agent=MARKUP,
        tool=MARKUP,
        reason=MARKUP + LONG,
        trace=MARKUP,
        title=MARKUP,
        alert=MARKUP,
        rule=MARKUP,
        params={MARKUP: MARKUP, "long": LONG},
    )
    return store


def fill(
    store: Store,
    *,
    agent: str,
    tool: str,
    reason: str,
    trace: str,
    title: str,
    alert: str,
    rule: str,
    params: dict[str, Any],
) -> None:
    """One run: a look-up, three denials, an approval, an act, what it led to and who was told."""
    start = NOW - timedelta(minutes=30)
    ids = [f"e{n}-{alert}" for n in range(7)]
    common = {"source": "gate", "ts_quality": "source", "agent": agent, "trace_id": trace}
    steps: list[dict[str, Any]] = [
        {"kind": "message", "role": "user", "text": f"Please clean up the list. {reason}"},
        {
            "kind": "tool_executed",
            "tool": "crm.search",
            "op": "lookup",
            "decision": "allow",
            "status": "ok",
            "latency_ms": 41.0,
            "params": {"query": "customers"},
        },
        *(
            {
                "kind": "tool_decided",
                "tool": tool,
                "op": "commit",
                "decision": "deny",
                "reason": reason,
                "rule_ids": [rule],
                "params": params,
            }
            for _ in range(3)
        ),
        {"kind": "approval_requested", "tool": tool, "approver": "ops"},
        {
            "kind": "tool_executed",
            "tool": tool,
            "op": "commit",
            "decision": "allow",
            "status": "error",
            "error": reason,
            "latency_ms": 1_820.5,
            "params": params,
            "host": "crm.example",
        },
    ]
    for n, step in enumerate(steps):
        put(
            store,
            "events",
            event_id=ids[n],
            ledger_seq=n + 1,
            ts=start + timedelta(minutes=2 * n),
            ingested_at=start,
            **common,
            **step,
        )
    _alert(store, ids[2:5], agent, title, alert, tool)
    house(store, agent, alert, reason)
    put(
        store,
        "rules",
        rule_id=rule,
        fingerprint="f0",
        status="shadow",
        path="rules/a.yaml",
        doc={"when": title},
        read_at=start,
    )
    put(
        store,
        "proposals",
        fingerprint="f1",
        rule_id=rule,
        state="proposed",
        branch="rule/f1",
        rule={
            "id": rule,
            "when": {"all": ["empty_result", "retry_after_denial"]},
            "then": "stop",
            "why": title,
        },
        url="https://git.example/pulls/7",
        made_at=start,
        evidence={
            "backtest": {
                "incidents_stopped": 11,
                "incidents": 14,
                "good_runs_stopped": 1,
                "good_runs": 186,
                "precision": 0.917,
            },
            "overlaps": [title],
        },
    )


def _alert(store: Store, ids: list[str], agent: str, title: str, alert: str, tool: str) -> None:
    start = NOW - timedelta(minutes=26)
    put(
        store,
        "alerts",
        alert_id=alert,
        detector="deny_retry",
        tenant="",
        subject=agent,
        severity="high",
        status="open",
        started_at=start,
        ended_at=start + timedelta(minutes=4),
        rows=1,
        title=title,
        title_zh=f"{agent}：{tool} 连续被拒 3 次",
        event_ids=ids,
        facts={"tool": tool, "denials": 3, "agent": agent, "first": "2026-03-10T09:04:00Z"},
        opened_at=start + timedelta(minutes=4),
        backfill=False,
        tellings=1,
        told_at=NOW,
    )
    put(
        store,
        "alert_events",
        alert_id=alert,
        ts=start + timedelta(minutes=4),
        what="opened",
        detail=title,
    )
    put(
        store,
        "alert_events",
        alert_id=alert,
        ts=start + timedelta(minutes=5),
        what="told",
        detail="ops",
    )
    for receiver, state, error in (
        ("ops-chat", "delivered", None),
        ("pager", "pending", f"answered 503: {title}"),
        ("archive", "dead", "answered 404"),
    ):
        put(
            store,
            "deliveries",
            delivery_id=f"d-{receiver}-{alert}",
            receiver=receiver,
            alert_id=alert,
            kind="open",
            severity="high",
            created_at=start,
            message={"t": title},
            state=state,
            attempts=2,
            next_at=NOW + timedelta(minutes=1),
            last_error=error,
            done_at=start + timedelta(minutes=5) if state == "delivered" else None,
        )
