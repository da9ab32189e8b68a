"""Batches of the ledger into the database: the SQL of the one transaction.

Landing, recovery after a crash and `rebuild` all come through `apply`, so the database is a
function of the ledger.
Reads: batches, events, calls. Writes: every table of sections 1 and 2 of ingest/schema.sql.
Next: ingest/account.py, detectors/engine.py.
"""

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import accumulate, chain
from types import MappingProxyType
from typing import Any

import duckdb
import pyarrow as pa

from ingest import account, calls, counts, identity, marking, quarantine, skew, tools
from ingest.account import Landed
from ingest.adapter import Adapter, seen
from ingest.marking import Written
from ingest.segment import Batched
from ingest.store import Db, Store, fetch

__all__ = ["AdapterError", "Landed", "Written", "apply", "probe"]

SMALL = 8_000  # lines: below this, optimising the query of an adapter costs more than it saves
FRESH = """
    CREATE OR REPLACE TEMP TABLE fresh AS
    SELECT f.* REPLACE (
        $at::TIMESTAMPTZ AS ingested_at, {op} AS op, {basis} AS op_basis,
        coalesce(f.params_digest, CASE WHEN f.params IS NOT NULL
                 THEN left(sha256(f.params::VARCHAR), 32) END) AS params_digest
    ), f.tool IS NOT NULL AND t.tool IS NULL AS new_tool
    FROM ({events}) f
    LEFT JOIN tools t USING (tool)
"""
# All that the steps after it want to know, so that those with nothing to do need not ask.
FACTS = """
    SELECT count(*) AS events, count(DISTINCT ledger_seq) AS lines,
        count(DISTINCT event_id) AS ids,
        count(native_id) AS native, count(DISTINCT native_id) AS native_ids,
        count(*) FILTER (WHERE ts_quality = 'receiver') AS undated,
        list(DISTINCT host) FILTER (WHERE host IS NOT NULL) AS hosts,
        bool_or(new_tool) AS new_tools,
        bool_or(approval_id IS NOT NULL OR approver IS NOT NULL OR reason_code = 'expired'
            OR decision = 'require_approval' OR kind LIKE 'approval%') AS approvals
    FROM fresh
"""
MINUTES = "SELECT min(ts), max(ts) FROM fresh GROUP BY date_trunc('minute', ts)"
SILENT = "SELECT ledger_seq FROM lines ANTI JOIN fresh USING (ledger_seq)"


class AdapterError(RuntimeError):
    """The adapter's query raised on these lines: at least one of them is poison."""


def apply(
    db: Db,
    group: Sequence[Written],
    adapter: Adapter,
    poison: Mapping[int, str] = MappingProxyType({}),
) -> list[Landed]:
    """Land batches of one moment, adapter, zone and agent inside the caller's transaction.

    `poison`: ledger positions of lines that the adapter cannot read, with the reason; see `probe`.
    """
    found, silent = _adapt(db, group, table_of(group, poison), adapter)
    if found["new_tools"]:
        tools.know(db)
    marking.mark(db, group, found["hosts"] or ())
    minutes = db.execute(MINUTES).fetchall()
    before = after = _of_batches(db, group, found["events"])
    taken, conflicts = identity.deduplicate(db, group[0].batch.at, found, minutes)
    if taken:
        after = _of_batches(db, group, found["events"] - taken)
        minutes = db.execute(MINUTES).fetchall()
    landed = [
        Landed(
            lines=len(each.batch.entries),
            events=after[n],
            duplicates=before[n] - after[n],
            quarantined=quarantine.keep(db, each.batch, each.lines, silent, adapter, poison),
            id_conflicts=_within(conflicts, each.batch),
        )
        for n, each in enumerate(group)
    ]
    db.execute("INSERT INTO events BY NAME SELECT * EXCLUDE (new_tool) FROM fresh")
    touched = calls.join(db, bool(found["approvals"]))
    counts.add(db, minutes)
    batches = [each.batch for each in group]
    account.note_changes(db, batches[-1].marker.last, minutes, touched)
    account.account(db, batches, landed)
    skew.note(db, group[0].batch.at)
    account.progress(db, batches, landed)
    return landed


