"""One detector's turn: what is due is read of the books, the detector looks at one moment of the
store, and what it found is kept in a short transaction.

Nobody waits to write while a detector looks. What lands after the books were read has a later
ledger position than they say, so it is due at the next turn.
Reads: changes, judged, judgements, landed, prunes, policies, calls, events. Writes: judged,
judgements, stretches, alerts, tallies. Next: detectors/alerts.py.
"""

import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from detectors import alerts, detector
from detectors.detector import Detector
from detectors.ranges import INSTANT, Range, minus, slices, split, union
from detectors.stretch import Stretch, replace, stretch
from ingest import frozen, tally
from ingest.store import Db, one

SLICE = timedelta(days=31)  # one query looks at this much; with too little memory, at less
NEAR = timedelta(minutes=10)  # due ranges closer than this are judged in one query
MANY = (
    256  # due ranges of a turn: more are joined over the quiet between them: a query each is dear
)
OWN_KEPT = timedelta(days=7)  # for so long it is known what the service noted of itself, in:
OWN_NOTES = re.compile(r"\b(?:from|join)\s+(?:arrivals|rounds|clock_steps)\b", re.IGNORECASE)
FIRST = timedelta(days=1)  # of the time before its first turn, what a detector of absence judges
TIME, TURN = "its time has not come", "its turn has not come"
PRUNED = "it reaches back to what was pruned"
LARGE, LONG = 5_000, 0.5  # rows found, and seconds of looking, that are kept in one transaction
AGAIN = timedelta(minutes=1)  # judged before, of a slice that counts as judged again
DURATIONS = (0.01, 0.1, 1.0, 10.0)  # seconds: buckets of what turns take
SKIPPED = ("pruned",)  # why a stretch of time is judged no more
Known = tuple[str, int] | None  # what `judged` says: version and ledger position


@cache
def reads_own_notes(sql: str) -> bool:
    return OWN_NOTES.search(sql) is not None


@dataclass(frozen=True)
class Books:
    """What the store says of judging, at one moment."""

    seq: int  # the ledger position
    policy: str | None
    floor: datetime | None
    judged: dict[str, tuple[str, int]]
    ranges: dict[tuple[str, str], list[Range]]  # by detector and status
    changes: list[tuple[int, datetime, datetime, list[str] | None]]
    history: list[Range]  # of everything stored; read where somebody has to judge it all

    def version(self, each: Detector) -> str:
        """Of the detector, and of the policy where that changes its rows."""
        return f"{each.version}/{self.policy}" if each.by_policy else each.version

    def new(self, each: Detector) -> bool:
        return self.judged.get(each.id, ("", 0))[0] != self.version(each)

    def past(self, each: Detector, wanted: list[Range], now: datetime) -> Sequence[list[Range]]:
        """What reaches back to what is not there any more, so that it would count too few; and
        what does not."""
        floor = self.floor
        if reads_own_notes(each.sql):
            kept = now - OWN_KEPT
            floor = max(floor, kept) if floor else kept
        return ([], wanted) if floor is None else split(wanted, floor + each.lookback)


@dataclass
class Turn:
    """What a detector has to judge, and what it found."""

    each: Detector
    seq: int  # the ledger position up to which that is all
    version: str
    known: Known  # where `judged` says something else by now, the turn is void
    left: list[Range] = field(default_factory=list)  # slices: the newest comes last
    later: list[Range] = field(default_factory=list)
    past: list[Range] = field(default_factory=list)  # cannot be judged any more
    passed: list[Range] = field(default_factory=list)  # what came there can't change a row
    done: list[tuple[Range, list[Stretch]]] = field(default_factory=list)
    seconds: float = 0.0
    cpu: float = 0.0  # of them on the processor: what it costs, whatever else runs
    asked: bool = False  # that the next slice is hot is known
    error: Exception | None = None  # of the slice at which it stopped; what it did before is kept


def books(db: Db, detectors: Iterable[Detector]) -> Books:
    """The books, with all that these detectors have not taken up."""
    seq, policy = db.execute(
        "SELECT (SELECT coalesce(max(seq), 0) FROM landed),"
        " concat_ws('/', (SELECT max_by(version, {'at': loaded_at, 'row': rowid}) FROM policies),"
        " (SELECT max_by(version, {'at': loaded_at, 'row': rowid}) FROM protocols))"
    ).fetchall()[0]
    known = {name: (version, at) for name, version, at in db.execute(
        "SELECT detector, version, seq FROM judged").fetchall()}  # fmt: skip
    ranges: dict[tuple[str, str], list[Range]] = {}
    sql = "SELECT detector, status, since, until FROM judgements ORDER BY since"
    for name, status, since, until in db.execute(sql).fetchall():
        ranges.setdefault((name, status), []).append((since, until))
    made = Books(seq, policy, frozen.floor(db), known, ranges, [], [])
    wanted = list(detectors)
    if any(map(made.new, wanted)):
        spans = db.execute("SELECT min(ts), max(last_ts) FROM calls UNION ALL"
                           " SELECT min(ts), max(ts) FROM events").fetchall()  # fmt: skip
        made.history.extend(span for span in spans if span[0])
    least = min((known[each.id][1] for each in wanted if not made.new(each)), default=seq)
    sql = "SELECT seq, since, until, kinds FROM changes WHERE seq > ?"
    made.changes.extend(db.execute(sql, [least]).fetchall() if least < seq else [])
    return made


