import random
from datetime import timedelta
from typing import Any

import pytest

from tests.kit import Event, allowed, at, denied, events, executed, judge

LOW = {"grace": 0, "pause": "10 minutes"}


def columns(dice: random.Random) -> dict[str, Any]:
    return {
        "kind": dice.choice(["limit_hit", "tool_proposed", "tool_decided", "tool_executed"]),
        "reason_code": dice.choice([None, "rate_limited", "forbidden"]),
        "budget_kind": dice.choice([None, "tokens"]),
    }


def hit(clock: str = "09:00", **more: Any) -> list[Event]:
    return events("limit_hit", clock, **{"budget_kind": "calls"} | more)


def calls(count: int, gap: float = 10, start: str = "09:00:05", **more: Any) -> list[Event]:
    """Different calls, `gap` seconds apart."""
    first = at(start)
    return [
        each
        for i in range(count)
        for each in allowed(first + timedelta(seconds=gap * i), **{"params": {"n": i}} | more)
    ]


def test_a_fourth_call_after_the_limit_fires_and_a_third_is_quiet() -> None:
    [found] = judge("goes_on_after_limit", hit() + calls(4))

    assert (found["subject"], found["calls"], found["limit_name"]) == ("a1", 4, "calls")
    assert (found["started_at"], found["ended_at"]) == (at("09:00"), at("09:00:35"))
    assert (found["severity"], len(found["event_ids"])) == ("high", 5)
    assert judge("goes_on_after_limit", hit() + calls(3)) == []


def test_each_further_call_is_a_row() -> None:
    rows = judge("goes_on_after_limit", hit() + calls(6))

    assert [row["calls"] for row in rows] == [4, 5, 6]


@pytest.mark.parametrize(("first", "fires"), [("09:01", True), ("09:01:01", False)])
def test_an_agent_that_waits_for_the_pause_is_quiet(first: str, fires: bool) -> None:
    assert bool(judge("goes_on_after_limit", hit() + calls(9, start=first))) is fires


@pytest.mark.parametrize(("gap", "fires"), [(60, True), (61, False)])
def test_a_pause_between_calls_is_a_pause_too(gap: float, fires: bool) -> None:
    assert bool(judge("goes_on_after_limit", hit() + calls(6, gap))) is fires


def test_calls_before_the_limit_and_at_its_instant_are_quiet() -> None:
    assert judge("goes_on_after_limit", calls(20, 1, "08:59:41") + hit()) == []


def test_a_denial_by_a_limit_is_a_limit_that_was_hit_and_fires() -> None:
    for code in ("rate_limited", "rate-limit", "QuotaExceeded", "budget_used_up", "http_429"):
        told = denied("09:00", params={"n": 99}, reason_code=code)
        [found] = judge("goes_on_after_limit", told + calls(4))
        assert found["limit_name"] == code


def test_any_other_denial_is_quiet() -> None:
    for code in (None, "forbidden", "unlimited_scope", "expired"):
        assert judge("goes_on_after_limit", denied("09:00", reason_code=code) + calls(9)) == []


def test_trying_the_refused_call_again_is_quiet() -> None:
    again = denied(*(at("09:00") + timedelta(seconds=5 * i) for i in range(20)),
                   params={"n": 1}, reason_code="rate_limited")  # fmt: skip

    assert judge("goes_on_after_limit", again) == []


def test_other_calls_that_the_limit_refuses_one_after_the_other_fire_lower() -> None:
    refused = [
        each
        for i in range(5)
        for each in denied(f"09:00:0{i}", params={"n": i}, reason_code="rate_limited")
    ]

    [found] = judge("goes_on_after_limit", refused)

    assert (found["calls"], found["severity"]) == (4, "medium")
    assert judge("goes_on_after_limit", refused[:4]) == []


def test_a_call_of_several_parts_counts_once_and_is_quiet() -> None:
    made = calls(3, call_id=None)
    for i, each in enumerate(made):
        each["call_id"] = f"call-0123456789-{i}"
    ran = [e for i in range(3) for e in executed(f"09:00:3{i}", call_id=f"call-0123456789-{i}")]

    assert judge("goes_on_after_limit", hit() + made + ran) == []


def test_other_agents_and_tenants_may_go_on_and_are_quiet() -> None:
    others = calls(3, 2) + calls(9, 2, agent="a2") + calls(9, 2, tenant="acme")

    assert judge("goes_on_after_limit", hit() + others) == []
