"""`gatewatch coverage --day`: every event was judged, or it is said why not."""

import json
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from gatewatch.commands.days import covered, line
from tests.kit_command import gatewatch, run
from tests.kit_http import lines, running
from tests.world import World, at, denied, native

DAY = date(2026, 3, 10)
NAMES = ("deny_retry", "denied_then_executed")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    opened = World(tmp_path, only=NAMES)
    yield opened
    opened.close()


def told(world: World, day: date = DAY) -> Any:
    return {each.detector: each for each in covered(world, world.detectors, day)}["deny_retry"]


def parts(found: Any) -> list[tuple[str, Any, Any]]:
    return [(each.status, each.since, each.until) for each in found.ranges]


def test_a_day_is_judged_as_far_as_events_reach_and_the_rest_had_nothing(world: World) -> None:
    world.land([denied(m, event_id=str(m)) for m in (0, 1, 60)])
    reach = world.detectors["deny_retry"].lookback + timedelta(microseconds=1)
    world.tick(at(24 * 60))

    found = told(world)

    assert parts(found) == [
        ("nothing", at(-9 * 60), at(0)),
        ("judged", at(0), at(60) + reach),
        ("nothing", at(60) + reach, at(15 * 60)),
    ]
    assert found.ranges[1].judged_at == at(24 * 60)
    assert sum(found.share.values()) == pytest.approx(1)


def test_what_has_landed_and_waits_is_due_and_said_why(world: World) -> None:
    world.land([denied(0, event_id="0")])
    world.tick(at(1))
    world.land([denied(5, event_id="5")])

    due = [each for each in told(world).ranges if each.status == "due"]

    assert {each.reason for each in due} == {
        "its time has not come",
        "what came here has not been taken up yet",
    }


def test_a_detector_that_never_judged_or_fails_says_so(world: World) -> None:
    world.land([denied(0, event_id="0")])
    assert told(world).share["due"] == 1.0

    good = world.detectors["deny_retry"]
    broken = type(good)(**vars(good) | {"sql": "SELECT error('no' || $since || $until)"})
    world.engine.detectors = world.detectors | {"deny_retry": broken}
    world.tick(at(1))

    row = line(told(world))
    assert row["due"] == "100%"
    assert "never judged" in row["reason"]
    assert "fails: " in row["reason"]


def test_what_reaches_back_to_what_was_pruned_is_frozen(world: World) -> None:
    world.land([denied(0, event_id="0")])
    with world.store.writing() as db:
        db.execute("INSERT INTO prunes VALUES (9, ?, ?, ?, 3)", [at(4), at(1), at(1)])
    world.tick(at(24 * 60))

    assert [each for each in parts(told(world)) if each[0] == "frozen"]
    assert "pruned" in line(told(world))["reason"]


def test_a_day_is_one_of_the_policys_zone_and_may_have_23_hours(tmp_path: Path) -> None:
    zone = {"global": {"timezone": "America/New_York"}}
    world = World(tmp_path, only=NAMES, policy=zone)
    world.land([native(0, tool="x")])

    found = told(world, date(2026, 3, 8))

    [whole] = found.ranges
    assert (found.zone, whole.until - whole.since) == ("America/New_York", timedelta(hours=23))
    world.close()


def test_the_command_reads_a_database_and_a_day_that_is_none_is_said(tmp_path: Path) -> None:
    db, log = tmp_path / "c.duckdb", tmp_path / "gate.jsonl"
    log.write_bytes(denied(0) + b"\n")
    gatewatch("ingest", log, "--adapter", "native", db=db)
    gatewatch("detect", db=db)

    rows = {each["detector"]: each for each in gatewatch("coverage", "--day", "2026-03-10", db=db)}

    assert rows["deny_retry"]["share"]["judged"] > 0
    assert {each["status"] for each in rows["deny_retry"]["ranges"]} == {"judged", "nothing"}
    wrong = run("coverage", "--day", "yesterday", "--db", db, folder=tmp_path)
    assert wrong.returncode == 2
    assert "'yesterday' is no day" in wrong.stderr


def test_a_running_service_is_asked(tmp_path: Path) -> None:
    with running(tmp_path) as service:
        assert service.http.post("/v1/events", content=lines(1)).status_code == 200
        [row] = service.rows("SELECT max(ts) AS ts FROM events")

        done = run("coverage", "--day", f"{row['ts']:%Y-%m-%d}", "--json", folder=tmp_path)

    assert {each["zone"] for each in json.loads(done.stdout)} == {"UTC"}
