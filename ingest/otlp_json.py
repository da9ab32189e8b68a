"""OTLP/JSON taken apart: resources, scopes and records, each as it came.

Two roads: one pass for a request as OTLP describes it, and a slower one that loses nothing of any
other (a key that stands twice, NaN, an unknown field, protobuf's spelling of names).
Reads: bytes. Writes: nothing. Next: ingest/otlp.py.
"""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from ingest.split import BOM, on_one_line

Member = tuple[bytes, bytes]  # of a JSON object: the key and the value as they came
# What a resource or scope has beside its list, as members with a comma behind each, and the list.
# One of another shape is its text as it came.
Scope = tuple[bytes, Iterable[bytes]]
Resource = tuple[bytes, Iterable[Scope | bytes]]
DENSE = 12  # bytes a comma: fewer than any real export has, and each value costs memory
DEPTH = 72  # brackets in brackets that are seen through: what parse() takes, in six more
_STRING = rb'"(?:[^"\\]++|\\.)*+"'


def _nested(levels: int) -> bytes:
    """The pattern of a text whose brackets are closed."""
    inside = rb'(?:[^"{}\[\]]++|%s)*+' % _STRING
    for _ in range(levels):
        inside = rb'(?:[^"{}\[\]]++|%s|[{\[]%s[}\]])*+' % (_STRING, inside)
    return inside


# A value up to the comma or bracket behind it, one object, and a key with its colon.
_INSIDE = _nested(DEPTH)
_VALUE = re.compile(rb'(?:[^",{}\[\]]++|%s|[{\[]%s[}\]])*+' % (_STRING, _INSIDE), re.DOTALL)
_OBJECT = re.compile(rb"\{%s\}" % _INSIDE, re.DOTALL)
_KEY = re.compile(rb"\s*+(%s)\s*+:\s*+" % _STRING, re.DOTALL)


class Names(NamedTuple):
    """The lists of one signal, from outside in."""

    resource: str
    scope: str
    record: str


def requests(body: bytes, names: Names) -> Iterator[Iterable[Resource | bytes] | bytes]:
    """The requests in a body, as their resources; a value that is no request is its own text."""
    resources = _read(on_one_line(body), names)
    if resources is not None:
        yield resources
        return
    for request in _values(body):
        parts = members(request)
        tops = [value for key, value in parts or () if key in _spelled(names.resource)]
        if tops or parts == []:
            yield (_resource(each, names) for top in tops for each in _items(top))
        else:
            yield request


def _read(body: bytes, names: Names) -> list[Resource | bytes] | None:
    """The resources of a request that holds what OTLP knows and nothing else, every key once."""
    if body.count(b",") * DENSE > len(body):
        return None
    try:
        request = _decoder(names).decode(body)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None
    quotes = body.count(b'"') - 2
    found = list[Resource | bytes]()
    for resource in request.items:
        scopes = list[Scope]()
        for scope in resource.items or ():
            records = [bytes(each) for each in scope.items or ()]
            beside = _others(("scope", scope.scope), ("schemaUrl", scope.schema))
            quotes -= sum(each.count(b'"') for each in records)
            quotes -= beside.count(b'"') + 2 * (scope.items is not None)
            scopes.append((beside, records))
        around = _others(("resource", resource.resource), ("schemaUrl", resource.schema))
        quotes -= around.count(b'"') + 2 * (resource.items is not None)
        found.append((around, scopes))
    return None if quotes else found


def _others(*members: tuple[str, msgspec.Raw]) -> bytes:
    return b"".join(b'"%s":%s,' % (key.encode(), bytes(value)) for key, value in members if value)


@lru_cache
def _decoder(names: Names) -> Any:
    """Of a whole request in one pass, each record left as it came."""
    raw, none = msgspec.Raw, msgspec.Raw()
    more: dict[str, Any] = {"forbid_unknown_fields": True}
    scope = msgspec.defstruct(
        "Scope",
        [("scope", raw, none), ("schema", raw, none), ("items", list[raw] | None, None)],  # type: ignore[valid-type]
        rename={"schema": "schemaUrl", "items": names.record}, **more,
    )  # fmt: skip
    resource = msgspec.defstruct(
        "Resource",
        [("resource", raw, none), ("schema", raw, none), ("items", list[scope] | None, None)],  # type: ignore[valid-type]
        rename={"schema": "schemaUrl", "items": names.scope}, **more,
    )  # fmt: skip
    fields = [("items", list[resource])]  # type: ignore[valid-type]
    return msgspec.json.Decoder(
        msgspec.defstruct("Request", fields, rename={"items": names.resource}, **more)
    )


def _values(body: bytes) -> Iterator[bytes]:
    """The values of a body: of one array, one object, or one a line."""
    body = body.removeprefix(BOM)
    text = on_one_line(body)
    if text.startswith(b"["):
        yield from _items(text)
    elif _OBJECT.fullmatch(text):
        yield text
    else:
        yield from (line for each in body.split(b"\n") if (line := each.strip()))


def _items(array: bytes) -> Iterator[bytes]:
    """The elements of an array, as they came; null is an empty one, something else is one element.

    From where it is no array any more, the rest is one element.
    """
    if not array.startswith(b"["):
        yield from [] if array == b"null" else [array]
        return
    at = 1
    while at < len(array):
        end = _VALUE.match(array, at).end()  # type: ignore[union-attr]  # it matches nothing as well
        if array[end : end + 1] not in (b",", b"]"):
            end = len(array)
        if item := array[at:end].strip():
            yield item
        at = end + 1


def members(text: bytes) -> list[Member] | None:
    """The members of a JSON object, a key that stands twice twice; None when it is no object."""
    found, at = list[Member](), 1
    if text == b"{}" or not text.startswith(b"{"):
        return found if text == b"{}" else None
    while key := _KEY.match(text, at):
        end = _VALUE.match(text, key.end()).end()  # type: ignore[union-attr]
        if text[end : end + 1] not in (b",", b"}"):
            return None
        found.append((key[1], text[key.end() : end].strip()))
        at = end + 1
        if text[end : end + 1] == b"}":
            return found if at == len(text) else None
    return found if not found and not text[1:].strip(b" \t}") else None


def _resource(item: bytes, names: Names) -> Resource | bytes:
    around, lists = _parted(item, names.scope)
    if lists is None:
        return item
    return around, (_scope(each, names) for part in lists for each in _items(part))


def _scope(item: bytes, names: Names) -> Scope | bytes:
    around, lists = _parted(item, names.record)
    return item if lists is None else (around, (each for part in lists for each in _items(part)))


def _parted(item: bytes, name: str) -> tuple[bytes, list[bytes] | None]:
    """An object as its other members and its lists of that name; None when it has another shape."""
    parts, wanted = members(item), _spelled(name)
    if parts is None:
        return b"", None
    lists = [value for key, value in parts if key in wanted]
    if any(not each.startswith(b"[") and each != b"null" for each in lists):
        return b"", None
    return b"".join(b"%s:%s," % part for part in parts if part[0] not in wanted), lists


@lru_cache
def _spelled(name: str) -> tuple[bytes, bytes]:
    """As OTLP/JSON spells it, and as protobuf does: some senders write that."""
    other = re.sub("([A-Z])", r"_\1", name).lower()
    return b'"%s"' % name.encode(), b'"%s"' % other.encode()
