"""The cases of kind scheduler, each held against what we have: rounds on a clock that nobody sets,
and daily work at intervals in UTC."""

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest

from detectors.detector import Detector
from detectors.rounds import Steps, stepped
from gatewatch.loops import Loops
from gatewatch.service import PRUNE_EVERY, PRUNE_FIRST
from tests.kit import CASES
from tests.world import World, at, denied

CLOCK = "stale_detector"


def fixture(case: str) -> dict[str, Any]:
    [path] = (CASES / "fixtures").glob(f"{case}-*.json")
    return dict(json.loads(path.read_text(encoding="utf-8")))


class Time:
    """The wall clock of a test, and the other one, that nobody sets."""

    def __init__(self) -> None:
        self.wall, self.seconds = at(0), 0.0

    def __call__(self) -> float:
        return self.seconds

    def passes(self, seconds: float) -> datetime:
        self.wall += timedelta(seconds=seconds)
        self.seconds += seconds
        return self.wall


Made = Callable[..., World]


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Made]:
    opened: list[World] = []

    def make(**more: Any) -> World:
        opened.append(World(tmp_path, **more))
        return opened[-1]

    yield make
    for each in opened:
        each.close()


def named(world: World, name: str, act: Callable[[], object]) -> Detector:
    """A detector of Python that does what the case says, each time that it is run."""
    good = world.detectors[CLOCK]  # due as time passes

    def run(*_: object, **more: object) -> list[Any]:
        act()
        return []

    header = msgspec.structs.replace(good.header, hot="")  # or it would not be run
    return Detector(**vars(good) | {"id": name, "run": run, "header": header})


def runs(
    case: dict[str, Any], often: timedelta, first: timedelta, span: timedelta
) -> list[datetime]:
    """When a job of the service runs that is due so often, in local time, from the start that the
    case names."""
    zone, start = ZoneInfo(case["trigger"]["tz"]), datetime.fromisoformat(case["from"])
    loops = Loops()
    loops.every(lambda: None, often, start + first)
    [job] = loops.scheduler.get_jobs()
    found, last = [], start + first
    while last < start + span:
        found.append(last.astimezone(zone))
        last = job.trigger.get_next_fire_time(last, last)
    return found


def test_b091_daily_work_skips_no_day_after_the_spring_change() -> None:
    case = fixture("B091")
    wanted = {datetime.fromisoformat(each).date() for each in case["expect"]["fires"]}

    days = {each.date() for each in runs(case, PRUNE_EVERY, PRUNE_FIRST, timedelta(days=4))}

    assert wanted <= days


def test_b093_daily_work_runs_once_in_the_night_that_has_an_hour_twice() -> None:
    case = fixture("B093")

    found = Counter(
        str(each.date()) for each in runs(case, PRUNE_EVERY, PRUNE_FIRST, timedelta(days=3))
    )

    assert {day: found[day] for day in case["expect"]["runs_by_day"]} == (
        case["expect"]["runs_by_day"]
    )


def test_b095_work_of_every_few_seconds_goes_on_through_the_doubled_hour() -> None:
    case = fixture("B095")
    every = int(case["trigger"]["cron"]["second"].removeprefix("*/"))

    found = runs(case, timedelta(seconds=every), timedelta(0), timedelta(minutes=3))

    gaps = [(b - a) / timedelta(seconds=1) for a, b in pairwise(found)]
    assert max(gaps) <= case["expect"]["max_gap_s"]


def test_b097_of_a_detector_that_hangs_an_alert_tells_in_time(made: Made) -> None:
    case, time, release, count = fixture("B097"), Time(), threading.Event(), Counter[str]()
    interval = case["trigger"]["interval_s"]
    world = made(
        only=(CLOCK,), settings={CLOCK: {"silence": f"{3 * interval} seconds"}},
        clock=time, note_every=interval, deadline=0.1,
    )  # fmt: skip

    def act() -> None:
        count["runs"] += 1
        if count["runs"] == case["hang_on_run"]:
            release.wait(60)

    world.engine.detectors = world.detectors | {"mine": named(world, "mine", act)}
    hung_at = None
    try:
        for _ in range(10):
            tick = world.tick(time.passes(interval))
            hung_at = hung_at or (time.seconds if tick.failed else None)
            if world.rows("SELECT * FROM alerts"):
                break
        [alert] = world.rows("SELECT * FROM alerts")
        assert hung_at is not None
        assert (alert["detector"], alert["subject"]) == (CLOCK, "mine")
        assert time.seconds - hung_at <= case["expect"]["stale_alert_within_s"]
        assert count["runs"] == case["hang_on_run"]
        assert "mine" in world.engine.rounds.stale(world.engine.detectors, 3 * interval)
    finally:
        release.set()