def probe(store: Store, written: Written, adapter: Adapter) -> dict[int, str]:
    """Find the lines on which the adapter raises, by halving. One must not hold up the others.

    Each try has a transaction of its own: an error ends the one that it happens in.
    """
    poison: dict[int, str] = {}
    waiting = [table_of([written], {})]
    while waiting:
        part = waiting.pop()
        try:
            with store.writing() as db:
                _adapt(db, [written], part, adapter)
        except AdapterError as error:
            if part.num_rows == 1:
                poison[part["ledger_seq"][0].as_py()] = str(error)
            else:
                half = part.num_rows // 2
                waiting += [part.slice(0, half), part.slice(half)]
    return poison


def table_of(group: Sequence[Written], poison: Mapping[int, str]) -> pa.Table:
    """The lines that an adapter reads."""
    kept = [
        [n for n, doc in enumerate(each.lines.docs)
         if doc is not None and each.batch.place(n) not in poison]
        if poison or each.lines.odd else range(len(each.lines.docs))
        for each in group
    ]  # fmt: skip
    pairs = list(zip(group, kept, strict=True))
    seqs = chain.from_iterable(map(each.batch.place, ns) for each, ns in pairs)
    docs = chain.from_iterable([each.lines.docs[n] for n in ns] for each, ns in pairs)
    counts = [len(ns) for ns in kept]
    markers = [each.batch.marker for each in group]
    count = sum(counts)
    at = pa.scalar(group[0].batch.at, pa.timestamp("us", "UTC"))
    return pa.table(
        {
            "ledger_seq": pa.array(list(seqs), pa.uint64()),
            "source": _repeated([marker.source for marker in markers], counts),
            "received_at": pa.repeat(at, count),
            "pos": _repeated([marker.pos for marker in markers], counts),
            "doc": _texts(docs),
        }
    )


def _repeated(texts: Sequence[str], counts: Sequence[int]) -> pa.Array:
    """Each text as often as its count says, one after the other; kept once."""
    numbers = [pa.repeat(pa.scalar(n, pa.int32()), count) for n, count in enumerate(counts)]
    indices = pa.chunked_array(numbers, pa.int32()).combine_chunks()
    return pa.DictionaryArray.from_arrays(indices, pa.array(texts, pa.string()))


def _texts(docs: Iterable[str | bytes | None]) -> pa.Array:
    """A column of texts in UTF-8. Arrow's own way takes five times the memory, and keeps it."""
    coded = [doc if isinstance(doc, bytes) else (doc or "").encode() for doc in docs]
    ends = array("i", accumulate(map(len, coded), initial=0))
    return pa.StringArray.from_buffers(
        len(coded), pa.py_buffer(ends), pa.py_buffer(b"".join(coded))
    )


def _adapt(
    db: Db, group: Sequence[Written], table: pa.Table, adapter: Adapter
) -> tuple[dict[str, Any], set[int]]:
    """What the adapter makes of the lines into `fresh`. Returns the facts about it, and the
    positions of the lines that it makes nothing of."""
    try:
        with _planned_for(db, table.num_rows), seen(db, table):
            db.execute(tools.TABLE)
            db.execute("SET VARIABLE zone = $zone", {"zone": group[0].batch.marker.zone})
            sql = FRESH.format(events=adapter.events, op=tools.OP, basis=tools.BASIS)
            db.execute(sql, {"at": group[0].batch.at})
            [facts] = fetch(db, FACTS)
            silent = db.execute(SILENT).fetchall() if facts["lines"] < table.num_rows else []
    except duckdb.Error as error:
        if isinstance(error, duckdb.OutOfMemoryException):  # which is no word about the lines
            raise
        raise AdapterError(str(error).splitlines()[0][:200]) from None
    return facts, {row[0] for row in silent}


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


def _of_batches(db: Db, group: Sequence[Written], total: int) -> list[int]:
    """How many of the `total` rows of `fresh` each batch has."""
    if len(group) == 1:
        return [total]
    lasts = [each.batch.marker.last for each in group]
    sql = "SELECT list_position(list_transform($lasts, lambda lam_x: lam_x >= ledger_seq), true)"
    rows = db.execute(f"{sql}, count(*) FROM fresh GROUP BY 1", {"lasts": lasts}).fetchall()
    counts = dict(rows)
    return [counts.get(number, 0) for number in range(1, len(group) + 1)]


def _within(seqs: Sequence[int], batch: Batched) -> int:
    return sum(batch.first <= seq <= batch.marker.last for seq in seqs)
