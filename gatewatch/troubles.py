"""The five troubles that the demo injects, each with what must be found and when it begins.

Reads: nothing. Writes: nothing. Next: gatewatch/demo.py.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from gatewatch.fleet import HOSTS, Line, line

Fields = dict[str, Any]  # of a native line, without its time and id

UNLISTED = "drop.paste-bin.test"  # no name that the policy allows


@dataclass(frozen=True)
class Trouble:
    """What `detector` must find about `subject`. `after`: seconds of live time until it begins.

    `lines`: seconds after its beginning, and a native line without time and id.
    """

    detector: str
    subject: str
    after: float
    lines: tuple[tuple[float, Fields], ...]

    def concerns(self) -> frozenset[str]:
        """Every name in its lines that a detector may rightly take as its subject."""
        keys = ("agent", "trace_id", "host", "config_object", "session", "tool")
        return frozenset(
            {
                self.subject,
                *(str(each[key]) for _, each in self.lines for key in keys if key in each),
            }
        )

    def at(self, start: datetime) -> list[Line]:
        """Its lines, for a live time that begins at `start`."""
        return [
            line(
                start + timedelta(seconds=self.after + offset),
                f"ev-{fields['trace_id']}-{n}",
                fields,
            )
            for n, (offset, fields) in enumerate(self.lines)
        ]


def troubles() -> tuple[Trouble, ...]:
    """One of each kind, a few seconds apart."""
    return (
        Trouble("deny_retry", "a1", 1.0, tuple(_denials())),
        Trouble("external_call_spike", "search-agent-3", 3.0, tuple(_calls())),
        Trouble("unlisted_egress", f"data-agent-2 -> {UNLISTED}", 8.0, tuple(_egress())),
        Trouble("config_churn", "ops/routes.yaml", 13.0, tuple(_changes())),
        Trouble("approval_surge", "billing-agent-4", 18.0, tuple(_approvals())),
    )


def begins(found: Sequence[Trouble], start: datetime) -> dict[str, datetime]:
    """When each trouble's first line is written, by detector."""
    return {each.detector: start + timedelta(seconds=each.after) for each in found}


def _denials() -> Iterator[tuple[float, Fields]]:
    """The policy says no, and the agent tries again; what it varies does not matter."""
    base = {
        **_task("a1", "export"),
        "tool": "crm.export_contacts",
        "decision": "deny",
        "rule_id": "no-bulk-export",
        "reason": "bulk export is not allowed",
    }
    for n in range(5):
        yield n * 1.5, base | {"call_id": f"c-export-{n}", "params": {"segment": "all", "page": n}}


def _calls() -> Iterator[tuple[float, Fields]]:
    """Three hundred calls within six seconds. Where to is allowed, how often is not usual."""
    base = {
        **_task("search-agent-3", "burst"),
        "tool": "search.get_page",
        "decision": "allow",
        "status": "ok",
        "latency_ms": 40.0,
    }
    for n in range(300):
        url = f"https://{HOSTS['search'][n % 6]}/v1/page/{n}"
        yield n * 0.02, base | {"call_id": f"c-burst-{n}", "params": {"page": n}, "url": url}


def _egress() -> Iterator[tuple[float, Fields]]:
    base = {**_task("data-agent-2", "upload"), "kind": "egress", "tool": "data.get_extract"}
    for n in range(2):
        yield n * 2.0, base | {"host": UNLISTED, "port": 443, "params": {"bytes": 48_000 + n}}


def _changes() -> Iterator[tuple[float, Fields]]:
    """One object to and fro, six times in six seconds."""
    base = {
        **_task("ops-agent-5", "config"),
        "kind": "config_change",
        "tool": "ops.update_route",
        "config_object": "ops/routes.yaml",
        "status": "ok",
    }
    limits = [{"limit": 100 + n % 2} for n in range(7)]
    for n, (before, after) in enumerate(pairwise(limits)):
        yield n * 1.0, base | {"config_before": before, "config_after": after}


def _approvals() -> Iterator[tuple[float, Fields]]:
    """Asked for at night, when nobody watches, and by nobody answered."""
    base = {
        **_task("billing-agent-4", "refunds"),
        "kind": "approval",
        "tool": "billing.update_refund",
    }
    for n in range(14):
        ids = {"call_id": f"c-refund-{n}", "approval_id": f"ap-night-{n}"}
        yield n * 0.5, base | ids | {"params": {"order": f"o-{n}", "amount": 480 + n}}


def _task(agent: str, name: str) -> Fields:
    return {
        "kind": "tool_call",
        "agent": agent,
        "trace_id": f"t-{name}",
        "session": f"s-{name}",
    }
