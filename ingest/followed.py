"""What is new in one file that is followed: plain or compressed, in batches.

Reads: files. Writes: nothing. Next: ingest/tail.py, which says what is to be read and when.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from ingest.batch import Batch, Line, Offset
from ingest.cut import Cutter, How
from ingest.files import ReadError, chunks, head_of, is_compressed, skip, start_of, unpacked
from ingest.finder import Finder, Seen
from ingest.fingerprint import fingerprint, fits, mark, moved_on
from ingest.split import HEAD, Splitter

TURNS = 64  # batches of one file in one poll: a flood in one file must not hide the others
CLOSED = 2  # polls that find nothing added, until a last line may do without its end


class Known:
    """A file that is followed: what was landed of it, and what was read but not yet landed."""

    def __init__(self, offset: Offset, landed: bool) -> None:
        self.landed = offset if landed else None
        self.read = offset
        self.state: tuple[int, int] | None = None  # as it was when all of it had been read
        self.cutter: Cutter | None = None
        self.told = False  # the file has told how it is to be cut
        self.base = 0  # where in the file the cutter began
        self.behind = False  # there is more to read than was read in this poll
        self.quiet = 0  # times that its end was looked at and nothing had been added
        self.gone = False

    def fed(self) -> int:
        """Bytes of the file that were looked at, the unfinished last line among them."""
        held = self.cutter
        return self.read.pos if held is None else self.base + held.consumed + held.pending


class Reader:
    """Reads on in the files of one source."""

    def __init__(
        self, source: str, adapter: str, finder: Finder, max_line: int, batch_bytes: int, how: How
    ) -> None:
        self._source, self._adapter, self._finder = source, adapter, finder
        self._max_line, self._batch_bytes, self._how = max_line, batch_bytes, how

    def read(self, known: Known, seen: Seen, final: bool) -> Iterator[Batch]:
        """What is new in one file."""
        try:
            if is_compressed(start_of(Path(seen.path))):
                yield from self._unpack(known, seen)
            else:
                yield from self._grown(known, seen, final)
        except (OSError, ReadError) as error:
            self._finder.problem(seen.path, error)
            if isinstance(error, OSError):
                return  # the next poll tries again; a damaged file only when it has changed
        if not known.behind:
            known.state, known.quiet = seen.state, 0

    def _grown(self, known: Known, seen: Seen, final: bool) -> Iterator[Batch]:
        """A plain file, up to the size that it had when it was found. It is open only while a
        batch is read: there may be thousands."""
        cutter, turns = self._cutter(known, seen), 0
        while turns < TURNS and (batch := self._next(known, cutter, seen)) is not None:
            turns += 1
            yield batch
        known.behind = turns == TURNS
        if final and not known.behind:
            yield from self._finish(known, cutter, seen)

    def _cutter(self, known: Known, seen: Seen) -> Cutter:
        """Chosen anew while the file is so short that it does not tell how it is to be cut."""
        if known.cutter is None or not known.told:
            with Path(seen.path).open("rb") as file:
                start = file.read(HEAD)
            known.told, known.base = self._how.told(start), known.read.pos
            known.cutter = self._how.cutter(start, self._max_line)
        return known.cutter

    def closed(self, known: Known, seen: Seen) -> Iterator[Batch]:
        """Nothing is added any more: a last line that is a whole object needs no line end."""
        known.quiet += 1
        held = known.cutter
        if known.quiet == CLOSED and self._how.closes and isinstance(held, Splitter) and held.whole:
            yield from self._finish(known, held, seen)

    def _finish(self, known: Known, cutter: Cutter, seen: Seen) -> Iterator[Batch]:
        if lines := cutter.finish():
            pos = known.base + cutter.consumed
            with Path(seen.path).open("rb") as file:
                yield self._took(known, lines, mark(known.read, pos, file.fileno(), True))

    def _next(self, known: Known, cutter: Cutter, seen: Seen) -> Batch | None:
        with Path(seen.path).open("rb", buffering=0) as file:
            if self._finder.identity(seen.path, os.fstat(file.fileno())) != seen.identity:
                return None  # replaced since it was found: the next poll sees it
            file.seek(known.fed())
            while (left := seen.state[0] - known.fed()) > 0:
                if not (chunk := file.read(min(self._batch_bytes, left))):
                    return None
                if lines := cutter.split(chunk):
                    pos = known.base + cutter.consumed
                    return self._took(known, lines, mark(known.read, pos, file.fileno(), False))
        return None

    def _unpack(self, known: Known, seen: Seen) -> Iterator[Batch]:
        """A compressed file, as a stream from its start; finished when it ends as it should."""
        path, at = Path(seen.path), known.read.pos
        head, base = head_of(path), at
        cutter = self._how.cutter(head, self._max_line)
        with path.open("rb") as file:
            text = unpacked(file)
            last = skip(text, base) or b""
            for chunk in chunks(text, self._batch_bytes):
                if lines := cutter.split(chunk):
                    pos = base + cutter.consumed
                    shown = fingerprint(head[:pos], (last + chunk[: pos - at])[-HEAD:])
                    yield self._took(known, lines, moved_on(known.read, pos, shown, False))
                last, at = (last + chunk)[-HEAD:], at + len(chunk)
        lines = cutter.finish()
        pos = base + cutter.consumed
        done = moved_on(known.read, pos, fingerprint(head[:pos], last), True)
        if done != known.read:
            yield self._took(known, lines, done)

    def _took(self, known: Known, lines: Sequence[Line], offset: Offset) -> Batch:
        start, known.read = known.read.pos, offset
        return self.batch(offset, lines, start)

    def batch(self, offset: Offset, lines: Sequence[Line], start: int) -> Batch:
        where = f"{offset.path}:{start}"
        return Batch(
            self._source, self._adapter, lines, pos=where, offsets=(offset,), zone=self._how.zone
        )


def same(known: Known, seen: Seen) -> bool:
    """Whether the file under a known inode still begins with what was read of it."""
    path = Path(seen.path)
    if seen.state[0] < known.fed() and not is_compressed(start_of(path)):
        return False
    return fits(path, head_of(path), known.read)
