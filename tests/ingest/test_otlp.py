"""An OTLP export becomes lines of one record, and nothing in it is lost on the way."""

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from hypothesis import example, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs

from ingest.batch import Oversized
from ingest.config import Source
from ingest.cut import how
from ingest.files import read_file
from ingest.otlp import OtlpError, answer, lines, status_body
from ingest.parse import parse
from tests.world import World, at

LIMIT = 2**20
RESOURCE = {"attributes": [{"key": "service.name", "value": {"stringValue": "billing"}}]}
SCOPE = {"name": "gate", "version": "1"}


def record(number: int) -> dict[str, Any]:
    return {"timeUnixNano": f"{1773133200000000000 + number}", "eventName": "tool_decision"}


def request(*records: Any) -> dict[str, Any]:
    scope = {"scope": SCOPE, "schemaUrl": "https://schema.example/1", "logRecords": list(records)}
    return {"resourceLogs": [{"resource": RESOURCE, "scopeLogs": [scope]}]}


def cut(body: Any, max_line: int = LIMIT) -> list[Any]:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return lines(raw, False, "logs", max_line)


def read(found: list[Any]) -> list[Any]:
    return [json.loads(line) for line in found]


def test_each_record_is_a_request_of_its_own() -> None:
    found = read(cut(request(record(1), record(2), record(3))))

    assert found == [request(record(n)) for n in (1, 2, 3)]


def test_spans_are_cut_alike() -> None:
    spans = [{"traceId": "0" * 31 + "1", "spanId": f"{n:016x}", "name": "chat"} for n in (1, 2)]
    whole = {"resourceSpans": [{"resource": RESOURCE, "scopeSpans": [{"spans": spans}]}]}

    found = read(lines(json.dumps(whole).encode(), False, "traces", LIMIT))

    assert [each["resourceSpans"][0]["scopeSpans"] for each in found] == [
        [{"spans": [span]}] for span in spans
    ]
    assert all(each["resourceSpans"][0]["resource"] == RESOURCE for each in found)


@pytest.mark.parametrize("spelled", ["one line", "pretty", "with a mark", "spaced"])
def test_white_space_changes_nothing(spelled: str) -> None:
    doc = request(record(1), record(2))
    body = {
        "one line": json.dumps(doc, separators=(",", ":")).encode(),
        "pretty": json.dumps(doc, indent=2).encode(),
        "with a mark": b"\xef\xbb\xbf" + json.dumps(doc).encode() + b"\r\n",
        "spaced": json.dumps(doc).replace('{"', '{  "').encode(),
    }[spelled]

    found = cut(body)

    assert read(found) == [request(record(1)), request(record(2))]
    assert not any(b"\n" in line or b"\r" in line for line in found)


def test_an_array_of_requests_and_one_request_a_line_are_taken_too() -> None:
    one, two = request(record(1)), request(record(2), record(3))
    expected = [request(record(n)) for n in (1, 2, 3)]

    assert read(cut([one, two])) == expected
    assert read(cut(json.dumps(one).encode() + b"\n" + json.dumps(two).encode())) == expected


def test_what_stands_beside_the_records_stays_with_each_of_them() -> None:
    doc = request(record(1), record(2))
    doc["resourceLogs"][0] |= {"schemaUrl": "https://schema.example/2", "future": [1, {"a": None}]}
    doc["resourceLogs"][0]["scopeLogs"][0]["later"] = "x"

    found = read(cut(doc))

    for number, each in enumerate(found, start=1):
        expected = json.loads(json.dumps(doc))
        expected["resourceLogs"][0]["scopeLogs"][0]["logRecords"] = [record(number)]
        assert each == expected


def test_lists_that_are_spelled_as_in_protobuf_are_lists() -> None:
    body = {"resource_logs": [{"scope_logs": [{"log_records": [record(1), record(2)]}]}]}

    found = read(cut(body))

    assert found == [
        {"resourceLogs": [{"scopeLogs": [{"logRecords": [record(n)]}]}]} for n in (1, 2)
    ]


def test_a_record_that_is_no_json_costs_no_other() -> None:
    bad = b'{"timeUnixNano":NaN,"eventName":"a"}'
    body = json.dumps(request(record(1), "HERE", record(3))).encode().replace(b'"HERE"', bad)

    found = cut(body)

    assert [parse(line).reason for line in found] == [None, "parse", None]
    assert bad in found[1]
    assert read([found[0], found[2]]) == [request(record(1)), request(record(3))]


def test_odd_values_reach_the_parser_as_they_came() -> None:
    odd = b'{"n":123456789012345678901234567890,"f":1e999,"k":1,"k":2,"s":"\\ud800"}'
    body = json.dumps(request("HERE")).encode().replace(b'"HERE"', odd)

    [line] = cut(body)

    assert odd in line
    assert parse(line).marks == ("duplicate_key", "lone_surrogate", "number_as_text")


