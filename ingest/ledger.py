"""The append-only, hash-chained archive of lines.

`FOLDER/YYYY-MM-DD/NNNNNN.ndjson` holds one JSON object a line, `{"at", "source", "pos", "raw"}`,
and after each batch a marker, `{"end": {...}}`. A full segment is sealed: compressed to `.zst` and
named in `manifest.ndjson` with its sha256 and the hash of the manifest line before it.
Positions (`seq`) count lines from 1 and are implied by order; a marker repeats the last one.
Reads: nothing else. Writes: the ledger folder. Next: ingest/chain.py, ingest/land.py.
"""

import hashlib
import io
import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import zstandard

from ingest.segment import END, Batched, Entry, Marker, chained, encode, read_batches

GENESIS = "0" * 64
SEGMENT_BYTES = 64 * 2**20  # what a start after a crash reads and hashes at most: under a second


class LedgerError(RuntimeError):
    """The archive cannot be written or does not add up. Says which file."""


class Sealed(msgspec.Struct, frozen=True):
    """One line of the manifest."""

    segment: str
    first: int
    last: int
    count: int
    sha256: str  # over the plain text
    prev: str  # sha256 of the manifest line before
    head: str  # the chain hash at its end


class Ledger:
    """One writer. Opening it cuts an unfinished batch, which nobody was told was kept."""

    def __init__(self, folder: Path, segment_bytes: int = SEGMENT_BYTES) -> None:
        self.folder = folder
        self._segment_bytes = segment_bytes
        folder.mkdir(parents=True, exist_ok=True)
        self._sealed = manifest_of(folder)
        self._listed = _cut_line(folder / "manifest.ndjson")  # bytes of the manifest
        self._file: io.FileIO | None = None
        self._active: Path | None = None
        self._hash = hashlib.sha256()
        self._good = 0  # bytes of the active segment that end with a marker
        self._suspect = False
        self.seq = self._sealed[-1].last if self._sealed else 0
        self.head = self._sealed[-1].head if self._sealed else GENESIS  # over every batch so far
        self._first, self._before = self.seq + 1, self.head
        self._resume()

    def append(self, entries: Sequence[Entry], marker: Marker, at: datetime) -> Batched:
        """Write a batch and make it durable. Only after this may anybody be told that it is kept.

        Raises LedgerError when the disk refuses; what was written of the batch is cut again.
        """
        first = self.seq + 1
        marker = msgspec.structs.replace(marker, last=self.seq + len(entries), count=len(entries))
        data = encode(entries, marker, at)
        for attempt in (1, 2):
            try:
                self._write(data, at)
                break
            except OSError as error:
                self._close()
                self._suspect = True  # a file whose fsync failed is never written or trusted again
                if attempt == 2:
                    raise LedgerError(f"{self.folder}: {error.strerror or error}") from None
        self._hash.update(data)
        self._good += len(data)
        self.seq += len(entries)
        self.head = chained(self.head, hashlib.sha256(data).hexdigest())
        return Batched(first, at, marker, tuple(entries), self.head)

    def read(self, after: int) -> Iterator[Batched]:
        """Every whole batch beyond position `after`, in order, from sealed and open segments."""
        for path, first, head in self._segments(after):
            with opened(path) as stream:
                for batch in read_batches(stream, first, head):
                    # one without lines has no position of its own: those that stand at `after` are
                    # given again, which is harmless; older ones would take offsets back
                    if batch.marker.last > after or (
                        batch.marker.last == after and not batch.entries
                    ):
                        yield batch

    def seal_if_due(self, now: datetime, force: bool = False) -> bool:
        """Seal the active segment when it is large, of another day, or `force`. True if it was."""
        if self._active is None or self._good == 0:
            return False
        old = self._active.parent.name != now.date().isoformat()
        if not (force or old or self._good >= self._segment_bytes):
            return False
        self._close()
        _compress(self._active, self._good)
        name = str(self._active.relative_to(self.folder).with_suffix(""))
        prev = line_hash(self._sealed[-1]) if self._sealed else GENESIS
        count = self.seq - self._first + 1
        digest = self._hash.hexdigest()
        sealed = Sealed(name, self._first, self.seq, count, digest, prev, self.head)
        with (self.folder / "manifest.ndjson").open("ab") as manifest:
            manifest.truncate(self._listed)  # what a try left there that the disk refused
            manifest.write(msgspec.json.encode(sealed) + b"\n")
            manifest.flush()
            os.fsync(manifest.fileno())
            size = manifest.tell()
        _sync(self.folder)
        self._sealed.append(sealed)
        self._listed, done = size, self._active
        self._reset()
        done.unlink()
        return True

    def close(self) -> None:
        self._close()

    def _write(self, data: bytes, at: datetime) -> None:
        if (
            self._suspect
        ):  # what was good in it goes on in a sealed copy; the file itself is done with
            if self._good == 0 and self._active is not None:
                self._active.unlink(missing_ok=True)
                self._reset()
            self.seal_if_due(at, force=True)
            self._suspect = False
        file = self._file or self._open_segment(at)
        written = 0
        while written < len(data):  # a raw file may take less than it is given
            written += file.write(data[written:]) or 0
        os.fsync(file.fileno())

    def _open_segment(self, at: datetime) -> io.FileIO:
        if self._active is None:
            day = self.folder / at.date().isoformat()
            day.mkdir(exist_ok=True)
            self._active = day / f"{_number(self.folder) + 1:06d}.ndjson"
            self._first, self._before = self.seq + 1, self.head
        self._file = self._active.open("ab", buffering=0)
        for folder in (self._active.parent, self.folder):
            _sync(folder)
        return self._file

    def _resume(self) -> None:
        """Take up the segment that the last process left open; cut an unfinished batch."""
        done = {each.segment for each in self._sealed}
        left = [path for path in sorted(self.folder.glob("*/*.ndjson")) if path.is_file()]
        for path in left:
            if str(path.relative_to(self.folder).with_suffix("")) in done:
                path.unlink()  # sealed; the process ended before it could remove the plain file
        left = [path for path in left if path.exists()]  # one, unless files were put there by hand
        for path in left:
            self._active, self._good = path, 0
            self._first, self._before = self.seq + 1, self.head
            self._hash = hashlib.sha256()
            with path.open("rb") as stream:
                for batch in read_batches(stream, self._first, self.head):
                    self.seq, self.head = batch.marker.last, batch.head
                    self._good = batch.ends_at
            _cut_tail(path, self._good)
            with path.open("rb") as stream:
                while chunk := stream.read(2**20):
                    self._hash.update(chunk)
            if path != left[-1]:
                self.seal_if_due(datetime.max.replace(tzinfo=UTC), force=True)
        if self._active is not None and self._good == 0:
            self._active.unlink(missing_ok=True)
            self._reset()

    def _segments(self, after: int) -> Iterator[tuple[Path, int, str]]:
        head = GENESIS
        for each in self._sealed:
            if each.last >= after:
                yield self.folder / f"{each.segment}.ndjson.zst", each.first, head
            head = each.head
        if self._active is not None and self._good:
            yield self._active, self._first, self._before

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _reset(self) -> None:
        self._active, self._good, self._hash = None, 0, hashlib.sha256()
        self._first, self._before = self.seq + 1, self.head


