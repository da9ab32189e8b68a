"""Which events of a batch are new: nothing that was delivered twice counts twice.

Reads: fresh (temporary), events. Writes: fresh, repeats. Next: ingest/calls.py.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from ingest.store import Db, one

RANGES = 16  # stretches of stored events that one batch is compared with at most
KEY_LIFE = timedelta(hours=24)  # how long a batch's key, and an event without a time, is remembered

CONFLICTS = """
    SELECT count(*) FROM (
        SELECT source, native_id FROM (
            SELECT source, native_id, event_id FROM fresh WHERE native_id IS NOT NULL
            UNION ALL SELECT k.source, k.native_id, k.event_id FROM known k
            SEMI JOIN fresh n ON n.source = k.source AND n.native_id = k.native_id)
        GROUP BY ALL HAVING count(DISTINCT event_id) > 1)
"""


def deduplicate(db: Db, at: datetime) -> tuple[int, int]:
    """Take out of `fresh` what was there before, or comes twice in it.

    Returns how many were taken out, and how many ids came with other content (those stay).
    Equal events have equal times, so only stored events of the batch's own hours are looked at.
    Events that took their time from their arrival are looked for in the day before it as well.
    """
    hours = db.execute(
        "SELECT date_trunc('hour', ts) AS h, min(ts), max(ts) FROM fresh GROUP BY h ORDER BY h"
    ).fetchall()
    ranges = merged([(low, high) for _, low, high in hours], timedelta(hours=1))
    if one(db, "SELECT count(*) FROM fresh WHERE ts_quality = 'receiver'"):
        ranges = merged([*ranges, (at - KEY_LIFE, at)], timedelta(0))
    while len(ranges) > RANGES:
        gaps = [ranges[i + 1][0] - ranges[i][1] for i in range(len(ranges) - 1)]
        ranges = merged(ranges, min(gaps))
    where = " OR ".join("ts BETWEEN ? AND ?" for _ in ranges) or "false"
    db.execute(
        "CREATE OR REPLACE TEMP TABLE known AS SELECT event_id, source, native_id FROM events"
        f" WHERE ({where}) AND (event_id IN (SELECT event_id FROM fresh)"
        " OR native_id IN (SELECT native_id FROM fresh))",
        [moment for each in ranges for moment in each],
    )
    taken = 0
    if one(db, "SELECT count(*) FROM known SEMI JOIN fresh USING (event_id)"):
        again = "FROM fresh WHERE event_id IN (SELECT event_id FROM known)"
        db.execute(f"INSERT INTO repeats SELECT event_id, ledger_seq {again}")
        sql = f"DELETE {again}"
        taken += int(one(db, sql))
    if one(db, "SELECT count(*) > count(DISTINCT event_id) FROM fresh"):
        taken += int(
            one(
                db,
                """
            DELETE FROM fresh WHERE rowid NOT IN (
                SELECT arg_min(rowid, ledger_seq) FROM fresh GROUP BY event_id)""",
            )
        )
    return taken, int(one(db, CONFLICTS))


def merged(
    ranges: Sequence[tuple[datetime, datetime]], gap: timedelta
) -> list[tuple[datetime, datetime]]:
    """Ranges (first, last), sorted, those no further apart than `gap` made one."""
    done: list[tuple[datetime, datetime]] = []
    for low, high in sorted(ranges):
        if done and low - done[-1][1] <= gap:
            done[-1] = (done[-1][0], max(done[-1][1], high))
        else:
            done.append((low, high))
    return done
