"""Follows files that grow, rotate, are truncated, copied and compressed. No line twice, none lost.

A file is its device and inode *and* what was read of it (fingerprint.py): a name says nothing,
and an inode is given out again. What does not fit its fingerprint is read from its start.
Reads: files, tail_offsets. Writes: nothing itself. Next: ingest/land.py, which stores the offsets.
"""

import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from ingest.batch import Batch, Line, Offset
from ingest.files import ReadError, chunks, head_of, is_compressed, skip, start_of, unpacked
from ingest.finder import Finder, Identity, Seen, identity_of
from ingest.fingerprint import Index, candidates, fingerprint, fits, mark, moved_on, remember
from ingest.split import HEAD, Splitter

TURNS = 64  # batches of one file in one poll: a flood in one file must not hide the others
PAST = 1000  # contents that were overwritten in place: their copy may turn up later


class _Known:
    """A file that is followed: what was landed of it, and what was read but not yet landed."""

    def __init__(self, offset: Offset, landed: bool) -> None:
        self.landed = offset if landed else None
        self.read = offset
        self.state: tuple[int, int] | None = None  # as it was when all of it had been read
        self.splitter: Splitter | None = None
        self.base = 0  # where in the file the splitter began
        self.behind = False  # there is more to read than was read in this poll
        self.gone = False

    def split(self, max_line: int, envelope: str | None) -> Splitter:
        if self.splitter is None:
            self.splitter, self.base = Splitter(max_line, envelope), self.read.pos
        return self.splitter

    def fed(self) -> int:
        """Bytes of the file that were looked at, the unfinished last line among them."""
        held = self.splitter
        return self.read.pos if held is None else self.base + held.consumed + held.pending