def plan(book: Books, each: Detector, now: datetime, width: timedelta = SLICE) -> Turn | None:
    """What this detector has to judge, the future included. None for nothing new at all."""
    known, reach = book.judged.get(each.id), each.lookback + INSTANT
    turn = Turn(each, book.seq, book.version(each), known)
    passed: list[Range] = []
    if known is None or book.new(each):  # all of history
        found = [(since, until + reach) for since, until in book.history]
    else:
        kinds = set(each.header.kinds)
        found = list(book.ranges.get((each.id, "due"), ()))
        for seq, since, until, came in book.changes:
            if seq > known[1]:
                mine = came is None or not kinds or not kinds.isdisjoint(came)
                (found if mine else passed).append((since, until + reach))
    if each.header.clock:  # absence shows by time passing, with no event at all
        judged = book.ranges.get((each.id, "judged"))
        found.append((judged[-1][1] if judged else now - max(reach, FIRST), now))
    turn.past, wanted = book.past(each, union(found, NEAR), now)
    ready, turn.later = split(wanted, now)
    turn.passed = split(union(passed), now)[0]
    turn.left = [part for whole in few(ready) for part in slices(whole, width)]
    if known == (turn.version, turn.seq) and not (turn.left or turn.past or each.header.clock):
        return None
    return turn


def few(ranges: list[Range]) -> list[Range]:
    """At most MANY ranges that cover these: what lies between two may be judged again."""
    gap = NEAR
    while len(ranges) > MANY:
        gap *= 4
        ranges = union(ranges, gap)
    return ranges


def look(db: Db, turn: Turn, enough: float) -> Turn:
    """Judge, the newest first, until `enough` seconds have gone by. Writes nothing.

    Raises what the first slice raises. What a later one does keeps that one due, and no other:
    what is wrong with old lines must not hide what happens now.
    """
    began, cpu = time.monotonic(), time.thread_time()
    while turn.left and (not turn.done or time.monotonic() - began < enough):
        part = turn.left[-1]
        try:
            rows = detector.find(turn.each, db, *part, sure=turn.asked)
            turn.asked = False
            turn.done.append((part, [stretch(turn.each, row) for row in rows]))
        except Exception as error:
            if not turn.done:
                raise
            turn.error = error
            break
        turn.left.pop()
    turn.seconds, turn.cpu = turn.seconds + time.monotonic() - began, time.thread_time() - cpu
    return turn


def cold(db: Db, turn: Turn) -> None:
    """Be over with slices in which no row can end, as the detector's own `hot` says. One that fails
    to say so is left as it was: its turn will show what is wrong."""
    began = time.monotonic()
    with suppress(Exception):
        while turn.left and not detector.hot(turn.each, db, *turn.left[-1]):
            turn.done.append((turn.left.pop(), []))
        turn.asked = True
    turn.seconds = time.monotonic() - began


def large(group: Sequence[Turn]) -> bool:
    """Enough for one transaction."""
    rows = sum(len(found) for turn in group for _, found in turn.done)
    return rows >= LARGE or sum(turn.seconds for turn in group) >= LONG


def keep(db: Db, turns: Sequence[Turn], now: datetime) -> tuple[int, list[Turn]]:
    """Keep what was found: how many stored rows changed, and the turns that were void."""
    book, total = books(db, ()), 0
    valid = [turn for turn in turns if book.judged.get(turn.each.id) == turn.known]
    covered: list[tuple[Any, ...]] = []
    for turn in valid:
        each, changed = turn.each, list[Stretch]()
        for part, found in turn.done:
            past, kept = book.past(each, [part], now)  # pruned meanwhile: it stands as frozen
            turn.past += past
            for since, until in kept:
                inside = [row for row in found if since <= row.ended_at < until]
                changed += replace(db, each, (since, until), inside)
        covered += _covered(book, turn, now)
        alerts.reconcile(db, each, changed, now)
        total += len(changed)
    _count(db, book, valid)
    _remember(db, valid, covered, now)
    return total, [turn for turn in turns if turn not in valid]


