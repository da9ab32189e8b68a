"""OTLP in protobuf, as OTLP/JSON: ids in hex, long integers as text, enums as numbers.

Reads: bytes. Writes: nothing. Next: ingest/otlp.py.
"""

import math
from base64 import b64encode
from collections.abc import Callable
from typing import Any

import msgspec
from google.protobuf.descriptor import FieldDescriptor  # type: ignore[import-untyped]
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from ingest.otlp_json import Resource

PIECE = 1_000  # values of a list that are objects at the same time
_encode = msgspec.json.Encoder().encode
_IDS = {"trace_id", "span_id", "parent_span_id"}  # OTLP/JSON writes these in hex
_LONG = {FieldDescriptor.TYPE_INT64, FieldDescriptor.TYPE_UINT64, FieldDescriptor.TYPE_FIXED64}
_fields: dict[str, tuple[str, Callable[[Any], Any]]] = {}  # by full name, filled as they are met


def resources(body: bytes, logs: bool) -> list[Resource | bytes]:
    """The resources of one request as OTLP/JSON; an empty body is an empty request.

    Raises ValueError when it is no such request.
    """
    request: Any = ExportLogsServiceRequest() if logs else ExportTraceServiceRequest()
    try:
        request.ParseFromString(body)
    except DecodeError:
        raise ValueError("it does not parse") from None
    if body and not request.ListFields():
        raise ValueError("nothing in it is known")
    return [
        (_beside(each), [(_beside(scope), _records(scope)) for scope in _inside(each)])
        for each in (request.resource_logs if logs else request.resource_spans)
    ]


def _inside(resource: Any) -> Any:
    return resource.scope_logs if hasattr(resource, "scope_logs") else resource.scope_spans


def _records(scope: Any) -> list[bytes]:
    records = scope.log_records if hasattr(scope, "log_records") else scope.spans
    return [_encode(_message(each)) for each in records]


def _beside(message: Any) -> bytes:
    """All fields but the lists, as members of a JSON object with a comma behind each."""
    found = b""
    for field, value in message.ListFields():
        if not (field.is_repeated and field.message_type is not None):
            name, convert = _fields.get(field.full_name) or _learn(field)
            found += b'"%s":%s,' % (name.encode(), _encode(convert(value)))
    return found


def _message(message: Any) -> Any:
    """A message as an object of the fields that are set."""
    found = {}
    for field, value in message.ListFields():
        name, convert = _fields.get(field.full_name) or _learn(field)
        found[name] = convert(value)
    return found


def _learn(field: Any) -> tuple[str, Callable[[Any], Any]]:
    """How a field is named and written in JSON; kept, because looking it up takes long."""
    one = _converter(field)
    learned = field.json_name, (lambda values: _many(values, one)) if field.is_repeated else one
    _fields[field.full_name] = learned
    return learned


def _many(values: Any, one: Callable[[Any], Any]) -> Any:
    """A list; a long one as text."""
    return [one(each) for each in values] if len(values) <= PIECE else _texts(values, one)


def _texts(values: Any, one: Callable[[Any], Any]) -> msgspec.Raw:
    """A list as its text, made piece by piece, because an object weighs many times what its text
    does; lists in lists may be short, and many."""
    pieces = (values[at : at + PIECE] for at in range(0, len(values), PIECE))
    texts = (_encode([one(each) for each in piece])[1:-1] for piece in pieces)
    return msgspec.Raw(b"[%s]" % b",".join(texts))


def _converter(field: Any) -> Callable[[Any], Any]:
    if field.message_type is not None:
        known: dict[str, Callable[[Any], Any]] = {
            KeyValue.DESCRIPTOR.full_name: _pair,
            AnyValue.DESCRIPTOR.full_name: _any,
        }
        return known.get(field.message_type.full_name, _message)
    if field.type in _LONG:
        return str
    if field.type == FieldDescriptor.TYPE_BYTES:
        return bytes.hex if field.name in _IDS else _base64
    if field.type in (FieldDescriptor.TYPE_DOUBLE, FieldDescriptor.TYPE_FLOAT):
        return _double
    return _same


def _same(value: Any) -> Any:
    return value


def _base64(value: bytes) -> str:
    return b64encode(value).decode()


def _double(value: float) -> float | str:
    """Protobuf's own JSON writes the three numbers that JSON has not as words."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _pair(pair: Any) -> Any:
    key = pair.key
    if not key and pair.key_strindex:  # meant for another signal, kept all the same
        return _message(pair)
    return {"key": key, "value": _any(pair.value)}


def _any(value: Any) -> Any:
    """AnyValue: which of its kinds is set stands beside it, empty and zero included."""
    match value.WhichOneof("value"):
        case "string_value":
            return {"stringValue": value.string_value}
        case "int_value":
            return {"intValue": str(value.int_value)}
        case "bool_value":
            return {"boolValue": value.bool_value}
        case "double_value":
            return {"doubleValue": _double(value.double_value)}
        case "array_value":
            return {"arrayValue": {"values": _texts(value.array_value.values, _any)}}
        case "kvlist_value":
            return {"kvlistValue": {"values": _texts(value.kvlist_value.values, _pair)}}
        case "bytes_value":
            return {"bytesValue": _base64(value.bytes_value)}
    return _message(value)
