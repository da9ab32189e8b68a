"""The list of sealed segments, `manifest.ndjson`: only ever appended to, each line names the hash
of the line before.

A line seals a segment; or, with `of`, says what pruning has left of one, in a file of its own.
Reads: manifest.ndjson. Writes: manifest.ndjson. Next: ingest/ledger.py.
"""

import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from ingest.signing import Signer

GENESIS = "0" * 64
NAME = "manifest.ndjson"


class Sealed(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of the manifest."""

    segment: str
    first: int
    last: int
    count: int  # lines in the file; fewer than last - first + 1 when it was pruned
    sha256: str  # over the plain text
    prev: str  # sha256 of the manifest line before
    head: str  # the chain hash at its end
    until: str = ""  # when its last batch came
    zst: str = ""  # sha256 of the compressed file
    of: str | None = None  # it was pruned: the sha256 of the text that this one replaces
    sig: str | None = None  # Ed25519 over the line without this, in base64


@dataclass(frozen=True)
class Piece:
    """One segment as it stands now. `pruned`: how often lines have been taken out of it."""

    sealed: Sealed  # as it was sealed
    now: Sealed  # what holds now: the same, unless it was pruned
    pruned: int

    def path(self, folder: Path) -> Path:
        return folder / file_of(self.sealed.segment, self.pruned)


class Manifest:
    """The one writer of a manifest. Opening it cuts a line that was being written."""

    def __init__(self, folder: Path, signer: Signer | None = None) -> None:
        self._folder, self._signer = folder, signer
        self._size = _cut_line(folder / NAME)
        raw = raw_lines(folder)
        self._prev = _hash(raw[-1]) if raw else GENESIS
        self.entries = [decode(line) for line in raw]

    @property
    def last(self) -> Sealed | None:
        """The newest segment that was sealed."""
        return next((each for each in reversed(self.entries) if each.of is None), None)

    def append(self, new: Iterable[Sealed]) -> None:
        """Chain, sign and write lines, durably. Raises OSError; then nothing was added."""
        prev, done, data = self._prev, list[Sealed](), b""
        for each in new:
            line = msgspec.structs.replace(each, prev=prev)
            if self._signer is not None:
                sig = self._signer.sign(msgspec.json.encode(line))
                line = msgspec.structs.replace(line, sig=sig)
            raw = msgspec.json.encode(line)
            prev, data = _hash(raw), data + raw + b"\n"
            done.append(line)
        with (self._folder / NAME).open("ab") as file:
            file.truncate(self._size)  # what a try left there that the disk refused
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            size = file.tell()
        sync(self._folder)
        self._size, self._prev = size, prev
        self.entries += done


def pieces(entries: Sequence[Sealed]) -> list[Piece]:
    """Every segment in order, each as pruning has left it."""
    found: dict[str, Piece] = {}
    for each in entries:
        if each.of is None:
            found[each.segment] = Piece(each, each, 0)
        elif each.segment in found:
            old = found[each.segment]
            found[each.segment] = Piece(old.sealed, each, old.pruned + 1)
    return list(found.values())


def file_of(segment: str, pruned: int) -> str:
    """The name of a sealed segment's file within the ledger."""
    return f"{segment}.kept{pruned}.ndjson.zst" if pruned else f"{segment}.ndjson.zst"


def raw_lines(folder: Path) -> list[bytes]:
    """The whole lines as they stand. The last one may be in the middle of writing: left out."""
    path = folder / NAME
    if not path.exists():
        return []
    whole = path.read_bytes().rpartition(b"\n")[0]
    return whole.split(b"\n") if whole else []


def decode(line: bytes) -> Sealed:
    """Raises msgspec.MsgspecError for what is no line of a manifest."""
    return msgspec.json.decode(line, type=Sealed)


def manifest_of(folder: Path) -> list[Sealed]:
    return [decode(line) for line in raw_lines(folder)]


def _hash(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()


def _cut_line(path: Path) -> int:
    """Cut a last line that was being written when the power went; returns the size that is left."""
    if not path.exists():
        return 0
    size = path.read_bytes().rfind(b"\n") + 1
    cut(path, size)
    return size


def cut(path: Path, size: int) -> None:
    """Make a file no longer than `size`, durably."""
    if path.stat().st_size > size:
        with path.open("r+b") as stream:
            stream.truncate(size)
            os.fsync(stream.fileno())


def sync(folder: Path) -> None:
    """A new name in a folder is durable only when the folder is."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
