"""What a detector does that is slow, hangs or raises, and what happens in the store meanwhile."""

import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from detectors import detector, turn
from detectors.detector import Detector
from detectors.engine import LONGEST_REST
from detectors.turn import books, keep, look, plan
from tests.world import World, at, denied, native

ONE = ("deny_retry",)
KINDS = ("tool_proposed", "tool_decided", "tool_executed", "approval_requested", "approval_decided")
DUE = "SELECT since, until, reason FROM judgements WHERE detector = $id AND status = 'due'"


class Clock:
    """A clock that only a test moves."""

    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> float:
        return self.at


Made = Callable[..., World]


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Made]:
    opened: list[World] = []

    def make(only: Sequence[str] = ONE, **engine: Any) -> World:
        opened.append(World(tmp_path, only=only, **engine))
        return opened[-1]

    yield make
    for each in opened:
        each.close()


@pytest.fixture
def world(made: Made) -> World:
    return made()


def acting(world: World, act: Callable[..., Any], name: str = "own") -> Detector:
    """A Python detector that does what a test wants, added to those of the world."""
    good = world.detectors["deny_retry"]
    made = Detector(**vars(good) | {
        "id": name, "header": replace(good.header, kinds=KINDS, hot=""),
        "run": lambda db, since, until, **more: act(db, since, until) or [],
    })  # fmt: skip
    world.engine.detectors = world.detectors | {name: made}
    return made


def states(world: World, detector: str) -> list[tuple[Any, ...]]:
    rows = world.rows(
        "SELECT runs, failures, last_error FROM judged WHERE detector = $d", d=detector
    )
    return [tuple(row.values()) for row in rows]


def test_nobody_waits_to_write_while_a_detector_looks(world: World) -> None:
    def land(db: Any, since: Any, until: Any) -> None:
        done = threading.Event()

        def write() -> None:
            world.land([denied(3, event_id="meanwhile")])
            done.set()

        threading.Thread(target=write).start()
        assert done.wait(20), "the writer waits for a detector"

    acting(world, land)
    world.land([denied(m, event_id=str(m)) for m in (0, 1)])

    assert not world.tick(at(4)).failed


def test_what_lands_while_a_detector_looks_is_judged_at_the_next_turn(world: World) -> None:
    world.land([denied(m, event_id=str(m)) for m in (0, 1)])
    each = world.detectors["deny_retry"]
    with world.store.reading() as db:
        planned = plan(books(db, [each]), each, at(5))
        assert planned is not None
        db.execute("SELECT count(*) FROM events").fetchall()  # the moment that it looks at
        world.land([denied(2, event_id="late")])
        found = look(db, planned, 1.0)
    with world.store.writing() as db:
        keep(db, [found], at(5))
    assert world.rows("SELECT * FROM stretches") == []

    world.tick(at(5.5))

    assert [row["ended_at"] for row in world.rows("SELECT * FROM alerts")] == [at(2)]


def test_a_turn_after_which_another_one_was_kept_is_void(world: World) -> None:
    world.land([denied(m, event_id=str(m)) for m in (0, 1)])
    each = world.detectors["deny_retry"]
    with world.store.reading() as db:
        planned = plan(books(db, [each]), each, at(5))
        assert planned is not None
        old = look(db, planned, 1.0)
    world.land([denied(2, event_id="2")])
    world.tick(at(5))

    with world.store.writing() as db:
        changed, void = keep(db, [old], at(6))

    assert (changed, void) == (0, [old])
    assert len(world.rows("SELECT * FROM alerts WHERE status = 'open'")) == 1


def test_what_was_pruned_while_a_detector_looked_stands_as_it_was_frozen(world: World) -> None:
    world.land([denied(m, event_id=str(m)) for m in (0, 1, 2)])
    world.tick(at(3))
    [before] = world.rows("SELECT * FROM stretches")
    acting(world, lambda *_: None)
    world.land([native(1.5, tool="crm.export_contacts", decision="allow", event_id="ok")])
    each = world.detectors["deny_retry"]
    with world.store.reading() as db:
        planned = plan(books(db, [each]), each, at(5))
        assert planned is not None
        found = look(db, planned, 1.0)
    with world.store.writing() as db:
        db.execute("INSERT INTO prunes VALUES (9, ?, ?, ?, 3)", [at(4), at(1), at(1)])
        keep(db, [found], at(5))

    assert world.rows("SELECT * FROM stretches") == [before]
    frozen = world.rows("SELECT until FROM judgements WHERE status = 'frozen'")
    assert [row["until"] for row in frozen] == [at(5)]