def _count(db: Db, book: Books, turns: Sequence[Turn]) -> None:
    """For the page of metrics: slices, those that had been judged before, what is left out."""
    counts: dict[str, Counter[tuple[str, str]]] = defaultdict(Counter)
    for turn in turns:
        if not turn.done and not turn.past:
            continue
        name, old = turn.each.id, book.ranges.get((turn.each.id, "judged"), [])
        counts["evaluated"][name, ""] += len(turn.done)
        counts["reevaluated"][name, ""] += sum(_over([part], old) > AGAIN for part, _ in turn.done)
        if turn.past and not reads_own_notes(turn.each.sql):
            frozen = book.ranges.get((name, "frozen"), [])
            left_out = minus(turn.past, [*old, *frozen]) if book.new(turn.each) else turn.past
            counts["skipped"][name, SKIPPED[0]] += len(left_out)
        if turn.done:
            counts["took"][name, ""] += 1
            for le in DURATIONS:
                counts["took"][name, str(le)] += turn.seconds <= le
            counts["seconds"][name, ""] += turn.seconds  # type: ignore[assignment]
    tally.add_all(db, counts)


def _over(wanted: list[Range], old: list[Range]) -> timedelta:
    """How much of a stretch these cover."""
    lengths = [sum((until - since for since, until in part), timedelta())
               for part in (wanted, minus(wanted, old))]  # fmt: skip
    return lengths[0] - lengths[1]


def _covered(book: Books, turn: Turn, now: datetime) -> list[tuple[Any, ...]]:
    """The new coverage of one detector: judged ranges united, what stays due, and what is past
    judging because of what was pruned."""
    each = turn.each
    old = book.ranges.get((each.id, "judged"), [])
    past = union([*book.ranges.get((each.id, "frozen"), []), *turn.past])
    done = [part for part, _ in turn.done] + turn.passed
    # sparse history would leave a row an hour: quiet hours in between count as judged
    judged = minus(union([*old, *done], timedelta(days=1)), turn.left + turn.later + past)
    if each.header.clock:  # our clock may have been set back: that time passes once more
        judged = split(judged, now)[0]
    return [
        *((each.id, *part, "judged", None, now) for part in judged),
        *((each.id, *part, "due", TURN, None) for part in union(turn.left)),
        *((each.id, *part, "due", TIME, None) for part in turn.later),
        *((each.id, *part, "frozen", PRUNED, now) for part in past),
    ]


def _remember(
    db: Db, turns: Sequence[Turn], covered: Sequence[tuple[Any, ...]], now: datetime
) -> None:
    ids = [turn.each.id for turn in turns]
    db.execute("DELETE FROM judgements WHERE list_contains($ids::VARCHAR[], detector)",
               {"ids": ids})  # fmt: skip
    if covered:
        names = ("id", "since", "until", "status", "reason", "at")
        kinds = ("VARCHAR", "TIMESTAMPTZ", "TIMESTAMPTZ", "VARCHAR", "VARCHAR", "TIMESTAMPTZ")
        lists = ", ".join(f"unnest(${n}::{k}[])" for n, k in zip(names, kinds, strict=True))
        given = dict(zip(names, map(list, zip(*covered, strict=True)), strict=True))
        db.execute(f"INSERT INTO judgements SELECT {lists}", given)
    db.execute(
        """
        INSERT INTO judged SELECT unnest($ids::VARCHAR[]), unnest($versions::VARCHAR[]),
            unnest($seqs::UBIGINT[]), 1, 0, $now, unnest($seconds::DOUBLE[]), NULL
        ON CONFLICT (detector) DO UPDATE SET version = excluded.version, seq = excluded.seq,
            runs = runs + 1, last_success_at = excluded.last_success_at,
            last_seconds = excluded.last_seconds, last_error = NULL
        """,
        {"ids": ids, "versions": [turn.version for turn in turns], "now": now,
         "seqs": [turn.seq for turn in turns], "seconds": [turn.seconds for turn in turns]},
    )  # fmt: skip


def forget(db: Db, ids: list[str]) -> None:
    """Drop the changes that every detector has taken up. One that is switched off will have
    missed them: it judges all of history when it comes back."""
    state = "FROM judged WHERE list_contains(?, detector)"
    if one(db, f"SELECT count(*) {state}", [ids]) == len(ids):
        taken_up = one(db, f"SELECT min(seq) {state}", [ids])
        if one(db, "DELETE FROM changes WHERE seq <= ?", [taken_up]):
            db.execute("UPDATE judged SET version = '' WHERE seq < ? AND version <> ''"
                       " AND NOT list_contains(?, detector)", [taken_up, ids])  # fmt: skip
