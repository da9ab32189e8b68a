"""What is kept how long (R1.3), and how the tables forget the rest.

What pruning did is a line of the ledger, and landing that line is what takes the rows out: so a
database that is made anew forgets the same.
Reads: events, calls, alerts, incidents, policies. Writes: every table of sections 1 and 2 of
ingest/schema.sql, prunes. Next: ingest/prune.py.
"""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from ingest import calls, counts, identity
from ingest.ledger import opened
from ingest.manifest import file_of
from ingest.segment import Batched, read_batches
from ingest.store import Db, beside, fetch, insert, one

# An operation of high risk: by its own word, by the policy, or because somebody refused or had to
# be asked, or because it changed the rules of the game.
HIGH = """
    e.risk IN ('high', 'critical') OR e.tool IN (SELECT tool FROM risky)
    OR e.decision IN ('deny', 'require_approval') OR e.status = 'denied'
    OR e.kind IN ('config_changed', 'approval_requested', 'approval_decided', 'limit_hit')
"""
# The lines up to $last that stay. A line stays whole; a call stays whole, so that the rows of
# `calls` are those that its lines give; an event that came again stays as long as its repeat.
# What nobody could read may be of high risk; what the service itself wrote stays for good.
KEEP = f"""
    WITH RECURSIVE
    risky AS (
        SELECT DISTINCT t ->> 'name' AS tool FROM (SELECT unnest(arr(doc -> 'tools')) AS t
            FROM policies) WHERE (t ->> 'risk_level') IN ('high', 'critical')),
    proof AS (
        SELECT DISTINCT unnest(event_ids) AS event_id FROM
            (SELECT event_ids FROM alerts UNION ALL SELECT event_ids FROM stretches)),
    pinned AS (
        SELECT unnest(event_ids) AS event_id FROM alerts WHERE status = 'open'
        UNION SELECT event_id FROM incidents WHERE event_id IS NOT NULL
        UNION SELECT event_id FROM repeats WHERE ledger_seq > $last),
    base AS (
        SELECT ledger_seq AS seq FROM events e WHERE ledger_seq <= $last AND (
            (ingested_at >= $high::TIMESTAMPTZ
                AND ({HIGH} OR event_id IN (SELECT event_id FROM proof)))
            OR event_id IN (SELECT event_id FROM pinned)
            OR trace_id IN (SELECT trace_id FROM incidents))
        UNION SELECT ledger_seq FROM quarantine
            WHERE ledger_seq <= $last AND received_at >= $high::TIMESTAMPTZ
        UNION SELECT ledger_seq FROM operator_log WHERE ledger_seq <= $last),
    parts AS MATERIALIZED (
        SELECT c.call, e.ledger_seq AS seq FROM (
            SELECT rowid AS call, unnest(event_ids) AS event_id FROM calls
            WHERE ts <= (SELECT max(ts) FROM events WHERE ledger_seq <= $last)) c
        JOIN events e USING (event_id)),
    reach(seq) AS (
        SELECT seq FROM base
        UNION SELECT seq FROM parts
            WHERE call IN (SELECT call FROM parts WHERE seq > $last)
        UNION SELECT p.seq FROM reach r JOIN parts o ON o.seq = r.seq JOIN parts p USING (call))
    SELECT DISTINCT seq FROM reach WHERE seq <= $last ORDER BY seq
"""
DOOMED = """
    CREATE OR REPLACE TEMP TABLE doomed AS
    SELECT event_id, ts FROM events e JOIN emptied r ON e.ledger_seq BETWEEN r.first AND r.last
    WHERE e.ledger_seq NOT IN (SELECT seq FROM kept)
"""
SUMS = ("sources", "clocks")  # a row a source, of all lines that ever came
LINES_OF = """
    DELETE FROM {table} WHERE ledger_seq NOT IN (SELECT seq FROM kept)
        AND EXISTS (SELECT 1 FROM emptied r WHERE ledger_seq BETWEEN r.first AND r.last)
"""


class Left(msgspec.Struct, frozen=True):
    """What pruning has left of one segment, as the ledger's own line names it."""

    segment: str
    pruned: int  # how often lines have been taken out of it: part of the file's name
    first: int
    last: int
    count: int
    sha256: str


class Pruned(msgspec.Struct, frozen=True):
    """What one pruning did: the `detail` of its line in the ledger.

    `floor`: from this time of events on, nothing was taken out. `sums`: the rows of the tables SUMS
    as they stood. `gone`: files whose offsets are dropped.
    """

    before: datetime
    high_before: datetime
    floor: datetime
    lines: int  # that were taken out
    left: tuple[Left, ...]
    sums: dict[str, list[dict[str, Any]]]
    gone: tuple[tuple[str, int, int], ...] = ()  # source, device, inode


def keep(db: Db, last: int, high: datetime) -> list[int]:
    """Positions of the lines up to `last` that stay, in order."""
    return [row["seq"] for row in fetch(db, KEEP, last=last, high=high)]


