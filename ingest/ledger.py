"""The append-only, hash-chained archive of lines.

`FOLDER/YYYY-MM-DD/NNNNNN.ndjson` holds one JSON object a line, `{"at", "source", "pos", "raw"}`,
and after each batch a marker, `{"end": {...}}`. A segment that is large, old or of another day is
sealed: compressed to `.zst` and named in the manifest.
Positions (`seq`) count lines from 1 and are implied by order; a marker repeats the last one.
Reads: nothing else. Writes: the ledger folder. Next: ingest/chain.py, ingest/land.py.
"""

import hashlib
import io
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import zstandard

from ingest.manifest import GENESIS, Manifest, Piece, Sealed, cut, file_of, pieces, sync
from ingest.segment import END, Batched, Entry, Marker, chained, encode, read_batches
from ingest.signing import Signer

SEGMENT_BYTES = 64 * 2**20  # what a start after a crash reads and hashes at most: under a second
SEAL_AFTER = timedelta(hours=6)  # no line waits longer for its seal while the service runs


class LedgerError(RuntimeError):
    """The archive cannot be written or does not add up. Says which file."""


class Ledger:
    """One writer. Opening it cuts an unfinished batch, which nobody was told was kept."""

    def __init__(
        self,
        folder: Path,
        segment_bytes: int = SEGMENT_BYTES,
        seal_after: timedelta = SEAL_AFTER,
        signer: Signer | None = None,
        step: Callable[[str], None] | None = None,
    ) -> None:
        self.folder = folder
        self._segment_bytes, self._seal_after = segment_bytes, seal_after
        self._step = step or (lambda _: None)  # told what was just done; a test ends there
        folder.mkdir(parents=True, exist_ok=True)
        self._manifest = Manifest(folder, signer)
        self._file: io.FileIO | None = None
        self._active: Path | None = None
        self._hash = hashlib.sha256()
        self._good = 0  # bytes of the active segment that end with a marker
        self._since = self._until = datetime.min.replace(tzinfo=UTC)  # of the active one's batches
        self._suspect = False
        last = self._manifest.last
        self.seq = last.last if last else 0
        self.head = last.head if last else GENESIS  # over every batch so far
        self._first, self._before = self.seq + 1, self.head
        self._resume()

    def append(self, entries: Sequence[Entry], marker: Marker, at: datetime) -> Batched:
        """Write a batch and make it durable, see `append_all`."""
        return self.append_all([(entries, marker)], at)[0]

    def append_all(
        self, batches: Sequence[tuple[Sequence[Entry], Marker]], at: datetime
    ) -> list[Batched]:
        """Write batches and make them durable, all with one fsync. Only after this may anybody be
        told that they are kept.

        Raises LedgerError when the disk refuses; what was written of them is cut again.
        """
        with suppress(OSError):  # a batch of another day begins a segment, where that can be
            self.seal_if_due(at)
        coded: list[tuple[Sequence[Entry], Marker, bytes]] = []
        last = self.seq
        for entries, marker in batches:
            last += len(entries)
            marker = msgspec.structs.replace(marker, last=last, count=len(entries))
            coded.append((entries, marker, encode(entries, marker, at)))
        for attempt in (1, 2):
            try:
                whole = coded[0][2] if len(coded) == 1 else b"".join(data for _, _, data in coded)
                self._write(whole, at)
                break
            except OSError as error:
                self._close()
                self._suspect = True  # a file whose fsync failed is never written or trusted again
                if attempt == 2:
                    raise LedgerError(f"{self.folder}: {error.strerror or error}") from None
        self._since = self._since if self._good else at
        self._until = at
        return [self._added(entries, marker, data, at) for entries, marker, data in coded]

    def _added(
        self, entries: Sequence[Entry], marker: Marker, data: bytes, at: datetime
    ) -> Batched:
        first = self.seq + 1
        self._hash.update(data)
        self._good += len(data)
        self.seq = marker.last
        self.head = chained(self.head, hashlib.sha256(data).hexdigest())
        return Batched(first, at, marker, entries, self.head)

    def read(self, after: int) -> Iterator[Batched]:
        """Every whole batch beyond position `after`, in order, from sealed and open segments."""
        for path, first, head, pruned in self._segments(after):
            with opened(path) as stream:
                for batch in read_batches(stream, first, head, pruned):
                    # one without lines has no position of its own: those that stand at `after` are
                    # given again, which is harmless; older ones would take offsets back
                    if batch.marker.last > after or (
                        batch.marker.last == after and not batch.entries
                    ):
                        yield batch

    def seal_if_due(self, now: datetime, force: bool = False) -> bool:
        """Seal the active segment when it is large, old, of another day, or `force`.

        True if it was. Whatever the moment at which the process ends, the next one goes on.
        """
        if self._active is None or self._good == 0:
            return False
        old = now - self._since >= self._seal_after
        other_day = self._active.parent.name != now.astimezone(UTC).date().isoformat()
        if not (force or old or other_day or self._good >= self._segment_bytes):
            return False
        self._close()
        name = str(self._active.relative_to(self.folder).with_suffix(""))
        with self._active.open("rb") as plain:
            digest = pack(_first_bytes(plain, self._good), self.folder / file_of(name, 0))
        self._step("packed")
        count = self.seq - self._first + 1
        sealed = Sealed(
            name, self._first, self.seq, count, self._hash.hexdigest(), "", self.head,
            self._until.astimezone(UTC).isoformat(), digest,
        )  # fmt: skip
        self._manifest.append([sealed])
        self._step("listed")
        done = self._active
        self._reset()
        done.unlink()
        self._step("removed")
        return True

    def pieces(self) -> list[Piece]:
        """Every sealed segment in order, as pruning has left it."""
        return pieces(self._manifest.entries)

    def replace(self, new: Sequence[Sealed]) -> None:
        """Let what pruning has left stand for the segments it came from. Named twice is once."""
        known = {(each.segment, each.sha256) for each in self._manifest.entries if each.of}
        if left := [each for each in new if (each.segment, each.sha256) not in known]:
            self._manifest.append(left)
        self._step("replaced")
        self.tidy()

    def tidy(self) -> None:
        """Remove files that no line of the manifest stands for any more, or never came to."""
        now = {piece.path(self.folder) for piece in self.pieces()}
        begun = {self.folder / f"{piece.sealed.segment}.ndjson.zst" for piece in self.pieces()}
        for path in self.folder.glob("*/*.zst"):
            if path not in now and (path in begun or ".kept" in path.name):
                path.unlink()
                self._step("unlinked")

    def close(self) -> None:
        self._close()

    def _write(self, data: bytes, at: datetime) -> None:
        if self._suspect:  # what was good in it goes on in a sealed copy; the file itself is out
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
            day = self.folder / at.astimezone(UTC).date().isoformat()
            day.mkdir(exist_ok=True)
            self._active = day / f"{_number(self.folder) + 1:06d}.ndjson"
            self._first, self._before = self.seq + 1, self.head
        self._file = self._active.open("ab", buffering=0)
        for folder in (self._active.parent, self.folder):
            sync(folder)
        return self._file

    def _resume(self) -> None:
        """Take up the segment that the last process left open; cut an unfinished batch."""
        for scratch in self.folder.glob("*/*.tmp"):
            scratch.unlink()
        done = {each.segment for each in self._manifest.entries}
        left = [path for path in sorted(self.folder.glob("*/*.ndjson")) if path.is_file()]
        for path in left:
            if str(path.relative_to(self.folder).with_suffix("")) in done:
                path.unlink()  # sealed; the process ended before it could remove the plain file
        left = [path for path in left if path.exists()]  # one, unless files were put there by hand
        for path in left:
            self._take_up(path)
            if path != left[-1]:
                self.seal_if_due(datetime.max.replace(tzinfo=UTC), force=True)
        if self._active is not None and self._good == 0:
            self._active.unlink(missing_ok=True)
            self._reset()

    def _take_up(self, path: Path) -> None:
        self._active, self._good = path, 0
        self._first, self._before = self.seq + 1, self.head
        self._hash = hashlib.sha256()
        with path.open("rb") as stream:
            for batch in read_batches(stream, self._first, self.head):
                self._since = self._since if self._good else batch.at
                self.seq, self.head, self._until = batch.marker.last, batch.head, batch.at
                self._good = batch.ends_at
        _cut_tail(path, self._good)
        with path.open("rb") as stream:
            while chunk := stream.read(2**20):
                self._hash.update(chunk)

    def _segments(self, after: int) -> Iterator[tuple[Path, int, str, bool]]:
        head = GENESIS
        for each in self.pieces():
            if each.sealed.last >= after:
                before = each.sealed.head if each.pruned else head
                yield each.path(self.folder), each.sealed.first, before, each.pruned > 0
            head = each.sealed.head
        if self._active is not None and self._good:
            yield self._active, self._first, self._before, False

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


def pack(parts: Iterable[bytes], target: Path) -> str:
    """Text as a compressed file, durable, whole or not there at all. Returns the file's sha256."""
    scratch, digest = target.with_suffix(".tmp"), hashlib.sha256()
    packer = zstandard.ZstdCompressor(level=3, write_checksum=True).compressobj()
    with scratch.open("wb") as packed:
        for part in parts:
            _put(packed, packer.compress(part), digest)
        _put(packed, packer.flush(), digest)
        packed.flush()
        os.fsync(packed.fileno())
    scratch.rename(target)
    sync(target.parent)
    return digest.hexdigest()


def _put(file: io.BufferedWriter, data: bytes, digest: "hashlib._Hash") -> None:
    file.write(data)
    digest.update(data)


def _first_bytes(stream: io.BufferedReader, size: int) -> Iterator[bytes]:
    while size and (chunk := stream.read(min(size, 2**20))):
        yield chunk
        size -= len(chunk)


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
    cut(path, size)
