import random
from datetime import timedelta
from typing import Any

import pytest

from tests.kit import Event, allowed, at, denied, events, executed, judge

RULES = {
    "global": {"timezone": "Asia/Kathmandu"},
    "rate_limits": {
        "tool_calls_per_minute": 2, "tool_calls_per_task": 9, "external_requests_per_hour": 3,
        "outbound_messages_per_day": 4, "recipients_per_message": 1,
    },
    "budgets": {"daily_cost_limit_usd": 0.5},
    "tools": [{"name": "y", "action": "allow", "daily_limit": 3}],
}  # fmt: skip
WIDE = {"tool_calls_per_minute": 9999, "tool_calls_per_task": 9999}
SHANGHAI = {"timezone": "Asia/Shanghai"}


def columns(dice: random.Random) -> dict[str, Any]:
    return {
        "kind": dice.choice(["tool_decided", "tool_executed", "egress", "model_call"]),
        "tool": dice.choice(["x", "y", "mail.send", None]),
        "params": dice.choice([None, {"to": "a@x,b@x"}, {"to": ["a@x"], "cc": "A@x"}]),
        "cost_usd": dice.choice([None, "0.1", "0.000000001"]),
        "decision": dice.choice([None, "allow", "allow", "deny"]),
    }


def every(count: int, seconds: float, start: str = "09:00", **more: Any) -> list[Event]:
    """Calls that are allowed, `seconds` apart."""
    first, own = at(start), {"trace_id": None} | more
    return [
        each
        for i in range(count)
        for each in allowed(
            first + timedelta(seconds=i * seconds), **{"call_id": f"{start}-{i}-0123456789"} | own
        )
    ]


def used(found: list[Event], **rules: Any) -> list[tuple[str, str]]:
    rows = judge("limit_exceeded", found, {"rate_limits": WIDE, **rules})
    return [(row["limit_name"], row["used"]) for row in rows]


def test_the_31st_call_of_a_minute_fires_and_the_30th_is_quiet() -> None:
    [found] = judge("limit_exceeded", every(31, 1.9), {})

    assert found["subject"] == "a1 · tool_calls_per_minute"
    assert (found["used"], found["allowed"], found["severity"]) == ("31", "30", "medium")
    assert len(found["event_ids"]) == 20
    assert judge("limit_exceeded", every(30, 1.9), {}) == []


def test_the_minute_slides_and_leaves_out_what_is_exactly_a_minute_ago() -> None:
    assert judge("limit_exceeded", every(31, 2), {}) == []
    [found] = judge("limit_exceeded", every(31, 1.999), {})
    assert found["ended_at"] == at("09:00") + timedelta(seconds=30 * 1.999)


def test_at_one_instant_it_is_the_31st_that_is_one_too_many() -> None:
    [found] = judge("limit_exceeded", every(35, 0), {})

    assert found["used"] == "31"


def test_every_further_call_fires_but_no_more_than_a_row_in_ten_seconds() -> None:
    found = judge("limit_exceeded", every(60, 1), {})

    assert [row["used"] for row in found] == ["31", "41", "51"]


def test_without_a_policy_file_it_is_quiet() -> None:
    assert judge("limit_exceeded", every(99, 0.1)) == []


def test_calls_that_were_denied_do_not_count_and_are_quiet() -> None:
    refused = denied(*(at("09:00") + timedelta(seconds=i) for i in range(40)))

    assert judge("limit_exceeded", refused + every(30, 1), {}) == []


def test_a_denied_call_that_was_executed_counts_and_fires() -> None:
    refused = denied("09:00:10", call_id="call-0123456789-x", trace_id=None)
    ran = executed("09:00:31", call_id="call-0123456789-x", trace_id=None)

    [found] = judge("limit_exceeded", every(30, 1) + refused + ran, {})

    assert found["ended_at"] == at("09:00:31")


def test_a_call_counts_once_when_it_was_allowed_and_executed() -> None:
    ran = [
        each
        for i in range(30)
        for each in executed(at("09:00") + timedelta(seconds=i + 1),
                             call_id=f"09:00-{i}-0123456789", trace_id=None)
    ]  # fmt: skip

    assert judge("limit_exceeded", every(30, 1) + ran, {}) == []


def test_agents_and_tenants_do_not_add_up_and_stay_quiet() -> None:
    mixed = every(20, 1) + every(20, 1, agent="a2") + every(20, 1, tenant="acme")

    assert judge("limit_exceeded", mixed, {}) == []


