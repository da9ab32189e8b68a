"""Who is told what, and when: never twice, and never not at all."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from detectors import outbox
from detectors.engine import Tick
from detectors.header import Header
from detectors.routing import load
from detectors.worker import Worker
from tests.kit_telling import SLACK
from tests.world import World, at, denied, native

TOLD = "SELECT detail FROM alert_events WHERE what = 'told' ORDER BY ts, detail"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    opened = World(tmp_path)
    yield opened
    opened.close()


def told(world: World) -> list[str]:
    return [row["detail"] for row in world.rows(TOLD)]


def allowed(minutes: float) -> bytes:
    return native(minutes, tool="crm.export_contacts", decision="allow", event_id=f"ok{minutes}")


def test_history_that_goes_on_until_now_is_told(world: World) -> None:
    world.land([denied(m, event_id=str(m)) for m in range(0, 30, 5)])
    world.tick(at(120))
    assert told(world) == []

    world.land([denied(m, event_id=str(m)) for m in range(30, 121, 5)])
    world.tick(at(121))

    [alert] = world.rows("SELECT * FROM alerts WHERE detector = 'deny_retry'")
    assert (alert["started_at"], alert["backfill"]) == (at(0), False)
    assert told(world) == ["open"]


def test_trouble_that_was_withdrawn_and_comes_back_is_told_again(world: World) -> None:
    world.land([denied(m, event_id=str(m)) for m in (0, 1, 2)])
    world.tick(at(3))
    world.land([allowed(1.5)])
    world.tick(at(4))
    assert told(world) == ["open", "withdrawn"]

    world.land([denied(m, event_id=str(m)) for m in (4.5, 5)])
    for minutes in range(6, 60):
        world.tick(at(minutes))

    assert told(world) == ["open", "withdrawn", "open", "resolved"]


def test_what_was_withdrawn_silences_nobody(world: World) -> None:
    world.land([denied(m, event_id=str(m)) for m in (0, 1, 2)])
    world.tick(at(3))
    world.land([allowed(1.5)])
    world.tick(at(4))

    world.land([denied(m, event_id=str(m)) for m in (30, 31, 32)])
    world.tick(at(33))

    assert told(world) == ["open", "withdrawn", "open"]


def delivered(world: World, now: float) -> Tick:
    """A tick, and everything that is owed then delivered."""
    tick = world.tick(at(now))
    client = httpx.Client(transport=httpx.MockTransport(lambda _: httpx.Response(200, text="ok")))
    for route in world.routes:
        worker = Worker(route, world.store, world.lander, (), client)
        while worker.step(at(now)) == 0.0:
            pass
    client.close()
    return tick


def rebuilt(world: World) -> World:
    """What `gatewatch rebuild` leaves."""
    world.close()
    for path in world.folder.glob("gatewatch.duckdb*"):
        path.unlink()
    again = World(world.folder, world.routes)
    with again.store.writing() as db:
        outbox.reset(db)
    return again


def test_after_a_rebuild_nobody_is_told_what_they_know(tmp_path: Path) -> None:
    world = World(tmp_path, load({"ops": SLACK}))
    world.land([denied(m, event_id=str(m)) for m in (0, 1, 2)], now=at(2))
    world.land([denied(m, "a2", event_id=f"b{m}") for m in (0, 1, 2)], now=at(2))
    delivered(world, 3)
    world.land([denied(m, "a2", event_id=f"b{m}") for m in (18, 19, 20)], now=at(20))
    delivered(world, 20.5)
    known = world.rows("SELECT alert_id, status, told_at, closed_told FROM alerts ORDER BY ALL")

    again = rebuilt(world)
    tick = delivered(again, 21)

    assert tick.told == 0
    standing = "SELECT alert_id, status, told_at, closed_told FROM alerts ORDER BY ALL"
    assert again.rows(standing) == known
    again.close()


def test_after_a_rebuild_an_alert_that_had_joined_another_is_not_withdrawn(tmp_path: Path) -> None:
    world = World(tmp_path, load({"ops": SLACK}), settings={"deny_rotation": {"enabled": False}})
    world.land([denied(m, event_id=str(m)) for m in (0, 1, 2)], now=at(2))
    delivered(world, 3)
    world.land([denied(m, event_id=str(m)) for m in (79, 80, 81)], now=at(81))
    delivered(world, 82)
    world.land([denied(m, event_id=str(m)) for m in range(9, 79, 7)], now=at(82))
    delivered(world, 83)
    [open_one] = world.rows("SELECT * FROM alerts WHERE status = 'open'")
    before = told(world)

    again = rebuilt(world)
    for minutes in (84, 85):
        assert delivered(again, minutes).told == 0

    assert before.count("open") == 2
    [row] = again.rows("SELECT * FROM alerts WHERE status = 'open'")
    assert row["alert_id"] == open_one["alert_id"]
    again.close()


class Speechless:
    """A header that does not say what to do."""

    def __init__(self, header: Header) -> None:
        self._header = header

    def __getattr__(self, name: str) -> Any:
        if name == "respond":
            raise AttributeError(name)
        return getattr(self._header, name)


def test_an_alert_that_cannot_be_worded_is_kept_quiet_and_the_others_are_told(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, routes=load({"ops": SLACK}))
    world.land([denied(m, event_id=f"a{m}") for m in (0, 1, 2)])
    world.engine.judge(at(3))
    each = world.detectors["deny_retry"]
    speechless: Any = Speechless(each.header)
    world.detectors["deny_retry"] = replace(each, header=speechless)
    world.land([native(3, "a2", "egress", host="evil.example", decision="allow", event_id="x")])

    world.tick(at(4))

    rows = {row["detector"]: row for row in world.rows("SELECT * FROM alerts")}
    assert rows["deny_retry"]["told_at"] is None
    assert rows["deny_retry"]["quiet_reason"].startswith("cannot be worded: AttributeError")
    assert rows["unlisted_egress"]["told_at"] == at(4)
    world.close()