def test_a_query_that_takes_too_long_is_cut_off_and_tried_again_narrower(made: Made) -> None:
    clock, widths = Clock(), list[timedelta]()
    world = made(deadline=0.3, clock=clock)

    def slow(db: Any, since: Any, until: Any) -> None:
        widths.append(until - since)
        if until - since > timedelta(days=4):
            db.execute("SELECT sum(a.range * b.range) FROM range(10000000) a, range(10000000) b")

    acting(world, slow)
    world.land([denied(0, event_id="0"), denied(60 * 24 * 60, event_id="60 days")], now=at(10**5))
    for _ in range(8):
        clock.at += 10 * LONGEST_REST
        tick = world.tick(at(10**5))

    assert not tick.failed
    assert tick.left == 0
    assert all(width <= turn.SLICE / 2**n for n, width in enumerate(widths[:4]))
    assert states(world, "own")[0][1:] == (3, None)
    assert not world.rows(DUE, id="own")


def test_one_that_hangs_is_left_behind_and_the_others_go_on(made: Made) -> None:
    clock, release, starts = Clock(), threading.Event(), list[int]()
    world = made(deadline=1.0, clock=clock)
    try:

        def hang(*_: Any) -> None:
            starts.append(1)
            release.wait(60)

        acting(world, hang)
        for m in range(3):
            world.land([denied(m, event_id=str(m))])
            clock.at += LONGEST_REST
            tick = world.tick(at(m + 0.5))
            assert list(tick.failed) == ["own"]
        assert "still runs" in tick.failed["own"]
        assert len(starts) == 1, "it was started a second time while it hangs"
        assert [row["detector"] for row in world.rows("SELECT detector FROM alerts")] == [*ONE]
        assert world.engine.rounds.stale(world.engine.detectors, 100).keys() == {"own"}
    finally:
        release.set()

    [work] = world.engine._works.values()
    assert work.turn.wait(20)
    clock.at += LONGEST_REST
    assert world.tick(at(4)).failed == {}
    assert not world.engine.rounds.stale(world.engine.detectors, 100)


def test_a_slow_one_keeps_nobody_waiting_and_its_answer_is_taken_later(made: Made) -> None:
    world, release = made(patience=0.05), threading.Event()
    acting(world, lambda *_: release.wait(60) and None)
    world.land([denied(m, event_id=str(m)) for m in (0, 1, 2)])

    tick = world.tick(at(3))

    assert (tick.busy, tick.failed) == ({"own"}, {})
    assert [row["detector"] for row in world.rows("SELECT detector FROM alerts")] == [*ONE]
    assert states(world, "own") == []
    release.set()
    [work] = world.engine._works.values()
    assert work.turn.wait(20)
    assert not world.tick(at(4)).busy
    assert states(world, "own") == [(1, 0, None)]


def test_one_that_raises_rests_for_longer_each_time_and_stays_due(made: Made) -> None:
    clock, tries = Clock(), list[float]()
    world = made(clock=clock)

    def fail(*_: Any) -> None:
        tries.append(clock.at)
        if len(tries) < 9:
            raise ValueError("no such thing")

    acting(world, fail)
    world.land([denied(m, event_id=str(m)) for m in (0, 1, 2)])
    while len(tries) < 9:
        clock.at += 0.5
        tick = world.tick(at(3))
        assert ("own" in tick.failed) == (len(tries) < 9)

    waits = [b - a for a, b in pairwise(tries)]
    assert waits == sorted(waits)
    assert (waits[0], waits[-1]) == (1.0, LONGEST_REST)
    assert states(world, "own") == [(9, 8, None)]


def test_another_text_is_tried_at_once(world: World) -> None:
    def fail(*_: Any) -> None:
        raise ValueError("no")

    acting(world, fail)
    world.land([denied(0, event_id="0")])
    assert world.tick(at(1)).failed == {"own": "no"}

    acting(world, lambda *_: None)

    assert world.tick(at(1)).failed == {}


def test_changes_of_other_kinds_count_as_judged_and_are_not_looked_at(world: World) -> None:
    asked = list[Any]()
    own = acting(world, lambda db, since, until: asked.append((since, until)))
    world.land([denied(0, event_id="0")])
    world.tick(at(1))
    world.tick(at(0) + own.lookback + timedelta(minutes=1))
    asked.clear()

    later = (own.lookback.total_seconds() / 60) + 30
    world.land([native(later, kind="heartbeat", event_id="beat")])
    world.tick(at(later + 5))

    assert asked == []
    [row] = world.rows("SELECT max(until) AS until FROM judgements WHERE detector = 'own'"
                       " AND status = 'judged'")  # fmt: skip
    assert row["until"] == at(later + 5)
    assert not world.rows(DUE, id="own")
    world.land([denied(later + 6, event_id="more")])
    world.tick(at(later + 7))
    assert len(asked) == 1


def test_changes_of_an_older_database_can_be_of_any_kind(world: World) -> None:
    asked = list[Any]()
    acting(world, lambda db, since, until: asked.append((since, until)))
    world.land([denied(0, event_id="0")])
    world.tick(at(1))
    asked.clear()
    with world.store.writing() as db:
        db.execute("UPDATE changes SET kinds = NULL")
    world.land([native(2, kind="heartbeat", event_id="beat")])
    with world.store.writing() as db:
        db.execute("UPDATE changes SET kinds = NULL")

    world.tick(at(3))

    assert asked


