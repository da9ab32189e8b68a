"""The bytes of a ledger segment: batches in, the same batches out.

A batch is its entries, one JSON object a line, and a marker that ends it. A batch without its
marker was never whole and is not read.
Reads: nothing. Writes: nothing. Next: ingest/ledger.py.
"""

import base64
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import BinaryIO

import msgspec

from ingest.batch import Line, Offset, Oversized

END = b'{"end":'  # no entry begins so


@dataclass(frozen=True)
class Entry:
    """One line as it is kept: secrets replaced, `redacted` naming where they stood."""

    line: Line
    redacted: tuple[str, ...] = ()


class Marker(msgspec.Struct, frozen=True, omit_defaults=True):
    """What ends a batch, and all that landing needs to know of it beside its lines."""

    source: str
    adapter: str
    at: str = ""
    pos: str = ""
    key: str | None = None
    last: int = 0  # the position of the batch's last line
    count: int = 0
    offsets: tuple[Offset, ...] = ()
    zone: str = "UTC"
    agent: str | None = None


@dataclass(frozen=True)
class Batched:
    """A batch with its place in the ledger. `first` is the position of its first line."""

    first: int
    at: datetime
    marker: Marker
    entries: tuple[Entry, ...]
    head: str  # the chain hash at its end
    ends_at: int = 0  # bytes into the segment


class _Kept(msgspec.Struct, frozen=True, omit_defaults=True):
    raw: str | None = None
    raw_b64: str | None = None
    redacted: tuple[str, ...] = ()
    cut: dict[str, str | int] | None = None


_quote = msgspec.json.Encoder().encode
_read = msgspec.json.Decoder(_Kept).decode
_read_end = msgspec.json.Decoder(dict[str, Marker]).decode


def chained(head: str, digest: str) -> str:
    """The chain hash after a batch: over the one before and the sha256 of the batch's bytes."""
    return hashlib.sha256((head + digest).encode()).hexdigest()


def encode(entries: Sequence[Entry], marker: Marker, at: datetime) -> bytes:
    """A batch as bytes. `at` is when it was received; all its lines share it."""
    marker = msgspec.structs.replace(marker, at=at.astimezone(UTC).isoformat())
    start = b'{"at":' + _quote(marker.at) + b',"source":' + _quote(marker.source)
    start += b',"pos":' + _quote(marker.pos)
    lines = [_line(start, entry) for entry in entries]
    lines.append(END + _quote(marker) + b"}\n")
    return b"".join(lines)


def _line(start: bytes, entry: Entry) -> bytes:
    line, more = entry.line, b""
    if entry.redacted:
        more = b',"redacted":' + _quote(entry.redacted)
    if isinstance(line, Oversized):
        more += b',"cut":' + _quote({"length": line.length, "sha256": line.sha256})
        line = line.head
    try:
        return start + b',"raw":' + _quote(line.decode()) + more + b"}\n"
    except UnicodeDecodeError:
        coded = base64.b64encode(line).decode()
        return start + b',"raw_b64":' + _quote(coded) + more + b"}\n"


def read_batches(stream: BinaryIO, first: int, head: str) -> Iterator[Batched]:
    """The whole batches of one segment. `first` is the position of its first line, `head` the
    chain hash before it.

    Stops without an error at the first thing that is not whole: that is where writing ended.
    """
    kept: list[_Kept] = []
    size, digest = 0, hashlib.sha256()
    for raw in stream:
        size += len(raw)
        digest.update(raw)
        try:
            if not raw.startswith(END):
                kept.append(_read(raw))
                continue
            marker = _read_end(raw)["end"]
        except (msgspec.MsgspecError, KeyError):
            return
        if not raw.endswith(b"\n") or marker.count != len(kept):
            return
        head = chained(head, digest.hexdigest())
        entries = tuple(_entry(each) for each in kept)
        yield Batched(first, datetime.fromisoformat(marker.at), marker, entries, head, size)
        first += len(kept)
        kept, digest = [], hashlib.sha256()


def _entry(kept: _Kept) -> Entry:
    data = (kept.raw or "").encode() if kept.raw_b64 is None else base64.b64decode(kept.raw_b64)
    if kept.cut is not None:
        cut = Oversized(data, int(kept.cut["length"]), str(kept.cut["sha256"]))
        return Entry(cut, kept.redacted)
    return Entry(data, kept.redacted)
