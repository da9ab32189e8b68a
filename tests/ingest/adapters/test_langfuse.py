"""Langfuse observations: both spellings, open and closed, and who is the agent."""

from tests.ingest.adapters import kit
from tests.ingest.adapters.kit import Row

OPEN = {
    "id": "b7a1c3d5e7f90102", "traceId": "5d1e8c2fa97b4306b4f0c1d2e3a49586", "type": "TOOL",
    "name": "refund", "startTime": "2026-03-10T09:00:00.100Z", "endTime": None, "sessionId": "s-1",
    "userId": "wang", "metadata": {"agent": "a1"}, "input": '{"amount": 12.5}', "level": "DEFAULT",
}  # fmt: skip
CLOSED = OPEN | {"endTime": "2026-03-10T09:00:00.350Z"}
EXPORTED = {
    "id": CLOSED["id"], "trace_id": CLOSED["traceId"], "type": "TOOL", "name": "refund",
    "start_time": "2026-03-10 09:00:00.100000", "end_time": "2026-03-10 09:00:00.350000",
    "session_id": "s-1", "user_id": "wang", "metadata": '{"agent": "a1"}',
    "input": '{"amount": 12.5}', "level": "DEFAULT",
}  # fmt: skip


def read(*docs: Row) -> list[Row]:
    return kit.read("langfuse", docs)


def test_the_api_and_the_export_tell_the_same_event() -> None:
    page, exported = read({"data": [CLOSED]}, EXPORTED)

    different = {key for key in page if page[key] != exported[key]}
    assert different == {"ledger_seq", "attrs"}  # attrs hold the start as it was spelled
    assert (page["kind"], page["params"], page["latency_ms"]) == (
        "tool_executed", '{"amount":12.5}', 250,
    )  # fmt: skip


def test_an_observation_that_is_still_open_is_no_execution_and_its_end_is_a_second_event() -> None:
    still, done, again = read(OPEN, CLOSED, CLOSED)

    assert (still["kind"], kit.attrs(still)["partial"]) == ("other", True)
    assert done["kind"] == "tool_executed"
    assert still["event_id"] != done["event_id"] == again["event_id"]


def test_the_agent_is_in_the_metadata_or_is_the_observation_itself() -> None:
    attributes = {"attributes": {"gen_ai.agent.name": "a2", "gen_ai.tool.call.id": "call_9"}}

    rows = read(
        CLOSED,
        CLOSED | {"metadata": attributes},
        CLOSED | {"metadata": None, "type": "AGENT", "name": "a3"},
        CLOSED | {"metadata": None},
    )

    assert [row["agent"] for row in rows] == ["a1", "a2", "a3", None]
    assert rows[1]["call_id"] == "call_9"


def test_costs_count_for_model_calls_alone_so_that_no_sum_counts_them_twice() -> None:
    priced = CLOSED | {"totalCost": 0.25, "usageDetails": {"input": 7, "output": 2}}

    run, call = read(priced | {"type": "AGENT"}, priced | {"type": "GENERATION", "id": "g"})

    assert (run["cost_usd"], run["tokens_in"]) == (None, None)
    assert (str(call["cost_usd"]), call["tokens_in"]) == ("0.250000000", 7)


def test_a_guardrail_gives_no_decision_that_langfuse_does_not_know() -> None:
    [row] = read(CLOSED | {"type": "GUARDRAIL", "level": "WARNING", "statusMessage": "off topic"})

    assert (row["kind"], row["decision"], row["rule_ids"]) == ("tool_decided", None, ["refund"])
    assert (row["signals"], row["reason"], row["status"]) == (["warn"], "off topic", None)


def test_what_is_no_observation_gives_no_event() -> None:
    assert read({"id": "t-1", "name": "trace"}, {"data": []}, {"meta": {}}, {"data": [7]}) == []