def test_a_list_that_stands_twice_is_read_twice() -> None:
    one, two = json.dumps([record(1)]), json.dumps([record(2)])
    lists = f'"logRecords":{one},"logRecords":{two}'
    body = '{"resourceLogs":[{"scopeLogs":[{' + lists + "}]}]}"

    found = read(cut(body.encode()))

    assert [each["resourceLogs"][0]["scopeLogs"][0]["logRecords"] for each in found] == [
        [record(1)], [record(2)]
    ]  # fmt: skip


@pytest.mark.parametrize(
    "body",
    [
        b'{"resourceLogs":["what is this, please?"]}',
        b'{"resourceLogs":[{"scopeLogs":"none of them"}]}',
        b'{"resourceLogs":[{"scopeLogs":[{"logRecords":{"a":"record"}}]}]}',
        b'{"resourceLogs":{"scopeLogs":"an object"}}',
    ],
)
def test_a_part_of_another_shape_is_a_line_of_its_own(body: bytes) -> None:
    [line] = cut(body)

    assert parse(line).doc is not None
    assert b"resourceLogs" in line


@pytest.mark.parametrize(
    "body", [b"", b" ", b"null", b"7", b'"text"', b"[1, 2]", b"no JSON", b'{"resourceSpans":[]}',
             b'{"records":[{}]}', b'{"resourceLogs":[{"scopeLogs":[', b"\x0a\x02\x08\x01", b"[]"],
)  # fmt: skip
def test_a_body_that_is_no_request_is_refused_with_a_sentence(body: bytes) -> None:
    with pytest.raises(OtlpError, match=r"no OTLP logs request.*'resourceLogs'\.$"):
        cut(body)


@pytest.mark.parametrize("body", [b"{}", b'{"resourceLogs":[]}', b'{"resourceLogs":null}'])
def test_an_empty_request_is_a_request(body: bytes) -> None:
    assert cut(body) == []


def test_a_line_that_spoils_one_request_of_several_is_kept() -> None:
    body = json.dumps(request(record(1))).encode() + b"\nhalf of a li"

    assert cut(body)[1:] == [b"half of a li"]


def test_a_record_over_the_limit_is_kept_as_its_head_alone() -> None:
    found = cut(request(record(1), record(2) | {"body": "x" * 500}, record(3)), max_line=400)

    assert [isinstance(line, Oversized) for line in found] == [False, True, False]


@pytest.mark.parametrize(
    ("head", "records"), [(100_000, [{}] * 5_000), (0, [0] * 20_000), (3_000, [{"a": 1}] * 5_000)]
)
def test_a_body_grows_little_when_what_is_around_its_records_is_repeated(
    head: int, records: list[Any]
) -> None:
    doc = request(*records)
    doc["resourceLogs"][0]["padding"] = "x" * head
    body = json.dumps(doc).encode()

    found = cut(body)

    assert sum(len(line) for line in found) < 12 * len(body)
    scopes = [each["resourceLogs"][0]["scopeLogs"][0] for each in read(found)]
    assert [each for scope in scopes for each in scope["logRecords"]] == records


def test_many_scopes_of_one_large_resource_grow_little_too() -> None:
    doc = request()
    doc["resourceLogs"][0] |= {"padding": "x" * 50_000}
    doc["resourceLogs"][0]["scopeLogs"] = [{"logRecords": [{"n": n}]} for n in range(3_000)]
    body = json.dumps(doc).encode()

    found = cut(body)

    assert sum(len(line) for line in found) < 12 * len(body)
    scopes = [s for each in read(found) for s in each["resourceLogs"][0]["scopeLogs"]]
    assert [s["logRecords"][0]["n"] for s in scopes] == list(range(3_000))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=8,
)
SCOPES = st.fixed_dictionaries(
    {}, optional={"scope": JSON, "logRecords": st.lists(JSON), "x": JSON}
)
RESOURCES = st.fixed_dictionaries({}, optional={"resource": JSON, "scopeLogs": st.lists(SCOPES)})


@settings(deadline=None)
@given(resources=st.lists(RESOURCES, max_size=4), indent=st.sampled_from([None, 1]))
def test_whatever_a_request_holds_every_record_comes_out_once(
    resources: list[dict[str, Any]], indent: int | None
) -> None:
    body = json.dumps({"resourceLogs": resources}, indent=indent, ensure_ascii=False).encode()

    found = [r for each in read(cut(body)) for r in each["resourceLogs"]]

    def records(among: list[dict[str, Any]]) -> list[tuple[Any, Any, Any]]:
        return [
            (resource.get("resource"), (scope.get("scope"), scope.get("x")), record)
            for resource in among
            for scope in resource.get("scopeLogs", [])
            for record in scope.get("logRecords", [])
        ]

    assert records(found) == records(resources)


