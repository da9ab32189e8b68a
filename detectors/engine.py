"""Judges what is due, and nothing twice for nothing.

Per detector the store knows the ledger position whose changes have been taken up, and the ranges of
event time that are due. An event at time t can change rows that end in [t, t + lookback], so that
range becomes due; the part that lies in the future stays due until its time has come. A judged
range replaces the stored rows that end in it.
Reads: changes, judged, judgements, calls, events. Writes: judged, judgements, stretches, alerts.
Next: detectors/alerts.py.
"""

import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from detectors import alerts, detector
from detectors.detector import Detector
from detectors.ranges import INSTANT, Range, minus, slices, split, union
from detectors.stretch import Stretch, replace, stretch
from ingest import frozen
from ingest.store import Db, Store, fetch, one

SLICE = timedelta(days=31)  # one query looks at this much: bounds memory, not correctness
NEAR = timedelta(minutes=10)  # due ranges closer than this are judged in one query
DEADLINE = 60.0  # seconds for one detector's turn
MANY = (
    256  # due ranges of a turn: more are joined over the quiet between them: a query each is dear
)
ENOUGH = 1.0  # seconds after which a turn takes up no further slice: others wait to write and tell


@dataclass
class Tick:
    """What one round did. `failed` names detectors that raised, with the reason."""

    judged: int = 0
    changed: int = 0
    left: int = 0  # slices that were due and whose turn has not come
    told: int = 0
    failed: dict[str, str] = field(default_factory=dict)


class Engine:
    """Judges with a fixed set of detectors. `now` always comes from the caller."""

    def __init__(
        self, store: Store, detectors: Mapping[str, Detector], deadline: float = DEADLINE,
        enough: float = ENOUGH,
    ) -> None:  # fmt: skip
        self._store, self.detectors = store, detectors
        self._deadline, self._enough = deadline, enough

    def judge(self, now: datetime, whole: bool = False) -> Tick:
        """Judge what is due before `now`, the newest first. A detector that raises stays due.

        Where much of history is due it takes several calls, or `whole`.
        """
        tick = Tick()
        waiting = list(self.detectors.values())
        while waiting:
            each = waiting.pop(0)
            began = time.monotonic()
            try:
                with self._store.writing() as db, _Interrupted(db, self._deadline):
                    changed, left = self._turn(db, each, now)
                    _ran(db, each, now, time.monotonic() - began)
                tick.judged += 1
                tick.changed += changed
                if left and whole:
                    waiting.insert(0, each)
                else:
                    tick.left += left
            except Exception as error:  # noqa: BLE001 - whatever one detector does, the others go on
                reason = (str(error).splitlines() or [type(error).__name__])[0][:300]
                tick.failed[each.id] = reason
                with self._store.writing() as db:
                    _failed(db, each, reason)
        with self._store.writing() as db:
            well = {name: each for name, each in self.detectors.items() if name not in tick.failed}
            tick.changed += alerts.resolve(db, well, now)
            self._forget(db)
        return tick

    def _forget(self, db: Db) -> None:
        """Drop the changes that every detector has taken up. One that is switched off will have
        missed them: it judges all of history when it comes back."""
        ids = list(self.detectors)
        state = "FROM judged WHERE list_contains(?, detector)"
        if one(db, f"SELECT count(*) {state}", [ids]) == len(ids):
            taken_up = one(db, f"SELECT min(seq) {state}", [ids])
            if one(db, "DELETE FROM changes WHERE seq <= ?", [taken_up]):
                db.execute("UPDATE judged SET version = '' WHERE seq < ? AND version <> ''"
                           " AND NOT list_contains(?, detector)", [taken_up, ids])  # fmt: skip

    def _turn(self, db: Db, each: Detector, now: datetime) -> tuple[int, int]:
        """One detector's turn inside one transaction: how many stored rows changed, and how many
        slices are left for the next."""
        began = time.monotonic()
        wanted, past = due(db, each, now), list[Range]()
        if (floor := frozen.floor(db)) is not None:  # before it, it would count too few
            past, wanted = split(wanted, floor + each.lookback)
        ready, later = split(wanted, now)
        left = [part for whole in few(ready) for part in slices(whole, SLICE)]
        done: list[Range] = []
        changed: list[Stretch] = []
        while left and (not done or time.monotonic() - began < self._enough):
            part = left.pop()
            found = [stretch(each, row) for row in detector.find(each, db, *part)]
            changed += replace(db, each, part, found)
            done.append(part)
        _remember(db, each, done, left + later, past, now)
        alerts.reconcile(db, each, changed, now)
        return len(changed), len(left)


