"""OTLP/JSON taken apart: resources, scopes and records, each as it came.

Two roads: one pass for a request as OTLP describes it, and a slower one that loses nothing of any
other (a key that stands twice, NaN, an unknown field, protobuf's spelling of names).
Reads: bytes. Writes: nothing. Next: ingest/otlp.py.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from ingest.split import elements

Member = tuple[str, bytes]  # of a JSON object: the key, the value as it came
# What a resource or scope has beside its list, as members with a comma behind each, and the list.
# One of another shape is its text as it came.
Scope = tuple[bytes, Sequence[bytes]]
Resource = tuple[bytes, Sequence[Scope | bytes]]
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{}\[\],:"]', re.DOTALL)


class Names(NamedTuple):
    """The lists of one signal, from outside in."""

    resource: str
    scope: str
    record: str


def requests(body: bytes, names: Names) -> list[list[Resource | bytes] | bytes]:
    """The requests in a body, as their resources; a value that is no request is its own text."""
    resources = _read(body, names)
    if resources is not None:
        return [resources]
    found = list[list[Resource | bytes] | bytes]()
    for request in _json(body):
        parts = members(request)
        tops = [value for key, value in parts or () if key in _spelled(names.resource)]
        if tops or parts == []:
            found.append([_resource(each, names) for top in tops for each in _items(top)])
        else:
            found.append(request)
    return found


def _read(body: bytes, names: Names) -> list[Resource | bytes] | None:
    """The resources of a request on one line that holds what OTLP knows and every key once."""
    if b"\n" in body or b"\r" in body:
        return None
    try:
        request = _decoder(names).decode(body)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None
    quotes = body.count(b'"') - 2
    found = list[Resource | bytes]()
    for resource in request.items:
        scopes = list[Scope]()
        for scope in resource.items:
            records = [bytes(each) for each in scope.items]
            beside = _others(("scope", scope.scope), ("schemaUrl", scope.schema))
            quotes -= sum(each.count(b'"') for each in records)
            quotes -= beside.count(b'"') + 2
            scopes.append((beside, records))
        around = _others(("resource", resource.resource), ("schemaUrl", resource.schema))
        quotes -= around.count(b'"') + 2
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
        [("scope", raw, none), ("schema", raw, none), ("items", list[raw], [])],  # type: ignore[valid-type]
        rename={"schema": "schemaUrl", "items": names.record}, **more,
    )  # fmt: skip
    resource = msgspec.defstruct(
        "Resource",
        [("resource", raw, none), ("schema", raw, none), ("items", list[scope], [])],  # type: ignore[valid-type]
        rename={"schema": "schemaUrl", "items": names.scope}, **more,
    )  # fmt: skip
    fields = [("items", list[resource])]  # type: ignore[valid-type]
    return msgspec.json.Decoder(
        msgspec.defstruct("Request", fields, rename={"items": names.resource}, **more)
    )


def _json(text: bytes) -> list[bytes]:
    """The values of a body or an array, as they came."""
    return [each for each in elements(text, len(text)) if isinstance(each, bytes) and each]


def _items(array: bytes) -> list[bytes]:
    """The elements of an array; null is an empty one, something else is one element."""
    if not array.startswith(b"["):
        return [] if array == b"null" else [array]
    return _json(array)


def _resource(item: bytes, names: Names) -> Resource | bytes:
    around, lists = _parted(item, names.scope)
    if lists is None:
        return item
    return around, [_scope(each, names) for part in lists for each in _items(part)]


def _scope(item: bytes, names: Names) -> Scope | bytes:
    around, lists = _parted(item, names.record)
    return item if lists is None else (around, [each for part in lists for each in _items(part)])


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
