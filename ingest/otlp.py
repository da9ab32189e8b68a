"""OTLP over HTTP: a request cut into lines of one record, and the answers that its senders expect.

A line is a small request of its own: {"resourceLogs": [{"resource": .., "scopeLogs": [{"scope": ..,
"logRecords": [ONE]}]}]}, for spans alike. So a large export meets no limit on lines, and a record
that cannot be read is set aside alone.
Reads: HTTP bodies. Writes: nothing. Next: ingest/parse.py, ingest/adapters/otlp_logs.sql.
"""

from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from ingest import otlp_json, otlp_protobuf
from ingest.batch import Line
from ingest.otlp_json import Names, Resource, Scope
from ingest.split import limited

Signal = Literal["logs", "traces"]
Weighed = tuple[bytes, int]  # a text, and how many bytes of it are records

NAMES: dict[Signal, Names] = {
    "logs": Names("resourceLogs", "scopeLogs", "logRecords"),
    "traces": Names("resourceSpans", "scopeSpans", "spans"),
}
# What goes around a record is repeated with it. Records that are smaller than this part of it share
# a line, or a hostile body would grow by thousands; so do those of fewer bytes than any real one.
HEAVY, SMALL = 8, 16


class OtlpError(ValueError):
    """The body is no OTLP request: nothing of it can be kept. One sentence for the sender."""


def lines(body: bytes, protobuf: bool, signal: Signal, max_line: int) -> list[Line]:
    """The lines of one export request. Raises OtlpError when the body is none.

    JSON may also be an array of requests, or one request a line. A part of a request that has the
    wrong shape becomes a line of its own, as it came, so that it is quarantined and not lost.
    """
    names, found, understood = NAMES[signal], list[Line](), False
    start = b'{"%s":[' % names.resource.encode()
    for request in [_decoded(body, signal)] if protobuf else otlp_json.requests(body, names):
        if isinstance(request, bytes):
            found.append(limited(request, max_line))
        else:
            understood = True
            texts = _grouped(start, _resources(request, names), len(start))
            found += [limited(each, max_line) for each, _ in texts]
    if not understood:
        raise OtlpError(f"The body is no OTLP {signal} request: it has no {names.resource!r}.")
    return found


def _decoded(body: bytes, signal: Signal) -> list[Resource | bytes]:
    try:
        return otlp_protobuf.resources(body, signal == "logs")
    except ValueError as error:
        raise OtlpError(f"The body is no OTLP {signal} request in protobuf: {error}.") from None


def _resources(resources: Iterable[Resource | bytes], names: Names) -> Iterator[Weighed]:
    """Resources as texts, each with one record or a few that are small."""
    for resource in resources:
        if isinstance(resource, bytes):
            yield resource, len(resource)
            continue
        around, scopes = resource
        head = b'{%s"%s":[' % (around, names.scope.encode())
        yield from _grouped(head, _scopes(scopes, names, len(head)), len(head))


def _scopes(scopes: Iterable[Scope | bytes], names: Names, outer: int) -> Iterator[Weighed]:
    for scope in scopes:
        if isinstance(scope, bytes):
            yield scope, len(scope)
            continue
        around, records = scope
        head = b'{%s"%s":[' % (around, names.record.encode())
        yield from _grouped(head, ((each, len(each)) for each in records), outer + len(head))


def _grouped(head: bytes, parts: Iterable[Weighed], repeated: int) -> Iterator[Weighed]:
    """Parts in their order behind a head, each alone unless it is far smaller than what is repeated
    with it, in bytes.
    """
    enough = max(repeated // HEAVY, SMALL)
    waiting, weight = list[bytes](), 0
    for text, weighs in parts:
        if waiting and weighs >= enough:
            yield b"%s%s]}" % (head, b",".join(waiting)), weight
            waiting, weight = [], 0
        waiting.append(text)
        weight += weighs
        if weight >= enough:
            yield b"%s%s]}" % (head, b",".join(waiting)), weight
            waiting, weight = [], 0
    if waiting:
        yield b"%s%s]}" % (head, b",".join(waiting)), weight


def answer(protobuf: bool, signal: Signal, rejected: int, message: str) -> bytes:
    """The body of a 200: empty when all went well, else how many records were refused and why."""
    partial = bool(rejected or message)
    if not protobuf:
        count = "rejectedLogRecords" if signal == "logs" else "rejectedSpans"
        told = {count: str(rejected), "errorMessage": message}
        return msgspec.json.encode({"partialSuccess": told} if partial else {})
    if signal == "logs":
        logs = ExportLogsServiceResponse()
        if partial:
            logs.partial_success.rejected_log_records = rejected
            logs.partial_success.error_message = message
        return bytes(logs.SerializeToString())
    traces = ExportTraceServiceResponse()
    if partial:
        traces.partial_success.rejected_spans = rejected
        traces.partial_success.error_message = message
    return bytes(traces.SerializeToString())


def status_body(protobuf: bool, message: str) -> bytes:
    """The body of a refusal: google.rpc.Status, of which OTLP wants the message (field 2)."""
    if not protobuf:
        return msgspec.json.encode({"message": message})
    text = message.encode(errors="replace")
    size, length = bytearray(), len(text)
    while length > 0x7F:
        size.append(length & 0x7F | 0x80)
        length >>= 7
    return b"\x12" + bytes([*size, length]) + text
