"""Which events of a batch are new: nothing that was delivered twice counts twice.

Reads: fresh (temporary), events, early. Writes: fresh, repeats, early. Next: ingest/calls.py.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from ingest.store import Db, one

RANGES = 16  # stretches of stored events that one batch is compared with at most
KEY_LIFE = timedelta(hours=24)  # how long a batch's key, and an event without a time, is remembered

KNOWN = """
    SELECT event_id, source, native_id FROM events
    WHERE ({where}) AND (event_id IN (SELECT event_id FROM fresh)
        OR native_id IN (SELECT native_id FROM fresh))
"""
# A stored event of one of the ids, or another event of the batch; counted where the last one is.
CONFLICTS = """
    SELECT max(ledger_seq) FROM (
        SELECT source, native_id, event_id, ledger_seq FROM fresh WHERE native_id IS NOT NULL
        UNION ALL SELECT k.source, k.native_id, k.event_id, NULL FROM known k
        SEMI JOIN fresh n ON n.source = k.source AND n.native_id = k.native_id)
    GROUP BY source, native_id HAVING count(DISTINCT event_id) > 1
"""
SECOND = """
    FROM fresh WHERE rowid NOT IN (SELECT arg_min(rowid, ledger_seq) FROM fresh GROUP BY event_id)
"""

EARLY = """
    INSERT INTO early SELECT event_id, ledger_seq, ts FROM fresh
    WHERE ts_quality = 'receiver' AND list_contains(signals, 'clock_skew')
"""
BEFORE = """
    SELECT min(ts), max(ts) FROM early WHERE event_id IN (SELECT event_id FROM fresh)
    GROUP BY date_trunc('minute', ts)
"""


def deduplicate(
    db: Db, at: datetime, facts: Mapping[str, Any], minutes: Sequence[tuple[datetime, datetime]]
) -> tuple[int, list[int]]:
    """Take out of `fresh` what was there before, or comes twice in it.

    `facts` and `minutes` (first and last event) tell of `fresh`, see ingest/apply.py.
    Returns how many were taken out; and for each id that came with other content (those stay),
    where it last did.
    """
    if not facts["events"]:
        return 0, []
    ranges = _where(db, at, bool(facts["undated"]), minutes)
    known = KNOWN.format(where=" OR ".join("ts BETWEEN ? AND ?" for _ in ranges))
    moments = [moment for each in ranges for moment in each]
    taken = 0
    stored = one(db, f"SELECT count(*) FROM ({known})", moments)
    if stored:
        db.execute(f"CREATE OR REPLACE TEMP TABLE known AS {known}", moments)
        again = "FROM fresh WHERE event_id IN (SELECT event_id FROM known)"
        db.execute(f"INSERT INTO repeats SELECT event_id, ledger_seq {again}")
        taken += int(one(db, f"DELETE {again}"))
    if facts["ids"] < facts["events"]:
        db.execute(f"INSERT INTO repeats SELECT event_id, ledger_seq {SECOND}")
        taken += int(one(db, f"DELETE {SECOND}"))
    if facts["undated"]:
        db.execute(EARLY)
    if not stored and facts["native_ids"] == facts["native"]:
        return taken, []
    if not stored:
        db.execute("CREATE OR REPLACE TEMP TABLE known AS SELECT event_id, source, native_id"
                   " FROM fresh LIMIT 0")  # fmt: skip
    return taken, [row[0] for row in db.execute(CONFLICTS).fetchall()]


def _where(
    db: Db, at: datetime, undated: bool, minutes: Sequence[tuple[datetime, datetime]]
) -> list[tuple[datetime, datetime]]:
    """The stretches of time in which events of `fresh` may be stored already.

    Equal events have equal times, so only stored events of the batch's own hours are looked at.
    Events that took their time from their arrival are looked for in the day before it as well;
    those that came before the time that they claim are remembered, as they can come again in it.
    """
    ranges = merged(minutes, timedelta(hours=1))
    if undated:
        ranges = merged([*ranges, (at - KEY_LIFE, at)], timedelta(0))
    ranges = merged([*ranges, *db.execute(BEFORE).fetchall()], timedelta(0))
    gaps = sorted(after[0] - each[1] for each, after in pairwise(ranges))
    return merged(ranges, gaps[-RANGES]) if len(gaps) >= RANGES else ranges


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
