"""What travels from a reader of lines to the landing: lines, where they end, and the batch.

Reads: nothing. Writes: nothing. Next: ingest/tail.py makes batches, ingest/land.py lands them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec


@dataclass(frozen=True)
class Oversized:
    """A line over the limit: only what identifies it was kept."""

    head: bytes  # the first 1024 bytes
    length: int  # bytes, without the line end
    sha256: str  # of the whole line, hex


Line = bytes | Oversized  # one line without its line end


class Offset(msgspec.Struct, frozen=True):
    """How far one file has been read: a row of tail_offsets. One file is one (device, inode)."""

    source: str
    path: str
    device: int
    inode: int
    pos: int  # bytes, always just after a line end (of the decompressed text)
    print: str  # see ingest/fingerprint.py
    print_bytes: int  # how many of the first bytes the print covers: min(1024, pos)
    finished: bool  # read to its end, nothing more is expected


@dataclass(frozen=True)
class Batch:
    """Lines of one sender or file that land together or not at all.

    `lines` may be empty: then only `offsets` (what was learned about files) is to be stored.
    """

    source: str
    adapter: str
    lines: Sequence[Line]
    key: str | None = None  # a batch with a key lands once; files have their offsets instead
    pos: str = ""  # for people: path:offset, or the sender
    offsets: tuple[Offset, ...] = ()
    zone: str = "UTC"  # of the times in it that name no zone
    agent: str | None = None  # the only agent its sender may speak for
