"""Pruning: what may go leaves the ledger and the tables, and the chain says so.

What stays of a segment goes into a new file that names the hash of the old text. First the new
files, then one line of the ledger that names them (landing it empties the tables), then the
manifest, then the old files go: whenever the process ends, nothing that must stay is lost, and the
next one finishes or begins again.
Reads: the ledger, every table. Writes: the ledger, through ingest/retention.py the tables.
Next: ingest/store.py, which gives the space back.
"""

import hashlib
import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import msgspec

from ingest import frozen, retention
from ingest.batch import Offset
from ingest.config import ConfigError, Retention
from ingest.land import Lander
from ingest.ledger import Ledger, LedgerError, opened, pack
from ingest.manifest import Piece, Sealed, file_of
from ingest.retention import SUMS, Left, Pruned
from ingest.segment import END, OWN, thinned
from ingest.store import Store, fetch

TRIES = 5  # lines that land meanwhile may hold on to older ones: then it is looked at again
GONE_AT_ONCE = 2_000  # files whose offsets one pruning drops


@dataclass(frozen=True)
class Plan:
    """What one pruning would do."""

    last: int  # the last position that is old enough
    kept: Sequence[int]  # what stays up to there, in order
    pieces: tuple[Piece, ...]  # the segments that lose lines
    floor: datetime | None

    @property
    def lines(self) -> int:
        """How many lines go."""
        return sum(each.now.count - len(self.of(each)) for each in self.pieces)

    def of(self, piece: Piece) -> Sequence[int]:
        """What stays of one segment."""
        return _between(self.kept, piece)


def plan(store: Store, ledger: Ledger, before: datetime, high_before: datetime) -> Plan:
    """Which lines that came before `before` may go. Those of high risk stay until `high_before`."""
    old: list[Piece] = []
    for piece in ledger.pieces():
        if _until(piece) >= before:
            break
        old.append(piece)
    if not old:
        return Plan(0, (), (), None)
    last = old[-1].sealed.last
    with store.reading() as db:
        kept = retention.keep(db, last, high_before)
        floor = retention.floor_of(db, last, kept)
    losing = tuple(each for each in old if len(_between(kept, each)) < each.now.count)
    return Plan(last, kept, losing, floor)


def _between(kept: Sequence[int], piece: Piece) -> Sequence[int]:
    return kept[bisect_left(kept, piece.sealed.first) : bisect_right(kept, piece.sealed.last)]


def limits(
    keep: Retention, reach: Mapping[str, timedelta], now: datetime, before: datetime | None
) -> tuple[datetime, datetime]:
    """From when on lines are kept, ordinary ones and those of high risk.

    Raises ConfigError where a detector looks back further than ordinary lines are kept, and where
    `before` is later than they allow.
    """
    for name, back in sorted(reach.items()):
        if keep.ordinary < back + timedelta(days=1):
            raise ConfigError(
                f"retention.ordinary: the detector {name} looks back {back}: keep a day more."
            )
    if keep.high_risk < keep.ordinary:
        raise ConfigError("retention.high_risk: is shorter than retention.ordinary.")
    ordinary, high = now - keep.ordinary, now - keep.high_risk
    if before is not None and before > ordinary:
        raise ConfigError(
            f"--before: lines since {ordinary:%Y-%m-%d %H:%M} UTC are kept: [retention] says so."
        )
    return (before or ordinary, min(before or high, high))


def prune(
    store: Store,
    lander: Lander,
    keep: Retention,
    reach: Mapping[str, timedelta],
    now: datetime,
    before: datetime | None = None,
) -> Pruned | None:
    """Prune everything that is due at `now`. None when nothing was. One at a time.

    `reach`: how far each detector looks back. `before`: take only what came before that.
    Raises ConfigError, LedgerError, BehindError.
    """
    before, high = limits(keep, reach, now, before)
    ledger = lander.ledger
    finish(store, lander)
    for attempt in range(TRIES):
        todo = plan(store, ledger, before, high)
        if not todo.pieces:
            return None
        gone = _gone(store, before)
        current = _offsets(store, gone)
        left = [_leave(ledger, each, set(todo.of(each)), current) for each in todo.pieces]
        with lander.alone():
            again = plan(store, ledger, before, high)
            if again.kept != todo.kept and attempt < TRIES - 1:
                continue
            if again.kept != todo.kept:  # with nobody else writing
                left = [_leave(ledger, each, set(again.of(each)), current) for each in again.pieces]
            done = _pruned(store, ledger, again, left, gone, (before, high))
            with store.reading() as db:
                rows = list(frozen.freezing(db, reach, done.floor))
            for each in rows:
                lander.record("freeze", OWN, before.date().isoformat(), each, now)
            lander.record("prune", OWN, before.date().isoformat(), msgspec.to_builtins(done), now)
            ledger.replace(left)
        store.checkpoint()
        return done
    raise AssertionError("the last try decides")


