"""What is noted of batches that have landed: their sources, what must be judged, how far we are.

Reads: fresh (temporary). Writes: sources, arrivals, changes, tail_offsets, batch_keys, landed,
tallies.
Next: detectors/engine.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta

import msgspec

from ingest import tally
from ingest.identity import KEY_LIFE, merged
from ingest.segment import Batched
from ingest.store import Db, fetch, insert

JOINED_GAP = timedelta(minutes=10)  # touched times closer than this are one stretch to judge
BACKFILL = timedelta(hours=1)  # older than this at arrival: history, not live traffic
LATE = timedelta(minutes=1)  # behind the newest event of its source: the window was judged before
CANARY = "gatewatch-canary"  # the agent of a call that is made in order to be denied
CHANGES = """
    INSERT INTO changes
    SELECT $seq, unnest($since::TIMESTAMPTZ[]), unnest($until::TIMESTAMPTZ[]), kinds
    FROM (SELECT list(DISTINCT kind ORDER BY kind) AS kinds FROM fresh)
"""
NEWEST = """
    SELECT source, max(ts) FILTER (WHERE ts_quality IS DISTINCT FROM 'receiver') AS at,
        arg_max(event_id, (ts, event_id)) AS id,
        count(*) FILTER (WHERE ts < $at::TIMESTAMPTZ - $old::INTERVAL) AS old,
        count(*) FILTER (WHERE list_contains(signals, 'agent_mismatch')) AS mismatched,
        count(*) FILTER (WHERE ts < before - $late::INTERVAL
            AND ts >= $at::TIMESTAMPTZ - $old::INTERVAL) AS late,
        max(ts) FILTER (WHERE agent = $canary AND decision = 'deny') AS canary
    FROM fresh LEFT JOIN (SELECT source, last_event_at AS before FROM sources) USING (source)
    GROUP BY source
"""
SOURCE = """
    INSERT INTO sources VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9, $10, $11, $12)
    ON CONFLICT (source) DO UPDATE SET adapter = excluded.adapter,
        lines = lines + excluded.lines, events = events + excluded.events,
        duplicates = duplicates + excluded.duplicates,
        quarantined = quarantined + excluded.quarantined,
        id_conflicts = id_conflicts + excluded.id_conflicts,
        backfilled = backfilled + excluded.backfilled,
        first_seen_at = least(first_seen_at, excluded.first_seen_at),
        last_seen_at = greatest(last_seen_at, excluded.last_seen_at),
        last_event_at = greatest(last_event_at, excluded.last_event_at),
        mismatched = mismatched + excluded.mismatched,
        canary_at = greatest(canary_at, excluded.canary_at)
"""

NOTHING = {"at": None, "id": None, "old": 0, "mismatched": 0, "late": 0, "canary": None}


@dataclass(frozen=True)
class Landed:
    """What became of a batch. `repeated`: the batch as a whole had been landed before."""

    lines: int = 0
    events: int = 0
    duplicates: int = 0
    quarantined: int = 0
    id_conflicts: int = 0
    repeated: bool = False

    def __add__(self, other: "Landed") -> "Landed":
        counts = [getattr(self, each.name) + getattr(other, each.name) for each in fields(self)]
        return Landed(*counts[:-1])


def note_changes(
    db: Db,
    seq: int,
    minutes: Sequence[tuple[datetime, datetime]],
    more: Sequence[tuple[datetime, datetime]],
) -> None:
    """Note the stretches of time that must be judged again. `minutes`: first and last new event."""
    if stretches := merged([*minutes, *more], JOINED_GAP):
        since, until = zip(*stretches, strict=True)
        db.execute(CHANGES, {"seq": seq, "since": list(since), "until": list(until)})


def account(db: Db, group: Sequence[Batched], landed: Sequence[Landed]) -> None:
    """What is known of each source, and of its arrivals. The batches came at one moment."""
    at = group[0].at
    minute = at.replace(second=0, microsecond=0)
    given = {"at": at, "old": BACKFILL, "late": LATE, "canary": CANARY}
    newest = {row["source"]: row for row in fetch(db, NEWEST, **given)}
    for source in dict.fromkeys(each.marker.source for each in group):
        its = [n for n, each in enumerate(group) if each.marker.source == source]
        total = sum((landed[n] for n in its), Landed())
        new = newest.get(source, NOTHING)
        counts = [total.lines, total.events, total.duplicates, total.quarantined,
                  total.id_conflicts, new["old"]]  # fmt: skip
        more = [new["at"], new["mismatched"], new["canary"]]
        db.execute(SOURCE, [source, group[its[-1]].marker.adapter, *counts, at, *more])
        if new["late"]:  # no column of the source: it depends on what lands together
            tally.add(db, "late", {(source, ""): new["late"]})
        if total.lines:
            db.execute(
                "INSERT INTO arrivals VALUES (?, ?, ?, ?)", [source, minute, total.lines, new["id"]]
            )


def progress(db: Db, group: Sequence[Batched], landed: Sequence[Landed]) -> None:
    """How far the tailed files have been read, and the keys of the batches with their answers."""
    for batch, its in zip(group, landed, strict=True):
        marker, at = batch.marker, batch.at
        for offset in marker.offsets:
            where = [offset.source, offset.device, offset.inode]
            db.execute(
                "DELETE FROM tail_offsets WHERE source = ? AND device = ? AND inode = ?", where
            )
            insert(db, "tail_offsets", msgspec.structs.asdict(offset) | {"seen_at": at})
        if marker.key:
            answer = [marker.key, marker.source, at, msgspec.json.encode(its).decode()]
            db.execute("INSERT INTO batch_keys VALUES (?, ?, ?, ?)", answer)
    if any(each.marker.key for each in group):
        db.execute("DELETE FROM batch_keys WHERE landed_at < ?", [group[0].at - KEY_LIFE])


def note_reached(db: Db, batch: Batched) -> None:
    """Note that the database holds everything up to the end of this batch."""
    db.execute("DELETE FROM landed")
    db.execute("INSERT INTO landed VALUES (?, ?)", [batch.marker.last, batch.head])
