"""LiteLLM: what a guardrail decided, which limits are limits, ids that are given twice."""

import copy
from collections import Counter
from typing import Any

from tests.ingest.adapters import kit
from tests.ingest.adapters.kit import Row

MCP, BUDGET, CHAT = (copy.deepcopy(each) for each in kit.sample("litellm")[:3])


def read(*docs: Row) -> list[Row]:
    return kit.read("litellm", docs)


def guarded(status: str, *statuses: str) -> list[Row]:
    """The events of an MCP call that ended as `status` says, after guardrails that ended so."""
    guards = [{"guardrail_name": f"g{n}", "guardrail_status": s} for n, s in enumerate(statuses)]
    worst = (
        {"guardrail_status": "guardrail_intervened"} if "guardrail_intervened" in statuses else {}
    )
    return read(MCP | {"status": status, "guardrail_information": guards, "status_fields": worst})


def failed(**information: Any) -> Row:
    [row] = read(CHAT | {"status": "failure", "response": {}, "error_information": information})
    return row


def test_a_call_that_a_guardrail_stopped_was_denied_and_did_not_run() -> None:
    call, *guards = sorted(
        guarded("failure", "success", "guardrail_intervened", "not_run"),
        key=lambda row: str(row["native_id"]),
    )

    assert (call["kind"], call["status"], call["decision"]) == ("tool_executed", "denied", None)
    assert [(row["kind"], row["decision"]) for row in guards] == [
        ("tool_decided", None),
        ("tool_decided", "deny"),
    ]
    assert {row["call_id"] for row in guards} == {call["call_id"]}


def test_a_guardrail_that_changed_the_text_or_failed_let_the_call_through() -> None:
    rows = guarded("success", "guardrail_intervened", "guardrail_failed_to_respond", "failure")

    decided = [row for row in rows if row["kind"] == "tool_decided"]
    assert [row["decision"] for row in decided] == ["allow"] * 3
    assert Counter(signal for row in decided for signal in row["signals"]) == {
        "changed": 1,
        "fail_open": 2,
    }


def test_a_limit_of_the_proxy_is_a_limit_and_one_of_the_vendor_is_an_error() -> None:
    ours = failed(error_rate_limit_category="litellm_rate_limit", error_rate_limit_type="tokens")
    theirs = failed(error_rate_limit_category="vendor_rate_limit", error_code="429")
    [budget] = read(BUDGET)

    assert (ours["kind"], ours["status"], ours["budget_kind"]) == ("limit_hit", "denied", "tokens")
    assert (theirs["kind"], theirs["status"]) == ("model_call", "error")
    assert theirs["signals"] == ["throttled"]
    assert (budget["kind"], budget["budget_kind"]) == ("limit_hit", "budget:key")
    assert (budget["budget_limit"], budget["budget_spent"]) == (10.0, 10.01)


def test_one_id_for_two_payloads_stays_two_events_and_the_same_payload_again_one() -> None:
    rows = read(CHAT, CHAT | {"response_cost": 0.5}, CHAT)

    assert len({row["event_id"] for row in rows}) == 2
    assert {row["native_id"] for row in rows} == {"ll-3"}


def test_placeholders_are_no_ids() -> None:
    rows = read(*(CHAT | {"id": each} for each in (None, "", "None")))

    assert len({row["event_id"] for row in rows}) == 3
    assert {row["native_id"] for row in rows} == {None}


def test_costs_of_a_millionth_add_up_exactly() -> None:
    rows = read(*(CHAT | {"id": f"c-{n}", "response_cost": 1e-06} for n in range(1000)))

    assert str(sum(row["cost_usd"] for row in rows)) == "0.001000000"


def test_a_trace_id_that_is_the_callers_session_is_the_session() -> None:
    [named] = read(CHAT | {"session_id": "", "trace_id": "conv-9"})
    [traced] = read(CHAT | {"session_id": "", "trace_id": "3f0a4c1e-8d27-4b6a-9c55-1e2d3f4a5b6c"})

    assert (named["session"], named["trace_id"]) == ("conv-9", None)
    assert (traced["session"], traced["trace_id"]) == (None, "3f0a4c1e8d274b6a9c551e2d3f4a5b6c")


def test_a_payload_of_the_old_form_in_which_all_is_text_still_counts_cost_and_time() -> None:
    old = {
        "id": "v1", "call_type": "acompletion", "cache_hit": "False", "model": "model-x",
        "startTime": "2026-03-10 09:00:00.123456", "endTime": "2026-03-10 09:00:01.5",
        "cost": "0.25", "metadata": "{'user_api_key_alias': 'a1'}",
        "response": "ModelResponse(id='v1')", "messages": "[{'role': 'user'}]",
    }  # fmt: skip

    [row] = read(old)

    assert (row["kind"], str(row["cost_usd"]), row["agent"]) == ("model_call", "0.250000000", None)
    assert row["ts_quality"] == "source"
    assert row["ts"].isoformat() == "2026-03-10T09:00:01.500000+00:00"
