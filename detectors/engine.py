"""Judges what is due, and nothing twice for nothing.

Per detector the store knows the ledger position whose changes have been taken up, and the ranges of
event time that are due. An event at time t can change rows that end in [t, t + lookback], so that
range becomes due; the part that lies in the future stays due until its time has come. A judged
range replaces the stored rows that end in it.
A detector works apart, see detectors/apart.py: one that is slow, hangs or raises delays itself
alone, and what it has not judged stays due.
Reads: changes, judged, judgements, calls, events. Writes: judged, judgements, stretches, alerts.
Next: detectors/turn.py.
"""

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

import duckdb

from detectors import alerts, detector, rounds
from detectors.apart import Apart
from detectors.detector import Detector
from detectors.ranges import INSTANT, Range, slices
from detectors.rounds import EVERY, Clock, Rounds
from detectors.stretch import Stretch, stretch
from detectors.turn import SLICE, Books, Turn, books, cold, forget, keep, large, look, plan
from ingest.store import Db, Store, fetch

DEADLINE = 60.0  # seconds for one detector's turn
GRACE = 1.0  # seconds in which a query that was interrupted must end
ENOUGH = 1.0  # seconds after which a turn takes up no further slice: the others wait
NARROWEST = timedelta(hours=1)  # slices of one that failed are halved, down to this
FIRST_REST, LONGEST_REST = 1.0, 60.0  # seconds without a try after a failure; doubles
SHARE = 4  # a failure that took long is rested from for so many times as long
SLOW = 0.1  # seconds of processor: one whose last turn took so much is waited for after the others
SHARED = 4  # and all of those for this part of the patience that a quick one has alone


class CutOffError(RuntimeError):
    """A detector took longer than its deadline."""


@dataclass
class Tick:
    """What one round did. `failed` names detectors that raised or hang, with the reason."""

    judged: int = 0
    changed: int = 0
    left: int = 0  # slices that were due and whose turn has not come
    told: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    busy: set[str] = field(default_factory=set)  # still at their turn
    idle: set[str] = field(default_factory=set)  # nothing was due


@dataclass
class Rest:
    """A detector that failed is not tried again before `until`."""

    each: Detector
    until: float
    length: float
    reason: str


@dataclass
class Work:
    """A turn under way. `hung`: it was interrupted, and goes on all the same."""

    each: Detector
    turn: Apart[Turn]
    hung: bool = False


