"""Alerts as they stand after late events, and what the engine owes to a detector that was away."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from detectors import stretch
from detectors.engine import Engine
from tests.world import World, at, denied, native

ALERTS = "SELECT * FROM alerts WHERE detector = 'deny_retry' ORDER BY started_at"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    opened = World(tmp_path)
    yield opened
    opened.close()


def test_a_detector_that_was_switched_off_judges_what_came_meanwhile(tmp_path: Path) -> None:
    before = World(tmp_path)
    before.land([denied(0, event_id="0")])
    before.tick(at(200))
    before.close()
    off = World(tmp_path, settings={"deny_retry": {"enabled": False}})
    off.land([denied(m, event_id=str(m)) for m in (301, 302, 303)])
    off.tick(at(304))
    off.close()

    again = World(tmp_path)
    again.tick(at(500))

    assert [row["started_at"] for row in again.rows(ALERTS)] == [at(301)]
    again.close()


def test_an_alert_is_not_resolved_while_its_detector_fails(world: World) -> None:
    world.land([denied(m, event_id=str(m)) for m in (0, 1, 2)])
    world.tick(at(3))
    good = world.engine.detectors["deny_retry"]
    broken = type(good)(**vars(good) | {"sql": "SELECT error('no' || $since || $until)"})

    world.engine.detectors = world.detectors | {"deny_retry": broken}
    world.land([denied(m, event_id=str(m)) for m in (9, 15)])
    world.tick(at(16))
    assert [row["status"] for row in world.rows(ALERTS)] == ["open"]

    world.engine.detectors = world.detectors
    world.tick(at(17))
    assert [(row["status"], row["ended_at"]) for row in world.rows(ALERTS)] == [("open", at(15))]


def test_the_time_of_a_resolution_is_that_of_the_resolution_that_stands(world: World) -> None:
    world.land([denied(m, event_id=str(m)) for m in (0, 1, 2)])
    world.tick(at(13))
    [alert] = world.rows(ALERTS)
    assert (alert["status"], alert["resolved_at"]) == ("resolved", at(13))

    world.land([denied(11, event_id="late")])
    world.tick(at(14))
    [alert] = world.rows(ALERTS)
    assert (alert["status"], alert["resolved_at"]) == ("open", None)

    world.land([native(15, tool="other", decision="allow")])
    world.tick(at(30))
    [alert] = world.rows(ALERTS)
    assert (alert["status"], alert["resolved_at"]) == ("resolved", at(30))


def test_an_alert_that_goes_on_costs_what_is_new(world: World) -> None:
    """An agent that is stuck is denied every second, for hours."""
    world.land([denied(second / 60, event_id=str(second)) for second in range(4 * 3600)])
    world.tick(at(240))
    [before] = world.rows(ALERTS)
    read = []
    real = stretch.stretches

    def counted(*given: Any, **more: Any) -> list[stretch.Stretch]:
        read.append(real(*given, **more))
        return read[-1]

    world.land([denied(240, event_id="next")])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stretch, "stretches", counted)
        world.tick(at(240.1))

    [after] = world.rows(ALERTS)
    assert (after["alert_id"], after["rows"]) == (before["alert_id"], before["rows"] + 1)
    assert after["started_at"] == at(0)
    assert 0 < sum(map(len, read)) < 100


def test_a_long_history_is_judged_in_turns_and_its_end_first(world: World) -> None:
    months = [at(n * 60 * 24 * 60) for n in range(4)]
    for n, start in enumerate(months):
        minutes = n * 60 * 24 * 60
        lines = [denied(minutes + m, event_id=f"{n}-{m}") for m in (0, 1, 2)]
        world.land(lines, now=start + timedelta(minutes=3))
    now = months[-1] + timedelta(minutes=3)
    world.engine = Engine(world.store, world.detectors, enough=0.0)

    tick = world.tick(now)

    assert tick.left > 0
    assert [row["status"] for row in world.rows(ALERTS)] == ["open"]
    assert world.rows("SELECT detail FROM alert_events WHERE what = 'told'") == [{"detail": "open"}]
    while tick.left:
        before, tick = tick.left, world.tick(now)
        assert tick.left < before
    assert [row["started_at"] for row in world.rows(ALERTS)] == months
    assert world.alerts() == world.backtest()


def test_a_whole_history_can_be_judged_at_once(world: World) -> None:
    world.land([denied(m, event_id=str(m)) for m in (0, 1, 2)])
    engine = Engine(world.store, world.detectors, enough=0.0)

    tick = engine.judge(at(300 * 24 * 60), whole=True)

    assert tick.left == 0
    assert len(world.rows(ALERTS)) == 1
    assert not world.rows("SELECT * FROM judgements WHERE status = 'due'")


def test_names_that_join_to_the_same_text_are_alerts_of_their_own(world: World) -> None:
    same = [("a|b|c", "d"), ("a|b", "c|d"), ("a", "b|c|d"), ("", "a1")]
    for tenant, agent in same:
        world.land([denied(m, agent, tenant=tenant) for m in (0, 1, 2)])

    tick = world.tick(at(3))

    assert tick.failed == {}
    rows = world.rows(ALERTS)
    assert {(row["tenant"], row["subject"]) for row in rows} == {*same}
    assert len({row["alert_id"] for row in rows}) == 4
    assert {len(row["alert_id"]) for row in rows} == {15}  # none had to give way


def test_an_id_that_is_taken_more_than_once_stops_no_detector(world: World) -> None:
    world.land([denied(m) for m in (0, 1, 2)])
    world.tick(at(3))
    [row] = world.rows(ALERTS)
    name, now = row["alert_id"], int(at(3).timestamp())
    with world.store.writing() as db:
        db.execute("DELETE FROM alerts WHERE alert_id = ?", [name])
        for place in ("", f"_{now:x}", f"_{now + 1:x}"):
            values = row | {"alert_id": name + place, "subject": f"other{place}"}
            names = ", ".join(values)
            places = ", ".join(f"${each}" for each in values)
            db.execute(f"INSERT INTO alerts ({names}) VALUES ({places})", values)
    world.land([denied(2.5)])

    tick = world.tick(at(3))

    assert tick.failed == {}
    mine = [each["alert_id"] for each in world.rows(ALERTS) if each["subject"] == "a1"]
    assert mine == [f"{name}_{now + 2:x}"]
