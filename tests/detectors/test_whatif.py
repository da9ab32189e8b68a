"""Another policy over past calls."""

import json
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from detectors.whatif import HEAD, WhatIf, summary, table, what_if
from ingest.policy import Controls
from tests.kit import Event, allowed, at, denied, events, executed, numbered, store

TOOLS = [{"name": "x", "action": "allow"}, {"name": "y", "action": "deny"}]
OLD = {"tools": TOOLS}


def ask(found: list[Event], new: dict[str, Any], old: dict[str, Any] | None = OLD) -> WhatIf:
    policy = msgspec.convert(new, Controls)
    return what_if(store(numbered(found), old), policy, at("00:00"), at("2026-03-11T00:00"))


def only(tool: str, **entry: Any) -> dict[str, Any]:
    return {"tools": [{"name": tool, "action": "allow", **entry}]}


def told(result: WhatIf) -> list[tuple[Any, ...]]:
    return [(e.tool, e.logged, e.in_force, e.new, e.step, e.calls) for e in result.changes]


def test_the_policy_that_is_in_force_changes_nothing() -> None:
    result = ask(allowed("09:00", "09:01", tool="x") + denied("09:02", tool="y"), OLD)

    assert (result.calls, result.changes) == (3, ())
    assert (result.against_log, result.against_policy) == ({}, {})


def test_each_direction_is_counted_by_tool_and_agent_with_examples() -> None:
    calls = (
        allowed(*(at("09:00") + timedelta(minutes=i) for i in range(7)), tool="x")
        + allowed("10:00", tool="x", agent="a2")
        + denied("09:02", tool="y")
    )
    new = {"tools": [{"name": "x", "action": "require_approval"}, {"name": "y", "action": "allow"}]}

    result = ask(calls, new)

    assert result.against_log == {"allow -> require_approval": 8, "deny -> allow": 1}
    assert result.against_policy == result.against_log
    first = result.changes[0]
    assert (first.agent, first.tool, first.calls) == ("a1", "x", 7)
    assert (first.first, first.last) == (at("09:00"), at("09:06"))
    assert first.examples == ("e00000", "e00001", "e00002", "e00003", "e00004")


def test_the_log_and_the_policy_that_was_in_force_are_two_yardsticks() -> None:
    result = ask(allowed("09:00", tool="y"), OLD)  # the gate let pass what the policy denied

    assert told(result) == [("y", "allow", "deny", "deny", "tool denied", 1)]
    assert (result.against_log, result.against_policy) == ({"allow -> deny": 1}, {})


def test_a_call_that_a_person_approved_is_allowed_where_approval_is_required() -> None:
    own = {"tool": "x", "call_id": "call-0123456789-1"}
    asked = denied("09:00", decision="require_approval", **own)
    yes = events("approval_decided", "09:01", decision="allow", approver="eva", **own)

    assert ask(asked + yes, only("x", action="require_approval")).changes == ()
    assert ask(asked + yes, only("x", action="deny")).against_log == {"allow -> deny": 1}


@pytest.mark.parametrize(
    ("new", "clock", "step"),
    [
        (only("x", forbidden_params=["all"]), "09:00", "parameters"),
        (only("x", allowed_windows=[{"start": "10:00", "end": "12:00"}]), "09:00",
         "outside window"),
        (only("x", allowed_windows=[{"start": "10:00", "end": "12:00"}]), "12:00",
         "outside window"),
        (only("x", allowed_windows=[{"start": "10:00", "end": "12:00"}])
         | {"global": {"timezone": "Asia/Kathmandu"}}, "11:00", "outside window"),
        (only("x", risk_level="critical"), "09:00", "critical risk"),
        (only("x") | {"agents": [{"agent": "a1", "forbidden_tools": ["x"]}]}, "09:00",
         "forbidden tool"),
        (only("z"), "09:00", "tool not listed"),
    ],
)  # fmt: skip
def test_the_step_that_decides_is_named(new: dict[str, Any], clock: str, step: str) -> None:
    result = ask(allowed(clock, tool="x", params={"q": {"all": 1}}), new)

    assert told(result) == [("x", "allow", "allow", "deny", step, 1)]


