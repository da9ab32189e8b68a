"""Follows files that grow, rotate, are truncated, copied and compressed. No line twice, none lost.

A file is its device and inode *and* what was read of it (fingerprint.py): a name says nothing,
and an inode is given out again. What does not fit its fingerprint is read from its start.
Reads: files, tail_offsets. Writes: nothing itself. Next: ingest/land.py, which stores the offsets.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from ingest.batch import Batch, Offset
from ingest.cut import LINES, How
from ingest.files import ReadError, head_of, is_compressed, start_of
from ingest.finder import Finder, Identity, Seen
from ingest.fingerprint import Index, candidates, fits, remember
from ingest.followed import CLOSED, Known, Reader, same

PAST = 1000  # contents that were overwritten in place: their copy may turn up later


class Tail:
    """All files of one source. `problems` are those of the last poll: path and sentence."""

    def __init__(
        self,
        source: str,
        adapter: str,
        patterns: Sequence[str],
        max_line: int,
        batch_bytes: int,
        how: How = LINES,
    ) -> None:
        self.source = source
        self.behind = False  # after a poll: more is waiting, poll again at once
        self._finder = Finder(patterns)
        self._reader = Reader(source, adapter, self._finder, max_line, batch_bytes, how)
        self._known: dict[Identity, Known] = {}
        self._past: deque[Offset] = deque(maxlen=PAST)
        self._waited = True
        self._namesakes: dict[str, list[Known]] = {}  # by path, while a poll needs it
        self._settling: dict[Identity, tuple[int, int]] = {}

    @property
    def problems(self) -> list[tuple[str, str]]:
        return self._finder.problems

    def restore(self, offsets: Iterable[Offset]) -> None:
        """Go on from what an earlier process landed; offsets of other sources are left out."""
        for offset in offsets:
            if offset.source == self.source and not offset.path.startswith("kafka:"):
                self._finder.restore(offset.path, offset.inode)
                self._known[offset.device, offset.inode] = Known(offset, landed=True)

    def done(self, batch: Batch) -> None:
        """The batch has landed. One that is not done is given again by the next poll."""
        for offset in batch.offsets:
            if (known := self._known.get((offset.device, offset.inode))) is not None:
                known.landed = offset

    def poll(self, final: bool = False, waited: bool = True) -> Iterator[Batch]:
        """What is new, in batches of one file each: known files first, in turns.

        `final`: also the last line of each file that has no line end, and compressed files that
        may still be growing. `waited`: so much time has passed since the last poll with it that a
        file which is the same may be taken for done. Land each batch and call done() before the
        next poll.
        """
        self._forget_unlanded()
        self._waited, self._namesakes = waited, {}
        turns, fresh = deque[Iterator[Batch]](), list[Seen]()
        for seen in self._look():
            known = self._recognised(seen)
            if known is None:
                fresh.append(seen)
            elif known.state != seen.state or (final and known.fed() > known.read.pos):
                turns.append(self._reader.read(known, seen, final))
            elif waited and known.quiet < CLOSED and known.fed() > known.read.pos:
                turns.append(self._reader.closed(known, seen))
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
                self._known[identity] = Known(known.landed, landed=True)

    def _look(self) -> list[Seen]:
        followed = [(i, each.read.path) for i, each in self._known.items() if not each.gone]
        found = self._finder.look(followed)
        here = {seen.identity for seen in found}
        for identity, known in self._known.items():
            known.gone = identity not in here
            known.state = None if known.gone else known.state
        return found

    def _recognised(self, seen: Seen) -> Known | None:
        """The file that is known under this inode, if it still is that file."""
        known = self._known.get(seen.identity)
        if known is None:
            return None
        if known.state != seen.state:
            try:
                if not same(known, seen):
                    self._past.append(known.read)
                    del self._known[seen.identity]
                    return None
                if known.state is None:
                    self._catch_up(known, seen)
            except (OSError, ReadError):
                return known  # reading it will say what is wrong
        if known.read.path != seen.path:
            known.read = known.landed = msgspec.structs.replace(known.read, path=seen.path)
        return known

    def _catch_up(self, known: Known, seen: Seen) -> None:
        """A file that is back, or is seen for the first time since a start, may have been read on
        under another inode: editors and some file systems give a file inodes in turn."""
        if not self._namesakes:
            for each in self._known.values():
                self._namesakes.setdefault(each.read.path, []).append(each)
        for other in self._namesakes.get(seen.path, []):
            if other.read.pos > known.read.pos:
                path = Path(seen.path)
                if fits(path, head_of(path), other.read):
                    device, inode = seen.identity
                    on = msgspec.structs.replace(other.read, device=device, inode=inode)
                    known.read = known.landed = on
                    known.cutter = None
                    self._finder.moved_inode(seen.path)

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
                yield from self._reader.read(known, seen, final)
                if known.landed is None and known.read is start:  # nothing new: remember that
                    yield self._reader.batch(start, [], start.pos)
                remember(index, known.read)

    def _adopt(self, seen: Seen, index: Index, final: bool) -> Known | None:
        if seen.identity in self._known or not self._settled(seen, final):
            return None
        offset = self._origin(seen, index)
        if offset is None or (seen.only_copy and offset.pos == 0):
            return None
        known = self._known[seen.identity] = Known(offset, landed=offset.pos == 0)
        return known

    def _settled(self, seen: Seen, final: bool) -> bool:
        """A compressed file is read when it has stopped growing since the last poll."""
        if final or not is_compressed(start_of(Path(seen.path))):
            return True
        settled = self._settling.get(seen.identity) == seen.state
        if settled and self._waited:
            del self._settling[seen.identity]
            return True
        if self._waited or not settled:
            self._settling[seen.identity] = seen.state
        return False

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
                if other is not None and other.gone and offset.path == seen.path:
                    self._finder.moved_inode(seen.path)
                return msgspec.structs.replace(
                    offset, path=seen.path, device=device, inode=inode, finished=False
                )
        return Offset(self.source, seen.path, device, inode, 0, "", 0, finished=False)
