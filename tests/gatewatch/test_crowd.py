"""Bodies that hold more lines than they may."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs

from gatewatch.crowd import RECORDS, crowded, crowded_protobuf
from ingest.split import elements

MOST = 1_000
EVENT = {"kind": "egress", "agent": "a1", "params": {"list": [1, 2, 3], "text": "a,b[c{,"}}


def export(*records: LogRecord) -> bytes:
    scope = ScopeLogs(log_records=records)
    request = ExportLogsServiceRequest(resource_logs=[ResourceLogs(scope_logs=[scope])])
    return bytes(request.SerializeToString())


@pytest.mark.parametrize(
    ("body", "levels", "found"),
    [
        (json.dumps([EVENT] * MOST).encode(), 2, False),
        (json.dumps([EVENT] * (MOST + 1)).encode(), 2, True),
        (b"\n".join([json.dumps(EVENT).encode()] * MOST), 2, False),
        (b"0\n" * (MOST + 1), 2, True),
        (b"[" + b"0," * MOST + b"0]", 2, True),
        (b'{"Records":[' + b"0," * MOST + b"0]}", 2, True),
        (json.dumps({"text": "," * 10 * MOST}).encode(), 2, False),
        (b'{"resourceLogs":[{"scopeLogs":[{"logRecords":[' + b"0," * MOST, RECORDS, True),
        (b'{"resourceLogs":[' + b"0," * MOST, RECORDS, True),
        (b"{}" * (MOST + 1), 2, True),
        (b'{"a":\n{}}' * MOST, 2, False),
        (b"]" * 10 + b"," * 10 * MOST, 2, False),
    ],
)
def test_a_body_of_json_is_measured_by_its_bytes(body: bytes, levels: int, found: bool) -> None:
    assert crowded(body, MOST, levels) is found


@given(st.text('{}[]",: \n0', max_size=12).map(lambda part: part.encode() * 40))
def test_no_body_has_more_lines_than_its_measure_allows(body: bytes) -> None:
    if not crowded(body, 20):
        assert len(elements(body, 2**20)) <= 21


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (export(*[LogRecord(severity_text="x" * 50)] * (MOST - 2)), False),
        (export(*[LogRecord(severity_text="x" * 50)] * (MOST + 1)), True),
        (export(*[LogRecord()] * (MOST + 1)), True),
        (export(LogRecord(severity_text="x" * 100 * MOST)), False),
        (b"\xff" * 100 * MOST, False),
        (b"\x0a\xff\xff\xff\xff\xff" + b"\x12\x00" * MOST, False),
    ],
)
def test_a_body_of_protobuf_is_measured_before_it_is_decoded(body: bytes, found: bool) -> None:
    assert crowded_protobuf(body, MOST) is found


@given(st.binary(max_size=300))
def test_measuring_never_raises(body: bytes) -> None:
    crowded(body, 0)
    crowded_protobuf(body, 0)