@settings(deadline=None)
@example(b'{"resourceLogs":[{"scopeLogs":[{"logRecords":[{}},]}]}]}', False)
@example(b'{"resourceLogs":' + b"[" * 100_000, False)
@example(b'{"resourceLogs":' + b"[" * 100_000 + b"]" * 100_000 + b"}", False)
@example(b'{"resourceLogs":[{"a":NaN}]}' * 3, False)
@example(b'{"resourceLogs":[{"\xff":1}]}', False)
@example(b'{"resourceLogs":' + b'"\\' * 300_000, False)
@example(b'{"resourceLogs":' + b"{" * 300_000 + b'"' * 300_000, False)
@example(b'{"resourceLogs":[' + b"{}," * 100_000 + b"0]}", False)
@given(body=st.binary(max_size=60), protobuf=st.booleans())
def test_any_bytes_are_lines_or_an_otlp_error(body: bytes, protobuf: bool) -> None:
    for signal in ("logs", "traces"):
        try:
            found = lines(body, protobuf, signal, LIMIT)
        except OtlpError:
            continue
        assert all(isinstance(line, bytes) and b"\n" not in line for line in found)


VALUES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"string_value": ""}, {"stringValue": ""}),
    ({"bool_value": False}, {"boolValue": False}),
    ({"int_value": -(2**63)}, {"intValue": "-9223372036854775808"}),
    ({"double_value": 1.5}, {"doubleValue": 1.5}),
    ({"double_value": float("nan")}, {"doubleValue": "NaN"}),
    ({"double_value": float("-inf")}, {"doubleValue": "-Infinity"}),
    ({"bytes_value": b"\x00\xff"}, {"bytesValue": "AP8="}),
    ({"array_value": {"values": [{"int_value": 1}, {}]}},
     {"arrayValue": {"values": [{"intValue": "1"}, {}]}}),
    ({"kvlist_value": {"values": [{"key": "k", "value": {"bool_value": True}}]}},
     {"kvlistValue": {"values": [{"key": "k", "value": {"boolValue": True}}]}}),
    ({}, {}),
]  # fmt: skip


def test_protobuf_is_written_as_the_specification_writes_json() -> None:
    attributes = [{"key": f"a{n}", "value": value} for n, (value, _) in enumerate(VALUES)]
    log = {
        "time_unix_nano": 2**63 + 5, "severity_number": 9, "severity_text": "INFO",
        "event_name": "tool_decision", "body": {"string_value": "x"}, "attributes": attributes,
        "flags": 1, "trace_id": bytes(range(16)), "span_id": bytes(range(240, 248)),
    }  # fmt: skip
    scope = {"scope": {"name": "gate"}, "log_records": [log], "schema_url": "https://s.example"}
    resource = {"attributes": [{"key": "service.name", "value": {"string_value": "billing"}}]}
    body = ExportLogsServiceRequest(
        resource_logs=[{"resource": resource, "scope_logs": [scope]}]  # type: ignore[list-item]
    )

    [line] = lines(body.SerializeToString(), True, "logs", LIMIT)

    [found] = read([line])[0]["resourceLogs"]
    assert found["resource"] == RESOURCE
    assert found["scopeLogs"][0]["schemaUrl"] == "https://s.example"
    assert found["scopeLogs"][0]["logRecords"] == [
        {
            "timeUnixNano": "9223372036854775813", "severityNumber": 9, "severityText": "INFO",
            "eventName": "tool_decision", "body": {"stringValue": "x"}, "flags": 1,
            "traceId": "000102030405060708090a0b0c0d0e0f", "spanId": "f0f1f2f3f4f5f6f7",
            "attributes": [{"key": f"a{n}", "value": v} for n, (_, v) in enumerate(VALUES)],
        }
    ]  # fmt: skip


def test_a_record_of_very_many_attributes_keeps_them_all() -> None:
    pairs = [{"key": f"a{n}", "value": {"int_value": n}} for n in range(2_500)]
    scope = {"log_records": [{"attributes": pairs}]}
    body = ExportLogsServiceRequest(resource_logs=[{"scope_logs": [scope]}])  # type: ignore[list-item]

    [line] = lines(body.SerializeToString(), True, "logs", LIMIT)

    [record] = read([line])[0]["resourceLogs"][0]["scopeLogs"][0]["logRecords"]
    assert record["attributes"] == [
        {"key": f"a{n}", "value": {"intValue": f"{n}"}} for n in range(2_500)
    ]


