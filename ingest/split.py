"""Bytes into lines: a stream at its line ends, an HTTP body at its values. Memory stays flat.

Lines end at 0x0A and nowhere else: U+2028, U+0085 and a lone CR are text.
Reads: bytes. Writes: nothing. Next: ingest/parse.py.
"""

import hashlib
from typing import Any

import msgspec

from ingest.batch import Line, Oversized
from ingest.envelope import MOST, WITHIN, begins, opened, tokens

BOM = b"\xef\xbb\xbf"
HEAD = 1024  # bytes kept of a line that is too long


class Splitter:
    """Cuts a stream of chunks into lines. Strips one CR before the LF, and a BOM at the start.

    A line that is an `envelope` gives a line for each element: see ingest/envelope.py.
    """

    def __init__(self, max_line: int, envelope: str | None = None) -> None:
        self.max_line, self.envelope = max_line, envelope
        self.consumed = 0  # bytes of the stream, up to and including the last LF
        self.pending = 0  # bytes fed after that LF
        self._parts: list[bytes] = []
        self._hash: Any = None  # set while a line is too long
        self._head = b""
        self._first = True
        self._carries: bool | None = None  # whether the line under way begins like an envelope

    def feed(self, chunk: bytes) -> list[tuple[int, Line]]:
        """The lines that end in this chunk, each with the position in the stream after its LF."""
        done, end, start = [], self.consumed + self.pending, 0
        while (found := chunk.find(b"\n", start) + 1) > 0:
            done += [(end + found, line) for line in self.split(chunk[start:found])]
            start = found
        self.split(chunk[start:])
        return done

    def split(self, chunk: bytes) -> list[Line]:
        """The lines that end in this chunk; `consumed` is then the position after the last LF."""
        cut = chunk.rfind(b"\n")
        if cut < 0:
            self._keep(chunk)
            return []
        head, _, rest = chunk.partition(b"\n")
        self._keep(head)
        lines = self._whole()
        if len(head) < cut:
            more = rest[: cut - len(head) - 1].split(b"\n")
            if b"\r" in rest or len(rest) > self.max_line or self.envelope:
                lines += [part for line in more for part in self._ended(line)]
            else:
                lines += more
        self.consumed += self.pending + 1 + cut - len(head)
        self.pending = 0
        self._keep(chunk[cut + 1 :])
        return lines

    def finish(self) -> list[Line]:
        """The last line when it has no LF."""
        if not self.pending:
            return []
        lines = self._whole()
        self.consumed, self.pending = self.consumed + self.pending, 0
        return lines

    @property
    def whole(self) -> bool:
        """Whether the last line is a whole object already, so that its LF may never come."""
        text = b"".join(self._parts).removeprefix(BOM)
        return self._hash is None and text.lstrip()[:1] == b"{" and _whole_value(text)

    def _keep(self, part: bytes) -> None:
        """Remember a part of a line; once it is too long, only its head and its digest."""
        if not part:
            return
        self.pending += len(part)
        if self._hash is None and self.pending > self._limit(part):
            start = b"".join(self._parts)
            self._hash, self._head, self._parts = hashlib.sha256(start), start[:HEAD], []
        if self._hash is None:
            self._parts.append(part)
        else:
            self._hash.update(part)
            self._head += part[: HEAD - len(self._head)]

    def _limit(self, part: bytes) -> int:
        """Bytes of the line under way that may be kept; a CR may follow a full line."""
        plain = self.max_line + 1
        if self.envelope is None or plain >= MOST:
            return plain
        if self.pending <= (enough := max(plain, len(BOM) + WITHIN)):
            return enough
        if self._carries is None:
            start = b"".join([*self._parts, part[:WITHIN]])[: len(BOM) + WITHIN]
            self._carries = begins(start.removeprefix(BOM), self.envelope)
        return MOST if self._carries else plain

    def _whole(self) -> list[Line]:
        """What the line that was kept gives, now that its end was seen."""
        first, self._first, self._carries = self._first, False, None
        if self._hash is not None:
            line = Oversized(self._head, self.pending, self._hash.hexdigest())
            self._hash, self._head = None, b""
            return [line]
        text, self._parts = b"".join(self._parts), []
        return self._ended(text.removeprefix(BOM) if first else text)

    def _ended(self, line: bytes) -> list[Line]:
        """Without its CR, and opened; a line that is too long is measured with its CR."""
        bare = line.removesuffix(b"\r")
        if self.envelope is not None and len(parts := opened(bare, self.envelope)) > 1:
            return [limited(part, self.max_line) for part in parts]
        return [bare if len(bare) <= self.max_line else limited(line, self.max_line)]


