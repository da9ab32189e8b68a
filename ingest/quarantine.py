"""A line that gave no event is kept, counted, and says why.

Reads: a batch, silent (temporary). Writes: quarantine. Next: detectors/metrics.py.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ingest.adapter import Adapter
from ingest.batch import Oversized
from ingest.parse import Parsed
from ingest.segment import Batched
from ingest.store import Db

SHOWN = 1024  # characters of a line in the table; the ledger has the whole


def keep(
    db: Db, batch: Batched, parsed: Sequence[Parsed], adapter: Adapter, poison: Mapping[int, str]
) -> int:
    """Keep every line that gave no event, with the reason. Returns how many."""
    silent = db.execute("SELECT ledger_seq FROM silent").fetchall()
    mute = {row[0] for row in silent} | poison.keys()
    rows: list[tuple[Any, ...]] = []
    for number, (entry, each) in enumerate(zip(batch.entries, parsed, strict=True)):
        seq = batch.place(number)
        if each.doc is not None and seq not in mute:
            continue
        reason, detail = each.reason, each.error
        if each.doc is not None:
            reason, detail = _why(each.doc, adapter, poison.get(seq))
        line = entry.line.head if isinstance(entry.line, Oversized) else entry.line
        shown = line[: SHOWN * 4].decode(errors="replace")[:SHOWN].replace("\0", "\u2400")
        rows.append(
            (seq, batch.marker.source, batch.at, reason or "parse", detail, batch.marker.pos, shown)
        )
    if rows:
        db.executemany("INSERT INTO quarantine VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
    return len(rows)


def _why(doc: str, adapter: Adapter, raised: str | None) -> tuple[str, str]:
    if raised:
        return "schema", f"the adapter {adapter.id!r} cannot read it: {raised}"
    key = adapter.header.time
    found = msgspec.json.decode(doc) if key else {}
    if key and isinstance(found, dict):
        return "time", f"no usable time under {key!r}: {str(found.get(key))[:80]!r}"
    return "schema", f"the adapter {adapter.id!r} finds no event in it"
