"""OpenTelemetry logs: what Claude Code, Codex and the gen_ai conventions say, and any other."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ingest.adapters import kit
from tests.ingest.adapters.kit import Row
from tests.ingest.adapters.otlp_kit import cut, log, said, spoiled, value


def read(*docs: Row) -> list[Row]:
    return kit.read("otlp_logs", docs)


def one(attributes: Row, **fields: Any) -> Row:
    [row] = read(log(attributes, **fields))
    return row


DECIDED = [
    ("config", "accept", "tool_decided", "allow", None),
    ("hook", "reject", "tool_decided", "deny", None),
    ("user_temporary", "accept", "approval_decided", "allow", "approved"),
    ("user_reject", "reject", "approval_decided", "deny", "rejected"),
    ("user_abort", "reject", "approval_decided", "deny", "cancelled"),
    ("config", "perhaps", "tool_decided", None, None),
]


def test_who_decided_tells_a_gate_from_a_person() -> None:
    who = {"tool_name": "Bash", "user.email": "dev@example.com"}

    rows = read(
        *(
            log({**who, "decision": word, "source": by}, eventName="tool_decision")
            for by, word, *_ in DECIDED
        )
    )

    for row, (_, word, *expected) in zip(rows, DECIDED, strict=True):
        assert [row["kind"], row["decision"], row["reason_code"]] == expected
        assert row["decision_native"] == word
        assert (row["approver"] is not None) == (row["kind"] == "approval_decided")


def test_an_event_is_known_by_its_name_wherever_that_stands() -> None:
    rows = read(
        log({}, eventName="tool_result"),
        log({}, eventName="claude_code.tool_result"),
        log({}, body=value("claude_code.tool_result")),
        log({"event.name": "tool_result"}),
    )

    assert [row["kind"] for row in rows] == ["tool_executed"] * 4


def test_the_tool_behind_an_mcp_call_is_named_and_its_server_stands_beside_it() -> None:
    row = one(
        {
            "tool_name": "mcp_tool",
            "tool_parameters": '{"mcp_server_name": "crm", "mcp_tool_name": "lookup"}',
            "tool_input": '{"id": "A-100"}',
        },
        eventName="tool_result",
    )

    assert (row["tool"], kit.attrs(row)["tool_server"]) == ("lookup", "crm")
    assert json.loads(row["params"]) == {"id": "A-100"}


def test_a_session_that_is_resumed_counts_anew_and_loses_no_event() -> None:
    again = {"session.id": "s-1", "event.sequence": 1}
    first = log(again, timeUnixNano="1773133200000000000", eventName="tool_result")
    later = log(again, timeUnixNano="1773136800000000000", eventName="tool_result")

    rows = read(first, later, first)

    assert rows[0]["event_id"] == rows[2]["event_id"] != rows[1]["event_id"]


def test_the_same_record_is_one_event_and_one_without_a_time_is_not() -> None:
    timed, untimed = log({"a": 1}, body=value("x")), log({"a": 1}, timeUnixNano="0")

    rows = read(timed, timed, untimed, untimed)

    assert [row["native_id"] is None for row in rows] == [False, False, True, True]
    assert len({row["event_id"] for row in rows}) == 3


def test_the_time_is_the_records_own_else_that_of_who_saw_it() -> None:
    rows = read(
        log({}, timeUnixNano="1773133201000000000"),
        log({}, timeUnixNano=1773133201000000000),
        log({}, timeUnixNano="0", observedTimeUnixNano="1773133202000000000"),
    )

    assert [(row["ts_quality"], row["ts"].second) for row in rows] == [
        ("source", 1),
        ("source", 1),
        ("observed", 2),
    ]


def test_a_time_that_cannot_be_read_is_kept_as_it_came() -> None:
    row = one({}, timeUnixNano="soon")

    assert (row["ts"], row["ts_quality"]) == (kit.NOW, "receiver")
    assert kit.attrs(row)["ts_claimed"] == "soon"


def test_any_other_log_is_a_row_with_its_text() -> None:
    row = one({"log.file.name": "app.log"}, body=value("started"), service="app")

    assert (row["kind"], row["agent"], row["text"]) == ("other", "app", None)
    assert kit.attrs(row)["body"] == "started"


def test_messages_of_the_conventions_say_who_spoke() -> None:
    spoken = {
        "gen_ai.user.message": "user", "gen_ai.system.message": "system",
        "gen_ai.assistant.message": "assistant", "gen_ai.tool.message": "tool",
    }  # fmt: skip

    rows = read(*(log({}, eventName=name, body=value({"content": "hello"})) for name in spoken))

    assert [(row["kind"], row["role"], row["text"]) for row in rows] == [
        ("message", role, "hello") for role in spoken.values()
    ]


def test_an_action_that_is_put_off_and_then_allowed_keeps_both_decisions() -> None:
    def decided(second: int, word: str, by: str) -> Row:
        said = {
            "agent_audit.action.id": "3c4d5e6f-7a8b-4c3d-9e4f-5a6b7c8d9e1f",
            "agent_audit.action.phase": "decided",
            "agent_audit.decision": word,
            "agent_audit.decision.principal.type": by,
            "agent_audit.decision.principal.id": "wang",
        }
        at = str((1773133200 + second) * 10**9)
        return log(said, timeUnixNano=at, eventName="agent_audit.decided")

    rows = read(decided(1, "defer", "policy"), decided(9, "allow", "human"))

    assert [(row["kind"], row["decision"], row["approver"]) for row in rows] == [
        ("tool_decided", "require_approval", None),
        ("approval_decided", "allow", "wang"),
    ]
    assert len({row["event_id"] for row in rows}) == 2


def test_a_list_or_an_object_in_an_attribute_is_plain_json() -> None:
    deep = {"one": [1, "two", True], "three": {"four": 5.5}}

    row = one({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.call.arguments": deep})

    assert json.loads(row["params"]) == deep


def test_records_mean_the_same_one_by_one_and_many_in_a_line() -> None:
    whole = kit.sample("otlp_logs")[:3]

    assert said(read(*cut("logs", whole))) == said(read(*whole))


def test_what_is_no_record_is_set_aside_alone_and_marked_beside_others() -> None:
    alone, beside = log({}), log({})
    alone["resourceLogs"][0]["scopeLogs"][0]["logRecords"] = ["text"]
    beside["resourceLogs"][0]["scopeLogs"][0]["logRecords"].append("text")

    rows = read(alone, beside, {"resourceLogs": "none"}, {"resourceSpans": []})

    assert [row["ledger_seq"] for row in rows] == [2, 2]
    assert sorted(row["signals"] or [] for row in rows) == [[], ["malformed"]]


@settings(max_examples=8, deadline=None)
@given(docs=st.lists(spoiled("otlp_logs"), min_size=30, max_size=60))
def test_no_value_anywhere_in_a_record_raises(docs: list[Row]) -> None:
    rows = read(*docs)

    assert all(row["event_id"] and row["kind"] and row["ts"] for row in rows)
