"""One batch of the ledger into the database: the SQL of the one transaction.

Landing, recovery after a crash and `rebuild` all come through `apply`, so the database is a
function of the ledger.
Reads: a batch, events, calls. Writes: every table of sections 1 and 2 of ingest/schema.sql.
Next: detectors/engine.py.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType

import duckdb
import msgspec
import pyarrow as pa

from ingest import calls, identity, quarantine, skew, tools
from ingest.adapter import Adapter, lines
from ingest.hosts import canonical_host
from ingest.parse import Parsed
from ingest.segment import Batched
from ingest.store import Db, Store, fetch, one

JOINED_GAP = timedelta(minutes=10)  # touched times closer than this are one stretch to judge
SMALL = 500  # lines: below this, DuckDB is not asked to optimise the adapter's query
BACKFILL = timedelta(hours=1)  # older than this at arrival: history, not live traffic
FRESH = """
    CREATE OR REPLACE TEMP TABLE fresh AS
    SELECT f.* REPLACE (
        $at::TIMESTAMPTZ AS ingested_at, {op} AS op, {basis} AS op_basis,
        coalesce(f.params_digest, CASE WHEN f.params IS NOT NULL
                 THEN left(sha256(f.params::VARCHAR), 32) END) AS params_digest
    )
    FROM ({events}) f
    LEFT JOIN tools t USING (tool)
"""
SILENT = """
    CREATE OR REPLACE TEMP TABLE silent AS
    SELECT ledger_seq FROM lines ANTI JOIN fresh USING (ledger_seq)
"""
COUNTS = """
    INSERT INTO minute_counts (minute, tenant, agent, events, denied, external, approvals)
    SELECT date_trunc('minute', ts), tenant, agent, count(*),
        count(*) FILTER (WHERE decision = 'deny'),
        count(*) FILTER (WHERE coalesce(decision, '') <> 'deny' AND coalesce(status, '') <> 'denied'
            AND (kind = 'egress' OR (kind = 'tool_executed' AND host IS NOT NULL))),
        0  -- approvals are counted by call, see ingest/calls.py
    FROM fresh GROUP BY ALL
"""
SOURCE = """
    INSERT INTO sources VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9, $10, $11)
    ON CONFLICT (source) DO UPDATE SET adapter = excluded.adapter,
        lines = lines + excluded.lines, events = events + excluded.events,
        duplicates = duplicates + excluded.duplicates,
        quarantined = quarantined + excluded.quarantined,
        id_conflicts = id_conflicts + excluded.id_conflicts,
        backfilled = backfilled + excluded.backfilled,
        first_seen_at = least(first_seen_at, excluded.first_seen_at),
        last_seen_at = greatest(last_seen_at, excluded.last_seen_at),
        last_event_at = greatest(last_event_at, excluded.last_event_at),
        mismatched = mismatched + excluded.mismatched
"""


@dataclass(frozen=True)
class Landed:
    """What became of a batch. `repeated`: the batch as a whole had been landed before."""

    lines: int = 0
    events: int = 0
    duplicates: int = 0
    quarantined: int = 0
    id_conflicts: int = 0
    repeated: bool = False


class AdapterError(RuntimeError):
    """The adapter's query raised on this batch: at least one line of it is poison."""


