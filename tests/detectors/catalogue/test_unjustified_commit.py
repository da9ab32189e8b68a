import random
from typing import Any

import pytest

from tests.kit import Event, at, events, judge

NAME = "unjustified_commit"


def columns(dice: random.Random) -> dict[str, Any]:
    return {
        "op": dice.choice(["commit", "lookup", "verify", None]),
        "stance": dice.choice([None, None, "act", "abstain", "clarify"]),
        "signals": dice.choice([None, None, ["conflict"], ["missing_target", "flagged"]]),
        "role": dice.choice([None, None, None, "user"]),
        "response": dice.choice([None, {}, {"id": 1}]),
    }


def decided(clock: str, **more: Any) -> list[Event]:
    base = {"tool": "refund.create", "op": "commit", "trace_id": "t-1", "decision": "allow"}
    return events("tool_decided", clock, **base | more)


def looked(clock: str, **more: Any) -> list[Event]:
    base = {"tool": "order.get", "op": "lookup", "trace_id": "t-1", "status": "ok"}
    return events("tool_executed", clock, **base | more)


def committed(clock: str, **more: Any) -> list[Event]:
    base = {"tool": "refund.pay", "op": "commit", "trace_id": "t-1", "status": "ok"}
    return events("tool_executed", clock, **base | more)


def checked(clock: str, **more: Any) -> list[Event]:
    return looked(clock, tool="order.verify", op="verify", **more)


def user(clock: str, **more: Any) -> list[Event]:
    base = {"role": "user", "text": "yes, please", "trace_id": "t-1", "agent": None}
    return events("message", clock, **base | more)


def test_a_commit_after_the_gate_said_abstain_fires() -> None:
    [found] = judge(NAME, decided("09:00", stance="abstain") + committed("09:01"))

    assert (found["subject"], found["tool"], found["severity"]) == ("a1", "refund.pay", "high")
    assert (found["because"], found["code"]) == ("its gate had said abstain", "said_abstain")
    assert (found["started_at"], found["ended_at"]) == (at("09:00"), at("09:01"))
    assert found["event_ids"] == ["e00000", "e00001"]


def test_a_commit_that_carries_its_own_stance_fires_unless_that_is_act() -> None:
    assert judge(NAME, committed("09:00", stance="clarify"))
    assert judge(NAME, committed("09:00", stance="act")) == []


@pytest.mark.parametrize(
    "between",
    [
        decided("09:01", stance="act"),
        decided("09:01", stance="gather"),
        user("09:01"),
    ],
)
def test_a_later_word_of_the_gate_or_the_user_is_quiet(between: list[Event]) -> None:
    said = decided("09:00", stance="clarify")

    assert judge(NAME, said + committed("09:02"))
    assert judge(NAME, said + between + committed("09:02")) == []
    assert judge(NAME, said + committed("09:00:30") + between)


@pytest.mark.parametrize(
    ("signal", "code"),
    [
        ("conflict", "conflicting_evidence"),
        ("missing_authority", "no_authority"),
        ("missing_inputs", "inputs_are_the_users"),
        ("missing_target", "no_target"),
    ],
)
def test_a_commit_against_a_signal_of_the_log_fires_and_after_a_check_it_is_quiet(
    signal: str, code: str
) -> None:
    told = looked("09:00", signals=[signal, "clock_skew"])

    [found] = judge(NAME, told + committed("09:05"))

    assert found["code"] == code
    assert judge(NAME, told + checked("09:01", response={"ok": 1}) + committed("09:05")) == []
    assert judge(NAME, told + looked("09:05")) == []


def test_signals_that_say_nothing_of_the_kind_are_quiet() -> None:
    assert judge(NAME, looked("09:00", signals=["flagged"]) + committed("09:05")) == []


def test_other_runs_agents_and_tenants_are_quiet() -> None:
    for other in ({"trace_id": "t-2"}, {"agent": "a2"}, {"tenant": "acme"}):
        assert judge(NAME, decided("09:00", stance="abstain", **other) + committed("09:01")) == []


def test_a_run_is_a_session_where_there_is_no_trace_so_it_fires() -> None:
    run = {"trace_id": None, "session": "s-1"}

    assert judge(NAME, decided("09:00", stance="abstain", **run) + committed("09:01", **run))


NOT_THERE = {"status": "error", "error": "order 4711 not found"}
ORDER = {"params": {"order_id": "o-4711"}}


@pytest.mark.parametrize(
    ("answer", "fires"),
    [
        (NOT_THERE, True),
        ({"response": {}}, True),
        ({"status": "error", "error": "upstream timed out"}, False),
        ({"response": {"order_id": "o-4711"}}, False),
        ({"status": "ok"}, False),  # an answer that was never logged is not empty
        ({"response_rows": 0}, False),  # a list of nothing: the thing itself may be there
        ({"response_rows": 0, "target": "orders/o-4711"}, True),
    ],
)
def test_a_commit_on_what_was_not_found_fires(answer: dict[str, Any], fires: bool) -> None:
    sought = looked("09:00", **ORDER | answer)
    act = committed("09:05", target=answer.get("target"), params={"order_id": "o-4711", "usd": 12})

    assert bool(judge(NAME, sought + act)) is fires


def test_what_was_found_later_and_another_thing_are_quiet() -> None:
    sought = looked("09:00", **ORDER | NOT_THERE)
    act = {"params": {"order_id": "o-4711"}}

    assert judge(NAME, sought + committed("09:05", **act))
    for quiet in (
        looked("09:01", **ORDER, response={"id": 1}) + committed("09:05", **act),
        committed("09:05", params={"order_id": "o-4712"}),
        committed("09:05"),
        committed("09:05", **act, tool="order.create"),
        committed("09:05", **act, status="denied"),
        committed("08:59", **act),
    ):
        assert judge(NAME, sought + quiet) == []


def test_what_was_known_six_hours_before_is_quiet_by_a_second() -> None:
    for clock, fires in (("03:00", True), ("02:59:59", False)):
        found = judge(NAME, decided(clock, stance="abstain") + committed("09:00"))
        assert bool(found) is fires


def test_budgets_and_risk_fire_only_when_the_whole_gate_is_asked_for() -> None:
    check = checked("09:00", response={"ok": 1})
    for trace, code in (
        (check + committed("09:01"), None),
        (check + committed("09:01") + committed("09:02"), "commits_used_up"),
        (check + committed("09:01", attrs={"risk_native": "0.7"}), "risk_is_high"),
        (check + committed("09:01", attrs={"risk_native": "0.4"}), "risk_of_a_commit"),
        (check + committed("09:01", attrs={"risk_native": "0.35"}), None),
        (check + committed("09:01", risk="critical", attrs={"risk_native": "loud"}), None),
        (committed("09:01"), "not_verified"),
    ):
        assert judge(NAME, trace) == []
        assert [row["code"] for row in judge(NAME, trace, basis="all")] == [code] * bool(code)


def test_the_call_says_what_an_execution_leaves_out_so_it_fires() -> None:
    call = {"call_id": "call-0123456789abc"}
    run = decided("09:00", stance="abstain", **call)
    bare = events("tool_executed", "09:01", agent=None, trace_id="t-1", status="ok", **call)

    [found] = judge(NAME, run + bare)

    assert (found["subject"], found["tool"]) == ("a1", "refund.create")
