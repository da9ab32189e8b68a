import random
from typing import Any

import pytest

from tests.kit import Event, denied, events, executed, judge

NAME = "late_abstention"
REFUSAL = "I'm sorry, but I cannot send this email."


def call(*clock: str, **columns: Any) -> list[Event]:
    return executed(*clock, **{"tool": "crm.get"} | columns)


def says(clock: str, text: str = REFUSAL, role: str = "assistant", **columns: Any) -> list[Event]:
    return events("message", clock, **{"trace_id": "t-1", "role": role, "text": text} | columns)


def columns(dice: random.Random) -> dict[str, Any]:
    role, text = dice.choice([("assistant", REFUSAL), ("user", "And now?"), (None, None)])
    said = {"kind": "message", "tool": None, "role": role, "text": text}
    told = {"stance": dice.choice([None, "abstain", "clarify"])}
    return {"agent": "a1", "trace_id": dice.choice(["t-1", None]), **dice.choice([said, told, {}])}


def test_two_calls_after_a_denial_and_then_a_refusal_fire() -> None:
    [found] = judge(NAME, denied("09:00") + call("09:01", "09:02") + says("09:03"))

    assert (found["subject"], found["severity"], found["trigger"]) == ("a1", "low", "a denial")
    assert (found["further"], found["commits"], found["way"]) == (2, 0, "in words")
    assert found["event_ids"] == ["e00000", "e00001", "e00002", "e00003"]


def test_one_call_after_the_denial_is_timely_and_quiet() -> None:
    one = denied("09:00") + call("09:01") + says("09:03")

    assert judge(NAME, one) == []
    assert judge(NAME, one, calls=0)
    assert judge(NAME, call("08:58", "08:59") + denied("09:00") + says("09:03"), calls=0) == []


@pytest.mark.parametrize(
    ("columns", "trigger"),
    [
        ({"signals": ["conflict"]}, "conflict"),
        ({"signals": ["missing_authority"]}, "missing authority"),
        ({"signals": ["missing_target"]}, "missing target"),
        ({"stance": "abstain"}, "abstain"),
        ({"stance": "clarify"}, "clarify"),
        ({"decision": "deny"}, "a denial"),
    ],
)
def test_each_kind_of_trigger_fires(columns: dict[str, Any], trigger: str) -> None:
    told = events("tool_decided", "09:00", trace_id="t-1", tool="mail.send", **columns)

    [found] = judge(NAME, told + call("09:01", "09:02") + says("09:03"))

    assert found["trigger"] == trigger


def test_an_error_that_forbids_fires_and_one_that_only_failed_is_quiet() -> None:
    after = call("09:01", "09:02") + says("09:03")

    assert judge(NAME, call("09:00", status="error", error="403: not allowed") + after)
    assert judge(NAME, call("09:00", status="error", error="connection reset") + after) == []
    assert judge(NAME, denied("09:00", reason_code="expired") + after) == []


def test_a_commit_among_the_further_calls_fires_medium() -> None:
    [found] = judge(
        NAME, denied("09:00") + call("09:01") + call("09:02", op="commit") + says("09:03")
    )

    assert (found["severity"], found["commits"]) == ("medium", 1)


def test_new_words_of_the_user_begin_anew_so_it_is_quiet() -> None:
    asked = denied("09:00") + says("09:00:30", "Try the other one", "user")

    assert judge(NAME, asked + call("09:01", "09:02") + says("09:03")) == []
    assert judge(NAME, asked + denied("09:00:45") + call("09:01", "09:02") + says("09:03"))


def test_a_hand_over_and_a_stance_end_it_as_words_do_and_fire() -> None:
    late = denied("09:00") + call("09:01", "09:02")
    stance = events("agent_run", "09:03", trace_id="t-1", stance="abstain")

    [over] = judge(NAME, late + executed("09:03", tool="transfer_to_human_agents"))
    [logged] = judge(NAME, late + stance)

    assert (over["way"], logged["way"]) == ("handed over", "by its stance")
    assert over["further"] == logged["further"] == 2


def test_without_a_trigger_or_an_abstention_or_in_another_talk_it_is_quiet() -> None:
    late = denied("09:00") + call("09:01", "09:02")

    assert judge(NAME, call("09:01", "09:02") + says("09:03")) == []
    assert judge(NAME, late + says("09:03", "All done.")) == []
    assert judge(NAME, late + says("09:03", trace_id="t-2")) == []
    assert judge(NAME, late + says("09:03", tenant="acme")) == []


def test_a_trigger_an_hour_old_fires_and_an_older_one_is_quiet() -> None:
    assert judge(NAME, denied("09:00") + call("09:01", "09:02") + says("10:00"))
    assert judge(NAME, denied("09:00") + call("09:01", "09:02") + says("10:00:01")) == []


def test_many_calls_fire_with_twenty_events_at_most() -> None:
    many = call(*(f"09:01:{n:02}" for n in range(50)))

    [found] = judge(NAME, denied("09:00") + many + says("09:03"))

    assert (found["further"], len(found["event_ids"])) == (50, 20)
