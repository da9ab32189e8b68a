"""What the service notes of its own work: rounds of each detector, steps of its own clock.

Counted in memory and written once a minute; of a round that failed, at once.
Reads: nothing. Writes: rounds, clock_steps, judged, arrivals.
Next: detectors/catalogue/stale_detector.sql, clock_step.sql, silent_source.sql.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from detectors.turn import OWN_KEPT
from ingest.store import Db

EVERY = 60.0  # seconds between two notes
STEP = 60.0  # seconds: a smaller step of the clock moves no window that matters
Clock = Callable[[], float]


@dataclass
class Count:
    """Rounds of one detector since the last note."""

    ok: int = 0
    failed: int = 0
    seconds: float = 0.0
    error: str | None = None


class Rounds:
    """Counts rounds, and says who has not had a good one for long."""

    def __init__(self, every: float = EVERY, clock: Clock = time.monotonic) -> None:
        self._every, self._clock = every, clock
        self._counts: dict[str, Count] = {}
        self._well: dict[str, tuple[float, str]] = {}  # since when not, and why
        self._noted = -every

    def ok(self, name: str, seconds: float = 0.0) -> None:
        count = self._counts.setdefault(name, Count())
        count.ok, count.seconds = count.ok + 1, count.seconds + seconds
        self._well[name] = self._clock(), ""

    def failed(self, name: str, reason: str, seconds: float) -> None:
        count = self._counts.setdefault(name, Count())
        count.failed, count.seconds = count.failed + 1, count.seconds + seconds
        self.waits(name, reason)

    def waits(self, name: str, reason: str) -> None:
        """It had no round, and this is why."""
        self._counts.setdefault(name, Count()).error = reason
        self._well[name] = self._well.get(name, (self._clock(), ""))[0], reason

    def stale(self, names: Iterable[str], seconds: float) -> dict[str, str]:
        """Those without a good round for longer than that, with the last error."""
        now = self._clock()
        since = {name: self._well.setdefault(name, (now, "")) for name in names}
        return {
            name: f"has judged nothing for {now - at:.0f} s{reason and ': '}{reason}"
            for name, (at, reason) in since.items()
            if now - at > seconds
        }

    def note(self, db: Db, names: Iterable[str], now: datetime) -> None:
        """Write what is due to be written."""
        whole = self._clock() - self._noted >= self._every
        if whole:
            self._noted = self._clock()
            counts = {name: self._counts.get(name) or Count() for name in names}
        else:
            counts = {name: each for name, each in self._counts.items() if each.failed}
        for name in counts:
            self._counts.pop(name, None)
        if counts:
            rows = [(each.ok, each.failed, each.seconds, each.error) for each in counts.values()]
            ok, failed, seconds, errors = zip(*rows, strict=True)
            db.execute(
                "INSERT INTO rounds SELECT unnest($names::VARCHAR[]), $now, unnest($ok::UBIGINT[]),"
                " unnest($failed::UBIGINT[]), unnest($seconds::DOUBLE[]),"
                " unnest($errors::VARCHAR[])",
                {"names": list(counts), "now": now, "ok": list(ok), "failed": list(failed),
                 "seconds": list(seconds), "errors": list(errors)},
            )  # fmt: skip


def had_nothing_to_do(db: Db, names: Iterable[str], now: datetime) -> None:
    """Good rounds, of which nothing else is kept."""
    db.execute(
        "UPDATE judged SET runs = runs + 1, last_success_at = $now, last_error = NULL"
        " WHERE list_contains($names::VARCHAR[], detector)",
        {"names": sorted(names), "now": now},
    )


def had_failed(db: Db, name: str, reason: str) -> None:
    db.execute(
        """
        INSERT INTO judged VALUES ($id, '', 0, 1, 1, NULL, NULL, $reason)
        ON CONFLICT (detector) DO UPDATE SET runs = runs + 1, failures = failures + 1,
            last_error = excluded.last_error
        """,
        {"id": name, "reason": reason},
    )


def forget(db: Db, now: datetime) -> None:
    """Of each, a week is kept."""
    notes = {"rounds": "noted_at", "clock_steps": "noted_at", "arrivals": "minute"}
    for table, time_of in notes.items():
        db.execute(f"DELETE FROM {table} WHERE {time_of} < ?", [now - OWN_KEPT])  # noqa: S608 - ours


def listened(db: Db, names: Iterable[str], now: datetime) -> None:
    """That in this minute these could be heard: a row each, with no lines. One of the names is the
    service's own."""
    db.execute(
        """
        INSERT INTO arrivals
        SELECT source, $minute, 0, NULL FROM (SELECT unnest($names::VARCHAR[]) AS source) n
        WHERE NOT EXISTS (SELECT 1 FROM arrivals a
                          WHERE a.source = n.source AND a.minute = $minute AND a.lines = 0)
        """,
        {"names": sorted({*names}), "minute": now.replace(second=0, microsecond=0)},
    )


class Steps:
    """Holds the wall clock against one that nobody sets."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._last: tuple[datetime, float] | None = None

    def seen(self, now: datetime) -> float:
        """Seconds by which the wall clock was set since the last call, 0.0 for less than STEP."""
        at = self._clock()
        last, self._last = self._last, (now, at)
        if last is None:
            return 0.0
        step = (now - last[0] - timedelta(seconds=at - last[1])).total_seconds()
        return step if abs(step) > STEP else 0.0


def stepped(db: Db, now: datetime, seconds: float) -> None:
    db.execute("INSERT INTO clock_steps VALUES (?, ?)", [now, seconds])