def opened(path: Path) -> io.BufferedReader:
    if path.suffix == ".zst":
        stream = zstandard.ZstdDecompressor().stream_reader(path.open("rb"), closefd=True)
        return io.BufferedReader(stream, 2**20)
    return path.open("rb")


def _compress(path: Path, size: int) -> None:
    """The first `size` bytes of `path` as `path`.zst, whole or not there at all."""
    target = path.with_name(path.name + ".zst")
    scratch = target.with_suffix(".tmp")
    with path.open("rb") as plain, scratch.open("wb") as packed:
        writer = zstandard.ZstdCompressor(level=3, write_checksum=True).stream_writer(packed)
        while size and (chunk := plain.read(min(size, 2**20))):
            writer.write(chunk)
            size -= len(chunk)
        writer.flush(zstandard.FLUSH_FRAME)
        os.fsync(packed.fileno())
    scratch.rename(target)
    _sync(path.parent)


def manifest_of(folder: Path) -> list[Sealed]:
    path = folder / "manifest.ndjson"
    if not path.exists():
        return []
    whole = path.read_bytes().rpartition(b"\n")[0]  # the last line may be in the middle of writing
    return [msgspec.json.decode(line, type=Sealed) for line in whole.splitlines() if line]


def line_hash(sealed: Sealed) -> str:
    return hashlib.sha256(msgspec.json.encode(sealed)).hexdigest()


def _number(folder: Path) -> int:
    names = [path.name.partition(".")[0] for path in folder.glob("*/*.ndjson*")]
    return max((int(name) for name in names if name.isdigit()), default=0)


def _cut_tail(path: Path, size: int) -> None:
    """Cut a batch that was being written when the process ended, and nothing but that.

    A whole batch beyond the damage was acknowledged: then this is no unfinished write, and a file
    that somebody must look at is left as it is. Raises LedgerError.
    """
    with path.open("rb") as stream:
        stream.seek(size)
        rest = stream.read()
    if b"\n" + END in rest[:-1]:
        raise LedgerError(
            f"{path}: damaged at byte {size}, and whole batches follow. Nothing was changed."
            " Put back a copy of the file."
        )
    _cut(path, size)


def _cut(path: Path, size: int) -> None:
    if path.stat().st_size > size:
        with path.open("r+b") as stream:
            stream.truncate(size)
            os.fsync(stream.fileno())


def _cut_line(path: Path) -> int:
    """Cut a last line that was being written when the power went; returns the size that is left."""
    if not path.exists():
        return 0
    size = path.read_bytes().rfind(b"\n") + 1
    _cut(path, size)
    return size


def _sync(folder: Path) -> None:
    """A new name in a folder is durable only when the folder is."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
