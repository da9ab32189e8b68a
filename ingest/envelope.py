"""An object that only carries an array, as {"Records": [...]}, into a line for each element.

A file of such an object is one line of any length: the limit is for its elements.
Reads: lines. Writes: nothing. Next: ingest/split.py.
"""

import re
from collections.abc import Iterator

import msgspec

WITHIN = 1024  # bytes: the array begins within the first of these
MOST = 64 << 20  # bytes of one envelope on one line: it must fit into memory
SLACK = 64 << 10  # bytes that may be repeated whatever the elements weigh
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{}\[\],"]', re.DOTALL)
_BRACKET = re.compile(rb"[{}\[\],]")
_OPENS = re.compile(rb"\s*:\s*\[")


def tokens(body: bytes, start: int = 0) -> Iterator[tuple[bytes, int]]:
    """Brackets and commas outside of strings, and a quote that nothing closes."""
    for found in _TOKEN.finditer(body, start):
        if len(found[0]) == 1:
            yield found[0], found.start()
        if found[0] == b'"':  # nor does anything close a later one: each would be sought in vain
            yield from ((each[0], each.start()) for each in _BRACKET.finditer(body, found.end()))
            return


def begins(line: bytes, name: str) -> bool:
    """Whether the line begins like an object with the array `name`; its first bytes will do."""
    return _start(line, name) is not None


def opened(line: bytes, name: str) -> list[bytes]:
    """{"Records": [a, b], "x": 1} as {"Records": [a], "x": 1} and {"Records": [b], "x": 1}.

    Elements are cut out of the text as they are, so that a bad one spoils no other; of an array
    that was cut off, what is left of its last element is a line of its own. What is no such
    object stays as it is, and so does one whose other members would weigh more than its elements.
    """
    if (start := _start(line, name)) is None:
        return [line]
    if (cut := _sound(line, start, name)) is not None:
        return _lines(line, *cut)
    return [part for each in _objects(line) for part in _lines(each, *_piecewise(each, name))]


def _lines(
    line: bytes, items: list[bytes], before: bytes, after: bytes, rest: bytes
) -> list[bytes]:
    few = not items or len(items) + bool(rest) < 2
    if few or len(items) * (len(before) + len(after)) > len(line) + SLACK:
        return [line]
    return [before + item + after for item in items] + ([rest] if rest else [])


Cut = tuple[list[bytes], bytes, bytes, bytes]  # elements, text before and after each, what is left


def _start(line: bytes, name: str) -> int | None:
    """Where the array's first element begins."""
    key, level = f'"{name}"'.encode(), 0
    if line.find(key, 0, WITHIN) < 0 or line[:WITHIN].lstrip()[:1] != b"{":
        return None
    for found in _TOKEN.finditer(line, 0, WITHIN):
        token = found[0]
        if token == b'"':
            return None
        if token in b"{[":
            level += 1
        elif token in b"}]":
            level -= 1
        elif level == 1 and token == key and (after := _OPENS.match(line, found.end())):
            return after.end()
        if level == 0:
            return None
    return None


def _sound(line: bytes, start: int, name: str) -> Cut | None:
    """Of one object without a fault."""
    try:
        array = msgspec.json.decode(line, type=dict[str, msgspec.Raw])[name]
        items = [bytes(item) for item in msgspec.json.decode(array, type=list[msgspec.Raw])]
    except (msgspec.MsgspecError, RecursionError):
        return None
    end = start - 1 + len(bytes(array))
    if line[start - 1 : end] != bytes(array):  # the key stands twice
        return [], b"", b"", b""
    return items, line[:start], line[end - 1 :], b""


def _objects(line: bytes) -> Iterator[bytes]:
    """Objects one after the other on one line; the last may have no end."""
    begin = level = 0
    for token, at in tokens(line):
        level += (token in b"{[") - (token in b"}]")
        if level == 0 and token in b"}]":
            yield line[begin : at + 1].strip()
            begin = at + 1
    if rest := line[begin:].strip():
        yield rest


def _piecewise(line: bytes, name: str) -> Cut:
    """Of an object with a fault somewhere in it, or without an end."""
    if (start := _start(line, name)) is None:
        return [], b"", b"", b""
    items, begin, close, level = list[bytes](), start, -1, 2
    for token, at in tokens(line, start):
        level += (token in b"{[") - (token in b"}]")
        if close < 0 and (level, token) in ((1, b"]"), (2, b",")):
            items += [item] if (item := line[begin:at].strip()) else []
            begin, close = (at, at) if token == b"]" else (at + 1, -1)
        if level == 0:
            return items, line[:start], line[close:], b""
    return items, line[:start], b"]}", line[begin:].strip()
