"""What was found in a time whose lines are no longer all there: it is not judged again.

A detector that looks back over it would count too few, so what it found stands as it is; the
ledger is told of it, so that a rebuilt database has it too.
Reads: alerts, stretches, prunes. Writes: alerts, stretches. Next: detectors/engine.py.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec

from ingest.store import Db, fetch, one

AT_ONCE = 200  # rows in one line of the ledger


def floor(db: Db) -> datetime | None:
    """The time of events from which on nothing has been pruned. None while nothing has."""
    found = one(db, "SELECT max(floor) FROM prunes")
    return found if isinstance(found, datetime) else None


def freezing(
    db: Db, reach: Mapping[str, timedelta], until: datetime
) -> Iterator[dict[str, list[dict[str, Any]]]]:
    """The rows that freeze when the floor rises to `until`, in portions: table to rows.

    `reach`: how far each detector looks back.
    """
    before = floor(db)
    ids = [row["detector"] for row in fetch(db, "SELECT DISTINCT detector FROM stretches")]
    for detector in sorted({*ids, *reach}):
        back = reach.get(detector, timedelta(0))
        span = {"id": detector, "old": before + back if before else None, "new": until + back}
        for table in ("alerts", "stretches"):
            rows = fetch(
                db,
                f"SELECT * FROM {table} WHERE detector = $id AND ended_at < $new::TIMESTAMPTZ"
                " AND ($old::TIMESTAMPTZ IS NULL OR ended_at >= $old::TIMESTAMPTZ)",
                **span,
            )
            for start in range(0, len(rows), AT_ONCE):
                yield {table: rows[start : start + AT_ONCE]}


def land(db: Db, detail: Mapping[str, list[dict[str, Any]]]) -> None:
    """Put back what a line of the ledger says had been found. Where it stands, nothing changes."""
    for table, rows in detail.items():
        columns = fetch(db, f"DESCRIBE {'alerts' if table == 'alerts' else 'stretches'}")
        types = {row["column_name"]: row["column_type"] for row in columns}
        names = [name for name in rows[0] if name in types]
        shape = {name: ["VARCHAR"] if types[name].endswith("[]") else "VARCHAR" for name in names}
        casts = ", ".join(f"r.{name}::{types[name]} AS {name}" for name in names)
        new = f"SELECT {casts} FROM (SELECT unnest(from_json($rows, $shape)) AS r)"
        given = {"rows": _text(rows), "shape": _text([shape])}
        if table == "alerts":  # one that has grown since an earlier line is as the later one says
            db.execute(f"INSERT OR REPLACE INTO alerts BY NAME {new}", given)
            continue
        same = " AND ".join(f"o.{name} IS NOT DISTINCT FROM n.{name}" for name in names)
        db.execute(
            f"INSERT INTO stretches BY NAME SELECT * FROM ({new}) n"
            f" WHERE NOT EXISTS (SELECT 1 FROM stretches o WHERE {same})",
            given,
        )


def _text(value: object) -> str:
    return msgspec.json.encode(value, enc_hook=str).decode()
