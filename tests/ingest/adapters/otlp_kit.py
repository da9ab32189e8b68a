"""What the tests of the OpenTelemetry adapters share."""

import copy
import json
from collections.abc import Iterable
from typing import Any

from hypothesis import strategies as st

from ingest import otlp
from ingest.otlp import Signal
from tests.ingest.adapters import kit
from tests.ingest.adapters.kit import Row

APART = ("ledger_seq", "event_id", "native_id", "ingested_at")  # what tells the same event twice
ODD = ["", "0", "null", "NaN", "1e999", "[", "{}", '{"a":', "0x", "9" * 30, "\u202e"]
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.sampled_from(ODD),
    st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=6),
)  # fmt: skip
KEYS = st.sampled_from(["key", "value", "values", "stringValue"]) | st.text(max_size=4)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=6,
)


def value(of: Any) -> Row:
    """A value as OTLP wraps it."""
    match of:
        case bool():
            return {"boolValue": of}
        case int():
            return {"intValue": str(of)}
        case float():
            return {"doubleValue": of}
        case list():
            return {"arrayValue": {"values": [value(each) for each in of]}}
        case dict():
            return {"kvlistValue": {"values": pairs(of)}}
    return {"stringValue": of}


def pairs(of: Row) -> list[Row]:
    return [{"key": key, "value": value(each)} for key, each in of.items()]


def log(attributes: Row, service: str = "support-app", **fields: Any) -> Row:
    """A request of one log record."""
    record = {"timeUnixNano": "1773133200000000000", "attributes": pairs(attributes), **fields}
    return {
        "resourceLogs": [
            {
                "resource": {"attributes": pairs({"service.name": service})},
                "scopeLogs": [{"scope": {"name": "tests"}, "logRecords": [record]}],
            }
        ]
    }


def span(attributes: Row, service: str = "support-app", **fields: Any) -> Row:
    """A request of one span."""
    record = {
        "traceId": "5b8efff798038103d269b633813fc60c", "spanId": "eee19b7ec3c1b174",
        "startTimeUnixNano": "1773133200000000000", "endTimeUnixNano": "1773133200250000000",
        "name": "a span", "attributes": pairs(attributes), **fields,
    }  # fmt: skip
    resource = {"attributes": pairs({"service.name": service})}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": [record]}]}]}


def cut(signal: Signal, docs: Iterable[Row], protobuf: bool = False) -> list[Row]:
    """The documents as the intake cuts them."""
    bodies = (json.dumps(doc).encode() for doc in docs)
    found = [line for body in bodies for line in otlp.lines(body, protobuf, signal, 2**20)]
    return [json.loads(line) for line in found if isinstance(line, bytes)]


def said(rows: Iterable[Row]) -> list[Row]:
    """Rows without what tells one line from another, in an order of their own."""
    bare = [{key: each for key, each in row.items() if key not in APART} for row in rows]
    return sorted(bare, key=repr)


def places(doc: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of every value in a document."""
    inside = (
        doc.items() if isinstance(doc, dict) else enumerate(doc) if isinstance(doc, list) else ()
    )
    found = [place for key, each in inside for place in places(each, (*path, key))]
    return [path, *found] if path else found


def changed(doc: Row, path: tuple[Any, ...], new: Any) -> Row:
    """A copy of a document with one value replaced."""
    found = copy.deepcopy(doc)
    at: Any = found
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = new
    return found


def spoiled(name: str) -> st.SearchStrategy[Row]:
    """Documents of a sample, in each of which one value is something else."""
    return st.sampled_from(kit.sample(name)).flatmap(
        lambda doc: st.builds(changed, st.just(doc), st.sampled_from(places(doc)), JSON)
    )
