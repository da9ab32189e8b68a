import random
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.kit import Event, at, case, denied, executed, judge

LOW = {"times": 2, "polls": 3, "cycles": 2, "within": "1 hour"}
FOUND = {"tickets": [{"id": 7, "owner": "nobody"}]}


def columns(dice: random.Random) -> dict[str, Any]:
    return {
        "kind": "tool_executed",
        "op": dice.choice(["commit", "lookup", "verify", None]),
        "response": dice.choice([None, {"rows": [1]}, {"rows": [1]}, {"state": "pending"}]),
        "call_id": None,
        "trace_id": dice.choice(["t-1", "t-1", "t-2"]),
        "status": dice.choice(["ok", "ok", "error"]),
    }


def seconds(count: int, every: float = 20, start: str = "09:00") -> list[Any]:
    return [at(start) + i * timedelta(seconds=every) for i in range(count)]


def asked(*clock: Any, **more: Any) -> list[Event]:
    own = {"tool": "crm.search", "op": "lookup", "params": {"q": "x"}, "response": FOUND}
    return executed(*clock, **own | more)


def round_and_round(times: int, *tools: str, every: float = 10, **more: Any) -> list[Event]:
    """The tools in turn, so many times."""
    clock = seconds(times * len(tools), every)
    return [
        event
        for i, when in enumerate(clock)
        for event in asked(when, **{"tool": tools[i % len(tools)], **more})
    ]


def test_ten_times_the_same_answer_fires_and_nine_times_is_quiet() -> None:
    [found] = judge("call_loop", asked(*seconds(10)))

    assert (found["subject"], found["times"], found["what"]) == ("a1", 10, "crm.search")
    assert (found["severity"], found["cycle"], len(found["event_ids"])) == ("medium", 1, 10)
    assert judge("call_loop", asked(*seconds(9))) == []


def test_exactly_within_fires_and_a_second_more_is_quiet() -> None:
    assert judge("call_loop", asked(*seconds(9), "09:10"))
    assert judge("call_loop", asked(*seconds(9), "09:10:01")) == []


def test_each_further_call_is_a_row_so_twelve_fire_three_times() -> None:
    assert [row["times"] for row in judge("call_loop", asked(*seconds(12)))] == [10, 11, 12]


def test_answers_that_change_are_quiet() -> None:
    polls = [event for i, t in enumerate(seconds(40, 15)) for event in asked(t, response={"n": i})]

    assert judge("call_loop", polls) == []


def test_polling_until_it_is_ready_is_quiet() -> None:
    job = {"tool": "build.get", "params": {"id": 7}}
    polls = asked(*seconds(40, 14), response={"state": "running"}, **job)

    assert judge("call_loop", polls + asked("09:09:50", response={"state": "done"}, **job)) == []


def test_an_answer_that_differs_begins_a_new_count_so_nine_and_nine_are_quiet() -> None:
    first, last = asked(*seconds(9)), asked(*seconds(9, start="09:05"))

    assert judge("call_loop", first + asked("09:04", response={"tickets": []}) + last) == []
    assert judge("call_loop", first + last)


def test_fifty_looks_at_what_is_not_ready_fire_low_and_forty_nine_are_quiet() -> None:
    pending = {"response": {"state": "pending"}}

    [found] = judge("call_loop", asked(*seconds(50, 10), **pending))

    assert found["severity"] == "low"
    assert judge("call_loop", asked(*seconds(49, 10), **pending)) == []


def test_unknown_answers_are_given_as_much_so_forty_nine_are_quiet_and_fifty_fire() -> None:
    assert judge("call_loop", asked(*seconds(49, 10), response=None)) == []
    [found] = judge("call_loop", asked(*seconds(50, 10), response=None))
    assert (found["severity"], found["result_known"]) == ("low", False)


def test_a_digest_of_the_answer_is_as_good_so_it_fires() -> None:
    assert judge("call_loop", asked(*seconds(10), response=None, response_digest="d"))


