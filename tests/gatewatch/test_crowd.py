"""Bodies that hold more lines than they may."""

import json
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs

from gatewatch import crowd
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
        (b"\x0b\x0c" + b"\x0a\x00" * (MOST + 1), True),  # behind a group, as the decoder has it
        (b"\x8a\x00\x00" * (MOST + 1), True),  # tags that are longer than they need be
    ],
)
def test_a_body_of_protobuf_is_measured_before_it_is_decoded(body: bytes, found: bool) -> None:
    assert crowded_protobuf(body, MOST) is found


def _field(number: int, *parts: bytes) -> bytes:
    part = b"".join(parts)
    size, length = bytearray(), len(part)
    while length > 0x7F:
        size.append(length & 0x7F | 0x80)
        length >>= 7
    return bytes([number << 3 | 2, *size, length]) + part


VALUES = b"\x0a\x00" * 90
LIST = _field(5, VALUES)  # an AnyValue that holds an array of values that hold nothing
BOMBS: dict[str, tuple[Literal["logs", "traces"], bytes]] = {
    "a list in an attribute": ("logs", _field(2, _field(2, _field(6, _field(2, LIST))))),
    "lists in a list": ("logs", _field(2, _field(2, _field(5, _field(5, _field(1, LIST)))))),
    "attributes of a record": ("logs", _field(2, _field(2, b"\x32\x00" * 90))),
    "tags of two bytes": ("logs", _field(2, _field(2, b"\xb2\x00\x00" * 90))),
    "attributes of a resource": ("logs", _field(1, VALUES) + _field(2, b"\x12\x00")),
    "names in a resource": ("logs", _field(1, _field(3, b"\x1a\x00" * 90))),
    "attributes of a scope": ("traces", _field(2, _field(1, b"\x1a\x00" * 90))),
    "events of a span": ("traces", _field(2, _field(2, b"\x5a\x00" * 90))),
    "links behind a group": ("traces", _field(2, _field(2, b"\x0b\x0c", b"\x6a\x00" * 90))),
    "numbers that nobody reads": ("traces", _field(2, _field(2, b"\x18\x0a" * 190))),
}


@pytest.mark.parametrize("name", BOMBS)
def test_values_in_a_few_records_of_protobuf_are_bounded_too(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crowd, "MESSAGES", 80)
    monkeypatch.setattr(crowd, "FIELDS", 160)
    signal, resource = BOMBS[name]

    assert crowded_protobuf(_field(1, resource), 20, signal)


def test_no_text_is_taken_for_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crowd, "MESSAGES", 80)
    text = LogRecord(severity_text="\n\0" * 500, body=AnyValue(string_value="\n\0" * 500))

    assert not crowded_protobuf(export(text), 20)


@given(st.binary(max_size=300))
def test_measuring_never_raises(body: bytes) -> None:
    crowded(body, 0)
    crowded_protobuf(body, 0)
