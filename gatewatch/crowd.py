"""Bodies that are small and hold millions of lines: refused before one of them is made.

A line costs some hundred bytes while it is landed, however short it is; these look at the bytes
alone and stop at the line that is one too many.
Reads: bodies. Writes: nothing. Next: gatewatch/answers.py.
"""

from functools import lru_cache
from typing import Any, Literal

import msgspec
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from ingest.envelope import tokens

RECORDS = 6  # brackets around a record of OTLP: resourceLogs [ scopeLogs [ logRecords [
ENVELOPE = 2  # around an element of {"Records": [...]}
PLAIN = 1  # around an element of an array
# A value inside takes some 50 bytes when it is decoded, and two in the body. Of real ones, with
# their names, no body that is let in has so many.
MESSAGES, FIELDS = 2_000_000, 4_000_000
DEPTH = 100  # messages in messages that protobuf's decoder takes


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


def crowded_protobuf(body: bytes, most: int, signal: Literal["logs", "traces"] = "logs") -> bool:
    """Whether an OTLP body has more than `most` resources, scopes and records together, or so many
    values in values that reading it would take all memory.

    What does not parse is for its decoder to refuse: neither reads beyond the first fault.
    """
    if len(body) <= 2 * min(most, MESSAGES):  # each takes two bytes at least
        return False
    root, tags = _tree(signal)
    deep = len(body) > 2 * MESSAGES and len(body) - len(body.translate(None, tags)) > MESSAGES
    return _spent(body, root, deep, most)


def _spent(body: bytes, root: "_Kind", deep: bool, most: int) -> bool:
    """Count lists, and when `deep` every message in a message; True when there are too many."""
    left, fields, at = [most, MESSAGES], FIELDS, 0
    inside: list[tuple[int, _Kind]] = [(len(body), root)]
    while inside:
        end, kind = inside[-1]
        if at >= end:
            at = end
            inside.pop()
            continue
        tag, at = (body[at], at + 1) if body[at] < 0x80 else _varint(body, at, end)
        fields -= 1
        match tag & 7:
            case 0:
                _, at = _varint(body, at, end)
            case 1:
                at += 8
            case 5:
                at += 4
            case 2:
                short = at < end and body[at] < 0x80
                size, at = (body[at], at + 1) if short else _varint(body, at, end)
                number, level = tag >> 3, len(inside) - 1
                listed = level < len(_LISTS) and number == _LISTS[level]
                if listed or (deep and number in kind):
                    left[not listed] -= 1
                inner = kind.get(number) if deep or (listed and level < len(_LISTS) - 1) else None
                inside += [(min(at + size, end), inner)] if inner else []
                at += 0 if inner else size
            case 6 | 7:
                return False  # 3 and 4 are a group's: unknown to the decoder, which goes on behind
        if left[0] < 0 or left[1] < 0 or fields < 0:
            return True
        if len(inside) > DEPTH:
            return False
    return False


_LISTS = (1, 2, 2)  # the field that leads to resources, to scopes, to records
_Kind = dict[int, Any]  # of a message: by number, the fields that lead further in; of a text none


@lru_cache
def _tree(signal: Literal["logs", "traces"]) -> tuple[_Kind, bytes]:
    """What a request is made of, and every byte that one of its messages can begin with."""
    found: dict[str, _Kind] = {}
    request = ExportLogsServiceRequest if signal == "logs" else ExportTraceServiceRequest
    todo = [request.DESCRIPTOR]
    while todo:
        message = todo.pop()
        kind = found.setdefault(message.full_name, {})
        for field in message.fields:
            if (inner := field.message_type) is not None:
                todo += [inner] if inner.full_name not in found else []
                kind[field.number] = found.setdefault(inner.full_name, {})
            elif field.is_repeated:  # texts: each takes room as a message does
                kind[field.number] = {}
    numbers = {number for kind in found.values() for number in kind}
    tags = {number << 3 | 2 for number in numbers}
    return found[request.DESCRIPTOR.full_name], bytes(tags | {tag | 0x80 for tag in tags})


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
