"""Traces of the OpenAI Agents SDK: whose call it was, and which run it belongs to."""

from typing import Any

from tests.ingest.adapters import kit
from tests.ingest.adapters.kit import Row

TRACE = "trace_5d1e8c2fa97b4306b4f0c1d2e3a49586"
RUN = {"object": "trace", "id": TRACE, "workflow_name": "Refund", "group_id": "conv-7",
       "metadata": {"tenant": "t-1"}}  # fmt: skip


def span(number: int, parent: int, type_: str, error: Row | None = None, **data: Any) -> Row:
    """A span that ended at nine o'clock; parent 0 is none."""
    return {
        "object": "trace.span", "id": f"span_{number:024x}", "trace_id": TRACE,
        "parent_id": f"span_{parent:024x}" if parent else None,
        "started_at": "2026-03-10T09:00:00+00:00", "ended_at": "2026-03-10T09:00:01.5+00:00",
        "span_data": {"type": type_, **data}, "error": error,
    }  # fmt: skip


def export(*items: Row) -> list[Row]:
    """The events of one export, in the order of its items."""
    rows = kit.read("openai_agents", [{"data": list(items)}])
    ids = [item["id"] for item in items]
    return sorted(rows, key=lambda row: ids.index(row["native_id"]))


def turn(number: int, parent: int, agent: str) -> Row:
    data = {"sdk_span_type": "turn", "turn": 1, "agent_name": agent}
    return span(number, parent, "custom", name="turn", data=data)


def test_a_tool_span_is_of_the_nearest_agent_above_it() -> None:
    call, inner, outer, run = export(
        span(4, 3, "function", name="refund", input="{}", output="ok"),
        span(3, 2, "agent", name="billing-bot"),
        span(2, 0, "agent", name="front-desk"),
        RUN,
    )

    assert [row["agent"] for row in (call, inner, outer, run)] == [
        "billing-bot", "billing-bot", "front-desk", None,
    ]  # fmt: skip


def test_a_turn_names_its_agent_too() -> None:
    call, *_ = export(span(3, 2, "function", name="refund", input="{}"), turn(2, 0, "a1"))

    assert call["agent"] == "a1"


def test_a_span_has_the_group_of_its_trace_as_session() -> None:
    call, _ = export(span(1, 0, "function", name="refund", input="{}"), RUN)
    [alone] = export(span(1, 0, "function", name="refund", input="{}"))

    assert (call["session"], call["tenant"]) == ("conv-7", "t-1")
    assert (alone["session"], alone["trace_id"]) == (None, call["trace_id"])
    assert alone["event_id"] == call["event_id"]


def test_parents_that_go_in_a_circle_or_are_missing_end_the_search() -> None:
    rows = export(
        span(1, 2, "function", name="x", input="{}"),
        span(2, 1, "custom", name="task", data={}),
        span(3, 9, "function", name="y", input="{}"),
    )

    assert [row["agent"] for row in rows] == [None] * 3


def test_how_a_call_ended() -> None:
    failed = {"message": "Error running tool (non-fatal)", "data": {"error": "no such order"}}
    late = {"message": "Error running tool", "data": {"error": "Request timed out."}}

    rows = export(
        span(1, 0, "function", name="x", input="{}", output="{'a': 1}"),
        span(2, 0, "function", failed, name="x", input="{}"),
        span(3, 0, "function", late, name="x", input="{}"),
        span(4, 0, "function", name="x", input="{}", output="Tool execution was not approved."),
    )

    assert [row["status"] for row in rows] == ["ok", "error", "timeout", None]
    assert [row["kind"] for row in rows] == ["tool_executed"] * 3 + ["approval_decided"]
    assert rows[3]["decision"] == "deny"
    assert rows[0]["latency_ms"] == 1500
    assert rows[0]["response"] == "\"{'a': 1}\""


def test_a_guardrail_decides_and_a_run_out_of_turns_hits_a_limit() -> None:
    over = {"message": "Max turns exceeded", "data": {"max_turns": 10}}

    quiet, tripped, ended = export(
        span(1, 3, "guardrail", name="topic", triggered=False),
        span(2, 3, "guardrail", name="topic", triggered=True),
        span(3, 0, "agent", over, name="a1"),
    )

    assert (quiet["decision"], tripped["decision"]) == ("allow", "deny")
    assert (tripped["agent"], tripped["rule_ids"], tripped["tool"]) == ("a1", ["topic"], None)
    assert (ended["kind"], ended["budget_kind"], ended["budget_limit"]) == (
        "limit_hit",
        "max_turns",
        10,
    )


def test_an_export_of_many_spans_is_read_whole() -> None:
    spans = [span(n, 1, "function", name="x", input="{}") for n in range(2, 130)]

    rows = export(*spans, span(1, 0, "agent", name="a1"), RUN)

    assert len(rows) == 130
    assert {row["agent"] for row in rows[:-1]} == {"a1"}
