"""Is this the file that was read? What an offset keeps of a file's content, and holds against it.

Reads: files. Writes: nothing. Next: ingest/tail.py.
"""

import hashlib
import os
import re
from pathlib import Path

import msgspec

from ingest.batch import Offset
from ingest.files import before
from ingest.split import HEAD

Index = dict[tuple[int, str], list[Offset]]  # by length and digest of the first bytes

ENDS = (b"\n", b"}", b",", b"]")  # of lines and values: what an offset stands after
HALF = 33  # characters of a fingerprint that speak of the first bytes
_SUFFIX = re.compile(r"\.(?:gz|zst|old|bak|copy)(?=\.|$)|~$")
_DATES = re.compile(r"[\d\W_]+(?:T[\d\W_]+)?Z?", re.ASCII)


def fingerprint(head: bytes, last: bytes) -> str:
    """What was read of a file: its first bytes, and those just before the position (each up to
    1024). Two digests of 128 bits with a dot between them; files with equal heads are common."""
    return ".".join(hashlib.sha256(part).hexdigest()[:32] for part in (head, last))


def family(path: str) -> str:
    """A file name without what rotation adds to it: digits, dates, .gz, .old."""
    return _DATES.sub("", _SUFFIX.sub("", Path(path).name))


def fits(path: Path, head: bytes, offset: Offset) -> bool:
    """Whether a file holds what the offset says was read, and the offset is at a line end."""
    if offset.pos == 0:
        return True
    start = head[: offset.print_bytes]
    if fingerprint(start, b"")[:HALF] != offset.print[:HALF]:
        return False
    last = before(path, offset.pos)
    if last is None or fingerprint(start, last) != offset.print:
        return False
    return last.endswith(ENDS) or (offset.finished and before(path, offset.pos + 1) is None)


def mark(offset: Offset, pos: int, file: int, finished: bool) -> Offset:
    """The offset moved on to `pos` of an open plain file."""
    size = min(HEAD, pos)
    shown = fingerprint(os.pread(file, size, 0), os.pread(file, size, pos - size))
    return moved_on(offset, pos, shown, finished)


def moved_on(offset: Offset, pos: int, shown: str, finished: bool) -> Offset:
    return msgspec.structs.replace(
        offset, pos=pos, print=shown, print_bytes=min(HEAD, pos), finished=finished
    )


def remember(index: Index, offset: Offset) -> None:
    if offset.pos > 0:
        index.setdefault((offset.print_bytes, offset.print[:HALF]), []).append(offset)


def candidates(index: Index, head: bytes, path: str) -> list[Offset]:
    """Offsets of files that begin as `head` does and could be this one's other name."""
    sizes = {size for size, _ in index if size <= len(head)}
    keys = [(size, fingerprint(head[:size], b"")[:HALF]) for size in sizes]
    found = [offset for key in keys for offset in index.get(key, [])]
    related = [offset for offset in found if family(offset.path) == family(path)]
    return sorted(related, key=lambda offset: (-offset.pos, offset.path))