def apply(
    db: Db,
    batch: Batched,
    parsed: Sequence[Parsed],
    adapter: Adapter,
    poison: Mapping[int, str] = MappingProxyType({}),
) -> Landed:
    """Land one batch inside the caller's transaction.

    `poison`: ledger positions of lines that the adapter cannot read, with the reason; see `probe`.
    """
    docs = [
        (batch.place(number), each.doc)
        for number, each in enumerate(parsed)
        if each.doc is not None and batch.place(number) not in poison
    ]
    with _planned_for(db, len(docs)):
        _adapt(db, batch, docs, adapter)
    tools.know(db)
    _mark(db, batch, parsed)
    _bind(db, batch.marker.agent)
    _canonical_hosts(db)
    quarantined = quarantine.keep(db, batch, parsed, adapter, poison)
    found = int(one(db, "SELECT count(*) FROM fresh"))
    duplicates, conflicts = identity.deduplicate(db, batch.at)
    db.execute("INSERT INTO events BY NAME SELECT * FROM fresh")
    touched = calls.join(db)
    db.execute(COUNTS)
    events = found - duplicates
    landed = Landed(len(batch.entries), events, duplicates, quarantined, conflicts)
    _note_changes(db, batch.marker.last, touched)
    _account(db, batch, landed)
    skew.note(db, batch)
    _progress(db, batch, landed)
    return landed


