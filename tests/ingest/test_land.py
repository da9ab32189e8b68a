"""Landing: what arrives twice, apart, or in another order makes no difference."""

import time
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path

import pytest

from ingest.store import fetch
from tests import kit
from tests.world import World, at, denied, native

CALL = "call_0123456789abcdef"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    opened = World(tmp_path)
    yield opened
    opened.close()


def test_a_call_is_the_same_in_whatever_order_its_parts_arrive() -> None:
    """Two executions of one instant, and denials whose ids lie on either side of theirs."""
    ran = [
        *kit.executed("09:05", call_id=CALL, event_id="m", status="ok"),
        *kit.executed("09:05", call_id=CALL, event_id="n", status="error"),
    ]
    denials = [*kit.denied("09:01", "09:02", call_id=CALL)]
    parts = [*ran, *(each | {"event_id": e} for each, e in zip(denials, "az", strict=True))]
    parts = [each | {"source": "gate", "ledger_seq": 1} for each in parts]

    found = {
        repr(fetch(kit.store(order, batch=1), "SELECT * FROM calls"))
        for order in permutations(parts)
    }

    assert len(found) == 1


def test_counters_of_different_agents_are_different_calls(world: World) -> None:
    world.land([denied(0, "a1", tool="pay", call_id="1", event_id="x")])
    world.land([native(1, "a2", tool="pay", decision="allow", status="ok", call_id="1")])

    rows = world.rows("SELECT agent, decision FROM calls ORDER BY agent")
    assert [(row["agent"], row["decision"]) for row in rows] == [("a1", "deny"), ("a2", "allow")]


def test_an_old_line_that_says_its_time_is_the_receivers_lands_once(world: World) -> None:
    line = denied(0, event_id="x", ts_quality="receiver")

    landed = [world.land([line], now=at(days * 24 * 60)) for days in (3, 4)]

    assert [(each.events, each.duplicates) for each in landed] == [(1, 0), (0, 1)]


def test_lines_of_many_years_in_one_batch_land_as_quickly_as_others(world: World) -> None:
    gone = [number * number for number in range(3_000)]  # minutes: no gap is like another
    lines = [native(-each, tool="t", event_id=f"e{each}") for each in gone]

    began = time.process_time()
    landed = [world.land(lines, now=at(0)) for _ in range(2)]

    assert [(each.events, each.duplicates) for each in landed] == [(3_000, 0), (0, 3_000)]
    assert time.process_time() - began < 10
    [found] = world.rows("SELECT min(since) AS first, max(until) AS last FROM changes")
    assert (found["first"], found["last"]) == (at(-gone[-1]), at(0))


@pytest.mark.parametrize("again", [60, 26 * 60, 50 * 60, 10 * 24 * 60])
def test_a_line_that_was_ahead_of_its_time_lands_once_whenever_it_comes_again(
    world: World, again: int
) -> None:
    ahead = denied(49 * 60, event_id="x")  # two days

    landed = [world.land([ahead], now=at(0)), world.land([ahead, denied(0)], now=at(again))]

    assert [(each.events, each.duplicates) for each in landed] == [(1, 0), (1, 1)]
    assert world.rows("SELECT count(*) AS n FROM early")[0]["n"] == 1


def test_a_line_in_quarantine_says_whether_its_time_or_the_rest_is_to_blame(world: World) -> None:
    world.land(
        [
            b'{"ts":"2026-03-10T09:00:00Z","kind":"invented"}',
            b'{"ts":1773133200,"kind":"invented"}',
            b'{"ts":"soon","kind":"tool_call"}',
            b'{"ts":{"at":1},"kind":"tool_call"}',
            b'{"kind":"tool_call"}',
        ]
    )

    rows = world.rows("SELECT reason, detail FROM quarantine ORDER BY ledger_seq")
    assert [row["reason"] for row in rows] == ["schema", "schema", "time", "time", "time"]
    assert rows[2]["detail"] == "no usable time under 'ts': 'soon'"