def test_windows_of_both_policies_split_the_same_calls() -> None:
    calls = allowed("09:59", "10:00", "11:59", "12:00", tool="x")
    hours = [{"start": "10:00", "end": "12:00"}]

    closing = ask(calls, only("x", allowed_windows=hours), only("x"))
    opening = ask(calls, only("x"), only("x", allowed_windows=hours))

    assert closing.against_policy == {"allow -> deny": 2}
    assert (opening.against_log, opening.against_policy) == ({}, {"deny -> allow": 2})


def test_limits_count_what_went_through() -> None:
    calls = allowed(*(at("09:00") + timedelta(seconds=i) for i in range(12)), tool="x")
    tight = OLD | {"rate_limits": {"tool_calls_per_minute": 10}}

    assert told(ask(calls, tight)) == [("x", "allow", "allow", "deny", "limit", 2)]
    assert told(ask(calls, only("x", daily_limit=9))) == [
        ("x", "allow", "allow", "deny", "limit", 3)
    ]
    assert ask(calls, OLD | {"rate_limits": {"tool_calls_per_minute": 12}}).changes == ()


def test_a_days_money_once_spent_leaves_none_for_the_calls_after() -> None:
    cost = events("model_call", "09:00", "10:00", cost_usd="3")
    calls = allowed("09:30", "10:30", "11:00", tool="x")

    result = ask(cost + calls, OLD | {"budgets": {"daily_cost_limit_usd": 5}})

    assert told(result) == [("x", "allow", "allow", "deny", "limit", 2)]


def test_what_a_limit_of_the_gate_refused_is_left_out_and_said() -> None:
    result = ask(denied("09:00", tool="x", reason_code="rate_limited"), OLD)

    assert (result.calls, result.left_out, result.changes) == (1, 1, ())
    assert "1 were refused by a limit" in "\n".join(summary(result))


def test_without_any_policy_before_it_is_held_against_the_log_alone() -> None:
    result = ask(allowed("09:00", tool="y"), OLD, old=None)

    assert told(result) == [("y", "allow", None, "deny", "tool denied", 1)]
    assert (result.against_log, result.against_policy) == ({"allow -> deny": 1}, {})


def test_each_time_has_the_policy_that_was_in_force_then() -> None:
    db = store(numbered(allowed("09:00", "15:00", tool="x")), OLD)
    second = json.dumps({"tools": [{"name": "x", "action": "deny"}]})
    db.execute("INSERT INTO policies VALUES ('v2', ?, 'p', ?)", [at("12:00"), second])

    result = what_if(db, msgspec.convert(OLD, Controls), at("00:00"), at("23:00"))

    assert [(e.in_force, e.first) for e in result.changes] == [("deny", at("15:00"))]
    assert (result.against_log, result.against_policy) == ({}, {"deny -> allow": 1})


def test_only_calls_of_the_range_are_looked_at_and_runs_without_a_decision_are_none() -> None:
    found = numbered(allowed("09:00", "10:00", tool="x") + executed("09:30", tool="x"))
    db = store(found, OLD)

    result = what_if(db, msgspec.convert({}, Controls), at("09:00"), at("10:00"))

    assert (result.calls, result.against_log) == (1, {"allow -> deny": 1})


def test_it_says_itself_as_json_and_as_a_table() -> None:
    result = ask(allowed("09:00", tool="y", agent=None), OLD)

    assert json.loads(json.dumps(result.as_dict()))["changes"][0]["first"] == "2026-03-10T09:00:00Z"
    [row] = table(result)
    assert tuple(row) == HEAD
    assert (row["agent"], row["first"], row["new"]) == ("-", "2026-03-10 09:00", "deny")
    assert summary(result)[1] == "Against the log: 1 allow -> deny."
    assert summary(result)[2] == "Against the policy in force then: nothing changes."
