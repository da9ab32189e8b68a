"""A detector's rows as they are stored: one stretch per triggering event or closed window.

Reads: stretches. Writes: stretches. Next: detectors/alerts.py.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec
import pyarrow as pa

from detectors.detector import PROMISED, Detector
from detectors.ranges import Range
from ingest.store import Db, fetch

NOT_FACTS = {*PROMISED, "severity", "tenant"}
COLUMNS = "tenant, subject, started_at, ended_at, severity, event_ids, facts"
COLUMNS_OF_T = ", ".join(f"t.{name}" for name in COLUMNS.split(", "))


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


def replace(db: Db, each: Detector, judged: Range, found: Iterable[Stretch]) -> list[Stretch]:
    """Make the stored rows that end in `judged` equal to `found`. Returns those that differ."""
    since, until = judged
    between = "ended_at >= $since::TIMESTAMPTZ AND ended_at < $until::TIMESTAMPTZ"
    stored = f"FROM stretches t WHERE detector = $detector AND {between}"
    old = set(stretches(db, stored, detector=each.id, since=since, until=until))
    new = set(found)
    if gone := old - new:
        keys = _table(each.id, sorted(gone))
        db.register("gone", keys)
        db.execute(
            f"DELETE FROM stretches WHERE detector = $detector AND {between} AND EXISTS"
            " (SELECT 1 FROM gone g WHERE g.tenant = stretches.tenant"
            " AND g.subject = stretches.subject AND g.ended_at = stretches.ended_at"
            " AND g.started_at = stretches.started_at AND g.facts = stretches.facts::VARCHAR"
            " AND g.event_ids = stretches.event_ids)",
            {"detector": each.id, "since": since, "until": until},
        )
        db.unregister("gone")
    if fresh := new - old:
        db.register("found", _table(each.id, sorted(fresh)))
        db.execute(
            f"INSERT INTO stretches (detector, {COLUMNS}) SELECT detector, {COLUMNS} FROM found"
        )
        db.unregister("found")
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
