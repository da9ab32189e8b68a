import random
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from detectors import detector
from tests.kit import Event, at, case, events, executed, expected, judge, numbered, store, united
from tests.kit import loaded as load

LOW = {"waiting_for": 1, "expiries": 2, "queue": 2, "patience": "1 minute"}
GAP = timedelta(hours=2)


def columns(dice: random.Random) -> dict[str, Any]:
    return {
        "kind": dice.choice(["approval_requested", "approval_requested", "approval_decided"]),
        "decision": dice.choice([None, "allow", "deny"]),
        "call_id": f"call-0123456789-{dice.randrange(90)}",
        "approval_id": None,
    }


def asked(count: int, start: str = "09:00", every: float = 1, **more: Any) -> list[Event]:
    """So many requests, one a second."""
    return [
        event
        for i in range(count)
        for event in events(
            "approval_requested",
            at(start) + timedelta(seconds=i * every),
            **{"tool": "crm.export", "call_id": f"ask-{start}-{i:05}-0123456789", "trace_id": "t-1"}
            | more,
        )
    ]


def answer(request: Event, clock: str, **more: Any) -> Event:
    own = {"kind": "approval_decided", "ts": at(clock), "decision": "allow", "approver": "user-1"}
    return request | own | more


def alive(until: str) -> list[Event]:
    """Something else happens, so that the tests look so far."""
    return events("heartbeat", until, agent=None)


def test_six_requests_that_nobody_answers_fire_after_a_quarter_of_an_hour() -> None:
    rows = judge("approval_backlog", asked(6) + alive("09:30"))

    assert (rows[0]["subject"], rows[0]["waiting"], rows[0]["ended_at"]) == ("a1", 6, at("09:20"))
    assert (rows[0]["started_at"], rows[0]["oldest_minutes"]) == (at("09:00"), 20)
    assert rows[0]["what"] == "6 approvals wait, the oldest for 20 minutes"
    assert rows[0]["event_ids"] == [f"e{i:05}" for i in range(6)]
    assert len(united(rows, GAP)) == 1


def test_five_requests_are_quiet() -> None:
    assert judge("approval_backlog", asked(5) + alive("12:00")) == []


def test_six_that_are_answered_in_time_are_quiet_and_one_answer_too_late_fires() -> None:
    requests = asked(6)
    answers = [answer(each, "09:15") for each in requests]

    assert judge("approval_backlog", requests + answers + alive("12:00")) == []

    late = [answer(each, "09:31") for each in requests]
    rows = judge("approval_backlog", requests + late + alive("12:00"))
    assert [row["ended_at"] for row in rows] == [at("09:20"), at("09:25"), at("09:30")]


@pytest.mark.parametrize(
    "how",
    [
        {"decision": "deny"},
        {"kind": "tool_executed", "status": "ok"},
        {"kind": "tool_executed", "decision": None, "status": "cancelled"},
    ],
)
def test_a_refusal_an_execution_and_a_call_that_was_called_off_end_the_wait_so_it_is_quiet(
    how: dict[str, Any],
) -> None:
    requests = asked(6)
    ended = [answer(each, "09:10", **how) for each in requests]

    assert judge("approval_backlog", requests + ended + alive("12:00")) == []


def test_exactly_patience_is_quiet_and_a_request_that_is_older_fires() -> None:
    rows = judge("approval_backlog", asked(6, start="09:05", every=0) + alive("09:30"))

    assert rows[0]["ended_at"] == at("09:25")


def test_a_wait_fires_for_a_day_and_then_it_is_a_fact() -> None:
    rows = judge("approval_backlog", asked(6, every=0) + alive("2026-03-12T00:00:00"))

    assert rows[-1]["ended_at"] == at("2026-03-11T09:00:00")


def test_two_agents_and_two_tenants_do_not_add_up_so_they_are_quiet() -> None:
    others: list[dict[str, Any]] = [{"agent": "a2"}, {"tenant": "acme"}]
    for other in others:
        both = asked(4) + asked(4, start="09:01", **other)
        assert judge("approval_backlog", both + alive("10:00")) == []


def test_many_agents_that_wait_for_little_each_fire_as_their_queue_alone() -> None:
    many = [e for i in range(7) for e in asked(3, start=f"09:0{i}", agent=f"a{i}")]

    rows = judge("approval_backlog", many + alive("09:40"))

    assert {row["subject"] for row in rows} == {"source gate"}
    assert (rows[-1]["waiting"], len(rows[-1]["event_ids"])) == (21, 20)
    assert judge("approval_backlog", many[:-1] + alive("09:40")) == []


def expire(*clock: str, **more: Any) -> list[Event]:
    return events("approval_decided", *clock, decision="deny", reason_code="expired",
                  tool="crm.export", **more)  # fmt: skip


def test_five_requests_that_ran_out_in_two_hours_fire_and_four_are_quiet() -> None:
    five = ("09:00", "09:30", "10:00", "10:30", "11:00")

    [found] = judge("approval_backlog", expire(*five))

    assert (found["expired"], found["ended_at"], len(found["event_ids"])) == (5, at("11:00"), 5)
    assert judge("approval_backlog", expire(*five[:4])) == []
    assert judge("approval_backlog", expire(*five[:4], "11:00:01")) == []


def test_refusals_by_a_person_are_quiet() -> None:
    refused = expire("09:00", "09:01", "09:02", "09:03", "09:04")

    for event in refused:
        event["reason_code"] = None
    assert judge("approval_backlog", refused) == []


def test_time_passes_without_any_event_and_it_fires_all_the_same() -> None:
    db = store(numbered(asked(6)))
    each = load("approval_backlog", db)

    assert detector.find(each, db, at("09:10"), at("09:20")) == []
    assert len(detector.find(each, db, at("09:20"), at("09:21"))) == 1


def test_a_call_that_needs_approval_and_runs_is_quiet() -> None:
    pending = [
        event
        for i in range(6)
        for event in (
            *events("tool_decided", f"09:0{i}", tool="x", decision="require_approval",
                    call_id=f"call-0123456789-{i}"),
            *executed(f"09:0{i}:30", tool="x", call_id=f"call-0123456789-{i}"),
        )
    ]  # fmt: skip

    assert judge("approval_backlog", pending + alive("12:00")) == []


def test_six_unanswered_approvals_fire_as_one_incident_b069(tmp_path: Path) -> None:
    rows = case("approval_backlog", tmp_path, "B069")

    assert len(united(rows, GAP)) == 1
    assert rows[-1]["expired"] == expected("B069")["approval_timeout_events"]


def test_approvals_by_people_and_bypassed_ones_are_quiet_b071(tmp_path: Path) -> None:
    assert case("approval_backlog", tmp_path, "B071") == []