def probe(
    store: Store, batch: Batched, parsed: Sequence[Parsed], adapter: Adapter
) -> dict[int, str]:
    """Find the lines on which the adapter raises, by halving. One must not hold up the others.

    Each try has a transaction of its own: an error ends the one that it happens in.
    """
    poison: dict[int, str] = {}
    waiting = [
        [(batch.place(n), each.doc) for n, each in enumerate(parsed) if each.doc is not None]
    ]
    while waiting:
        part = waiting.pop()
        try:
            with store.writing() as db:
                _adapt(db, batch, part, adapter)
        except AdapterError as error:
            if len(part) == 1:
                poison[part[0][0]] = str(error)
            else:
                waiting += [part[: len(part) // 2], part[len(part) // 2 :]]
    return poison


def _adapt(
    db: Db, batch: Batched, docs: Sequence[tuple[int, str | None]], adapter: Adapter
) -> None:
    """What the adapter makes of the lines into `fresh`; those it makes nothing of into `silent`."""
    try:
        with lines(db, batch.marker.source, batch.at, docs):
            db.execute(tools.TABLE)
            db.execute("SET VARIABLE zone = $zone", {"zone": batch.marker.zone})
            db.execute(
                FRESH.format(events=adapter.events, op=tools.OP, basis=tools.BASIS),
                {"at": batch.at},
            )
            db.execute(SILENT)
    except duckdb.Error as error:
        raise AdapterError(str(error).splitlines()[0][:200]) from None


@contextmanager
def _planned_for(db: Db, lines: int) -> Iterator[None]:
    """Planning an adapter well takes ten times as long as running it over a few lines."""
    if lines >= SMALL:
        yield
        return
    db.execute("PRAGMA disable_optimizer")
    try:
        yield
    finally:
        with suppress(duckdb.Error):  # in a transaction that failed: the next one sets it again
            db.execute("PRAGMA enable_optimizer")


def _mark(db: Db, batch: Batched, parsed: Sequence[Parsed]) -> None:
    """Say on the events what was odd about their lines. Rare, so it costs nothing otherwise.

    A decision under a key that stood twice is doubtful: it never counts as an allow.
    """
    for number, (entry, each) in enumerate(zip(batch.entries, parsed, strict=True)):
        if each.marks or entry.redacted:
            db.execute(
                """
                UPDATE fresh SET
                    signals = CASE WHEN len($marks) > 0 THEN
                        list_sort(list_distinct(coalesce(signals, []) || $marks)) ELSE signals END,
                    decision = CASE WHEN list_contains($marks, 'duplicate_key')
                        AND decision = 'allow' THEN NULL ELSE decision END,
                    redacted = CASE WHEN len($paths) > 0 THEN $paths END
                WHERE ledger_seq = $seq
                """,
                {
                    "marks": list(each.marks),
                    "paths": list(entry.redacted),
                    "seq": batch.place(number),
                },
            )


def _bind(db: Db, agent: str | None) -> None:
    """A sender that may speak for one agent speaks for that one; what it claimed stays beside."""
    if agent is None:
        return
    db.execute(
        """
        UPDATE fresh SET agent = $agent,
            signals = CASE WHEN agent <> $agent
                THEN list_append(coalesce(signals, []), 'agent_mismatch') ELSE signals END,
            attrs = CASE WHEN agent <> $agent THEN json_merge_patch(
                coalesce(attrs, '{}'), json_object('agent_claimed', agent)) ELSE attrs END
        """,
        {"agent": agent},
    )


def _canonical_hosts(db: Db) -> None:
    """One spelling a host, see ingest/hosts.py."""
    found = db.execute("SELECT DISTINCT host FROM fresh WHERE host IS NOT NULL").fetchall()
    changed = [(host, new) for (host,) in found if (new := canonical_host(host)) != host]
    if changed:
        table = pa.table(
            {
                "was": pa.array([each[0] for each in changed], pa.string()),
                "now": pa.array([each[1] for each in changed], pa.string()),
            }
        )
        db.register("spelling", table)
        db.execute('UPDATE fresh SET host = s."now" FROM spelling s WHERE host = s.was')
        db.unregister("spelling")


def _note_changes(db: Db, seq: int, more: Sequence[tuple[datetime, datetime]]) -> None:
    minutes = db.execute(
        "SELECT min(ts), max(ts) FROM fresh GROUP BY date_trunc('minute', ts)"
    ).fetchall()
    stretches = identity.merged([*minutes, *more], JOINED_GAP)
    if stretches:
        db.executemany("INSERT INTO changes VALUES (?, ?, ?)", [(seq, *each) for each in stretches])


def _account(db: Db, batch: Batched, landed: Landed) -> None:
    """What is known of the source, and of its arrivals."""
    marker, at = batch.marker, batch.at
    newest = fetch(
        db,
        "SELECT max(ts) FILTER (WHERE ts_quality IS DISTINCT FROM 'receiver') AS at,"
        " arg_max(event_id, (ts, event_id)) AS id,"
        " count(*) FILTER (WHERE ts < $at::TIMESTAMPTZ - $old::INTERVAL) AS old,"
        " count(*) FILTER (WHERE list_contains(signals, 'agent_mismatch')) AS mismatched"
        " FROM fresh",
        at=at, old=BACKFILL,
    )[0]  # fmt: skip
    counts = [landed.lines, landed.events, landed.duplicates, landed.quarantined,
              landed.id_conflicts, newest["old"]]  # fmt: skip
    row = [marker.source, marker.adapter, *counts, at, newest["at"], newest["mismatched"]]
    db.execute(SOURCE, row)
    if landed.lines:
        minute = at.replace(second=0, microsecond=0)
        row = [marker.source, minute, landed.lines, newest["id"]]
        db.execute("INSERT INTO arrivals VALUES (?, ?, ?, ?)", row)


def _progress(db: Db, batch: Batched, landed: Landed) -> None:
    """How far the tailed files and the ledger have been read, and the key of the batch."""
    marker, at = batch.marker, batch.at
    for offset in marker.offsets:
        where = [offset.source, offset.device, offset.inode]
        db.execute("DELETE FROM tail_offsets WHERE source = ? AND device = ? AND inode = ?", where)
        row = msgspec.structs.asdict(offset) | {"seen_at": at}
        names, places = ", ".join(row), ", ".join(f"${name}" for name in row)
        db.execute(f"INSERT INTO tail_offsets ({names}) VALUES ({places})", row)
    if marker.key:
        db.execute("DELETE FROM batch_keys WHERE landed_at < ?", [at - identity.KEY_LIFE])
        answer = [marker.key, marker.source, at, msgspec.json.encode(landed).decode()]
        db.execute("INSERT INTO batch_keys VALUES (?, ?, ?, ?)", answer)
    note_reached(db, batch)


def note_reached(db: Db, batch: Batched) -> None:
    """Note that the database holds everything up to the end of this batch."""
    db.execute("DELETE FROM landed")
    db.execute("INSERT INTO landed VALUES (?, ?)", [batch.marker.last, batch.head])
