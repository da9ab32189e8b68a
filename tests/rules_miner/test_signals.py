from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rules_miner.points import REACH, observations
from rules_miner.signals import SIGNALS, observed, prefixes
from rules_miner.traces import Call, Event
from tests.rules_miner import planted
from tests.rules_miner.kit import done, failed, pending, refused, run_of, said

EMPTY: list[Any] = []
CASES: list[tuple[str, list[Event], Call, bool]] = [
    ("missing_target", [done("get_user", response=EMPTY, params={"id": "u7"})],
     pending("refund", id="u7"), True),
    ("missing_target", [done("get_user", response=EMPTY, params={"id": "u7"})],
     pending("refund", id="u8"), False),
    ("missing_target", [done("get_user", response=EMPTY, params={"id": "u7"}),
                        done("find_user", params={"id": "u7"})], pending("refund", id="u7"), False),
    ("missing_target", [failed("get_user", "Error: user not found", params={"id": "u7"})],
     pending("refund", id="u7"), True),
    ("missing_target", [failed("get_user", "time-out", params={"id": "u7"})],
     pending("refund", id="u7"), False),
    ("missing_target", [said("user", "please refund u7"),
                        done("get_user", response=EMPTY, params={"id": "u7"})],
     pending("refund", amount=3), True),
    ("conflict", [done("a", response={"id": "o1", "paid": "yes"}),
                  done("b", response={"id": "o1", "paid": "no"})], pending("refund"), True),
    ("conflict", [done("a", response={"id": "o1", "paid": "yes"}),
                  done("b", response={"id": "o2", "paid": "no"})], pending("refund"), False),
    ("conflict", [done("a", response={"id": "o1", "paid": "yes"}),
                  done("b", response={"id": "o1", "paid": "no"}), done("check", "verify")],
     pending("refund"), False),
    ("conflict", [done("a", response={"id": "o1", "paid": "yes"}), done("pay", "commit"),
                  done("b", response={"id": "o1", "paid": "no"})], pending("refund"), False),
    ("conflict", [done("a", signals=("conflict",))], pending("refund"), True),
    ("empty_result", [done("search_a", response="no results")], pending("search_b"), True),
    ("empty_result", [done("search_a", response_rows=0)], pending("search_b"), True),
    ("empty_result", [done("search_a", response=EMPTY)], pending("get_b"), False),
    ("empty_result", [Event("tool_executed", tool="search_a", status="ok")],
     pending("search_b"), False),
    ("error_result", [failed("a")], pending("b"), True),
    ("error_result", [failed("a"), done("a")], pending("b"), False),
    ("errors_ge_2", [failed("a"), done("a"), failed("c")], pending("b"), True),
    ("errors_ge_2", [failed("a"), done("a")], pending("b"), False),
    ("retry_after_denied", [refused("pay", params={"x": 1})], pending("pay", x=1), True),
    ("retry_after_denied", [refused("pay", params={"x": 1})], pending("pay", x=2), False),
    ("retry_after_denied", [refused("pay", params={"x": 1}, reason_code="expired")],
     pending("pay", x=1), False),
    ("retry_denied_tool", [refused("pay", params={"x": 1})], pending("pay", x=2), True),
    ("retry_denied_tool", [refused("pay", params={"x": 1})], pending("pay", x=1), False),
    ("unconfirmed", [said("user", "how much is it?")], pending("pay"), True),
    ("unconfirmed", [said("user", "Yes, go ahead.")], pending("pay"), False),
    ("unconfirmed", [said("user", "yes, but wait a moment")], pending("pay"), True),
    ("unconfirmed", [said("user", "好的，确认")], pending("pay"), False),
    ("unconfirmed", [said("user", "how much is it?")], pending("get", "lookup"), False),
    ("unconfirmed", [done("a")], pending("pay"), False),
    ("repeat_same_call", [done("pay", params={"x": 1})], pending("pay", x=1), True),
    ("repeat_same_call", [done("pay", params={"x": 1})], pending("pay", x=2), False),
    ("target_never_read", [done("get", response={"id": "o1"})], pending("pay", id="o2"), True),
    ("target_never_read", [done("get", response={"id": "o2"})], pending("pay", id="o2"), False),
    ("target_never_read", [], pending("pay", note="thanks"), False),
    ("new_user_input", [done("a"), said("user", "hello")], pending("b"), True),
    ("new_user_input", [said("user", "hello"), done("a")], pending("b"), False),
]  # fmt: skip
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)
garbage = st.builds(
    Event,
    kind=st.sampled_from(["tool_executed", "tool_decided", "message", "egress"]),
    tool=st.none() | st.sampled_from([*planted.TOOLS, "zap"]),
    op=st.none() | st.sampled_from(["commit", "lookup", "verify"]),
    params=json_values,
    status=st.none() | st.sampled_from(["ok", "error", "denied"]),
    error=st.none() | st.text(max_size=8),
    response=json_values,
    text=st.none() | st.text(max_size=8),
    role=st.none() | st.sampled_from(["user", "assistant"]),
    decision=st.none() | st.sampled_from(["allow", "deny"]),
    signals=st.just(("conflict",)) | st.just(()),
    event_id=st.text(max_size=4),
    call_key=st.text(max_size=4),
)


@pytest.mark.parametrize(("name", "prefix", "call", "holds"), CASES)
def test_a_signal_holds_where_it_says_so(
    name: str, prefix: list[Event], call: Call, holds: bool
) -> None:
    assert SIGNALS[name].holds(prefix, call) is holds


def test_every_signal_for_rules_has_a_case_that_holds_and_one_that_does_not() -> None:
    usable = {name for name, each in SIGNALS.items() if not each.audit_only}

    assert {name for name, *_, holds in CASES if holds} == usable
    assert {name for name, *_, holds in CASES if not holds} == usable


def test_a_signal_known_only_after_the_fact_is_never_observed_for_a_rule() -> None:
    prefix = [said("assistant", "Sorry, I cannot do that.")]

    assert "refusal_text_then_commit" in observed(prefix, pending("pay"), audit=True)
    assert "refusal_text_then_commit" not in observed(prefix, pending("pay"))


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 10_000), future=st.lists(garbage, max_size=8), data=st.data())
def test_nothing_after_a_point_changes_what_is_observed_there(
    seed: int, future: list[Event], data: st.DataObject
) -> None:
    run = data.draw(st.sampled_from(planted.draw(seed, planted.World(families=3))))
    seen = observations(run)
    at = data.draw(st.integers(0, len(seen) - 1))
    point, observation = seen[at]

    pending_call = replace(run.events[point.at], status=None, response="garbage", decision="deny")
    scrambled = (*run.events[: point.at], pending_call, *future)
    again = observations(replace(run, events=scrambled, label="misaction", commit=0))

    assert again[at] == (point, observation)


@settings(max_examples=100, deadline=None)
@given(st.lists(garbage, max_size=12))
def test_no_log_makes_a_signal_raise(events: list[Event]) -> None:
    observations(run_of(*events))


def test_what_lies_too_far_back_for_any_gate_is_forgotten() -> None:
    near, far = (
        observations(run_of(failed("a"), failed("b"), *[said("user", "hm")] * gap, done("c")))
        for gap in (REACH - 2, REACH - 1)
    )

    assert "errors_ge_2" in near[-1][1].signals
    assert "errors_ge_2" not in far[-1][1].signals


def test_prefixes_end_after_a_separator_and_never_hold_the_whole_name() -> None:
    assert prefixes("crm.export_contacts") == ("crm.", "crm.export_")
    assert prefixes("bash") == ("bash",)
    assert prefixes("_hidden_") == ("_hidden_",)
