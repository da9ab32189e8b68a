"""What the tests with the real OpenTelemetry exporters share."""

from base64 import b64decode
from typing import Any

from google.protobuf.json_format import MessageToDict  # type: ignore[import-untyped]

IDS = ("traceId", "spanId", "parentSpanId")


def otlp_json(request: Any) -> Any:
    """A request in protobuf as OTLP/JSON: as google writes it, but for the ids, which are hex."""
    return _hexed(MessageToDict(request))


def _hexed(doc: Any) -> Any:
    if isinstance(doc, list):
        return [_hexed(each) for each in doc]
    if not isinstance(doc, dict):
        return doc
    return {k: b64decode(v).hex() if k in IDS else _hexed(v) for k, v in doc.items()}