def finish(store: Store, lander: Lander) -> None:
    """What a pruning that was ended had still to do: its line stands, its files may not."""
    with lander.alone():
        rows = store.rows(
            "SELECT detail FROM operator_log WHERE action = 'prune'"
            " ORDER BY ledger_seq DESC LIMIT 1"
        )
        if rows:
            _again(lander.ledger, msgspec.json.decode(rows[0]["detail"], type=Pruned))
        lander.ledger.tidy()


def _again(ledger: Ledger, done: Pruned) -> None:
    pieces = {piece.sealed.segment: piece for piece in ledger.pieces()}
    missing = list[Sealed]()
    for left in done.left:
        piece = pieces[left.segment]
        if piece.pruned < left.pruned:
            zst = hashlib.sha256((ledger.folder / file_of(left.segment, left.pruned)).read_bytes())
            missing.append(_sealed(piece, left.count, left.sha256, zst.hexdigest()))
    ledger.replace(missing)


def _leave(ledger: Ledger, piece: Piece, keep: set[int], current: set[Offset]) -> Sealed:
    """Write what stays of a segment into a file of its own. Raises LedgerError on damage."""
    before, after, count = hashlib.sha256(), hashlib.sha256(), [0]

    def hashed(stream: Iterator[bytes]) -> Iterator[bytes]:
        for line in stream:
            before.update(line)
            yield line

    def counted(lines: Iterator[bytes]) -> Iterator[bytes]:
        for line in lines:
            after.update(line)
            count[0] += not line.startswith(END)
            yield line

    source, target = (
        piece.path(ledger.folder),
        ledger.folder / file_of(piece.sealed.segment, piece.pruned + 1),
    )
    with opened(source) as stream:
        lines = counted(thinned(hashed(stream), piece.sealed.first, keep, current))
        zst = pack(lines, target)
    if before.hexdigest() != piece.now.sha256 or count[0] != len(keep):
        target.unlink()
        raise LedgerError(f"{source}: is not what was sealed: run `gatewatch verify`.")
    return _sealed(piece, count[0], after.hexdigest(), zst)


def _sealed(piece: Piece, count: int, sha256: str, zst: str) -> Sealed:
    return msgspec.structs.replace(
        piece.sealed, count=count, sha256=sha256, prev="", zst=zst, of=piece.now.sha256, sig=None
    )


def _pruned(
    store: Store,
    ledger: Ledger,
    todo: Plan,
    left: Sequence[Sealed],
    gone: Sequence[tuple[str, int, int]],
    before: tuple[datetime, datetime],
) -> Pruned:
    steps = {piece.sealed.segment: piece.pruned + 1 for piece in ledger.pieces()}
    with store.reading() as db:
        sums = {name: fetch(db, f"SELECT * FROM {name} ORDER BY source") for name in SUMS}  # noqa: S608
        old = frozen.floor(db)
    newest = [each for each in (old, todo.floor and todo.floor + timedelta(microseconds=1)) if each]
    return Pruned(
        *before,
        max(newest, default=before[1]),
        todo.lines,
        tuple(
            Left(each.segment, steps[each.segment], each.first, each.last, each.count, each.sha256)
            for each in left
        ),
        sums,
        tuple(gone),
    )


def _until(piece: Piece) -> datetime:
    """When the segment's last line came. One sealed by an older version says only its day."""
    if piece.sealed.until:
        return datetime.fromisoformat(piece.sealed.until)
    day = Path(piece.sealed.segment).parent.name
    return datetime.fromisoformat(f"{day}T00:00:00+00:00") + timedelta(days=2)


def _gone(store: Store, before: datetime) -> list[tuple[str, int, int]]:
    """Files that are no longer there and have given nothing since: under any name beside theirs."""
    rows = store.rows(
        "SELECT source, path, device, inode FROM tail_offsets WHERE seen_at < $before::TIMESTAMPTZ",
        before=before,
    )
    inodes: dict[Path, set[int]] = {}
    found: list[tuple[str, int, int]] = []
    for row in rows:
        folder = Path(row["path"]).parent
        if folder not in inodes:
            try:
                inodes[folder] = {entry.inode() for entry in os.scandir(folder)}
            except FileNotFoundError:
                inodes[folder] = set()
            except OSError:
                continue  # it cannot be looked into: it may be there
        if row["inode"] not in inodes[folder]:
            found.append((row["source"], row["device"], row["inode"]))
    return found[:GONE_AT_ONCE]


def _offsets(store: Store, gone: Sequence[tuple[str, int, int]]) -> set[Offset]:
    rows = store.rows("SELECT * EXCLUDE (seen_at) FROM tail_offsets")
    every = {Offset(**row) for row in rows}
    return {each for each in every if (each.source, each.device, each.inode) not in set(gone)}