def test_a_task_has_its_own_count_over_a_day() -> None:
    limit = {"rate_limits": {**WIDE, "tool_calls_per_task": 5}}
    long = every(3, 1, task="t") + every(3, 1, start="2026-03-11T08:59:57", task="t")

    [found] = judge("limit_exceeded", long, limit)

    assert (found["about"], found["used"]) == ("t", "6")
    assert (
        judge("limit_exceeded", long[:3] + every(3, 1, "2026-03-11T09:00", task="t"), limit) == []
    )
    assert judge("limit_exceeded", every(5, 1, task="t") + every(5, 1, task="u"), limit) == []


def test_without_a_task_the_trace_is_the_task() -> None:
    limit = {"rate_limits": {**WIDE, "tool_calls_per_task": 2}}

    [found] = judge("limit_exceeded", every(3, 1, trace_id="t-1"), limit)

    assert found["about"] == "t-1"


def test_external_requests_are_egress_and_executed_calls_with_a_host() -> None:
    out = events(
        "egress", *(at("09:00") + timedelta(minutes=i) for i in range(25)), host="a.example"
    )
    ran = executed(*(at("09:30") + timedelta(minutes=i) for i in range(26)), host="a.example",
                   trace_id=None)  # fmt: skip
    local = executed(*(at("09:30") + timedelta(minutes=i) for i in range(9)), trace_id=None)

    assert used(out + ran + local) == [("external_requests_per_hour", "51")]
    assert used(out + ran[:25] + local) == []


@pytest.mark.parametrize(("second", "fires"), [("15:59:59", True), ("16:00", False)])
def test_a_tools_day_is_a_day_of_the_policys_zone(second: str, fires: bool) -> None:
    tools = [{"name": "sms", "action": "allow", "daily_limit": 1}]
    calls = every(1, 0, "2026-03-09T16:00", tool="sms") + every(1, 0, second, tool="sms")

    assert bool(used(calls, tools=tools, **{"global": SHANGHAI})) is fires


def test_a_day_on_which_clocks_are_set_back_has_25_hours_and_fires_in_the_last() -> None:
    tools = [{"name": "sms", "action": "allow", "daily_limit": 1}]
    calls = every(1, 0, "2026-11-01T04:00", tool="sms") + every(
        1, 0, "2026-11-02T04:59", tool="sms"
    )

    found = used(calls, tools=tools, **{"global": {"timezone": "America/New_York"}})

    assert found == [("daily_limit", "2")]


def test_messages_of_a_day_are_those_of_all_tools_that_send() -> None:
    limit = {**WIDE, "outbound_messages_per_day": 2}
    sent = [
        each
        for n, tool in enumerate(("mail.send", "sendSms", "slack.post_message", "mail.read"))
        for each in every(1, 0, f"09:0{n}", tool=tool, op=None if n < 3 else "lookup")
    ]

    assert used(sent, rate_limits=limit) == [("outbound_messages_per_day", "3")]
    assert used(sent[:2] + sent[3:], rate_limits=limit) == []


@pytest.mark.parametrize(
    ("params", "count"),
    [
        ({"to": "a@x, b@x; c@x"}, 3),
        ({"to": ["a@x", "b@x"], "cc": "c@x", "bcc": None}, 3),
        ({"to": [{"email": "a@x"}, {"email": "b@x"}], "bcc": ["c@x"]}, 3),
        ({"to": ["a@x", "A@x ", "b@x"]}, 2),
        ({"to": {}, "cc": 7}, 1),
        (None, 0),
    ],
)
def test_recipients_are_different_addresses_in_to_cc_and_bcc(
    params: dict[str, Any] | None, count: int
) -> None:
    message = every(1, 0, tool="mail.send", params=params)
    over, just = (
        {"rate_limits": {**WIDE, "recipients_per_message": n}} for n in (count - 1, count)
    )

    assert judge("limit_exceeded", message, just) == []
    if count:
        [found] = judge("limit_exceeded", message, over)
        assert (found["used"], found["severity"]) == (str(count), "high")


def test_money_is_added_up_to_the_last_digit_and_fires_only_above_the_limit() -> None:
    dimes = events("model_call", *(at("09:00") + timedelta(minutes=i) for i in range(3)),
                   cost_usd="0.1")  # fmt: skip
    limit = {"budgets": {"daily_cost_limit_usd": 0.3}}
    more = events("tool_executed", "10:00", cost_usd="0.000000001")

    assert used(dimes, **limit) == []
    assert used(dimes + more, **limit) == [("daily_cost_limit_usd", "0.300000001")]
    assert used(dimes + events("agent_run", "10:00", cost_usd="9"), **limit) == []
