"""JSON values into lines, whatever their line ends: an array, objects over many lines, one by one.

A value is given as soon as its last bracket is there, so a file may grow, may be of any size, and
needs no line end at its end. What is no object is given line by line, to be set aside alone.
Reads: bytes. Writes: nothing. Next: ingest/parse.py.
"""

import hashlib
import re
from typing import Any

from ingest.batch import Line, Oversized
from ingest.envelope import MOST, begins, opened
from ingest.split import BOM, HEAD, limited, on_one_line

# Inside a value: to the next bracket outside of a whole string.
_PLAIN = re.compile(rb'(?:[^"{}\[\]]++|"(?:[^"\\\n]++|\\[^\n])*+")*+')
_STRING = re.compile(rb'(?:[^"\\\n]++|\\[^\n])*+')  # the rest of a string
_BETWEEN = re.compile(rb"[\s,\[\]]*+")  # what stands between the values of an array, or of a file
_ITEM = re.compile(rb'(?:[^",\[\]{}\n]++|"(?:[^"\\\n]++|\\[^\n])*+"?)*+')  # no object, in an array
_OPENED_BY = {b"}": ord("{"), b"]": ord("[")}
NEAR = 64  # bytes before a bracket that tell whether it may stand there


class Documents:
    """Cuts a stream of chunks into values. `consumed` and `pending` as those of a Splitter.

    A value that breaks off (a writer that died, and began anew on the next line) ends where the
    next one begins at the start of a line: no value is lost with the one before it.
    """

    def __init__(self, max_line: int, envelope: str | None = None) -> None:
        self.max_line, self.envelope = max_line, envelope
        self.consumed = 0  # bytes of the stream, up to the end of the last value given
        self._fed = 0
        self._text = b""
        self._start = self._at = 0  # in the text: where the value begins, how far we have looked
        self._inside = self._in_string = self._broken = self._in_array = False
        self._open = bytearray()  # the brackets that are open
        self._gone = 0  # bytes of a value that is too long and are no longer in the text
        self._hash: Any = None
        self._head = b""

    @property
    def pending(self) -> int:
        """Bytes fed after the last value."""
        return self._fed - self.consumed

    def split(self, chunk: bytes) -> list[Line]:
        """The values that end in this chunk."""
        self._fed += len(chunk)
        self._text += chunk
        lines: list[Line] = []
        while self._step(lines):
            pass
        self._text, self._at, self._start = self._text[self._start :], self._at - self._start, 0
        if self._inside:
            self._shorten()
        return lines

    def finish(self) -> list[Line]:
        """What is left of a value that has no end: line by line."""
        left = self._start < len(self._text) or self._gone
        lines = self._give(len(self._text), whole=False) if left else []
        self.consumed = self._fed
        return lines

    def _step(self, lines: list[Line]) -> bool:
        """One move through the text; False at its end."""
        if not self._inside:
            return self._begin(lines)
        if self._broken:
            end = self._text.find(b"\n", self._at)
            self._at = len(self._text) if end < 0 else end
            if end >= 0:
                lines += self._give(end, whole=False, more=1)
            return end >= 0
        if self._in_string:
            return self._through_string()
        self._at = _end(_PLAIN, self._text, self._at)
        return self._at < len(self._text) and self._bracket(lines)

    def _begin(self, lines: list[Line]) -> bool:
        """What stands between values is passed over; then a value begins, or what is none."""
        if self.consumed == self._start == 0 and self._text[:1] == BOM[:1]:
            if len(self._text) < len(BOM):
                return False
            self._start = len(BOM) if self._text.startswith(BOM) else 0
        start = _end(_BETWEEN, self._text, self._start)
        last = max(self._text.rfind(b"[", self._start, start),
                   self._text.rfind(b"]", self._start, start))  # fmt: skip
        if last >= 0:
            self._in_array = self._text[last : last + 1] == b"["
        self._start = self._at = start
        if start == len(self._text):
            return False
        if self._text.startswith(b"{", start):
            self._inside, self._open, self._at = True, bytearray(b"{"), start + 1
            return True
        end = _end(_ITEM, self._text, start) if self._in_array else start
        if end == len(self._text) and end - start <= self.max_line:
            return False  # an item goes on in the next chunk
        self._inside = True
        if end > start and self._text[end : end + 1] in (b",", b"]"):
            self._in_array = self._text[end : end + 1] == b","
            lines += self._give(end, whole=False, more=1)
        else:
            self._broken = True
        return True

    def _through_string(self) -> bool:
        self._at = _end(_STRING, self._text, self._at)
        here = self._text[self._at : self._at + 2]
        if here in (b"", b"\\"):
            return False  # the string goes on in the next chunk, or an escape does
        if here[:1] == b'"':
            self._in_string, self._at = False, self._at + 1
        else:
            self._broken = True  # a line end inside a string is no JSON
        return True

    def _bracket(self, lines: list[Line]) -> bool:
        """At a bracket, or a string that this text does not end."""
        token = self._text[self._at : self._at + 1]
        self._at += 1
        if token == b'"':
            self._in_string = True
        elif token in b"{[":
            if token == b"{" and self._misplaced():
                lines += self._give(self._at - 1, whole=False)
            else:
                self._open += token
        elif token in b"}]":
            if self._open[-1] != _OPENED_BY[token]:
                self._broken = True
                return True
            self._open.pop()
            if not self._open:
                lines += self._give(self._at, whole=True)
        return True

    def _misplaced(self) -> bool:
        """An object that begins a line where JSON allows none: the value before it broke off."""
        bracket = self._at - 1
        if self._text[bracket - 1 : bracket] != b"\n":
            return False
        near = self._text[max(self._start, bracket - NEAR) : bracket].rstrip()[-1:]
        return near not in b":[" and not (near == b"," and self._open[-1:] == b"[")

    def _give(self, end: int, whole: bool, more: int = 0) -> list[Line]:
        """The text up to `end` as lines, and all made ready for what comes `more` bytes later."""
        text = self._text[self._start : end]
        self._start = self._at = end + more
        self.consumed = self._fed - (len(self._text) - self._start)
        self._inside = self._in_string = self._broken = False
        self._open.clear()
        if self._hash is not None:
            self._hash.update(text)
            line = Oversized(self._head, self._gone + len(text), self._hash.hexdigest())
            self._hash, self._gone = None, 0
            return [line]
        if not whole:
            parts = [each.strip() for each in text.split(b"\n") if each.strip()]
            return [limited(part, self.max_line) for part in parts]
        flat = on_one_line(text)
        parts = [flat] if self.envelope is None else opened(flat, self.envelope)
        if len(parts) == 1 and len(flat) > self.max_line:
            return [limited(text, self.max_line)]  # its digest is that of the bytes as they came
        return [limited(part, self.max_line) for part in parts]

    def _shorten(self) -> None:
        """Of a value that is too long only its head and its digest are kept."""
        if self._hash is None:
            if len(self._text) <= max(self.max_line, HEAD):
                return
            if len(self._text) <= MOST and self._carries():
                return
            self._hash, self._head = hashlib.sha256(), self._text[:HEAD]
        cut = max(0, self._at - NEAR)
        self._hash.update(self._text[:cut])
        self._text, self._at, self._gone = self._text[cut:], self._at - cut, self._gone + cut

    def _carries(self) -> bool:
        return self.envelope is not None and begins(on_one_line(self._text[:HEAD]), self.envelope)


def _end(pattern: re.Pattern[bytes], text: bytes, at: int) -> int:
    """Where a pattern that matches everywhere, if nothing, stops to match."""
    found = pattern.match(text, at)
    return at if found is None else found.end()
