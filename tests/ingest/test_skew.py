"""How far the clock of a source is off is seen from when its lines come, and changes nothing."""

import json
from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from detectors import metrics
from tests.world import World, at, native

CASES = Path(__file__).parents[3] / "shared" / "cases"
[B063] = [
    each for each in json.loads((CASES / "manifest.json").read_text()) if each["id"] == "B063"
]


@pytest.fixture
def world(tmp_path: Path) -> Iterable[World]:
    world = World(tmp_path, policy=None)
    yield world
    world.close()


def clocks(world: World) -> dict[str, Any]:
    return {row["source"]: row for row in world.rows("SELECT * FROM source_clocks")}


def send(world: World, minute: float, *ahead: float, source: str = "s") -> None:
    """Lines that claim so many seconds after the minute at which they come."""
    lines = [native(minute + each / 60, event_id=f"{source} {minute} {n} {each}")
             for n, each in enumerate(ahead)]  # fmt: skip
    world.land(lines, at(minute), source=source)


def test_one_bad_clock_among_good_ones_is_known_by_its_source_and_delays_nobody(
    world: World,
) -> None:  # B063
    text = (CASES / "fixtures" / B063["file"]).read_text(encoding="utf-8")
    lines = [json.loads(line) for line in text.splitlines()]
    for doc in lines:
        world.land(
            [json.dumps(doc).encode()], datetime.fromisoformat(doc["received"]), source=doc["host"]
        )

    found = clocks(world)

    assert [name for name in sorted(found) if found[name]["skewed"]] == B063["expect"][
        "skewed_sources"
    ]
    assert {name: row["skew_seconds"] for name, row in found.items()} == {
        "a": 419.0,
        "b": -181.0,
        "c": -1.0,
    }
    [late] = world.rows("SELECT sum(backfilled)::INTEGER AS n FROM sources")
    assert late["n"] == B063["expect"]["late"]
    rows = world.rows("SELECT event_id FROM events WHERE ts_quality = 'source'")
    assert len(rows) == len(lines)
    subjects = {each[1] for each in world.backtest() if "deny_retry" in each[0]}
    assert subjects <= {f"'agent-{name}'" for name in "abc"}


def test_slow_lines_say_nothing_about_a_clock(world: World) -> None:
    for minute in range(5):
        send(world, minute, -1, *[-200] * 8)

    [row] = clocks(world).values()

    assert row["skew_seconds"] == -1
    assert row["lag_seconds"] == pytest.approx(1601 / 9)


def test_a_bad_minute_is_forgiven_and_a_clock_that_is_set_right_is_seen_to_be(
    world: World,
) -> None:
    for minute in range(10):
        send(world, minute, 3000 if minute == 4 else -1)
    assert clocks(world)["s"]["skew_seconds"] == -1

    for minute in range(10, 30):
        send(world, minute, 119)

    assert clocks(world)["s"]["skew_seconds"] == 119
    assert clocks(world)["s"]["skewed"]


def test_history_and_lines_without_a_time_of_their_own_tell_nothing(world: World) -> None:
    for minute in range(5):
        send(world, minute, -7200, 7200)
        world.land([json.dumps({"kind": "heartbeat", "agent": "a", "ts": None}).encode()])

    assert clocks(world) == {}


def test_two_minutes_are_too_few(world: World) -> None:
    send(world, 0, 300)
    send(world, 1, 300)

    assert clocks(world)["s"]["skew_seconds"] is None
    assert not clocks(world)["s"]["skewed"]


def test_what_is_known_of_clocks_comes_back_from_the_ledger(tmp_path: Path) -> None:
    world = World(tmp_path / "a", policy=None)
    for minute in range(4):
        send(world, minute, -5, -7, 20)
        send(world, minute + 0.5, -2)
        send(world, minute, -500, source="t")
    before = world.rows("SELECT * FROM clocks ORDER BY source")
    world.close()
    (tmp_path / "a" / "gatewatch.duckdb").unlink()

    again = World(tmp_path / "a", policy=None)

    assert again.rows("SELECT * FROM clocks ORDER BY source") == before
    assert before[0]["waits"] == [4, 12, 16, 16, 16, 16, 16]
    again.close()


def test_prometheus_is_told_of_clocks_and_lag(world: World) -> None:
    for minute in range(3):
        send(world, minute, -0.5, -90)
    send(world, 0, -2, source="new")

    text = metrics.page(world.store, {}, (), world.lander.head, at(3)).decode()

    assert 'gatewatch_source_skew_seconds{source="s"} -0.5' in text
    assert 'gatewatch_source_skew_seconds{source="new"}' not in text
    assert 'gatewatch_source_lag_seconds{source="s"} 45.25' in text
    assert 'gatewatch_ingest_lag_seconds_bucket{le="1.0",source="s"} 3.0' in text
    assert 'gatewatch_ingest_lag_seconds_count{source="s"} 6.0' in text


def test_the_waits_of_all_lines_are_counted(world: World) -> None:
    send(world, 0, -0.5, -3, -30)
    send(world, 2, -600, timedelta(minutes=-20).total_seconds())

    [row] = clocks(world).values()

    assert row["waits"] == [1, 2, 2, 3, 3, 4, 5]
    assert row["waited_seconds"] == pytest.approx(1833.5)
