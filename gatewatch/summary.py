"""What a run of the demo showed: each trouble found or missed, and no line lost.

Reads: the database. Writes: nothing. Next: gatewatch/commands/demo.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from gatewatch.parts import Parts
from gatewatch.troubles import Trouble
from ingest.apply import Landed


@dataclass(frozen=True)
class Alert:
    """One message that the chat was told. `since_start`, `since_injection`: seconds."""

    kind: str
    detector: str
    subject: str
    severity: str
    title: str
    at: str
    since_start: float
    since_injection: float | None  # None: nobody injected this


@dataclass(frozen=True)
class Outcome:
    """One injected trouble. `seconds` from its first line until the chat was told."""

    detector: str
    subject: str
    detected: bool
    seconds: float | None


@dataclass(frozen=True)
class Summary:
    """Counts are lines. `lost`: written, and neither event nor duplicate nor quarantined."""

    seconds: float
    first_alert_seconds: float | None
    troubles: tuple[Outcome, ...]
    injected: int
    detected: int
    lines_written: int
    lines_in_ledger: int
    events: int
    duplicates: int
    quarantined: int
    lost: int
    alerts: int
    messages: int
    false_alerts: tuple[str, ...]  # alerts about what nobody injected

    @property
    def good(self) -> bool:
        return self.detected == self.injected and self.lost == 0


def landed(parts: Parts) -> Landed:
    """What has become of all lines so far. A line that is read again counts once more."""
    [row] = parts.store.rows(
        "SELECT coalesce(sum(lines), 0)::BIGINT AS lines,"
        " coalesce(sum(events), 0)::BIGINT AS events,"
        " coalesce(sum(duplicates), 0)::BIGINT AS duplicates,"
        " coalesce(sum(quarantined), 0)::BIGINT AS quarantined FROM sources"
    )
    return Landed(**row)


def summarise(
    parts: Parts, told: Sequence[Alert], injected: Sequence[Trouble], written: int, seconds: float
) -> Summary:
    """Hold what the chat heard, and what the database holds, against what was done."""
    counts = landed(parts)
    [own] = parts.store.rows("SELECT count(*) AS lines FROM operator_log")
    rows = parts.store.rows(
        "SELECT detector, subject, title FROM alerts WHERE status <> 'merged' ORDER BY opened_at"
    )
    known = frozenset().union(*(each.concerns() for each in injected))
    outcomes = tuple(_outcome(each, told) for each in injected)
    return Summary(
        seconds=round(seconds, 1),
        first_alert_seconds=min((round(each.since_start, 1) for each in told), default=None),
        troubles=outcomes,
        injected=len(outcomes),
        detected=sum(each.detected for each in outcomes),
        lines_written=written,
        lines_in_ledger=parts.lander.head[0] - int(own["lines"]),
        events=counts.events,
        duplicates=counts.duplicates,
        quarantined=counts.quarantined,
        lost=written - counts.events - counts.duplicates - counts.quarantined,
        alerts=len(rows),
        messages=len(told),
        false_alerts=tuple(
            f"{row['detector']}: {row['title']}" for row in rows if row["subject"] not in known
        ),
    )


def _outcome(trouble: Trouble, told: Sequence[Alert]) -> Outcome:
    """Found when the right detector named the right subject."""
    times = [
        each.since_injection
        for each in told
        if (each.detector, each.subject) == (trouble.detector, trouble.subject)
        and each.since_injection is not None
    ]
    first = round(min(times), 1) if times else None
    return Outcome(trouble.detector, trouble.subject, first is not None, first)
