"""Which files a source has now: those of its patterns, and those that were moved away from them.

Reads: folders. Writes: nothing. Next: ingest/tail.py.
"""

import glob
import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

Identity = tuple[int, int]  # device, inode
MOVES = 2  # times that the inode of a path may change under content that goes on


@dataclass(frozen=True)
class Seen:
    """A file as it was found just now."""

    path: str
    identity: Identity
    state: tuple[int, int]  # size in bytes, modification time in ns: equal means unchanged
    only_copy: bool = False  # beside the patterns: read only when it goes on with known content


class Finder:
    """Looks for files. `problems`: path and sentence, of the last look."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self.patterns = tuple(patterns)
        self.problems: list[tuple[str, str]] = []
        self._moves: dict[str, int] = {}  # how often a path went on under another inode
        self._no_inode: set[str] = set()  # paths of which it did too often

    def identity(self, path: str, info: os.stat_result) -> Identity:
        """Device and inode; where there are none that last (network file systems, FUSE), the path
        stands for the inode."""
        lasting = info.st_ino and path not in self._no_inode
        return info.st_dev, info.st_ino if lasting else inode_of(path)

    def moved_inode(self, path: str) -> None:
        """The file that was read under this path goes on here, and its inode is another."""
        self._moves[path] = self._moves.get(path, 0) + 1

    def restore(self, path: str, inode: int) -> None:
        """What an earlier process knew of a file."""
        if inode == inode_of(path):
            self._no_inode.add(path)

    def look(self, followed: Iterable[tuple[Identity, str]]) -> list[Seen]:
        """Every file of the patterns once (a link and its target are one), and each of `followed`
        (with its last path) wherever in its folder it is now. Oldest first, so that what was
        rotated is read before what came after it."""
        self.problems = []
        self._no_inode |= {path for path, moves in self._moves.items() if moves >= MOVES}
        found: dict[Identity, Seen] = {}
        for pattern in self.patterns:
            for path in sorted(glob.glob(pattern, recursive=True)):  # noqa: PTH207, any text
                if (seen := self.stat(path)) is not None:
                    found.setdefault(seen.identity, seen)
        folders: dict[str, dict[int, str]] = {}
        for identity, path in followed:
            if identity not in found and (moved := self._moved(identity, path, folders)):
                found[identity] = moved
        return sorted(found.values(), key=lambda seen: (seen.state[1], seen.path))

    def beside(self, seen: Seen) -> Iterator[Seen]:
        """Files with this one's name and more: where its lines may be when it was truncated."""
        folder, name = os.path.split(seen.path)
        for _, path in _entries(folder):
            if os.path.split(path)[1].startswith(name):
                copy = self.stat(path)
                if copy is not None and copy.identity != seen.identity:
                    yield Seen(copy.path, copy.identity, copy.state, only_copy=True)

    def stat(self, path: str) -> Seen | None:
        try:
            info = os.stat(path)  # noqa: PTH116, for thousands of files at each poll
        except FileNotFoundError:
            return None  # it was rotated away since the pattern was looked up
        except (OSError, ValueError) as error:
            self.problem(path, error)
            return None
        if stat.S_ISREG(info.st_mode):
            return Seen(path, self.identity(path, info), (info.st_size, info.st_mtime_ns))
        if not stat.S_ISDIR(info.st_mode):
            self.problems.append((path, "is no regular file."))
        return None

    def problem(self, path: str, error: Exception) -> None:
        """Note why a file is not read; a file that is gone is none."""
        if isinstance(error, FileNotFoundError):
            return
        why = error.strerror if isinstance(error, OSError) else str(error)
        sentence = f"can't be read: {why}." if isinstance(error, OSError) else f"{why}."
        if (path, sentence) not in self.problems:
            self.problems.append((path, sentence))

    def _moved(
        self, identity: Identity, path: str, folders: dict[str, dict[int, str]]
    ) -> Seen | None:
        """Where a file is that no pattern finds: under its last name, or another beside it."""
        seen = self.stat(path)
        if seen is not None and seen.identity == identity:
            return seen
        folder = os.path.split(path)[0]
        if folder not in folders:
            folders[folder] = dict(_entries(folder))
        other = folders[folder].get(identity[1])
        seen = None if other is None else self.stat(other)
        return seen if seen is not None and seen.identity == identity else None


def inode_of(path: str) -> int:
    """A number that stands for the inode of a file where inodes do not last."""
    return int.from_bytes(hashlib.sha256(os.fsencode(path)).digest()[:8], "big") >> 1


def _entries(folder: str) -> list[tuple[int, str]]:
    """Inodes and paths in a folder; none when it can't be read."""
    try:
        with os.scandir(folder or ".") as entries:
            return sorted((entry.inode(), os.path.join(folder, entry.name)) for entry in entries)  # noqa: PTH118
    except OSError:
        return []