def test_the_same_error_ten_times_fires() -> None:
    assert judge("call_loop", asked(*seconds(10), response=None, status="error", error="no route"))


def test_ten_agents_tenants_or_traces_with_one_question_are_quiet() -> None:
    for name in ("agent", "tenant", "trace_id"):
        each = [e for i, t in enumerate(seconds(40)) for e in asked(t, **{name: f"n{i % 5}"})]
        assert judge("call_loop", each) == []


def test_other_parameters_each_time_are_quiet() -> None:
    each = [e for i, t in enumerate(seconds(40, 10)) for e in asked(t, params={"page": i})]

    assert judge("call_loop", each) == []


def test_denied_calls_and_commits_are_quiet_here() -> None:
    assert judge("call_loop", denied(*seconds(40), params={"q": "x"})) == []
    assert judge("call_loop", asked(*seconds(40), status="denied")) == []
    assert judge("call_loop", asked(*seconds(40), op="commit")) == []


@pytest.mark.parametrize("tools", ["ab", "abc", "abcd"])
def test_a_short_cycle_fires_the_fifth_time_round_and_is_quiet_before(tools: str) -> None:
    [found] = judge("call_loop", round_and_round(5, *tools))

    assert (found["cycle"], found["times"], found["tools"]) == (len(tools), 5, sorted(tools))
    assert len(found["event_ids"]) == 5 * len(tools)
    assert judge("call_loop", round_and_round(5, *tools)[:-1]) == []


def test_a_cycle_of_five_is_quiet() -> None:
    assert judge("call_loop", round_and_round(6, *"abcde")) == []


def test_a_cycle_that_learns_something_is_quiet() -> None:
    turning = round_and_round(6, "a", "b")
    turning[5]["response"] = {"tickets": [{"id": 8}]}

    assert judge("call_loop", turning) == []


def test_a_cycle_of_edits_with_the_same_outcome_fires_and_with_other_edits_it_is_quiet() -> None:
    turning = round_and_round(5, "file.edit", "tests.run", op="commit")
    assert judge("call_loop", turning)

    for i, event in enumerate(turning[::2]):
        event["params"] = {"line": i}
    assert judge("call_loop", turning) == []


def test_to_wait_and_to_look_in_turn_is_quiet() -> None:
    assert judge("call_loop", round_and_round(9, "sleep", "build.get")) == []


def test_a_cycle_slower_than_within_is_quiet() -> None:
    assert judge("call_loop", round_and_round(5, "a", "b", every=67)) == []
    assert judge("call_loop", round_and_round(5, "a", "b", every=66))


def test_a_worker_that_asked_so_the_day_before_is_quiet_and_a_new_one_fires_for_a_day() -> None:
    first = at("2026-03-08T00:00:00")
    job = asked(*[first + i * timedelta(seconds=60) for i in range(60 * 30)], params={"q": "new"})

    rows = judge("call_loop", job)

    assert rows[0]["ended_at"] == first + timedelta(minutes=9)
    assert max(row["ended_at"] for row in rows) < first + timedelta(hours=30)


def test_a_thousand_calls_fire_with_the_last_twenty_as_evidence_d10() -> None:
    rows = judge("call_loop", asked(*seconds(1_000, 0.5)))

    assert rows[-1]["times"] == 1_000
    assert rows[-1]["event_ids"] == [f"e{i:05}" for i in range(980, 1_000)]


def test_the_same_event_of_one_call_told_twice_counts_once_so_it_is_quiet_d13() -> None:
    twice = [
        e for i, t in enumerate(seconds(9)) for e in asked(t, t, call_id=f"call-0123456789-{i}")
    ]

    assert judge("call_loop", twice) == []


def test_a_loop_over_the_edge_of_any_bucket_fires_d21() -> None:
    assert judge("call_loop", asked(*seconds(10, start="09:58:20")))


@pytest.mark.parametrize("which", ["B064", "B066", "B069", "B083"])
def test_forty_polls_without_an_answer_and_denials_are_quiet(tmp_path: Path, which: str) -> None:
    assert case("call_loop", tmp_path, which) == []
