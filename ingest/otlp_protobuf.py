"""OTLP in protobuf, as OTLP/JSON: ids in hex, long integers as text, enums as numbers.

Reads: bytes. Writes: nothing. Next: ingest/otlp.py.
"""

import math
from base64 import b64encode
from collections.abc import Callable
from typing import Any, Literal

import msgspec
from google.protobuf.descriptor import FieldDescriptor  # type: ignore[import-untyped]
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

_encode = msgspec.json.Encoder().encode
_IDS = {"trace_id", "span_id", "parent_span_id"}  # OTLP/JSON writes these in hex
_LONG = {FieldDescriptor.TYPE_INT64, FieldDescriptor.TYPE_UINT64, FieldDescriptor.TYPE_FIXED64}
_fields: dict[str, tuple[str, Callable[[Any], Any]]] = {}  # by full name, filled as they are met


def requests(body: bytes, signal: Literal["logs", "traces"]) -> list[bytes]:
    """One request in protobuf as OTLP/JSON, none when it is empty. Raises ValueError."""
    request: Any = ExportLogsServiceRequest() if signal == "logs" else ExportTraceServiceRequest()
    try:
        request.ParseFromString(body)
    except DecodeError:
        raise ValueError("it does not parse") from None
    if body and not request.ListFields():
        raise ValueError("nothing in it is known")
    return [_encode(_message(request))] if body else []


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
    many: Callable[[Any], Any] = lambda values: [one(each) for each in values]  # noqa: E731
    learned = field.json_name, many if field.is_repeated else one
    _fields[field.full_name] = learned
    return learned


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
    if pair.key_strindex:
        return _message(pair)
    return {"key": pair.key, "value": _any(pair.value)}


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
            return {"arrayValue": {"values": [_any(each) for each in value.array_value.values]}}
        case "kvlist_value":
            return {"kvlistValue": {"values": [_pair(each) for each in value.kvlist_value.values]}}
        case "bytes_value":
            return {"bytesValue": _base64(value.bytes_value)}
    return _message(value)
