"""The native format: what its lines mean, and that schema, adapter and page say the same."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from ingest import adapter
from ingest.parse import parse
from ingest.store import fetch, memory_store

ROOT = Path(__file__).parents[3]
CASES = ROOT.parent / "shared" / "cases" / "fixtures"
SQL = (ROOT / "ingest" / "adapters" / "native.sql").read_text(encoding="utf-8")
SCHEMA = json.loads((ROOT / "ingest" / "native.schema.json").read_text(encoding="utf-8"))
SAMPLE = Path(__file__).with_name("native.ndjson")
NOW = datetime(2026, 7, 1, 1, tzinfo=UTC)
NINE = datetime(2026, 3, 10, 9, tzinfo=UTC)
Row = dict[str, Any]
# Wrong on purpose: the schema says so, the adapter makes the best of it.
WRONG = {"e-15": "status", "u-1": "decision", "u-2": "decision", "e-20": "ts", "e-21": "kind"}


def read(*docs: str | Row) -> list[Row]:
    """The events of native lines, given as text or as objects, that arrive at NOW."""
    raws = [doc if isinstance(doc, str) else json.dumps(doc) for doc in docs]
    parsed = [parse(raw.encode()).doc for raw in raws]
    numbered = [(at, doc) for at, doc in enumerate(parsed, start=1) if doc]
    with memory_store().writing() as db:
        sql = adapter.load("native", db, "tests").events
        with adapter.lines(db, "gate", NOW, numbered):
            found = fetch(db, sql, at=NOW)
    return sorted(found, key=lambda row: int(row["ledger_seq"]))


def case(name: str) -> list[Row]:
    [path] = CASES.glob(f"{name}-*.jsonl")
    return read(*path.read_text(encoding="utf-8").splitlines())


def call(**fields: Any) -> Row:
    return {"ts": "2026-03-10T09:00:00Z", "kind": "tool_call", "agent": "a1", **fields}


def one(**fields: Any) -> Row:
    [row] = read(call(**fields))
    return row


@pytest.mark.parametrize(
    ("fields", "kind", "decision"),
    [
        ({"decision": "deny", "status": "denied"}, "tool_decided", "deny"),
        ({"decision": "deny", "status": "ok"}, "tool_decided", "deny"),
        ({"decision": "approved", "status": "ok"}, "tool_executed", "allow"),
        ({"decision": "allow"}, "tool_decided", "allow"),
        ({"decision": "ask"}, "tool_decided", "require_approval"),
        ({"decision": "perhaps"}, "tool_decided", None),
        ({"status": "ok"}, "tool_executed", None),
        ({"status": "started"}, "tool_proposed", None),
        ({}, "tool_proposed", None),
        ({"kind": "approval"}, "approval_requested", None),
        ({"kind": "approval", "decision": "pending"}, "approval_requested", "require_approval"),
        ({"kind": "approval", "decision": "reject"}, "approval_decided", "deny"),
        ({"kind": "config_change"}, "config_changed", None),
        ({"kind": "config_change", "status": "failed"}, "tool_decided", None),
        ({"kind": "egress", "decision": "block"}, "egress", "deny"),
        ({"kind": "limit_hit"}, "limit_hit", None),
    ],
)
def test_kind_and_decision_follow_from_the_words_of_the_line(
    fields: Row, kind: str, decision: str | None
) -> None:
    row = one(**fields)

    assert (row["kind"], row["decision"]) == (kind, decision)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"decision": "approve"}, "approved"),
        ({"decision": "deny"}, "rejected"),
        ({"decision": "deny", "status": "timeout"}, "expired"),
        ({"status": "expired"}, "expired"),
        ({"status": "cancelled"}, "cancelled"),
        ({"decision": "deny", "reason_code": "four_eyes"}, "four_eyes"),
    ],
)
def test_an_answered_approval_says_how_it_ended(fields: Row, code: str) -> None:
    row = one(kind="approval", **fields)

    assert (row["kind"], row["reason_code"]) == ("approval_decided", code)


@pytest.mark.parametrize(
    ("native", "status"),
    [
        (200, "ok"), ("200", "ok"), (302, "ok"), (401, "denied"), (403, "denied"), (404, "error"),
        (408, "timeout"), (504, "timeout"), (500, "error"), ("SUCCESS", "ok"), ("failed", "error"),
        ("Completed", "ok"), ("weird", None), (0, None), (True, None), ({"code": 1}, None),
    ],
)  # fmt: skip
def test_a_status_is_coerced_by_a_written_rule_and_else_kept(
    native: object, status: str | None
) -> None:
    row = one(status=native)

    assert row["status"] == status
    assert ("status_native" in (row["attrs"] or "")) == (status is None)


def test_a_decision_that_is_no_word_is_kept_and_is_not_a_denial() -> None:
    rows = case("B018")

    assert len(rows) == 9
    assert [row["decision"] for row in rows[:7]] == ["allow"] * 7
    assert [(row["decision"], row["decision_native"]) for row in rows[7:]] == [
        (None, None),
        (None, "false"),
    ]
    assert [row["params"] for row in rows[:5]] == ['{"a":1}', '"a=1"', '["a",1]', None, "7"]


def test_two_events_with_one_id_are_both_kept() -> None:
    rows = case("B038")

    assert len({row["event_id"] for row in rows}) == 2
    assert {row["native_id"] for row in rows} == {"call-213"}


def test_a_placeholder_is_no_id() -> None:
    rows = case("B039")

    assert len({row["event_id"] for row in rows}) == 4
    assert [row["native_id"] for row in rows] == [None] * 4


def test_a_resumed_session_repeats_its_past_under_new_ids_without_doubling_it() -> None:
    rows = case("B041")

    assert len({row["event_id"] for row in rows}) == 3
    assert len({row["event_id"] for row in rows if row["decision"] == "deny"}) == 1


def test_two_calls_of_one_message_stay_two() -> None:
    calls = [call(message_id="m-1", tool="x", params={"n": n}) for n in (1, 2)]

    assert len({row["event_id"] for row in read(*calls)}) == 2


def test_the_unit_of_a_number_is_told_by_its_size() -> None:
    rows = case("B049")

    assert [row["ts"] for row in rows] == [NINE] * 8


def test_every_valid_spelling_of_a_time_is_read_and_every_other_gives_no_event() -> None:
    rows = case("B059")

    by_id = {row["native_id"]: row["ts"] for row in rows}
    assert list(by_id) == [f"ts-{n}" for n in range(8)]
    assert by_id["ts-0"] == NINE.replace(microsecond=123456)
    assert by_id["ts-1"] == NINE.replace(microsecond=500000)
    assert {by_id[name] for name in ("ts-2", "ts-3", "ts-4", "ts-5")} == {NINE}
    assert by_id["ts-6"] == datetime(2026, 7, 1, tzinfo=UTC)  # a leap second
    assert by_id["ts-7"] == datetime(2026, 3, 10, tzinfo=UTC)  # 24:00


def test_a_time_an_hour_ahead_is_believed_and_one_further_ahead_is_not() -> None:
    near, far = "2026-07-01T02:00:00Z", "2026-07-01T02:00:01Z"

    believed, doubted = read(call(ts=near), call(ts=far, signals=["warn"]))

    assert (believed["ts_quality"], believed["signals"]) == ("source", None)
    assert (doubted["ts"], doubted["ts_quality"]) == (NOW, "receiver")
    assert doubted["signals"] == ["warn", "clock_skew"]
    assert json.loads(doubted["attrs"]) == {"ts_claimed": "2026-07-01 02:00:01+00"}


@pytest.mark.parametrize(
    ("fields", "host"),
    [
        ({"host": "a.example", "params": {"url": "https://b.example"}}, "a.example"),
        ({"egress_host": "a.example"}, "a.example"),
        ({"url": "https://a.example/x"}, "https://a.example/x"),
        ({"params": {"url": "https://a.example/x"}}, "https://a.example/x"),
        ({"params": {"host": "a.example"}}, "a.example"),
        ({"params": {"query": "url"}}, None),
    ],
)
def test_the_host_is_taken_as_the_agent_spelled_it(fields: Row, host: str | None) -> None:
    assert one(kind="egress", **fields)["host"] == host


def test_keys_without_a_column_are_kept_beside_the_lines_own_attrs() -> None:
    row = one(region="eu", seq=18446744073709551616, attrs={"client": "10.0.0.9"}, op="delete")

    assert json.loads(row["attrs"]) == {
        "region": "eu",
        "seq": 18446744073709551616,
        "client": "10.0.0.9",
        "op_native": "delete",
    }
    assert one()["attrs"] is None


def test_no_number_becomes_infinite() -> None:
    row = one(latency_ms="Infinity", decision_ms="NaN", budget_limit="1e999", port=70_000)

    assert row["latency_ms"] is row["decision_ms"] is row["budget_limit"] is row["port"] is None


def test_schema_and_adapter_know_the_same_keys() -> None:
    read_keys = re.findall(r'"(\w+)": "', SQL.split("from_json(doc, '")[1].split("}'")[0])
    counted = re.findall(r"\(d\.(\w+) IS NOT NULL\)::UTINYINT", SQL)
    with memory_store().writing() as db:
        columns = {row[0] for row in db.execute("DESCRIBE events").fetchall()}

    assert sorted(counted) == sorted(read_keys) == sorted(SCHEMA["properties"])
    # what the adapter and landing say about a line, rather than the line about itself
    assert columns - set(read_keys) == {"source", "ledger_seq", "ingested_at", "op_basis"}


def test_the_schema_accepts_each_line_of_the_sample_but_the_wrong_ones() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    validator = Draft202012Validator(SCHEMA)

    refused = {}
    for line in SAMPLE.read_text(encoding="utf-8").splitlines():
        doc = json.loads(line)
        for error in validator.iter_errors(doc):
            refused[doc.get("event_id") or doc["uuid"]] = error.path[0]

    assert refused == WRONG