class Engine:
    """Judges with a set of detectors, which may be replaced between two rounds. `now` always comes
    from the caller; `clock` is one that nobody sets.

    `patience`: seconds that a round waits for one detector before it goes on with the others.
    """

    def __init__(
        self, store: Store, detectors: Mapping[str, Detector], deadline: float = DEADLINE,
        enough: float = ENOUGH, patience: float = DEADLINE, note_every: float = EVERY,
        clock: Clock = time.monotonic,
    ) -> None:  # fmt: skip
        self._store, self.detectors = store, detectors
        self._deadline, self._enough, self._patience = deadline, enough, patience
        self.rounds, self._clock = Rounds(note_every, clock), clock
        self._one_round = threading.Lock()
        self._works: dict[str, Work] = {}
        self._rests: dict[str, Rest] = {}
        self._widths: dict[str, timedelta] = {}
        self._took: dict[str, float] = {}  # seconds of processor, of the last turn
        self._begun: dict[str, float] = {}  # when it was begun
        self._closed = False

    def judge(self, now: datetime, whole: bool = False) -> Tick:
        """Judge what is due before `now`, the newest first. A detector that raises stays due.

        Where much of history is due it takes several calls, or `whole`.
        """
        with self._one_round:
            tick, detectors = Tick(), dict(self.detectors)
            self._let_go(self._works.keys() - detectors.keys())
            waiting = list(detectors.values())
            while waiting:
                waiting = self._round(waiting, now, whole, tick)
            with self._store.writing() as db:
                rounds.had_nothing_to_do(db, tick.idle, now)
                out = tick.failed.keys() | tick.busy
                well = {name: each for name, each in detectors.items() if name not in out}
                tick.changed += alerts.resolve(db, well, now)
                forget(db, list(detectors))
                self.rounds.note(db, detectors, now)
            tick.judged = len(well)
            return tick

    def close(self) -> None:
        """Let go of the store, as far as detectors let go of it. A round under way begins no more
        turns."""
        self._closed = True
        until = time.monotonic() + GRACE
        for work in list(self._works.values()):
            if not work.turn.end(max(until - time.monotonic(), 0.0)):
                work.turn.leave()

    def _let_go(self, names: Iterable[str]) -> None:
        """Of detectors that are not in force any more: nobody waits for what they look at."""
        for name in list(names):
            work = self._works.pop(name)
            if not work.turn.end(0.0):
                work.turn.leave()

    def _round(
        self, waiting: Sequence[Detector], now: datetime, whole: bool, tick: Tick
    ) -> list[Detector]:
        """A turn of each. With `whole`, returns those that have something left."""
        ready = [each for each in waiting if not self._waits(each, whole, tick)]
        with self._store.reading() as db:
            book = books(db, [each for each in ready if each.id not in self._works])
            turns = self._planned(db, book, ready, now)
        group: list[Turn] = []
        left: list[Turn] = []
        spent = 0.0  # seconds that slow ones were waited for
        for each in sorted(ready, key=self._place):
            began, patience = time.monotonic(), self._deadline if whole else self._patience
            if not whole and self._slow(each):
                patience = max(patience / SHARED - spent, 0.0)
            try:
                turn = self._looked(turns.get(each.id), each, patience)
            except Exception as error:  # noqa: BLE001 - whatever one does, the others go on
                self._failed(each, error, time.monotonic() - began, tick)
                continue
            spent += time.monotonic() - began if self._slow(each) else 0.0
            if turn is not None:
                group.append(turn)
                if large(group):
                    left += self._keep(group, now, tick)
                    group = []
            elif each.id in self._works or turns.get(each.id) is not None:
                tick.busy.add(each.id)
            else:
                tick.idle.add(each.id)
                self.rounds.ok(each.id)
        left += self._keep(group, now, tick)
        if whole:
            return [turn.each for turn in left]
        tick.left += sum(max(len(turn.left), 1) for turn in left)
        return []

    def _waits(self, each: Detector, whole: bool, tick: Tick) -> bool:
        """Whether this detector is not tried now; `tick` is told why."""
        work, rest = self._works.get(each.id), self._rests.get(each.id)
        if work and work.each is each and work.hung and not work.turn.wait(0):
            reason = f"still runs after {work.turn.seconds:.0f} s, though it was told to end"
        elif rest and rest.each is each and not whole and self._clock() < rest.until:
            reason = rest.reason
        else:
            return False
        tick.failed[each.id] = reason
        self.rounds.waits(each.id, reason)
        return True

    def _planned(
        self, db: Db, book: Books, ready: Iterable[Detector], now: datetime
    ) -> dict[str, Turn | None]:
        """The turns of all that are not at one. Those in which no row can be are over with it: that
        is asked here, in the moment of the books, of every detector that is our own."""
        turns: dict[str, Turn | None] = {}
        for each in ready:
            work = self._works.get(each.id)
            if work is not None and work.each is not each:  # another text is in force by now
                self._let_go([each.id])
            elif work is not None:
                continue
            turn = turns[each.id] = plan(book, each, now, self._widths.get(each.id, SLICE))
            if turn is not None and each.path.parent == detector.CATALOGUE:
                cold(db, turn)
        return turns

    def _slow(self, each: Detector) -> bool:
        return self._took.get(each.id, 0.0) >= SLOW

    def _place(self, each: Detector) -> tuple[bool, float]:
        """Quick ones first, as they come; of the slow ones the one that waits longest."""
        return (True, self._begun.get(each.id, 0.0)) if self._slow(each) else (False, 0.0)

    def _looked(self, turn: Turn | None, each: Detector, patience: float) -> Turn | None:
        """A turn that is over, or None while it goes on, where its time has not come, or where
        there is nothing to do. Raises what it raised."""
        work = self._works.get(each.id)
        if work is None:
            if turn is None or not turn.left:
                return turn
            if self._closed or (patience <= 0 and self._slow(each) and self._works):
                return None  # a slow one at a time, and nobody waits for it
            self._begun[each.id] = time.monotonic()
            apart = Apart(self._store, each.id, partial(look, turn=turn, enough=self._enough))
            work = self._works[each.id] = Work(each, apart)
        if not work.turn.wait(min(patience, self._deadline - work.turn.seconds)):
            if work.turn.seconds < self._deadline:
                return None
            if not work.turn.end(GRACE):
                work.hung = True
                work.turn.leave()
                raise CutOffError(f"does not end, {self._deadline:g} s after it began")
        del self._works[each.id]
        done = work.turn.result()
        self._took[each.id] = done.cpu
        return done

    def _keep(self, group: Sequence[Turn], now: datetime, tick: Tick) -> list[Turn]:
        """Keep what these turns found. Returns those after which something is left."""
        if not group:
            return []
        try:
            with self._store.writing() as db:
                changed, void = keep(db, group, now)
        except Exception as error:  # noqa: BLE001 - one of them: the others are kept without it
            if len(group) > 1:
                return [left for turn in group for left in self._keep([turn], now, tick)]
            self._failed(group[0].each, error, group[0].seconds, tick)
            return []
        tick.changed += changed
        for turn in group:
            if turn.error is not None:
                self._failed(turn.each, turn.error, turn.seconds, tick)
                continue
            self._rests.pop(turn.each.id, None)
            self.rounds.ok(turn.each.id, turn.seconds)
            if not turn.left:
                self._widths.pop(turn.each.id, None)
        return [turn for turn in group if turn.error is None and (turn.left or turn in void)]

    def _failed(self, each: Detector, error: Exception, seconds: float, tick: Tick) -> None:
        """Note it, and have it rest: for longer each time. In narrower slices it takes less time
        and memory, and what is wrong with some lines holds up less beside them."""
        width = self._widths.get(each.id, SLICE)
        self._widths[each.id] = max(width / 2, NARROWEST)
        last = self._rests.get(each.id)
        length = last.length * 2 if last and last.each is each else FIRST_REST
        length = max(min(length, LONGEST_REST), seconds * SHARE)
        reason = (str(error).splitlines() or [type(error).__name__])[0][:300]
        if isinstance(error, duckdb.InterruptException):
            reason = f"was cut off after {self._deadline:g} s"
        self._rests[each.id] = Rest(each, self._clock() + length, length, reason)
        tick.failed[each.id] = reason
        self.rounds.failed(each.id, reason, seconds)
        with self._store.writing() as db:
            rounds.had_failed(db, each.id, reason)


def backtest(
    db: Db, detectors: Iterable[Detector], since: datetime, until: datetime
) -> list[alerts.Found]:
    """The alerts that one pass over [since, until) gives. Writes nothing.

    Raises TooManyError for a detector that finds more than can be held.
    """
    done: list[alerts.Found] = []
    for each in detectors:
        rows: list[Stretch] = []
        for part in slices((since, until), SLICE):
            rows += [stretch(each, row) for row in detector.find(each, db, *part)]
            if len(rows) > detector.MOST:
                raise detector.TooManyError(f"{each.id}: more than {detector.MOST} rows in all.")
        done += alerts.unite(each, rows)
    return sorted(done, key=lambda found: (found.started_at, found.detector, found.subject))


def history(db: Db) -> Range | None:
    """From the first stored event to just after the last, or None on an empty store."""
    row = fetch(db, "SELECT min(ts) AS since, max(ts) AS until FROM events")[0]
    return (row["since"], row["until"] + INSTANT) if row["since"] else None
