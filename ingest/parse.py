"""The one guarded JSON parser: any bytes in, canonical JSON of an object or a reason out.

Two readers of one text may disagree (duplicate keys, NaN, numbers over 64 bits); what leaves here
can be read in one way only. Nothing here raises.
Reads: lines. Writes: nothing. Next: ingest/redact.py, ingest/land.py.
"""

import json
import math
import re
from typing import Any, NamedTuple

import msgspec

from ingest.batch import Line, Oversized
from ingest.split import BOM, Splitter, elements

# What guards the door.
__all__ = ["Line", "Oversized", "Parsed", "Splitter", "elements", "parse", "parse_text"]

MARK_DUPLICATE, MARK_LOSSY, MARK_SURROGATE = "duplicate_key", "lossy_utf8", "lone_surrogate"
MARK_NUL, MARK_NUMBER = "nul", "number_as_text"

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
# One that nothing closes goes to the end: it is sought once, not once a quote.
_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
_SURROGATE = re.compile("[\ud800-\udfff]")
# What Python and msgspec refuse to turn into an int (sys.set_int_max_str_digits) is kept as digits.
_LONGEST_INT = 19


class Parsed(NamedTuple):
    """`doc` is compact JSON of an object: UTF-8, no NUL, no lone surrogate, no NaN, no key twice.

    A refused line has `reason` (parse | encoding | too_large) and `error`, one sentence.
    A blank line has neither. `marks` say what had to be changed.
    """

    doc: str | None
    marks: tuple[str, ...] = ()
    error: str | None = None
    reason: str | None = None


BLANK = Parsed(None)


def parse(raw: bytes, max_depth: int = 64) -> Parsed:
    """Parse one line. The same bytes always give the same answer."""
    try:
        value = _decode(raw)
        text: bytes = _encode(value)
    except (msgspec.MsgspecError, ValueError, RecursionError, OverflowError):
        return _slow(raw, max_depth)
    if text != raw and not _same_strings(raw, text):
        return _slow(raw, max_depth)
    if type(value) is not dict:
        return _slow(raw, max_depth)
    if text.count(b"{") + text.count(b"[") > max_depth and _depth(value) > max_depth:
        return _slow(raw, max_depth)
    if b"\\u0000" in text:
        return _slow(raw, max_depth)
    return Parsed(text.decode())


def parse_text(raw: bytes, max_depth: int = 64) -> Parsed:
    """Parse a line of a text log: an object as parse() does, any other text as {"text": line}."""
    if raw.lstrip()[:1] == b"{" or not raw.strip():
        found = parse(raw, max_depth)
        if found.reason is None:
            return found
    text, lossy = _decoded(raw)
    found = parse(_encode({"text": text}))
    return found._replace(marks=tuple(sorted({*found.marks, *lossy})))


def _decoded(raw: bytes) -> tuple[str, set[str]]:
    """Any bytes as text, and the mark that says that some were none."""
    try:
        return raw.decode(), set()
    except UnicodeDecodeError:
        return raw.decode(errors="replace"), {MARK_LOSSY}


def _same_strings(raw: bytes, text: bytes) -> bool:
    """True when the re-encoded text has as many strings as the raw one: no key was given twice."""
    if b"\\" in raw:
        raw, text = raw.replace(b"\\\\", b""), text.replace(b"\\\\", b"")
        return _quotes(raw) == _quotes(text)
    return raw.count(b'"') == text.count(b'"')


def _quotes(text: bytes) -> int:
    """Quotes that open or close a string, in text without escaped backslashes."""
    return text.count(b'"') - text.count(b'\\"')


def _depth(value: Any) -> int:
    deepest, todo = 0, [(value, 1)]
    while todo:
        value, level = todo.pop()
        if isinstance(value, dict | list):
            deepest = max(deepest, level)
            todo += [(v, level + 1) for v in (value.values() if type(value) is dict else value)]
    return deepest


def _slow(raw: bytes, max_depth: int) -> Parsed:
    """Everything that the fast road does not vouch for."""
    marks = set[str]()
    raw = raw.removeprefix(BOM)
    if raw.startswith(b"\0"):  # a hole, left where a writer went on after its file was truncated
        raw = raw.lstrip(b"\0")
        marks.add(MARK_NUL)
    if not raw.strip():
        return BLANK
    text, lossy = _decoded(raw)
    marks |= lossy
    refused = "encoding" if MARK_LOSSY in marks else "parse"
    if _brackets(text, max_depth):
        return Parsed(None, (), f"The line is nested deeper than {max_depth} levels.", refused)
    try:
        value = _Reader(marks).decode(text)
        if not isinstance(value, dict):
            return Parsed(None, (), "The line is not a JSON object.", refused)
        doc = _encode(value).decode()
    except (ValueError, RecursionError, OverflowError) as error:
        return Parsed(None, (), _sentence(error), refused)
    return Parsed(doc, tuple(sorted(marks)))


def _brackets(text: str, max_depth: int) -> bool:
    """True when the brackets outside strings nest deeper than `max_depth`."""
    if text.count("{") + text.count("[") <= max_depth:
        return False
    level = 0
    for found in re.finditer(r"[{}\[\]]", _STRING.sub("", text)):
        level += 1 if found[0] in "{[" else -1
        if level > max_depth:
            return True
    return False


def _sentence(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at character {error.pos}."
    return f"{error}"[:200].rstrip(".") + "."


class _Reader:
    """json.loads that sees every key, keeps every digit, and notes what it changed in `marks`."""

    def __init__(self, marks: set[str]) -> None:
        self.marks = marks

    def decode(self, text: str) -> Any:
        return json.loads(
            text,
            object_pairs_hook=self._object,
            parse_int=self._integer,
            parse_float=self._float,
            parse_constant=self._constant,
        )

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = {self._text(key): self._clean(value) for key, value in pairs}
        if len(found) != len(pairs):
            self.marks.add(MARK_DUPLICATE)
        return found

    def _clean(self, value: Any) -> Any:
        """Objects inside were cleaned on the way up; lists and strings were not."""
        if isinstance(value, str):
            return self._text(value)
        if type(value) is list:
            return [self._clean(item) for item in value]
        return value

    def _text(self, text: str) -> str:
        if "\0" in text:
            self.marks.add(MARK_NUL)
            text = text.replace("\0", "\u2400")
        if _SURROGATE.search(text):
            self.marks.add(MARK_SURROGATE)
            text = _SURROGATE.sub("\ufffd", text)
        return text

    @staticmethod
    def _integer(digits: str) -> Any:
        return int(digits) if len(digits) < _LONGEST_INT else msgspec.Raw(digits.encode())

    def _float(self, digits: str) -> Any:
        value = float(digits)
        if math.isinf(value):
            self.marks.add(MARK_NUMBER)
            return digits
        return value

    @staticmethod
    def _constant(name: str) -> Any:
        raise ValueError(f"{name} is not a JSON number")
