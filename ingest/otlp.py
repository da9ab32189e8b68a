"""OTLP over HTTP: a request cut into lines of one record, and the answers that its senders expect.

A line is a small request of its own: {"resourceLogs": [{"resource": .., "scopeLogs": [{"scope": ..,
"logRecords": [ONE]}]}]}, for spans alike. So a large export meets no limit on lines, and a record
that cannot be read is set aside alone.
Reads: HTTP bodies. Writes: nothing. Next: ingest/parse.py, ingest/adapters/otlp_logs.sql.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

import msgspec
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from ingest import otlp_protobuf
from ingest.batch import Line
from ingest.split import elements, limited

Signal = Literal["logs", "traces"]
Member = tuple[str, bytes]  # of a JSON object: the key, the value as it came

# What goes around a record is repeated with it. Records that are smaller than this part of it share
# a line, or a hostile body would grow by thousands; so do those of fewer bytes than any real one.
HEAVY, SMALL = 8, 16
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{}\[\],:"]', re.DOTALL)


class OtlpError(ValueError):
    """The body is no OTLP request: nothing of it can be kept. One sentence for the sender."""


class _Names(NamedTuple):
    """The lists of one signal, from outside in."""

    resource: str
    scope: str
    record: str


NAMES: dict[Signal, _Names] = {
    "logs": _Names("resourceLogs", "scopeLogs", "logRecords"),
    "traces": _Names("resourceSpans", "scopeSpans", "spans"),
}


def lines(body: bytes, protobuf: bool, signal: Signal, max_line: int) -> list[Line]:
    """The lines of one export request. Raises OtlpError when the body is none.

    JSON may also be an array of requests, or one request a line. A part of a request that has the
    wrong shape becomes a line of its own, as it came, so that it is quarantined and not lost.
    """
    requests = _decoded(body, signal) if protobuf else _json(body)
    names, found, understood = NAMES[signal], list[Line](), protobuf
    for request in requests:
        parts = members(request)
        tops = [v for key, v in parts or () if key in _spelled(names.resource)]
        understood = understood or bool(tops) or parts == []
        for top in tops:
            start = b'{"%s":[' % names.resource.encode()
            texts = _grouped(start, _resources(_items(top), names), b"]}")
            found += [limited(each, max_line) for each in texts]
        if not tops and parts != []:
            found.append(limited(request, max_line))
    if not understood:
        raise OtlpError(f"The body is no OTLP {signal} request: it has no {names.resource!r}.")
    return found


def _decoded(body: bytes, signal: Signal) -> list[bytes]:
    try:
        return otlp_protobuf.requests(body, signal)
    except ValueError as error:
        raise OtlpError(f"The body is not OTLP {signal} in protobuf: {error}.") from None


def _json(text: bytes) -> list[bytes]:
    """The values of a body or an array, as they came."""
    return [each for each in elements(text, len(text)) if isinstance(each, bytes) and each]


def _items(array: bytes) -> list[bytes]:
    """The elements of an array; null is an empty one, something else is one element."""
    if not array.startswith(b"["):
        return [] if array == b"null" else [array]
    return _json(array)


def _resources(resources: Sequence[bytes], names: _Names) -> Iterator[bytes]:
    for resource in resources:
        around, lists = _parted(resource, names.scope)
        if lists is None:
            yield resource
            continue
        scopes = (text for each in lists for text in _scopes(_items(each), names))
        yield from _grouped(b'{%s"%s":[' % (around, names.scope.encode()), scopes, b"]}")


def _scopes(scopes: Sequence[bytes], names: _Names) -> Iterator[bytes]:
    for scope in scopes:
        around, lists = _parted(scope, names.record)
        if lists is None:
            yield scope
            continue
        records = (record for each in lists for record in _items(each))
        yield from _grouped(b'{%s"%s":[' % (around, names.record.encode()), records, b"]}")


def _grouped(head: bytes, parts: Iterable[bytes], tail: bytes) -> Iterator[bytes]:
    """Each part between head and tail; parts that are far smaller than the head share one."""
    enough = max(len(head) // HEAVY, SMALL)
    waiting, weight = list[bytes](), 0
    for part in parts:
        if len(part) >= enough:
            yield b"%s%s%s" % (head, part, tail)
            continue
        waiting.append(part)
        weight += len(part)
        if weight >= enough:
            yield b"%s%s%s" % (head, b",".join(waiting), tail)
            waiting, weight = [], 0
    if waiting:
        yield b"%s%s%s" % (head, b",".join(waiting), tail)


def _parted(item: bytes, name: str) -> tuple[bytes, list[bytes] | None]:
    """An object as its other members and its lists of that name; None when it has another shape."""
    parts, wanted = members(item), _spelled(name)
    if parts is None:
        return b"", None
    lists = [value for key, value in parts if key in wanted]
    if any(not each.startswith(b"[") and each != b"null" for each in lists):
        return b"", None
    others = (b"%s:%s," % (msgspec.json.encode(k), v) for k, v in parts if k not in wanted)
    return b"".join(others), lists


@lru_cache
def _spelled(name: str) -> tuple[str, str]:
    """As OTLP/JSON spells it, and as protobuf does: some senders write that."""
    return name, re.sub("([A-Z])", r"_\1", name).lower()


def members(text: bytes) -> list[Member] | None:
    """The members of a JSON object, a key that stands twice twice; None when it is no object.

    What msgspec refuses (NaN somewhere inside) is cut at its brackets, for parse() to judge.
    """
    if not text.startswith(b"{"):
        return None
    try:
        found = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return _members(text)
    parts = [(key, bytes(value)) for key, value in found.items()]
    if text.count(b'"') != sum(value.count(b'"') + 2 for _, value in parts):
        return _members(text)
    return parts


def _members(text: bytes) -> list[Member] | None:
    found, start, level, key = list[Member](), 1, 0, b""
    for match in _TOKEN.finditer(text):
        token, at = match[0], match.start()
        if token in b"{[":
            level += 1
        elif token == b":" and level == 1 and not key:
            key, start = text[start:at].strip(), at + 1
        elif token in b"}]," and (level == 1):
            if key:
                found.append((_key(key), text[start:at].strip()))
            elif text[start:at].strip():
                return None
            key, start = b"", at + 1
        if token in b"}]":
            level -= 1
            if level == 0:
                return found if token == b"}" and not text[at + 1 :].strip() else None
    return None


def _key(text: bytes) -> str:
    try:
        return str(msgspec.json.decode(text, type=str))
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return text.strip(b'"').decode(errors="replace")


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