def test_values_in_values_take_little_more_memory_than_the_body() -> None:
    short = AnyValue(array_value=ArrayValue(values=[AnyValue()] * 1_000))
    body = ExportLogsServiceRequest(
        resource_logs=[ResourceLogs(scope_logs=[ScopeLogs(log_records=[LogRecord(
            body=AnyValue(array_value=ArrayValue(values=[short] * 500)))])])]
    ).SerializeToString()  # fmt: skip

    tracemalloc.start()
    [line] = lines(body, True, "logs", 2**20)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert isinstance(line, Oversized)
    assert most < 8 * len(body)


@pytest.mark.parametrize("bad", ["bad", 5, {"scopeLogs": "bad"}, {"scopeLogs": [7]}, None])
def test_a_resource_in_a_file_that_cannot_be_read_is_set_aside_alone(
    tmp_path: Path, bad: Any
) -> None:
    world = World(tmp_path)
    path = tmp_path / "collector.json"
    good = request(record(1))["resourceLogs"]
    path.write_text(json.dumps({"resourceLogs": [*good, bad, *request(record(2))["resourceLogs"]]}))
    cut = how(world.lander.check("otlp_logs", "otel"), Source())

    [batch] = read_file(path, "otel", "otlp_logs", LIMIT, LIMIT, how=cut)
    landed = world.lander.land(batch, at(0))

    assert (landed.events, landed.quarantined) == (2, 1)
    world.close()


def test_spans_in_protobuf_keep_their_parts() -> None:
    span = {
        "trace_id": bytes(range(16)), "span_id": b"12345678", "parent_span_id": b"87654321",
        "name": "execute_tool", "kind": 2, "start_time_unix_nano": 1, "end_time_unix_nano": 2,
        "status": {"code": 2, "message": "no"}, "trace_state": "a=b",
        "events": [{"name": "e", "time_unix_nano": 3}],
        "links": [{"trace_id": bytes(16), "span_id": b"12345678"}],
    }  # fmt: skip
    body = ExportTraceServiceRequest(
        resource_spans=[{"scope_spans": [{"spans": [span, span]}]}]  # type: ignore[list-item]
    )

    found = read(lines(body.SerializeToString(), True, "traces", LIMIT))

    assert len(found) == 2
    assert found[0]["resourceSpans"][0]["scopeSpans"][0]["spans"] == [
        {
            "traceId": "000102030405060708090a0b0c0d0e0f", "spanId": "3132333435363738",
            "parentSpanId": "3837363534333231", "name": "execute_tool", "kind": 2,
            "startTimeUnixNano": "1", "endTimeUnixNano": "2", "traceState": "a=b",
            "status": {"code": 2, "message": "no"}, "events": [{"name": "e", "timeUnixNano": "3"}],
            "links": [{"traceId": "0" * 32, "spanId": "3132333435363738"}],
        }
    ]  # fmt: skip


@pytest.mark.parametrize("body", [b"{}", b'{"resourceLogs":[]}', b"\xff\xff", b"\x0a\x7f", b"abc"])
def test_a_body_that_is_no_protobuf_is_refused_with_a_sentence(body: bytes) -> None:
    with pytest.raises(OtlpError, match=r"no OTLP traces request in protobuf: .*\.$"):
        lines(body, True, "traces", LIMIT)


def test_an_empty_body_is_an_empty_request_in_protobuf() -> None:
    assert lines(b"", True, "logs", LIMIT) == []


def test_an_answer_says_what_was_refused_and_nothing_when_all_went_well() -> None:
    assert json.loads(answer(False, "logs", 0, "")) == {}
    assert answer(True, "traces", 0, "") == b""
    assert json.loads(answer(False, "logs", 2, "no time")) == {
        "partialSuccess": {"rejectedLogRecords": "2", "errorMessage": "no time"}
    }
    assert json.loads(answer(False, "traces", 2, "no time")) == {
        "partialSuccess": {"rejectedSpans": "2", "errorMessage": "no time"}
    }
    logs = ExportLogsServiceResponse.FromString(answer(True, "logs", 2, "no time"))
    traces = ExportTraceServiceResponse.FromString(answer(True, "traces", 3, "no time"))
    assert (logs.partial_success.rejected_log_records, traces.partial_success.rejected_spans) == (
        2,
        3,
    )
    assert {logs.partial_success.error_message, traces.partial_success.error_message} == {"no time"}


@pytest.mark.parametrize("message", ["", "no", "x" * 127, "y" * 128, "é" * 20_000])
def test_a_refusal_is_a_status_that_google_reads(message: str) -> None:
    assert Status.FromString(status_body(True, message)).message == message
    assert json.loads(status_body(False, message)) == {"message": message}
