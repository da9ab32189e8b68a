"""OpenTelemetry spans: ids and times in every spelling, old names and new, one a line or many."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ingest.adapters import kit
from tests.ingest.adapters.kit import Row
from tests.ingest.adapters.otlp_kit import cut, said, span, spoiled

CASES = Path(__file__).parents[4] / "shared" / "cases" / "fixtures"


def read(*docs: Row) -> list[Row]:
    return kit.read("otlp_spans", docs)


def one(attributes: Row, **fields: Any) -> Row:
    [row] = read(span(attributes, **fields))
    return row


def case(name: str) -> tuple[list[Row], Row]:
    """The lines that the requests of a case become, and what it expects."""
    found = json.loads((CASES / name).read_text(encoding="utf-8"))
    return cut("traces", (each["json"] for each in found["requests"])), found["expect"]


def test_a_time_in_any_spelling_is_one_instant_and_a_span_without_one_is_set_aside() -> None:
    lines, expected = case("B043-otlp-nano.http.json")

    rows = read(*lines)

    assert len(lines) == 4
    assert [row["ledger_seq"] for row in rows] == [1, 2, 3]
    assert len(rows) == expected["accepted"]
    assert {row["ts"].isoformat() for row in rows} == {expected["ts_utc"].replace("Z", "+00:00")}


def test_a_trace_id_in_any_spelling_is_one_trace() -> None:
    lines, expected = case("B044-otlp-ids.http.json")

    rows = read(*lines)

    assert len(rows) == 4
    assert len({row["trace_id"] for row in rows}) == expected["distinct_traces"]
    assert {row["trace_id"] for row in rows} == {"5b8efff798038103d269b633813fc60c"}


def test_a_span_with_an_id_that_cannot_be_read_is_set_aside_alone() -> None:
    bad = ["no id", "", None, 7, [1, 2], {"a": 1}, "0" * 32]

    rows = read(span({}), *(span({}, traceId=each) for each in bad), span({}))

    assert [row["ledger_seq"] for row in rows] == [1, len(bad) + 2]


def test_beside_others_in_a_line_such_a_span_is_a_row_that_says_so() -> None:
    whole = span({"gen_ai.operation.name": "chat"})
    spans = whole["resourceSpans"][0]["scopeSpans"][0]["spans"]
    spans.append(spans[0] | {"spanId": "no id"})

    rows = read(whole)

    assert sorted((row["kind"], row["signals"]) for row in rows) == [
        ("model_call", None),
        ("other", ["malformed"]),
    ]


def test_the_halves_of_a_long_integer_may_be_signed() -> None:
    row = one({}, endTimeUnixNano={"low": -1140850688, "high": 412839743})

    assert row["ts"].timestamp() == pytest.approx(
        (412839743 * 2**32 + (-1140850688 & 0xFFFFFFFF)) / 1e9, abs=1e-6
    )


def test_spans_mean_the_same_one_by_one_and_many_in_a_line() -> None:
    whole = [doc for doc in kit.sample("otlp_spans") if "resourceSpans" in doc][:3]

    assert said(read(*cut("traces", whole))) == said(read(*whole))


SPENT: list[tuple[Row, tuple[Any, Any]]] = [
    ({"gen_ai.usage.input_tokens": 3, "gen_ai.usage.output_tokens": 4}, (3, 4)),
    ({"gen_ai.usage.prompt_tokens": 3, "gen_ai.usage.completion_tokens": 4}, (3, 4)),
    ({"llm.token_count.prompt": 3, "llm.token_count.completion": 4}, (3, 4)),
    ({"gen_ai.usage.input_tokens": "many"}, (None, None)),
    ({"gen_ai.usage.input_tokens": 2**70}, (None, None)),
]


def test_tokens_are_read_under_old_names_and_new() -> None:
    rows = read(*(span({"gen_ai.operation.name": "chat", **spent}) for spent, _ in SPENT))

    assert {row["kind"] for row in rows} == {"model_call"}
    assert [(row["tokens_in"], row["tokens_out"]) for row in rows] == [each for _, each in SPENT]


def test_arguments_are_an_object_whether_they_come_as_text_or_not() -> None:
    ways: list[Row] = [
        {"gen_ai.tool.call.arguments": '{"id": "A-100", "n": 1}'},
        {"gen_ai.tool.call.arguments": {"id": "A-100", "n": 1}},
        {"tool.parameters": '{"id": "A-100", "n": 1}'},
        {"input.value": '{"id": "A-100", "n": 1}'},
    ]

    rows = read(*(span({"gen_ai.operation.name": "execute_tool", **way}) for way in ways))

    assert [json.loads(row["params"]) for row in rows] == [{"id": "A-100", "n": 1}] * len(ways)


def test_a_tool_that_was_kept_from_running_was_decided_and_not_executed() -> None:
    words = ["allow", "deny", "ask", "perhaps"]
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "crm.lookup"}

    rows = read(*(span({**tool, "gen_ai.agent.tool.disposition": word}) for word in words))

    assert [(row["kind"], row["decision"]) for row in rows] == [
        ("tool_executed", "allow"),
        ("tool_decided", "deny"),
        ("tool_decided", "require_approval"),
        ("tool_executed", None),
    ]


def test_the_agent_is_named_by_the_span_then_by_the_resource_then_by_the_service() -> None:
    named = span({})
    resource = named["resourceSpans"][0]["resource"]["attributes"]
    resource.append({"key": "gen_ai.agent.id", "value": {"stringValue": "a2"}})

    assert one({"gen_ai.agent.id": "a1"}, service="app")["agent"] == "a1"
    assert read(named)[0]["agent"] == "a2"
    assert one({}, service="app")["agent"] == "app"


def test_an_attribute_that_stands_twice_counts_once_and_one_without_a_key_not_at_all() -> None:
    doc = span({"gen_ai.operation.name": "chat"})
    attributes = doc["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["attributes"]
    attributes += [
        {"key": "gen_ai.operation.name", "value": {"stringValue": "execute_tool"}},
        {"value": {"stringValue": "of nothing"}}, {"key": None}, None, 7,
    ]  # fmt: skip

    [row] = read(doc)

    assert (row["kind"], kit.attrs(row)["operation"]) == ("model_call", "chat")


@settings(max_examples=8, deadline=None)
@given(docs=st.lists(spoiled("otlp_spans"), min_size=30, max_size=60))
def test_no_value_anywhere_in_a_span_raises(docs: list[Row]) -> None:
    rows = read(*docs)

    assert all(row["event_id"] and row["kind"] and row["ts"] for row in rows)