def due(db: Db, each: Detector, now: datetime) -> list[Range]:
    """Every range of event time that this detector has still to judge, the future included."""
    state = fetch(db, "SELECT version, seq FROM judged WHERE detector = $id", id=each.id)
    reach = each.lookback + INSTANT
    if not state or state[0]["version"] != _version(db, each):  # new, or changed: all of history
        spans = fetch(db, "SELECT min(ts) AS since, max(last_ts) AS until FROM calls UNION ALL"
                          " SELECT min(ts), max(ts) FROM events")  # fmt: skip
        found = [(row["since"], row["until"] + reach) for row in spans if row["since"]]
    else:
        rows = fetch(db, "SELECT since, until FROM changes WHERE seq > $seq", seq=state[0]["seq"])
        found = [(row["since"], row["until"] + reach) for row in rows]
        rows = fetch(db, "SELECT since, until FROM judgements WHERE detector = $id"
                         " AND status = 'due'", id=each.id)  # fmt: skip
        found += [(row["since"], row["until"]) for row in rows]
    if each.header.clock:  # absence shows by time passing, with no event at all
        sql = "SELECT max(until) FROM judgements WHERE detector = ? AND status = 'judged'"
        until = one(db, sql, [each.id])
        found.append((until or now - each.lookback, now))
    return union(found, NEAR)


def few(ranges: list[Range]) -> list[Range]:
    """At most MANY ranges that cover these: what lies between two may be judged again."""
    gap = NEAR
    while len(ranges) > MANY:
        gap *= 4
        ranges = union(ranges, gap)
    return ranges


def backtest(
    db: Db, detectors: Iterable[Detector], since: datetime, until: datetime
) -> list[alerts.Found]:
    """The alerts that one pass over [since, until) gives. Writes nothing."""
    done: list[alerts.Found] = []
    for each in detectors:
        rows = [
            stretch(each, row)
            for part in slices((since, until), SLICE)
            for row in detector.find(each, db, *part)
        ]
        done += alerts.unite(each, rows)
    return sorted(done, key=lambda found: (found.started_at, found.detector, found.subject))


def history(db: Db) -> Range | None:
    """From the first stored event to just after the last, or None on an empty store."""
    row = fetch(db, "SELECT min(ts) AS since, max(ts) AS until FROM events")[0]
    return (row["since"], row["until"] + INSTANT) if row["since"] else None


def _remember(
    db: Db, each: Detector, done: list[Range], later: list[Range], past: list[Range], now: datetime
) -> None:
    """The new coverage of one detector: judged ranges united, what stays due, and what is `past`
    judging because of what was pruned."""
    sql = "SELECT since, until FROM judgements WHERE detector = $id AND status = $status"
    old = fetch(db, sql, id=each.id, status="judged")
    over = fetch(db, sql, id=each.id, status="frozen")
    past = union([(row["since"], row["until"]) for row in over] + past)
    # sparse history would leave a row an hour: quiet hours in between count as judged
    judged = minus(union([(row["since"], row["until"]) for row in old] + done,
                         timedelta(days=1)), later + past)  # fmt: skip
    db.execute("DELETE FROM judgements WHERE detector = ?", [each.id])
    rows: list[tuple[object, ...]]
    rows = [(each.id, *part, "judged", None, now) for part in judged]
    rows += [(each.id, *part, "due", "its time or turn has not come", None) for part in later]
    rows += [(each.id, *part, "frozen", "it reaches back to what was pruned", now) for part in past]
    if rows:
        db.executemany("INSERT INTO judgements VALUES (?, ?, ?, ?, ?, ?)", rows)


def _version(db: Db, each: Detector) -> str:
    """Of the detector, and of the policy where that changes its rows."""
    if not each.by_policy:
        return each.version
    policy = one(db, "SELECT version FROM policies ORDER BY loaded_at DESC, rowid DESC LIMIT 1")
    return f"{each.version}/{policy}"


def _ran(db: Db, each: Detector, now: datetime, seconds: float) -> None:
    db.execute(
        """
        INSERT INTO judged SELECT $id, $version, coalesce((SELECT seq FROM landed), 0), 1, 0, $now,
            $seconds, NULL
        ON CONFLICT (detector) DO UPDATE SET version = excluded.version, seq = excluded.seq,
            runs = runs + 1, last_success_at = excluded.last_success_at,
            last_seconds = excluded.last_seconds, last_error = NULL
        """,
        {"id": each.id, "version": _version(db, each), "now": now, "seconds": seconds},
    )


def _failed(db: Db, each: Detector, reason: str) -> None:
    db.execute(
        """
        INSERT INTO judged VALUES ($id, '', 0, 1, 1, NULL, NULL, $reason)
        ON CONFLICT (detector) DO UPDATE SET runs = runs + 1, failures = failures + 1,
            last_error = excluded.last_error
        """,
        {"id": each.id, "reason": reason},
    )


class _Interrupted:
    """DuckDB is told to stop when a turn takes longer than its deadline."""

    def __init__(self, db: Db, seconds: float) -> None:
        self._timer = threading.Timer(seconds, db.interrupt)

    def __enter__(self) -> None:
        self._timer.daemon = True
        self._timer.start()

    def __exit__(self, *raised: object) -> None:
        self._timer.cancel()
