"""A line that gave no event is kept, counted, and says why.

Reads: a batch. Writes: quarantine. Next: detectors/metrics.py.
"""

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from ingest.adapter import Adapter
from ingest.batch import Oversized
from ingest.reading import Lines
from ingest.segment import Batched
from ingest.store import Db

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
    for number in numbers:
        seq, doc = batch.place(number), lines.docs[number]
        if doc is None:
            reason, detail = lines.odd[number].reason, lines.odd[number].error
        elif seq in mute:
            reason, detail = _why(doc, adapter, poison.get(seq))
        else:
            continue
        kept = lines.entries.lines[number]
        line = kept.head if isinstance(kept, Oversized) else kept
        shown = line[: SHOWN * 4].decode(errors="replace")[:SHOWN].replace("\0", "\u2400")
        rows.append(
            (seq, batch.marker.source, batch.at, reason or "parse", detail, batch.marker.pos, shown)
        )
    if rows:
        db.executemany("INSERT INTO quarantine VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
    return len(rows)


def _why(doc: str | bytes, adapter: Adapter, raised: str | None) -> tuple[str, str]:
    if raised:
        return "schema", f"the adapter {adapter.id!r} cannot read it: {raised}"
    key = adapter.header.time
    found = msgspec.json.decode(doc) if key else {}
    if key and isinstance(found, dict):
        return "time", f"no usable time under {key!r}: {str(found.get(key))[:80]!r}"
    return "schema", f"the adapter {adapter.id!r} finds no event in it"
