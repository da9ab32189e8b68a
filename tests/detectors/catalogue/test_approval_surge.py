from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.kit import Event, at, case, events, expected, judge, united

LOW = {"requests": 2, "cap": 2, "min_baseline": 3}

NEW_YORK = {"global": {"timezone": "America/New_York"}}
CASE_SETTINGS = {"min_approvals": ("requests", "cap")}  # a case has no earlier nights


def asked(*clock: Any, **columns: Any) -> list[Event]:
    return events("approval_requested", *clock, tool="crm.export", trace_id="t-1", **columns)


def nights(count: int, requests: int = 1) -> list[Event]:
    """Nights before that of 2026-03-10 in UTC: a heartbeat and so many requests each half hour."""
    found: list[Event] = []
    for back in range(1, count + 1):
        evening = at("22:00") - timedelta(days=back)
        for half in range(20):
            start = evening + half * timedelta(minutes=30)
            found += events("heartbeat", start)
            found += asked(*[start + timedelta(minutes=i) for i in range(requests)])
    return found


def minutes(count: int, start: str = "2026-03-11T02:00:00") -> list[Any]:
    return [at(start) + i * timedelta(minutes=1) for i in range(count)]


def test_a_new_agents_requests_at_night_fire_at_the_cap_and_are_quiet_below() -> None:
    assert judge("approval_surge", asked(*minutes(9))) == []

    [found] = judge("approval_surge", asked(*minutes(10)))
    assert (found["subject"], found["requests"], found["usual"]) == ("a1", 10, None)
    assert found["against"].startswith("new")


def test_the_same_requests_by_day_are_quiet() -> None:
    assert judge("approval_surge", asked(*minutes(30, "12:00"))) == []


def test_more_than_three_times_the_usual_fires_and_exactly_three_times_is_quiet() -> None:
    before = nights(2, requests=2)

    assert judge("approval_surge", before + asked(*minutes(6))) == []
    [found] = judge("approval_surge", before + asked(*minutes(7)))
    assert (found["requests"], found["usual"]) == (7, 2.0)


def test_an_agent_that_never_asks_at_night_fires_with_five_requests_and_is_quiet_with_four() -> (
    None
):
    before = nights(1, requests=0)

    assert judge("approval_surge", before + asked(*minutes(5)))
    assert judge("approval_surge", before + asked(*minutes(4))) == []


def test_a_surge_last_night_does_not_hide_one_tonight_so_it_fires() -> None:
    surge = asked(*minutes(60, "2026-03-10T02:00:00"))

    rows = judge("approval_surge", nights(2) + surge + asked(*minutes(6)))

    assert (rows[-1]["ended_at"], rows[-1]["usual"]) == (at("2026-03-11T02:05:00"), 1.0)


def test_a_night_of_eight_days_before_is_no_reference_so_the_agent_is_new() -> None:
    old = [event for event in nights(8) if event["ts"] < at("2026-03-03T12:00:00")]

    [found] = judge("approval_surge", old + asked(*minutes(10)))

    assert found["usual"] is None


def test_exactly_half_an_hour_fires_and_a_second_more_is_quiet() -> None:
    nine = asked(*minutes(9))

    assert judge("approval_surge", nine + asked("2026-03-11T02:30:00"))
    assert judge("approval_surge", nine + asked("2026-03-11T02:30:01")) == []


def test_only_requests_of_the_same_night_add_up_so_the_edge_of_the_window_is_quiet() -> None:
    evening = minutes(9, "21:51") + minutes(9, "22:00")

    assert judge("approval_surge", asked(*evening)) == []
    assert judge("approval_surge", asked(*evening, "22:09"))


def test_a_request_at_the_last_minute_of_the_night_fires_and_at_eight_it_is_quiet() -> None:
    nine = minutes(9, "07:50")

    assert judge("approval_surge", asked(*nine, "07:59:59"))
    assert judge("approval_surge", asked(*nine, "08:00:00")) == []


@pytest.mark.parametrize(
    ("start", "fires"),
    [("2026-03-08T11:49:00", True), ("2026-03-08T11:51:00", False)],
)
def test_the_morning_after_the_clocks_went_forward_fires_until_eight(
    start: str, fires: bool
) -> None:
    """08:00 in New York is 12:00 UTC that morning, 13:00 the day before."""
    assert bool(judge("approval_surge", asked(*minutes(10, start)), NEW_YORK)) is fires


def test_requests_by_two_agents_do_not_add_up_so_they_are_quiet() -> None:
    half = minutes(9)

    assert judge("approval_surge", asked(*half) + asked(*half, agent="a2")) == []


def test_a_request_and_its_answer_are_one_so_nine_pairs_are_quiet() -> None:
    pairs = [
        event
        for i, when in enumerate(minutes(9))
        for kind, more in (("approval_requested", {}), ("approval_decided", {"decision": "allow"}))
        for event in events(kind, when, approval_id=f"ap-{i}", **more)
    ]

    assert judge("approval_surge", pairs) == []


def test_25_bypassed_approvals_fire_and_people_do_not_hide_them_b071(tmp_path: Path) -> None:
    expect = expected("B071")
    both = dict.fromkeys(CASE_SETTINGS["min_approvals"], expect["config"]["min_approvals"])

    rows = case("approval_surge", tmp_path, "B071", NEW_YORK, within="600 seconds", **both)

    assert len(united(rows, timedelta(minutes=30))) == expect["incidents"]
    assert (rows[-1]["requests"], rows[-1]["unattended_decisions"]) == (25, 25)
    assert rows[-1]["unattended_share"] == expect["auto_share"]
