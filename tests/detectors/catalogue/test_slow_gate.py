from datetime import timedelta
from typing import Any

import pytest

from tests.kit import Event, allowed, at, denied, judge

LOW = {"decisions": 2, "slow_ms": 1}


def columns(dice: Any) -> Event:
    return {"kind": "tool_decided", "decision_ms": dice.choice([None, 0.0, 2.0, 900.0, -1.0])}


def decisions(*took: float | None, clock: str = "09:00", **more: Any) -> list[Event]:
    start = at(clock)
    return [
        event
        for n, ms in enumerate(took)
        for event in allowed(start + n * timedelta(seconds=5), decision_ms=ms, **more)
    ]


def test_a_window_whose_p95_is_above_fifty_fires_and_one_slow_answer_in_twenty_is_quiet() -> None:
    [found] = judge("slow_gate", decisions(*[3.0] * 18, 51.0, 80.0))

    assert (found["subject"], found["p95_ms"], found["worst_ms"]) == ("gate", 51.0, 80.0)
    assert (found["decisions"], found["slow"]) == (20, 2)
    assert found["ended_at"] == at("09:10")
    assert judge("slow_gate", decisions(*[3.0] * 19, 9000.0)) == []


def test_exactly_fifty_is_quiet() -> None:
    assert judge("slow_gate", decisions(*[50.0] * 20)) == []
    assert judge("slow_gate", decisions(*[50.1] * 20))


def test_nineteen_decisions_are_quiet_and_twenty_fire() -> None:
    assert judge("slow_gate", decisions(*[90.0] * 19)) == []
    assert judge("slow_gate", decisions(*[90.0] * 20))


def test_two_sources_do_not_add_up_and_tenants_are_apart_so_they_are_quiet() -> None:
    half = decisions(*[90.0] * 10)

    assert judge("slow_gate", half + decisions(*[90.0] * 10, source="gate-2")) == []
    assert judge("slow_gate", half + decisions(*[90.0] * 10, tenant="acme")) == []
    assert judge("slow_gate", half + decisions(*[90.0] * 10, agent="a2"))


@pytest.mark.parametrize("took", [None, -1.0, float("nan"), float("inf")])
def test_a_time_that_is_none_is_not_counted_and_so_quiet(took: float | None) -> None:
    assert judge("slow_gate", decisions(*[90.0] * 19, took)) == []


def test_people_take_their_time_and_are_quiet() -> None:
    asked = [each | {"kind": "approval_decided"} for each in decisions(*[90.0] * 30)]

    assert judge("slow_gate", asked) == []


def test_denials_count_too_and_the_evidence_of_what_fires_is_the_slowest_twenty() -> None:
    slow = [
        event
        for n in range(25)
        for event in denied(at("09:00") + n * timedelta(seconds=1), decision_ms=100.0 + n)
    ]

    [found] = judge("slow_gate", slow)

    assert found["event_ids"] == [f"e{n:05}" for n in range(5, 25)]


def test_a_gate_that_writes_one_line_a_call_fires_too() -> None:
    ran = [each | {"kind": "tool_executed", "status": "ok"} for each in decisions(*[90.0] * 20)]

    assert judge("slow_gate", ran)
    assert judge("slow_gate", [each | {"decision": None} for each in ran]) == []
