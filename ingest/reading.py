"""A batch's lines, redacted and parsed, in columns: most lines are plain, and cost next to nothing.

Reads: lines. Writes: nothing. Next: ingest/land.py, ingest/apply.py.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from ingest.batch import Line, Oversized
from ingest.parse import Parsed, parse, parse_text
from ingest.redact import Redactor
from ingest.segment import Entries, Entry

MAX_DEPTH = 64  # as parse() has it
CHUNK = 64  # lines parsed at once: what they say fits into the processor's cache

_decode = msgspec.json.Decoder().decode_lines
_encode = msgspec.json.Encoder().encode_lines


@dataclass(frozen=True)
class Lines:
    """The lines of one batch. `docs` is their canonical JSON, None where there is none; `odd` what
    parsing said of those few that were refused or are marked."""

    entries: Entries
    docs: Sequence[str | bytes | None]
    odd: Mapping[int, Parsed]


def read(lines: Sequence[Line], redactor: Redactor, plain_text: bool) -> Lines:
    """Redact, then parse. A blank line is nothing: it is neither kept nor counted."""
    kept, redacted = list(lines), dict[int, tuple[str, ...]]()
    whole = [n for n, line in enumerate(kept) if isinstance(line, bytes)]
    plain = kept if len(whole) == len(kept) else [kept[n] for n in whole]
    for found in redactor.suspects(plain):  # type: ignore[arg-type]
        number = whole[found]
        kept[number], paths = redactor.line(plain[found])  # type: ignore[arg-type]
        if paths:
            redacted[number] = paths
    for number, line in enumerate(kept) if len(whole) < len(kept) else ():
        if isinstance(line, Oversized):
            head, paths = redactor.redact([line.head])[0]
            kept[number] = Oversized(head, line.length, line.sha256)
            if paths:
                redacted[number] = paths
    return _without_blank(parsed(Entries(kept, redacted), plain_text))


def again(entries: Sequence[Entry], plain_text: bool) -> Lines:
    """What entries of the ledger say."""
    return parsed(_columns(entries), plain_text)


def parsed(entries: Entries, plain_text: bool) -> Lines:
    """What redacted lines say. The same bytes always give the same answer."""
    lines = entries.lines
    docs: list[str | bytes | None] = []
    odd: dict[int, Parsed] = {}
    for start in range(0, len(lines), CHUNK):
        part = lines[start : start + CHUNK]
        if _canonical(part):
            docs += part  # type: ignore[arg-type]  # then there is none that was cut
            continue
        for number, line in enumerate(part, start):
            found = _parsed(line, plain_text)
            docs.append(found.doc)
            if found.doc is None or found.marks:
                odd[number] = found
    return Lines(entries, docs, odd)


def _canonical(part: Sequence[Line]) -> bool:
    """Whether each of these lines is an object in canonical JSON already, as parse() would have it.

    Then all of them, each on a line of its own, are what they become when they are read and
    written again. In that text a line end ends a value, so as many values as lines are one each.
    """
    try:
        text = b"\n".join(part)  # type: ignore[arg-type]
        values = _decode(text)
        if len(values) != len(part) or _encode(values)[:-1] != text:
            return False
    except (TypeError, msgspec.MsgspecError, ValueError, RecursionError, OverflowError):
        return False
    if b"\\u0000" in text or any(type(value) is not dict for value in values):
        return False
    opened = max(line.count(b"{") + line.count(b"[") for line in part)  # type: ignore[union-attr]
    return opened <= MAX_DEPTH


def _parsed(line: Line, plain_text: bool) -> Parsed:
    if isinstance(line, Oversized):
        text = f"a line of {line.length} bytes; sha256 {line.sha256}"
        return Parsed(None, (), text, "too_large")
    return parse_text(line) if plain_text else parse(line)


def _without_blank(found: Lines) -> Lines:
    blank = {n for n, each in found.odd.items() if each.doc is None and each.reason is None}
    if not blank:
        return found
    left = [n for n in range(len(found.docs)) if n not in blank]
    return Lines(
        _columns([found.entries[n] for n in left]),
        [found.docs[n] for n in left],
        {n: found.odd[was] for n, was in enumerate(left) if was in found.odd},
    )


def _columns(entries: Sequence[Entry]) -> Entries:
    redacted = {n: each.redacted for n, each in enumerate(entries) if each.redacted}
    return Entries([each.line for each in entries], redacted)