def test_a_clock_that_was_set_back_is_lived_through_once_more(made: Made) -> None:
    world = made(("clock_step",))
    world.tick(at(0))
    world.tick(at(60))
    with world.store.writing() as db:
        db.execute("INSERT INTO clock_steps VALUES (?, -3600)", [at(0.5)])

    for minutes in (0.5, 1, 2):
        world.tick(at(minutes))

    [alert] = world.rows("SELECT * FROM alerts")
    assert (alert["detector"], alert["started_at"]) == ("clock_step", at(0.5))


def test_rounds_are_noted_once_a_minute_and_a_failed_one_at_once(made: Made) -> None:
    clock = Clock()
    world = made(clock=clock)
    noted = "SELECT detector, ok, failed, error FROM rounds WHERE detector = $d ORDER BY noted_at"
    world.land([denied(0, event_id="0")])
    for n in range(120):
        world.tick(at(n / 120))
        clock.at += 0.5
    world.tick(at(1))

    assert [row["ok"] for row in world.rows(noted, d="deny_retry")] == [1, 120]

    def fail(*_: Any) -> None:
        raise ValueError("no")

    acting(world, fail)
    world.tick(at(1.1))
    assert [tuple(row.values())[1:] for row in world.rows(noted, d="own")] == [(0, 1, "no")]


def test_a_closed_engine_lets_go_of_the_store(made: Made) -> None:
    world = made(patience=0.0)
    acting(world, lambda db, *_: db.execute(
        "SELECT sum(a.range * b.range) FROM range(10000000) a, range(10000000) b"))  # fmt: skip
    world.land([denied(0, event_id="0")])
    assert "own" in world.tick(at(1)).busy

    world.close()

    again = made()
    assert again.rows("SELECT count(*) AS n FROM events") == [{"n": 1}]


def test_what_is_wrong_with_old_lines_does_not_hide_what_happens_now(made: Made) -> None:
    clock, judged = Clock(), list[Any]()
    world = made(clock=clock)

    def poisoned(db: Any, since: Any, until: Any) -> None:
        if since <= at(0) < until:
            raise ValueError("a line that nobody foresaw")
        judged.append((since, until))

    acting(world, poisoned)
    week = 7 * 24 * 60
    world.land([denied(m, event_id=str(m)) for m in (0, week)], at(week))
    for n in range(20):
        clock.at += LONGEST_REST
        world.land([denied(week + n, event_id=f"live {n}")], at(week + n))
        tick = world.tick(at(week + n + 1))
        assert tick.failed == {"own": "a line that nobody foresaw"}, "it must be told all the same"

    assert any(since <= at(week + 19) < until for since, until in judged)
    assert min(row["since"] for row in world.rows(DUE, id="own")) <= at(0)
    assert states(world, "own")[0][1:] == (20, "a line that nobody foresaw")
    assert list(world.engine.judge(at(week + 30), whole=True).failed) == ["own"]  # and ends


def test_a_detector_that_is_removed_during_its_turn_is_let_go(made: Made) -> None:
    world = made(patience=0.0)
    acting(world, lambda db, *_: db.execute(
        "SELECT sum(a.range * b.range) FROM range(10000000) a, range(10000000) b"))  # fmt: skip
    world.land([denied(0, event_id="0")])
    assert "own" in world.tick(at(1)).busy
    work = world.engine._works["own"]

    world.engine.detectors = world.detectors

    assert "own" not in world.tick(at(2)).busy
    assert work.turn.wait(20), "its query goes on"
    assert "own" not in world.engine._works


def test_rows_of_an_older_text_hold_up_nobody_who_names_other_facts(world: World) -> None:
    world.land([denied(m, event_id=str(m)) for m in (0, 1, 2)])
    world.tick(at(3))
    with world.store.writing() as db:
        db.execute("UPDATE stretches SET facts = '{}'")
        db.execute("INSERT INTO prunes VALUES (9, ?, ?, ?, 3)", [at(4), at(1.5), at(1.5)])
    world.land([denied(62, event_id="62"), denied(63, event_id="63"), denied(64, event_id="64")])

    for m in (65, 66):
        assert not world.tick(at(m)).failed
    assert all("{" not in row["title"] for row in world.rows("SELECT title FROM alerts"))


def test_a_detector_that_finds_more_than_can_be_held_is_asked_for_less_at_a_time(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    world = made(("unlisted_egress",), clock=clock)
    monkeypatch.setattr(detector, "MOST", 10)
    world.land([
        native(h * 60, "a1", "egress", host=f"h{h}.example", event_id=str(h))
        for h in range(40)
    ], at(41 * 60))  # fmt: skip

    assert "more than 10 rows" in world.tick(at(41 * 60)).failed["unlisted_egress"]
    for _ in range(12):
        clock.at += LONGEST_REST
        tick = world.tick(at(41 * 60))

    assert (tick.failed, tick.left) == ({}, 0)
    assert world.rows("SELECT count(*) AS n FROM stretches") == [{"n": 40}]
