"""What stands around an alert: sources, quarantine, detectors, rhythm, and other alerts."""

from datetime import datetime, timedelta

from ingest.store import Store
from tests.dashboards.insert import NOW, put


def house(store: Store, agent: str, alert: str, reason: str) -> None:
    """Sources, quarantine, detectors and the rhythm of two hours."""
    put(
        store,
        "sources",
        source="gate",
        adapter="native",
        lines=1_204,
        events=1_190,
        duplicates=9,
        quarantined=5,
        id_conflicts=0,
        backfilled=0,
        first_seen_at=NOW - timedelta(days=2),
        last_seen_at=NOW - timedelta(seconds=4),
        last_event_at=NOW - timedelta(seconds=9),
    )
    put(
        store,
        "quarantine",
        ledger_seq=9,
        source="gate",
        received_at=NOW - timedelta(minutes=3),
        reason="parse",
        detail=reason,
        raw=reason,
    )
    for name, error in (("deny_retry", None), ("silent_source", reason)):
        put(
            store,
            "judged",
            detector=name,
            version="1",
            seq=7,
            runs=900,
            failures=2 if error else 0,
            last_success_at=NOW - timedelta(seconds=3),
            last_seconds=0.0312,
            last_error=error,
        )
        put(
            store,
            "judgements",
            detector=name,
            since=NOW - timedelta(days=2),
            until=NOW,
            status="judged",
            judged_at=NOW,
        )
    put(
        store,
        "judgements",
        detector="silent_source",
        since=NOW - timedelta(hours=1),
        until=NOW,
        status="due",
        reason=reason,
    )
    for n in range(120):
        put(
            store,
            "minute_counts",
            minute=_minute(n),
            agent=agent,
            events=20 + (n * 7) % 23,
            denied=(n % 31 == 4) * 3,
            external=1,
            approvals=0,
        )


def _minute(n: int) -> datetime:
    return NOW - timedelta(minutes=n)


def crowd(store: Store) -> None:
    """Further alerts, so that an order can be seen."""
    for n, (severity, detector, subject, status, title) in enumerate(
        (
            (
                "critical",
                "denied_then_executed",
                "a9",
                "open",
                "a9: billing.refund ran although denied",
            ),
            (
                "medium",
                "config_churn",
                "prompts/system.md",
                "open",
                "prompts/system.md changed 5 times in a day",
            ),
            ("low", "new_host", "a4", "open", "a4: first call to files.example.net"),
            ("high", "deny_rotation", "t-21", "resolved", "t-21: 6 denials over 4 tools"),
        )
    ):
        start = NOW - timedelta(minutes=50 - n)
        put(
            store,
            "alerts",
            alert_id=f"al_00{n}",
            detector=detector,
            tenant="",
            subject=subject,
            severity=severity,
            status=status,
            started_at=start,
            ended_at=start + timedelta(minutes=9),
            rows=n + 2,
            title=title,
            title_zh=title,
            event_ids=[],
            facts={"count": n + 2},
            opened_at=start,
            backfill=False,
            tellings=1,
            acked_by="mei" if n == 1 else None,
            acked_at=NOW if n == 1 else None,
        )
