"""Bodies that are small and hold millions of lines: refused before one of them is made.

A line costs some hundred bytes while it is landed, however short it is; these look at the bytes
alone and stop at the line that is one too many.
Reads: bodies. Writes: nothing. Next: gatewatch/answers.py.
"""

import msgspec

from ingest.envelope import tokens

RECORDS = 6  # brackets around a record of OTLP: resourceLogs [ scopeLogs [ logRecords [
ENVELOPE = 2  # around an element of {"Records": [...]}
PLAIN = 1  # around an element of an array
INSIDE = 16  # fields that a record of OTLP may have on average


def crowded(body: bytes, most: int, levels: int = PLAIN) -> bool:
    """Whether a JSON body has more than `most` lines, or elements of arrays `levels` deep."""
    text = body.lstrip()
    by_line = text[:1] not in (b"[", b"{") or (levels == PLAIN and _whole(text.partition(b"\n")[0]))
    if by_line or body.count(b"\n") > most:
        return body.count(b"\n") > most
    if body.count(b",") < most and body.count(b"{") < most:
        return False
    count, around = 0, bytearray()
    for token, _ in tokens(body):
        if token in b"[{":
            count += not around  # one value after the other
            around += token
        elif token in b"]}":
            del around[-1:]
        elif token == b"," and around[-1:] == b"[" and len(around) <= levels:
            count += 1
        if count > most:
            return True
    return False


def _whole(line: bytes) -> bool:
    """Whether it is an object by itself: then every line of the body is taken as one."""
    try:
        msgspec.json.decode(line, type=msgspec.Raw)
    except (msgspec.MsgspecError, RecursionError):
        return False
    return line[:1] == b"{"


def crowded_protobuf(body: bytes, most: int) -> bool:
    """Whether an OTLP body has more than `most` resources, scopes and records together.

    The lists are field 1 of the request, 2 of a resource, 2 of a scope, for logs and spans alike;
    see opentelemetry/proto/collector. What does not parse is for its decoder to refuse.
    """
    if len(body) <= 2 * most:  # each takes two bytes at least
        return False
    left = [most, most * INSIDE]
    return _spent(body, 0, len(body), 0, left)


_LISTS = (1, 2, 2)  # the field that leads further in, level by level


def _spent(body: bytes, at: int, end: int, level: int, left: list[int]) -> bool:
    """Count fields from `at` to `end`; True when there are more than `left`."""
    while at < end:
        tag, at = _varint(body, at, end)
        match tag & 7:
            case 0:
                _, at = _varint(body, at, end)
            case 1:
                at += 8
            case 5:
                at += 4
            case 2:
                size, at = _varint(body, at, end)
                if level < len(_LISTS) and tag >> 3 == _LISTS[level]:
                    left[0] -= 1
                    if left[0] < 0 or _spent(body, at, min(at + size, end), level + 1, left):
                        return True
                at += size
            case _:
                return False
        left[1] -= 1
        if left[1] < 0:
            return True
    return False


def _varint(body: bytes, at: int, end: int) -> tuple[int, int]:
    """A number, and where the next byte is; beyond the end it is 0."""
    value = shift = 0
    while at < end and shift < 64:
        byte = body[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            break
    return value, at
