"""Envoy: a value is a number, a text, null or a dash, as the operator's format has it."""

from tests.ingest.adapters import kit
from tests.ingest.adapters.kit import Row

CALL: Row = {"start_time": "2026-03-10T09:00:00.123Z", "method": "POST", "x-request-id": "rq-1"}


def test_a_number_is_read_however_it_is_typed() -> None:
    spellings: list[Row] = [
        {"response_code": 200, "duration": 41, "bytes_sent": 5},
        {"response_code": "200", "duration": "41", "bytes_sent": "5"},
        {"response_code": 200.0, "duration": 41.0, "bytes_sent": 5.0},
    ]

    rows = kit.read("envoy_ai", [CALL | each for each in spellings])

    assert [(row["status"], row["latency_ms"], row["response_bytes"]) for row in rows] == [
        ("ok", 41.0, 5)
    ] * 3


def test_an_absent_value_is_absent_however_it_is_spelled() -> None:
    keys = ("response_code", "duration", "mcp_session_id", "mcp_tool_name", "genai_model_name",
            "upstream_host", "response_flags")  # fmt: skip

    rows = kit.read("envoy_ai", [CALL | dict.fromkeys(keys, absent) for absent in ("-", "", None)])

    for row in rows:
        filled = {key for key in ("status", "latency_ms", "session", "tool", "model", "host",
                                  "reason_code") if row[key] is not None}  # fmt: skip
        assert (row["kind"], filled) == ("other", set())


def test_a_request_id_that_a_client_chose_hides_no_other_request() -> None:
    rows = kit.read("envoy_ai", [CALL | {"response_code": code} for code in (200, 403, 200)])

    assert len({row["event_id"] for row in rows}) == 2


def test_who_answered_tells_a_refusal_from_an_error() -> None:
    said: list[Row] = [
        {"response_code": 403, "response_flags": "UAEX"},
        {"response_code": 403, "response_code_details": "rbac_access_denied_matched_policy[none]"},
        {"response_code": 401, "response_code_details": "jwt_authn_access_denied{Jwt_is_missing}"},
        {"response_code": 429, "response_flags": "RL"},
        {
            "response_code": 403,
            "response_code_details": "via_upstream",
            "upstream_host": "10.0.0.1:80",
        },
        {"response_code": 429, "response_code_details": "via_upstream", "genai_model_name": "m"},
    ]

    rows = kit.read("envoy_ai", [CALL | each for each in said])

    assert [(row["kind"], row["decision"]) for row in rows] == [
        ("tool_decided", "deny"), ("tool_decided", "deny"), ("tool_decided", "deny"),
        ("limit_hit", "deny"), ("egress", None), ("model_call", None),
    ]  # fmt: skip