def limited(line: bytes, max_line: int) -> Line:
    """The line itself, or what is kept of it when it is longer than `max_line` bytes."""
    if len(line) <= max_line:
        return line
    return Oversized(line[:HEAD], len(line), hashlib.sha256(line).hexdigest())


def elements(body: bytes, max_line: int, envelope: str | None = None) -> list[Line]:
    """The lines of an HTTP body: one JSON array, JSON objects over several lines, or NDJSON.

    An element is cut out of the text as it is, with its line ends as spaces, so that nothing in
    it (a key given twice, a long number) is lost before parse() sees it. A bad element spoils no
    other; a body that is not one of the three is taken line by line.
    """
    body = body.removeprefix(BOM)
    start = body.lstrip()[:1]
    if start == b"[":
        found = _array(body)
    elif start == b"{" and not _whole_value(body.lstrip().partition(b"\n")[0]):
        found = _objects(body)
    else:
        found = None
    if found is None:
        return by_line(body, max_line, envelope)
    flat = (on_one_line(item) for item in found)
    if envelope is not None:
        flat = (part for item in flat for part in opened(item, envelope))
    return [limited(item, max_line) for item in flat]


def by_line(body: bytes, max_line: int, envelope: str | None = None) -> list[Line]:
    """The lines of a whole text, wherever it has line ends."""
    splitter = Splitter(max_line, envelope)
    return splitter.split(body) + splitter.finish()


def on_one_line(item: bytes) -> bytes:
    """A value on one line: outside of strings a line end is a space, inside it is not JSON."""
    return item.strip().translate(_SPACES) if b"\n" in item or b"\r" in item else item.strip()


_SPACES = bytes.maketrans(b"\r\n", b"  ")


def _whole_value(line: bytes) -> bool:
    try:
        msgspec.json.decode(line, type=msgspec.Raw)
    except (msgspec.MsgspecError, RecursionError):
        return False
    return True


def _array(body: bytes) -> list[bytes] | None:
    """The elements of one array; None when the body is not one array."""
    try:
        return [bytes(item) for item in msgspec.json.decode(body, type=list[msgspec.Raw])]
    except (msgspec.MsgspecError, RecursionError):
        pass
    found, start, level = list[bytes](), 0, 0
    for token, at in tokens(body):
        if token in b"{[":
            level += 1
            start = at + 1 if level == 1 else start
        elif token in b"}]":
            level -= 1
            if level == 0:
                found += [body[start:at]] if body[start:at].strip() or found else []
                return found if not body[at + 1 :].strip() and token == b"]" else None
        elif token == b"," and level == 1:
            found.append(body[start:at])
            start = at + 1
    return None


def _objects(body: bytes) -> list[bytes] | None:
    """Objects one after the other, over any number of lines; None when the text is not that."""
    found, start, level = list[bytes](), 0, 0
    for token, at in tokens(body):
        if token in b"{[":
            if level == 0 and (token == b"[" or body[start:at].strip()):
                return None
            level += 1
        elif token in b"}]":
            level -= 1
            if level == 0:
                found.append(body[start : at + 1])
                start = at + 1
        if level <= 0 and token not in b"}]":
            return None
    return found if level == 0 and not body[start:].strip() else None
