import random
from typing import Any

import pytest

from ingest.config import ConfigError
from tests.kit import Event, allowed, denied, events, executed, judge

NAME = "unconfirmed_commit"
YES, QUESTION = "Yes, please go ahead.", "What does it cost?"


def commit(clock: str, **columns: Any) -> list[Event]:
    base = {"tool": "cancel_order", "op": "commit", "params": {"order": "order-7781"}}
    return executed(clock, **base | columns)


def user(clock: str, text: str, **columns: Any) -> list[Event]:
    return events("message", clock, **{"trace_id": "t-1", "role": "user", "text": text} | columns)


def agent(clock: str, text: str) -> list[Event]:
    return user(clock, text, role="assistant")


def columns(dice: random.Random) -> dict[str, Any]:
    said = {"kind": "message", "tool": None, "role": dice.choice(["user", "user", "assistant"])}
    said["text"] = dice.choice([YES, QUESTION, "Shall I proceed?", None])
    return dice.choice([said, {"kind": "tool_executed", "op": "commit"}, {"op": "commit"}])


def test_a_commit_after_a_question_of_the_user_fires() -> None:
    [found] = judge(NAME, user("09:00", QUESTION) + commit("09:01"))

    assert (found["subject"], found["tool"], found["severity"]) == ("a1", "cancel_order", "medium")
    assert found["last_words"] == QUESTION
    assert found["event_ids"] == ["e00000", "e00001"]


@pytest.mark.parametrize("yes", [YES, "Sure", "是的，请办理。", "OK"])
def test_a_commit_after_a_yes_is_quiet(yes: str) -> None:
    assert judge(NAME, user("09:00", yes) + commit("09:01")) == []


@pytest.mark.parametrize(
    "words", ["Yes?", "yes, but wait", "No", "I'll take the first one", "不是"]
)
def test_what_is_no_clear_yes_fires(words: str) -> None:
    assert judge(NAME, user("09:00", words) + commit("09:01"))


def test_only_the_last_words_count() -> None:
    assert judge(NAME, user("09:00", YES) + user("09:01", "No, stop") + commit("09:02"))
    assert judge(NAME, user("09:00", "No, stop") + user("09:01", YES) + commit("09:02")) == []


def test_a_question_of_the_agent_after_the_yes_fires_until_it_is_answered() -> None:
    talk = user("09:00", YES) + agent("09:01", "It costs 90 EUR. Would you like me to proceed?")

    [found] = judge(NAME, talk + commit("09:03"))

    assert found["reason"] == "the agent asked after the user's last words"
    assert judge(NAME, talk + user("09:02", YES) + commit("09:03")) == []
    assert judge(NAME, user("09:00", YES) + agent("09:01", "One moment.") + commit("09:03")) == []


def test_an_order_with_every_value_is_quiet_unless_it_is_not_enough() -> None:
    order = user("09:00", "Please cancel ORDER-7781 now") + commit("09:01")

    assert judge(NAME, order) == []
    assert judge(NAME, order, orders="not enough")
    assert judge(NAME, user("09:00", "Cancel it") + commit("09:01"))
    assert judge(NAME, user("09:00", "What of order-7781?") + commit("09:01"))


def test_without_the_users_words_in_this_talk_it_is_quiet() -> None:
    assert judge(NAME, commit("09:01")) == []
    assert judge(NAME, agent("09:00", "Hello") + commit("09:01")) == []
    assert judge(NAME, user("09:00", QUESTION, trace_id="t-2") + commit("09:01")) == []
    assert judge(NAME, user("09:00", QUESTION, tenant="acme") + commit("09:01")) == []
    assert judge(NAME, user("09:02", QUESTION) + commit("09:01")) == []


def test_lookups_failures_and_what_a_person_approved_are_quiet() -> None:
    asked, call = user("09:00", QUESTION), {"call_id": "call-0123456789abc"}
    approved = events("approval_decided", "09:01", decision="allow", trace_id="t-1", **call)

    assert judge(NAME, asked + commit("09:02", op="lookup")) == []
    assert judge(NAME, asked + commit("09:02", status="error")) == []
    assert judge(NAME, asked + denied("09:02", tool="cancel_order", op="commit")) == []
    assert judge(NAME, asked + approved + commit("09:02", **call)) == []
    assert judge(NAME, asked + allowed("09:01", **call) + commit("09:02", **call))


def test_words_an_hour_old_fire_and_older_ones_are_quiet() -> None:
    assert judge(NAME, user("09:00", QUESTION) + commit("10:00"))
    assert judge(NAME, user("09:00", QUESTION) + commit("10:00:01")) == []


def test_only_named_tools_fire_and_those_that_the_policy_holds_for_approval_fire_high() -> None:
    talk = user("09:00", QUESTION) + commit("09:01")
    rules = {"tools": [{"name": "cancel_order", "action": "require_approval"}]}

    [found] = judge(NAME, talk, rules, tools="refund*, cancel_*")

    assert found["severity"] == "high"
    assert judge(NAME, talk, rules, tools="refund*") == []


def test_other_choices_are_refused() -> None:
    with pytest.raises(ConfigError, match="no choice"):
        judge(NAME, [], orders="never")
