"""A line that gave no event is kept, counted, and says why.

Reads: a batch. Writes: quarantine, tallies. Next: detectors/metrics/listening.py.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

import msgspec
import pyarrow as pa

from ingest import tally
from ingest.adapter import Adapter
from ingest.batch import Oversized
from ingest.reading import Lines
from ingest.segment import Batched
from ingest.store import Db, beside

KINDS = (
    pa.uint64(), pa.string(), pa.timestamp("us", "UTC"), *[pa.string()] * 4,
)  # fmt: skip
TIMELESS = """
    SELECT text FROM (SELECT unnest($texts) AS text)
    WHERE coalesce(when_ts(text) NOT BETWEEN '2000-01-01' AND '2100-01-01', true)
"""
SHOWN = 1024  # characters of a line in the table; the ledger has the whole


def keep(
    db: Db,
    batch: Batched,
    lines: Lines,
    silent: Collection[int],
    adapter: Adapter,
    poison: Mapping[int, str],
) -> int:
    """Keep every line that gave no event, with the reason. Returns how many.

    `silent`: positions of lines that the adapter made nothing of.
    """
    rows: list[tuple[Any, ...]] = []
    mute = poison.keys() | silent
    numbers = range(len(lines.docs)) if mute else sorted(lines.odd)
    found = {
        seq: doc
        for n in numbers
        if (seq := batch.place(n)) in silent and (doc := lines.docs[n]) is not None
    }
    timeless = _timeless(db, found, adapter)
    for number in numbers:
        seq, doc = batch.place(number), lines.docs[number]
        if doc is None:
            reason, detail = lines.odd[number].reason, lines.odd[number].error
        elif seq in mute:
            reason, detail = _why(adapter, poison.get(seq), timeless.get(seq))
        else:
            continue
        kept = lines.entries.lines[number]
        line = kept.head if isinstance(kept, Oversized) else kept
        shown = line[: SHOWN * 4].decode(errors="replace")[:SHOWN].replace("\0", "\u2400")
        rows.append(
            (seq, batch.marker.source, batch.at, reason or "parse", detail, batch.marker.pos, shown)
        )
    if rows:
        _put(db, rows)
        tally.add(db, "rejected", Counter((row[1], row[3]) for row in rows))
    return len(rows)


def _put(db: Db, rows: list[tuple[Any, ...]]) -> None:
    """All at once: row by row, a body of nothing but rubbish holds up everybody for minutes."""
    columns = [
        pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), KINDS, strict=True)
    ]
    names = [f"c{number}" for number in range(len(KINDS))]
    with beside(db, "refused", pa.table(columns, names)):
        db.execute("INSERT INTO quarantine SELECT * FROM refused")


def _timeless(db: Db, docs: Mapping[int, str | bytes], adapter: Adapter) -> dict[int, str]:
    """Of lines by position: what stands under the adapter's key of the time, where that tells none
    between 2000 and 2100."""
    if (key := adapter.header.time) is None or not docs:
        return {}
    texts = {seq: _time(doc, key) for seq, doc in docs.items()}
    rows = db.execute(TIMELESS, {"texts": sorted(set(texts.values()))}).fetchall()
    bad = {row[0] for row in rows}
    return {seq: text for seq, text in texts.items() if text in bad}


_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode  # a number may be of any length


def _time(doc: str | bytes, key: str) -> str:
    found = bytes(_members(doc).get(key, b"null"))
    return str(msgspec.json.decode(found)) if found[:1] == b'"' else found.decode()


def _why(adapter: Adapter, raised: str | None, time: str | None) -> tuple[str, str]:
    if raised:
        return "schema", f"the adapter {adapter.id!r} cannot read it: {raised}"
    if time is not None:
        return "time", f"no usable time under {adapter.header.time!r}: {time[:80]!r}"
    return "schema", f"the adapter {adapter.id!r} finds no event in it"
