import random
from typing import Any

import pytest

from tests.kit import Event, events, judge

POLICY = {"tools": [{"name": "gate.write", "action": "require_approval"}]}
WIDER: dict[str, Any] = {"config_before": {"audit": True}, "config_after": {"audit": False}}


def columns(dice: random.Random) -> dict[str, Any]:
    return {
        "kind": dice.choice(["config_changed", "config_changed", "approval_decided", "egress"]),
        "principal": dice.choice([None, "svc-a", "ann"]),
        "approver": dice.choice([None, None, "ann"]),
        "config_after": dice.choice([None, {"audit": False}, {"audit": True}, {"v": 1}]),
        "approval_id": dice.choice([None, None, "ap-1", "ap-2"]),
        "decision": dice.choice([None, "allow"]),
    }


def change(*clock: str, **columns: Any) -> list[Event]:
    base = {"config_object": "gate.yaml", "tool": "gate.write", "trace_id": "t-1"}
    return [
        event
        for at in clock
        for event in events("config_changed", at, **base | {"config_after": {"v": at}} | columns)
    ]


def approval(clock: str, **columns: Any) -> list[Event]:
    return events("approval_decided", clock, **{"decision": "allow", "approver": "ann"} | columns)


def test_a_change_that_the_policy_wants_approved_fires() -> None:
    [found] = judge("unapproved_config_change", change("09:00"), POLICY)

    assert (found["subject"], found["who"], found["severity"]) == ("gate.yaml", "a1", "medium")
    assert found["demanded"] == "by the policy"


def test_where_nobody_approves_changes_they_are_quiet() -> None:
    assert judge("unapproved_config_change", change("09:00", "09:10", "09:20")) == []


def test_a_change_that_widens_rights_fires_high_even_there() -> None:
    [found] = judge("unapproved_config_change", change("09:00", **WIDER))

    assert (found["severity"], found["widens"]) == ("high", ["audit is off"])


def test_what_was_there_before_is_known_from_the_change_before_so_it_fires() -> None:
    allowed = [{"allowed_tools": ["x"]}, {"allowed_tools": ["x", "y"]}]

    [found] = judge(
        "unapproved_config_change",
        change("09:00", config_after=allowed[0]) + change("09:10", config_after=allowed[1]),
    )

    assert found["widens"] == ["allowed_tools gains y"]


def test_an_agents_change_where_others_are_approved_fires_for_a_week() -> None:
    other = change("2026-03-03T09:00:00", config_object="b", approver="ann")

    assert judge("unapproved_config_change", other + change("09:00"))
    assert judge("unapproved_config_change", other + change("09:00:01")) == []


def test_a_persons_change_is_quiet_and_of_an_object_under_approval_fires() -> None:
    mine = change("09:00", agent=None, principal="ann", **WIDER)

    assert judge("unapproved_config_change", mine) == []
    other = change("08:00", config_object="b", approver="bob")
    assert judge("unapproved_config_change", other + mine) == []
    assert judge("unapproved_config_change", change("08:00", approver="bob") + mine)
    assert judge("unapproved_config_change", mine, POLICY)
    assert judge(
        "unapproved_config_change", change("09:00", agent=None, principal="svc-x", **WIDER)
    )


@pytest.mark.parametrize(
    "joined",
    [
        {"call_id": "call-0123456789abcdef"},
        {"call_id": "c-1", "session": "s-1"},
        {"approval_id": "ap-1"},
        {"trace_id": "t-1"},
        {"trace_id": "t-1", "tool": "gate.write"},
    ],
)
def test_an_approval_before_the_change_is_quiet_and_after_it_fires(joined: dict[str, str]) -> None:
    own = change("09:00", **joined)

    assert judge("unapproved_config_change", approval("08:59", **joined) + own, POLICY) == []
    assert judge("unapproved_config_change", approval("09:01", **joined) + own, POLICY)


@pytest.mark.parametrize(
    "joined",
    [
        {"trace_id": "t-1", "tool": "other"},
        {"trace_id": "t-2"},
        {"trace_id": "t-1", "decision": "deny"},
        {"trace_id": "t-1", "tenant": "acme"},
        {"call_id": "c-1"},
    ],
)
def test_an_approval_of_something_else_fires(joined: dict[str, str]) -> None:
    own = change("09:00", **({"call_id": "c-1"} if "call_id" in joined else {}))

    assert judge("unapproved_config_change", approval("08:59", **joined) + own, POLICY)


def test_an_approval_exactly_within_is_quiet_and_a_second_older_fires() -> None:
    yes = approval("08:00", trace_id="t-1")

    assert judge("unapproved_config_change", yes + change("09:00"), POLICY, within="1 hour") == []
    assert judge("unapproved_config_change", yes + change("09:00:01"), POLICY, within="1 hour")


@pytest.mark.parametrize(
    "columns", [{"decision": "deny"}, {"status": "error"}, {"approver": "ann"},
                {"config_before": {"v": 1}, "config_after": {"v": 1}}],
)  # fmt: skip
def test_what_did_not_happen_or_was_approved_on_the_line_is_quiet(columns: dict[str, Any]) -> None:
    assert judge("unapproved_config_change", change("09:00", **columns), POLICY) == []


def test_objects_that_anybody_may_change_are_quiet() -> None:
    assert judge("unapproved_config_change", change("09:00", **WIDER), free="x, gate.*") == []