def floor_of(db: Db, last: int, kept: Sequence[int]) -> datetime | None:
    """The time of the newest event that goes, None where none does."""
    with beside(db, "staying", _positions(kept)):
        found = one(
            db,
            "SELECT max(ts) FROM events WHERE ledger_seq <= ?"
            " AND ledger_seq NOT IN (SELECT seq FROM staying)",
            [last],
        )
    return found if isinstance(found, datetime) else None


def _positions(seqs: Sequence[int]) -> pa.Table:
    return pa.table({"seq": pa.array(seqs, pa.uint64())})


def land(db: Db, batch: Batched, number: int, detail: dict[str, Any], folder: Path) -> None:
    """Take out of the tables what a line of the ledger says was pruned.

    After a rebuild from what was left there is little to do: the lines are gone already.
    """
    done = msgspec.convert(detail, Pruned)
    _tables(db, done, folder)
    db.execute(DOOMED)
    if one(db, "SELECT count(*) FROM doomed"):
        _forget(db)
    for table in ("quarantine", "repeats", "early"):
        db.execute(LINES_OF.format(table=table))
    for name in ("kept", "emptied", "doomed"):
        db.execute(f"DROP TABLE IF EXISTS temp.{name}")
    db.execute("DELETE FROM batch_keys WHERE landed_at < ?", [batch.at - identity.KEY_LIFE])
    for each in done.gone:
        where = "WHERE source = ? AND device = ? AND inode = ?"
        db.execute(f"DELETE FROM tail_offsets {where}", list(each))
    for table, rows in done.sums.items():
        db.execute(f"DELETE FROM {table}")
        for row in rows:
            insert(db, table, row)
    db.execute("DELETE FROM attempts WHERE ts < ?", [done.before])
    db.execute(
        "DELETE FROM alert_events WHERE ts < ? AND alert_id IN"
        " (SELECT alert_id FROM alerts WHERE status <> 'open')",
        [done.high_before],
    )
    db.execute(  # that they went out stays in `operator_log`; what was given up stays here
        "DELETE FROM deliveries WHERE state IN ('delivered', 'accepted') AND done_at < ?"
        " AND alert_id NOT IN (SELECT alert_id FROM alerts WHERE status = 'open')",
        [done.high_before],
    )
    noted = [batch.place(number), batch.at, done.before, done.floor, done.lines]
    db.execute("INSERT INTO prunes VALUES (?, ?, ?, ?, ?)", noted)


def _tables(db: Db, done: Pruned, folder: Path) -> None:
    """`emptied`: the ranges that lost lines; `kept`: what is left in them."""
    seqs: list[int] = []
    ranges: list[tuple[int, int]] = []
    for each in done.left:
        path = folder / file_of(each.segment, each.pruned)
        if path.exists():  # else it has been pruned again since: what is gone came out of that
            ranges.append((each.first, each.last))
            with opened(path) as stream:
                for batch in read_batches(stream, each.first, "", pruned=True):
                    seqs += batch.seqs
    db.execute("CREATE OR REPLACE TEMP TABLE kept (seq UBIGINT)")
    db.execute("CREATE OR REPLACE TEMP TABLE emptied (first UBIGINT, last UBIGINT)")
    with beside(db, "seqs", _positions(seqs)):
        db.execute("INSERT INTO kept SELECT seq FROM seqs")
    if ranges:
        db.executemany("INSERT INTO emptied VALUES (?, ?)", ranges)


def _forget(db: Db) -> None:
    """Events, their calls, and what was counted of both."""
    db.execute("""
        CREATE OR REPLACE TEMP TABLE ended AS
        SELECT * FROM calls WHERE event_ids[1] IN (SELECT event_id FROM doomed)
    """)
    db.execute(calls.APPROVALS.format(calls="SELECT *, -1 AS n FROM ended"))
    db.execute("DELETE FROM calls WHERE event_ids[1] IN (SELECT event_id FROM doomed)")
    db.execute(LINES_OF.format(table="events"))
    db.execute("""
        CREATE OR REPLACE TEMP TABLE recounted AS
        SELECT DISTINCT date_trunc('minute', ts) AS minute FROM doomed
    """)
    db.execute("""
        CREATE OR REPLACE TEMP TABLE asked AS
        SELECT minute, tenant, agent, subject, sum(approvals) AS approvals FROM minute_counts
        WHERE minute IN (SELECT minute FROM recounted) GROUP BY ALL HAVING sum(approvals) <> 0
    """)
    db.execute("DELETE FROM minute_counts WHERE minute IN (SELECT minute FROM recounted)")
    db.execute("""
        INSERT INTO minute_counts
            (minute, tenant, agent, subject, events, denied, external, approvals)
        SELECT minute, tenant, agent, subject, 0, 0, 0, approvals FROM asked
    """)
    db.execute("""
        CREATE OR REPLACE TEMP TABLE fresh AS
        SELECT * FROM events WHERE date_trunc('minute', ts) IN (SELECT minute FROM recounted)
    """)
    db.execute(counts.MINUTES)
    counts.see_again(db)
    for name in ("ended", "recounted", "asked", "fresh"):
        db.execute(f"DROP TABLE IF EXISTS temp.{name}")
