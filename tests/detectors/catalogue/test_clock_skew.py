import json
import random
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.kit import CASES, Event, at, events, expected, judge

LOW = {"ahead": "1 second", "behind": "10 seconds", "lines": 1}


def columns(dice: random.Random) -> dict[str, Any]:
    ts = at("2026-03-08T16:00:00") + timedelta(minutes=dice.randrange(300))
    wait = timedelta(seconds=dice.choice([-400, -30, 5, 200]))
    return {
        "ts": ts,
        "ts_quality": dice.choice(["source", "source", "observed", None]),
        "ingested_at": dice.choice([ts + wait, ts + wait, None]),
        "source": dice.choice(["gate", "proxy"]),
    }


def live(*seconds: float, start: str = "09:00", **columns: Any) -> list[Event]:
    """A line a minute that came so many seconds after the time that it claims."""
    return list(_live(seconds, at(start), columns))


def _live(seconds: tuple[float, ...], start: datetime, columns: dict[str, Any]) -> Iterator[Event]:
    for i, wait in enumerate(seconds):
        ts = start + i * timedelta(minutes=1)
        own = {"ts_quality": "source", "ingested_at": ts + timedelta(seconds=wait)}
        yield from events("heartbeat", ts, **own | columns)


def test_a_clock_that_is_ahead_fires_when_the_window_is_over() -> None:
    [found] = judge("clock_skew", live(-420, -420, -420))

    assert (found["subject"], found["severity"], found["ended_at"]) == (
        "gate",
        "medium",
        at("09:10"),
    )
    assert (found["seconds"], found["direction"]) == (420, "ahead")


def test_more_than_a_minute_ahead_fires_and_a_minute_is_quiet() -> None:
    assert judge("clock_skew", live(-60, -60, -60)) == []
    assert judge("clock_skew", live(-60.001, -60.001, -60.001))


def test_one_wrong_line_among_right_ones_is_quiet_and_most_of_them_fire() -> None:
    assert judge("clock_skew", live(1, -400, 1)) == []
    assert judge("clock_skew", live(-400, -400, 1, 1)) == []
    assert judge("clock_skew", live(-400, -400, 1))


def test_two_lines_are_quiet() -> None:
    assert judge("clock_skew", live(-400, -400)) == []


def test_a_clock_that_is_steadily_behind_fires_low() -> None:
    [found] = judge("clock_skew", live(181, 180.5, 185))

    assert (found["severity"], found["seconds"]) == ("low", 181)


@pytest.mark.parametrize(
    "waits",
    [(120, 120, 120), (181, 187, 181), (300, 240, 180, 121), (181, 181), (3601, 3602, 3603)],
)
def test_lines_that_take_long_are_quiet(waits: tuple[float, ...]) -> None:
    assert judge("clock_skew", live(*waits)) == []


def test_slow_lines_beside_a_fast_one_in_each_minute_are_quiet() -> None:
    slow, fast = live(181, 181, 181), live(1, 1, 1, start="09:03")
    for late, soon in zip(slow, fast, strict=True):
        late["ingested_at"] = soon["ingested_at"]

    assert judge("clock_skew", slow + fast) == []


def test_times_that_no_source_told_are_quiet() -> None:
    assert judge("clock_skew", live(-400, -400, -400, ts_quality="observed")) == []


def test_lines_hours_ahead_that_were_stored_at_their_arrival_fire() -> None:
    early = live(0, 0, 0, ts_quality="receiver", signals=["clock_skew"])
    for each in early:
        each["attrs"] = {"ts_claimed": str(each["ts"] + timedelta(hours=2))}

    [found] = judge("clock_skew", early)

    assert found["seconds"] == 7_200
    assert judge("clock_skew", early[:1] + live(1, 1, 1, start="09:01")) == []  # as in B051


def test_three_sources_off_at_once_fire_as_perhaps_our_own_clock() -> None:
    three = [each for name in "abc" for each in live(-400, -400, -400, source=name)]

    assert {row["ours"] for row in judge("clock_skew", three)} == {", as all others: is it ours?"}
    [one, other] = judge("clock_skew", three[:6] + live(1, 1, 1, source="d"))
    assert one["ours"] == other["ours"] == ""


def test_one_host_ahead_and_one_behind_fire_and_the_right_one_is_quiet_b063() -> None:
    [path] = (CASES / "fixtures").glob("B063-*")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    found = [
        event
        for line in lines
        for event in events(
            "tool_decided", datetime.fromisoformat(line["ts"]), source=line["host"],
            ts_quality="source", ingested_at=datetime.fromisoformat(line["received"]),
        )
    ]  # fmt: skip

    rows = judge("clock_skew", found)

    assert sorted({row["subject"] for row in rows}) == expected("B063")["skewed_sources"]