class Tail:
    """All files of one source. `problems` are those of the last poll: path and sentence."""

    def __init__(
        self,
        source: str,
        adapter: str,
        patterns: Sequence[str],
        max_line: int,
        batch_bytes: int,
        envelope: str | None = None,
    ) -> None:
        self.source, self.adapter, self.envelope = source, adapter, envelope
        self.max_line, self.batch_bytes = max_line, batch_bytes
        self.behind = False  # after a poll: more is waiting, poll again at once
        self._finder = Finder(patterns)
        self._known: dict[Identity, _Known] = {}
        self._past: deque[Offset] = deque(maxlen=PAST)
        self._settling: dict[Identity, tuple[int, int]] = {}

    @property
    def problems(self) -> list[tuple[str, str]]:
        return self._finder.problems

    def restore(self, offsets: Iterable[Offset]) -> None:
        """Go on from what an earlier process landed; offsets of other sources are left out."""
        for offset in offsets:
            if offset.source == self.source:
                self._known[offset.device, offset.inode] = _Known(offset, landed=True)

    def done(self, batch: Batch) -> None:
        """The batch has landed. One that is not done is given again by the next poll."""
        for offset in batch.offsets:
            if (known := self._known.get((offset.device, offset.inode))) is not None:
                known.landed = offset

    def poll(self, final: bool = False) -> Iterator[Batch]:
        """What is new, in batches of one file each: known files first, in turns.

        `final`: also the last line of each file that has no line end, and compressed files that
        may still be growing. Land each batch and call done() before the next poll.
        """
        self._forget_unlanded()
        turns, fresh = deque[Iterator[Batch]](), list[Seen]()
        for seen in self._look():
            known = self._recognised(seen)
            if known is None:
                fresh.append(seen)
            elif known.state != seen.state or (final and known.fed() > known.read.pos):
                turns.append(self._read(known, seen, final))
        while turns:
            turn = turns.popleft()
            if (batch := next(turn, None)) is not None:
                turns.append(turn)
                yield batch
        yield from self._begin(fresh, final)
        self.behind = any(known.behind for known in self._known.values())

    def _forget_unlanded(self) -> None:
        for identity, known in list(self._known.items()):
            if known.landed is None:
                del self._known[identity]
            elif known.landed is not known.read:
                self._known[identity] = _Known(known.landed, landed=True)

    def _look(self) -> list[Seen]:
        followed = [(i, each.read.path) for i, each in self._known.items() if not each.gone]
        found = self._finder.look(followed)
        here = {seen.identity for seen in found}
        for identity, known in self._known.items():
            known.gone = identity not in here
        return found

    def _recognised(self, seen: Seen) -> _Known | None:
        """The file that is known under this inode, if it still is that file."""
        known = self._known.get(seen.identity)
        if known is None:
            return None
        if known.state != seen.state:
            try:
                if not _same(known, seen):
                    self._past.append(known.read)
                    del self._known[seen.identity]
                    return None
            except (OSError, ReadError):
                return known  # reading it will say what is wrong
        if known.read.path != seen.path:
            known.read = known.landed = msgspec.structs.replace(known.read, path=seen.path)
        return known

    # Files that are new

    def _begin(self, fresh: list[Seen], final: bool) -> Iterator[Batch]:
        """One after the other, so that the copy of a new file finds that one read."""
        if not fresh:
            return
        index: Index = {}
        for offset in [*(known.read for known in self._known.values()), *self._past]:
            remember(index, offset)
        overwritten = {offset.path for offset in self._past}
        cut = [seen for seen in fresh if seen.path in overwritten]
        copies = [copy for truncated in cut for copy in self._finder.beside(truncated)]
        for seen in fresh + copies:
            try:
                known = self._adopt(seen, index, final)
            except (OSError, ReadError) as error:
                self._finder.problem(seen.path, error)
                continue
            if known is not None:
                start = known.read
                yield from self._read(known, seen, final)
                if known.landed is None and known.read is start:  # nothing new: remember that
                    yield self._batch(start, [], start.pos)
                remember(index, known.read)

    def _adopt(self, seen: Seen, index: Index, final: bool) -> _Known | None:
        if seen.identity in self._known or not self._settled(seen, final):
            return None
        offset = self._origin(seen, index)
        if offset is None or (seen.only_copy and offset.pos == 0):
            return None
        known = self._known[seen.identity] = _Known(offset, landed=offset.pos == 0)
        return known

    def _settled(self, seen: Seen, final: bool) -> bool:
        """A compressed file is read when it has stopped growing since the last poll."""
        if final or not is_compressed(start_of(Path(seen.path))):
            return True
        settled = self._settling.pop(seen.identity, None) == seen.state
        if not settled:
            self._settling[seen.identity] = seen.state
        return settled

    def _origin(self, seen: Seen, index: Index) -> Offset | None:
        """Where to begin: after what was already read of the same content under another inode,
        else at 0. None while that other file has more to read first."""
        path, head = Path(seen.path), head_of(Path(seen.path))
        device, inode = seen.identity
        for offset in candidates(index, head, seen.path):
            other = self._known.get((offset.device, offset.inode))
            if other is not None and other.behind and other.read.print == offset.print:
                return None
            if fits(path, head, offset):
                return msgspec.structs.replace(
                    offset, path=seen.path, device=device, inode=inode, finished=False
                )
        return Offset(self.source, seen.path, device, inode, 0, "", 0, finished=False)

    # Reading

    def _read(self, known: _Known, seen: Seen, final: bool) -> Iterator[Batch]:
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
            known.state = seen.state

    def _grown(self, known: _Known, seen: Seen, final: bool) -> Iterator[Batch]:
        """A plain file, up to the size that it had when it was found. It is open only while a
        batch is read: there may be thousands."""
        splitter, turns = known.split(self.max_line, self.envelope), 0
        while turns < TURNS and (batch := self._next(known, splitter, seen)) is not None:
            turns += 1
            yield batch
        known.behind = turns == TURNS
        if final and not known.behind and (lines := splitter.finish()):
            pos = known.base + splitter.consumed
            with Path(seen.path).open("rb") as file:
                yield self._took(known, lines, mark(known.read, pos, file.fileno(), True))

    def _next(self, known: _Known, splitter: Splitter, seen: Seen) -> Batch | None:
        with Path(seen.path).open("rb", buffering=0) as file:
            if identity_of(os.fstat(file.fileno())) != seen.identity:
                return None  # replaced since it was found: the next poll sees it
            file.seek(known.fed())
            while (left := seen.state[0] - known.fed()) > 0:
                if not (chunk := file.read(min(self.batch_bytes, left))):
                    return None
                if lines := splitter.split(chunk):
                    pos = known.base + splitter.consumed
                    return self._took(known, lines, mark(known.read, pos, file.fileno(), False))
        return None

    def _unpack(self, known: _Known, seen: Seen) -> Iterator[Batch]:
        """A compressed file, as a stream from its start; finished when it ends as it should."""
        path, base = Path(seen.path), known.read.pos
        head, splitter = head_of(path), Splitter(self.max_line, self.envelope)
        with path.open("rb") as file:
            text = unpacked(file)
            last = skip(text, base) or b""
            for chunk in chunks(text, self.batch_bytes):
                lines = splitter.split(chunk)
                if lines:
                    pos, cut = base + splitter.consumed, chunk.rfind(b"\n") + 1
                    shown = fingerprint(head[:pos], (last + chunk[:cut])[-HEAD:])
                    yield self._took(known, lines, moved_on(known.read, pos, shown, False))
                last = (last + chunk)[-HEAD:]
        lines = splitter.finish()
        pos = base + splitter.consumed
        done = moved_on(known.read, pos, fingerprint(head[:pos], last), True)
        if done != known.read:
            yield self._took(known, lines, done)

    def _took(self, known: _Known, lines: Sequence[Line], offset: Offset) -> Batch:
        start, known.read = known.read.pos, offset
        return self._batch(offset, lines, start)

    def _batch(self, offset: Offset, lines: Sequence[Line], start: int) -> Batch:
        where = f"{offset.path}:{start}"
        return Batch(self.source, self.adapter, lines, pos=where, offsets=(offset,))


def _same(known: _Known, seen: Seen) -> bool:
    """Whether the file under a known inode still begins with what was read of it."""
    path = Path(seen.path)
    if seen.state[0] < known.fed() and not is_compressed(start_of(path)):
        return False
    return fits(path, head_of(path), known.read)