def test_b098_a_clock_set_back_stops_nothing_and_is_told_once(made: Made) -> None:
    case, time = fixture("B098"), Time()
    interval, steps, ran = case["trigger"]["interval_s"], Steps(time), list[float]()
    world = made(only=(CLOCK, "clock_step"), clock=time)
    mine = named(world, "mine", lambda: ran.append(time.seconds))
    world.engine.detectors = world.detectors | {"mine": mine}

    for number in range(20):
        now = time.passes(interval)
        if number == 8:
            time.wall += timedelta(seconds=case["clock_step_s"])
            now = time.wall
        if step := steps.seen(now):
            assert step == case["clock_step_s"]
            with world.store.writing() as db:
                stepped(db, now, step)
        world.tick(now)

    gaps = [b - a for a, b in pairwise(ran)]
    assert max(gaps) <= case["expect"]["max_gap_s"]
    [alert] = world.rows("SELECT * FROM alerts")
    assert (alert["detector"], alert["rows"]) == ("clock_step", 1)


def test_b100_one_that_raises_is_told_of_once_and_the_others_run_on_time(made: Made) -> None:
    case, time, ran = fixture("B100"), Time(), Counter[int]()
    world = made(only=(CLOCK,), clock=time, note_every=60)

    def act(number: int) -> Callable[[], object]:
        def run() -> None:
            ran[number] += 1
            if number in case["raise_in"]:
                raise ValueError("no such thing")

        return run

    numbers = range(1, case["detectors"] + 1)
    own = {f"d{n}": named(world, f"d{n}", act(n)) for n in numbers}
    world.engine.detectors = world.detectors | own
    for _ in range(60):
        tick = world.tick(time.passes(10))
        assert list(tick.failed) == [f"d{n}" for n in case["raise_in"]]

    others = [n for n in numbers if n not in case["raise_in"]]
    assert all(ran[n] == 60 for n in others) is case["expect"]["other_runs_ok"]
    assert all(ran[n] < 20 for n in case["raise_in"])  # it is tried, less and less often
    [alert] = world.rows("SELECT * FROM alerts")
    assert (alert["subject"], alert["status"]) == ("d2", "open")
    assert "no such thing" in alert["title"]
    [row] = world.rows("SELECT failures FROM judged WHERE detector = 'd2'")
    assert row["failures"] == ran[2]


def test_b102_evidence_before_and_after_a_restart_is_one_incident(made: Made) -> None:
    case = fixture("B102")
    config = case["expect"]["config"]
    tuned = {"denials": config["min_denies"], "within": f"{config['window_s']} seconds"}
    more = {"only": ("deny_retry",), "settings": {"deny_retry": tuned}}
    world, lines = made(**more), list[bytes]()
    for step in case["steps"]:
        match step["op"]:
            case "append":
                lines += step["text"].encode().splitlines()
            case "poll":
                world.land(lines)
                lines = []
            case "evaluate":
                world.tick(at(3))
            case "stop":
                world.close()
            case "start":
                world = made(**more)

    found = world.rows("SELECT detector FROM alerts")

    assert [row["detector"] for row in found] == (
        [case["expect"]["detector"]] * case["expect"]["incidents"]
    )


def test_b104_a_slow_round_leaves_no_lag_behind(made: Made) -> None:
    case, time, rounds = fixture("B104"), Time(), Counter[str]()
    world = made(only=("deny_retry",), clock=time)
    lags = []
    for _ in range(6):
        now = time.passes(case["trigger"]["interval_s"])
        minutes = (now - at(0)).total_seconds() / 60
        world.land([denied(minutes - 0.01, event_id=str(minutes))], now)
        rounds["n"] += 1
        if rounds["n"] == case["slow_run"]["n"]:
            time.passes(case["slow_run"]["s"])  # the round began then, and is over now
        world.tick(now)
        [row] = world.rows("SELECT max(until) AS until FROM judgements WHERE status = 'judged'")
        lags.append((time.wall - row["until"]).total_seconds())

    assert max(lags) > case["expect"]["lag_after_two_runs_max_s"]
    after = lags[case["slow_run"]["n"] :]
    assert max(after) <= case["expect"]["lag_after_two_runs_max_s"]


@pytest.mark.parametrize("stall", [timedelta(seconds=7), timedelta(days=9)])
def test_after_a_stall_every_range_is_judged(made: Made, stall: timedelta) -> None:
    world = made(only=("deny_retry",))
    world.land([denied(m, event_id=str(m)) for m in (0, 1)])
    world.tick(at(1))
    end = at(2) + stall
    minutes = stall.total_seconds() / 60
    for part in (0.25, 0.5, 0.75):
        start = 2 + part * minutes
        world.land([denied(start + n / 600, event_id=f"{part}-{n}") for n in range(3)], end)

    world.tick(end)
    while world.tick(end).left:
        pass

    assert world.alerts() == world.backtest()
    assert world.alerts()
    assert not world.rows("SELECT 1 FROM judgements WHERE status = 'due' AND since < $e", e=end)
