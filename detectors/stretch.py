"""A detector's rows as they are stored: one stretch per triggering event or closed window.

Reads: stretches. Writes: stretches. Next: detectors/alerts.py.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec
import pyarrow as pa

from detectors.detector import Detector
from detectors.promise import OPTIONAL, PROMISED
from detectors.ranges import Range
from ingest.store import Db, beside, fetch

NOT_FACTS = {*PROMISED, *OPTIONAL}
COLUMNS = "tenant, subject, started_at, ended_at, severity, event_ids, facts"
SEVERITIES = ("low", "medium", "high", "critical")
COLUMNS_OF_T = ", ".join(f"t.{name}" for name in COLUMNS.split(", "))
Subject = tuple[str, str]  # tenant and subject
Span = tuple[datetime, datetime]  # both ends included
SAME = "t.tenant = s.tenant AND t.subject = s.subject"
NEAR = (
    f"FROM {{}} t SEMI JOIN spans s ON {SAME}"
    " AND t.ended_at >= s.low AND t.started_at <= s.high WHERE t.detector = $id"
)
EDGE = f"FROM stretches t SEMI JOIN spans s ON {SAME} AND {{}} WHERE t.detector = $id QUALIFY 1 ="
FIRST = (
    f"{EDGE.format('t.started_at = s.low')} row_number() OVER (PARTITION BY t.tenant, t.subject,"
    " t.started_at ORDER BY t.ended_at, t.severity, t.event_ids, t.facts)"
)
LAST = (
    f"{EDGE.format('t.ended_at = s.high')} row_number() OVER (PARTITION BY t.tenant, t.subject,"
    " t.ended_at ORDER BY t.started_at DESC, t.severity DESC, t.event_ids DESC, t.facts DESC)"
)
# What alerts.unite does, for what is stored: an alert of days has a row for each of its events.
RUNS = f"""
    WITH marked AS (
        SELECT t.tenant, t.subject, t.started_at, t.ended_at,
            list_position({list(SEVERITIES)}, t.severity) - 1 AS grade,
            max(t.ended_at) OVER (PARTITION BY t.tenant, t.subject ORDER BY t.started_at, t.ended_at
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS so_far
        {NEAR.format("stretches")}
    ),
    numbered AS (
        SELECT *, sum(CASE WHEN started_at > so_far + $gap THEN 1 ELSE 0 END)
            OVER (PARTITION BY tenant, subject ORDER BY started_at, ended_at) AS run
        FROM marked
    )
    SELECT tenant, subject, min(started_at) AS started_at, max(ended_at) AS ended_at,
        count(*) AS rows, max(grade) AS worst
    FROM numbered GROUP BY tenant, subject, run ORDER BY started_at
"""


@dataclass(frozen=True, order=True)
class Stretch:
    """Compares by all it says: equal stretches are the same finding."""

    tenant: str
    subject: str
    started_at: datetime
    ended_at: datetime
    severity: str
    event_ids: tuple[str, ...]
    facts: str  # JSON object, keys sorted


@dataclass(frozen=True)
class Run:
    """Stretches of one subject with no gap between them: what an alert is the union of."""

    started_at: datetime
    ended_at: datetime
    rows: int
    severity: str


def stretch(each: Detector, row: Mapping[str, Any]) -> Stretch:
    """A row of a detector's SELECT, in the form that is stored and compared."""
    facts = {key: value for key, value in row.items() if key not in NOT_FACTS}
    return Stretch(
        row.get("tenant") or "",
        row["subject"] or "",
        row["started_at"],
        row["ended_at"],
        row.get("severity") or each.header.severity,
        tuple(row["event_ids"] or ()),
        msgspec.json.encode(facts, enc_hook=str, order="sorted").decode(),
    )


def stretches(db: Db, rest: str, **params: Any) -> list[Stretch]:
    """Stored stretches, in order. `rest` is the query from FROM on, with the table as `t`."""
    rows = fetch(db, f"SELECT {COLUMNS_OF_T} {rest}", **params)
    return sorted(Stretch(**row | {"event_ids": tuple(row["event_ids"])}) for row in rows)


@contextmanager
def within(
    db: Db, each: Detector, spans: Mapping[Subject, Span]
) -> Iterator[dict[Subject, list[Run]]]:
    """The runs of stored rows of every subject within a gap of its span. Inside, `spans` is a
    table that NEAR can be asked with."""
    wider = [(*key, low - each.gap, high + each.gap) for key, (low, high) in spans.items()]
    found: dict[Subject, list[Run]] = {key: [] for key in spans}
    with beside(db, "spans", _spans(wider)):
        for row in fetch(db, RUNS, id=each.id, gap=each.gap):
            run = Run(row["started_at"], row["ended_at"], row["rows"], SEVERITIES[row["worst"]])
            found[row["tenant"], row["subject"]].append(run)
        yield found


def edges(
    db: Db, each: Detector, runs: Mapping[Subject, Sequence[Run]]
) -> dict[tuple[Subject, datetime], list[Stretch]]:
    """The rows with which runs begin and end, by that moment: an alert says nothing of the rest."""
    found: dict[tuple[Subject, datetime], list[Stretch]] = defaultdict(list)
    ends = [(*key, run.started_at, run.ended_at) for key, some in runs.items() for run in some]
    with beside(db, "spans", _spans(ends)):
        for row in stretches(db, FIRST, id=each.id):
            found[(row.tenant, row.subject), row.started_at].append(row)
        for row in stretches(db, LAST, id=each.id):
            found[(row.tenant, row.subject), row.ended_at].append(row)
    return found


def replace(db: Db, each: Detector, judged: Range, found: Iterable[Stretch]) -> list[Stretch]:
    """Make the stored rows that end in `judged` equal to `found`. Returns those that differ."""
    since, until = judged
    between = "ended_at >= $since::TIMESTAMPTZ AND ended_at < $until::TIMESTAMPTZ"
    stored = f"FROM stretches t WHERE detector = $detector AND {between}"
    old = set(stretches(db, stored, detector=each.id, since=since, until=until))
    new = set(found)
    if gone := old - new:
        with beside(db, "gone", _table(each.id, sorted(gone))):
            db.execute(
                f"DELETE FROM stretches WHERE detector = $detector AND {between} AND EXISTS"
                " (SELECT 1 FROM gone g WHERE g.tenant = stretches.tenant"
                " AND g.subject = stretches.subject AND g.ended_at = stretches.ended_at"
                " AND g.started_at = stretches.started_at AND g.facts = stretches.facts::VARCHAR"
                " AND g.event_ids = stretches.event_ids)",
                {"detector": each.id, "since": since, "until": until},
            )
    if fresh := new - old:
        with beside(db, "found", _table(each.id, sorted(fresh))):
            db.execute(
                f"INSERT INTO stretches (detector, {COLUMNS}) SELECT detector, {COLUMNS} FROM found"
            )
    return sorted(gone | (new - old))


def _table(detector: str, rows: Sequence[Stretch]) -> pa.Table:
    stamp = pa.timestamp("us", tz="UTC")
    return pa.table(
        {
            "detector": pa.array([detector] * len(rows), pa.string()),
            "tenant": pa.array([row.tenant for row in rows], pa.string()),
            "subject": pa.array([row.subject for row in rows], pa.string()),
            "started_at": pa.array([row.started_at for row in rows], stamp),
            "ended_at": pa.array([row.ended_at for row in rows], stamp),
            "severity": pa.array([row.severity for row in rows], pa.string()),
            "event_ids": pa.array([list(row.event_ids) for row in rows], pa.list_(pa.string())),
            "facts": pa.array([row.facts for row in rows], pa.string()),
        }
    )


def _spans(rows: Sequence[tuple[str, str, datetime, datetime]]) -> pa.Table:
    stamp = pa.timestamp("us", tz="UTC")
    kinds = {"tenant": pa.string(), "subject": pa.string(), "low": stamp, "high": stamp}
    columns = zip(kinds.items(), range(4), strict=True)
    return pa.table({name: pa.array([row[n] for row in rows], kind) for (name, kind), n in columns})
