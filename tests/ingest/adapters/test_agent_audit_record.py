"""agent-audit records: the same events from OTLP, from the console exporter, from bare records."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ingest.adapters import kit
from tests.ingest.adapters.kit import Row
from tests.ingest.adapters.otlp_kit import cut, pairs, said, spoiled

SAMPLE = kit.sample("agent_audit_record")
CONSOLE = [doc for doc in SAMPLE if "event_name" in doc]


def read(*docs: Row) -> list[Row]:
    return kit.read("agent_audit_record", docs)


def seen(rows: list[Row]) -> list[Row]:
    """Rows without what only one of two adapters knows beside the columns."""
    return said({**row, "attrs": None, "agent_version": None} for row in rows)


def test_records_in_otlp_mean_the_same_here_and_among_all_other_logs() -> None:
    lines = cut("logs", SAMPLE[:1])

    assert seen(read(*lines)) == seen(kit.read("otlp_logs", lines)) == seen(read(*SAMPLE[:1]))


def test_the_object_of_the_console_means_what_the_same_record_means_in_otlp() -> None:
    def as_otlp(doc: Row) -> Row:
        record = {
            "timeUnixNano": kit_ns(doc["timestamp"]), "attributes": pairs(doc["attributes"]),
            "traceId": doc["trace_id"][2:], "spanId": doc["span_id"][2:],
        }  # fmt: skip
        return {"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]}

    assert seen(read(*CONSOLE)) == seen(read(*map(as_otlp, CONSOLE)))


def kit_ns(timestamp: str) -> str:
    """Nanoseconds of a time on the day of the sample."""
    hours, minutes, seconds = timestamp[11:-1].split(":")
    micros = (int(hours) * 60 + int(minutes)) * 60_000_000 + round(float(seconds) * 1_000_000)
    return str(1773100800_000000000 + micros * 1000)


def test_a_bare_record_takes_its_time_from_its_arrival_and_comes_once() -> None:
    bare = [doc for doc in SAMPLE if "agent_audit.action.phase" in doc]

    rows = read(*bare, *bare)

    assert {row["ts_quality"] for row in rows} == {"receiver"}
    assert len({row["event_id"] for row in rows}) == len(bare)


def test_an_approval_is_counted_where_a_person_or_nobody_answered() -> None:
    rows = read(*SAMPLE)

    by = {
        json.loads(row["attrs"]).get("agent_audit.decision.principal.type"): row["kind"]
        for row in rows
        if row["decision"]
    }
    assert by == {
        "human": "approval_decided", "timeout": "approval_decided", "policy": "tool_decided"
    }  # fmt: skip
    assert all(row["approval_id"] is None for row in rows if row["decision_native"] == "auto_deny")


@settings(max_examples=8, deadline=None)
@given(docs=st.lists(spoiled("agent_audit_record"), min_size=30, max_size=60))
def test_no_value_anywhere_in_a_record_raises(docs: list[Row]) -> None:
    rows = read(*docs)

    assert all(row["event_id"] and row["kind"] and row["ts"] for row in rows)
