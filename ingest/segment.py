"""The bytes of a ledger segment: batches in, the same batches out.

A batch is its entries, one JSON object a line, and a marker that ends it. A batch without its
marker was never whole and is not read. In what pruning has left of a segment each line says its
own position, `seq`, which elsewhere is implied by order.
Reads: nothing. Writes: nothing. Next: ingest/ledger.py.
"""

import base64
import hashlib
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import overload

import msgspec

from ingest.batch import Line, Offset, Oversized

END = b'{"end":'  # no entry begins so
RUN = 256  # lines that are encoded at once
OWN = "gatewatch"  # the source, and the adapter, of what the service itself records


@dataclass(frozen=True)
class Entry:
    """One line as it is kept: secrets replaced, `redacted` naming where they stood."""

    line: Line
    redacted: tuple[str, ...] = ()


class Entries(Sequence[Entry]):
    """Entries in columns: the lines as they are kept, and the paths in those few that have any.

    A batch has thousands; as objects they would cost more than reading them.
    """

    def __init__(self, lines: Sequence[Line], redacted: Mapping[int, tuple[str, ...]]) -> None:
        self.lines, self.redacted = lines, redacted

    def __len__(self) -> int:
        return len(self.lines)

    @overload
    def __getitem__(self, at: int) -> Entry: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Entry, ...]: ...
    def __getitem__(self, at: int | slice) -> Entry | tuple[Entry, ...]:
        if isinstance(at, slice):
            return tuple(self[number] for number in range(*at.indices(len(self))))
        line = self.lines[at]
        return Entry(line, self.redacted.get(at % len(self), ()))


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
    entries: Sequence[Entry]
    head: str  # the chain hash at its end
    ends_at: int = 0  # bytes into the segment
    seqs: tuple[int, ...] = ()  # positions of the lines, where pruning has taken some out

    def place(self, number: int) -> int:
        """The position of one of its lines; they are numbered from 0."""
        return self.seqs[number] if self.seqs else self.first + number


class _Kept(msgspec.Struct, frozen=True, omit_defaults=True):
    raw: str | None = None
    raw_b64: str | None = None
    redacted: tuple[str, ...] = ()
    cut: dict[str, str | int] | None = None
    seq: int = 0


_quote = msgspec.json.Encoder().encode
_quote_lines = msgspec.json.Encoder().encode_lines
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
    parts = [_run(start, entries, at) for at in range(0, len(entries), RUN)]
    parts.append(END + _quote(marker) + b"}\n")
    return b"".join(parts)


def _run(start: bytes, entries: Sequence[Entry], at: int) -> bytes:
    """Some lines from `at` on. No encoded string has a line end in it, so where one stands the next
    line begins: plain lines are encoded all at once."""
    end = min(at + RUN, len(entries))
    if isinstance(entries, Entries) and entries.redacted.keys().isdisjoint(range(at, end)):
        with suppress(UnicodeDecodeError, AttributeError):  # not text; one that was cut
            texts = [line.decode() for line in entries.lines[at:end]]  # type: ignore[union-attr]
            start += b',"raw":'
            return start + _quote_lines(texts)[:-1].replace(b"\n", b"}\n" + start) + b"}\n"
    return b"".join(_line(start, entry) for entry in entries[at:end])


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


def read_batches(
    stream: Iterable[bytes], first: int, head: str, pruned: bool = False
) -> Iterator[Batched]:
    """The whole batches of one segment. `first` is the position of its first line, `head` the
    chain hash before it; of a pruned segment, the one at its end.

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
            at = datetime.fromisoformat(marker.at)
        except (msgspec.MsgspecError, KeyError, ValueError):
            return
        if not raw.endswith(b"\n") or marker.count != len(kept):
            return
        if not pruned:
            head = chained(head, digest.hexdigest())
        seqs = tuple(each.seq for each in kept) if pruned else ()
        try:
            entries = tuple(_entry(each) for each in kept)
        except (ValueError, KeyError):
            return
        yield Batched(first, at, marker, entries, head, size, seqs)
        first += len(kept)
        kept, digest = [], hashlib.sha256()


def thinned(
    stream: Iterable[bytes], first: int, keep: Container[int], current: Container[Offset]
) -> Iterator[bytes]:
    """The text of a segment without the lines whose positions are not in `keep`.

    A marker stays where it ends a line that stays, or says how far a file was read (`current`).
    """
    kept: list[bytes] = []
    for raw in stream:
        if not raw.startswith(END):
            known = _read(raw).seq
            seq = known or first
            first = seq + 1
            if seq in keep:
                kept.append(raw if known else raw[:-2] + b',"seq":%d}\n' % seq)
            continue
        marker = _read_end(raw)["end"]
        first = marker.last + 1
        if kept or any(offset in current for offset in marker.offsets):
            yield from kept
            marker = msgspec.structs.replace(marker, count=len(kept))
            yield END + _quote(marker) + b"}\n"
        kept = []


def _entry(kept: _Kept) -> Entry:
    data = (kept.raw or "").encode() if kept.raw_b64 is None else base64.b64decode(kept.raw_b64)
    if kept.cut is not None:
        cut = Oversized(data, int(kept.cut["length"]), str(kept.cut["sha256"]))
        return Entry(cut, kept.redacted)
    return Entry(data, kept.redacted)
