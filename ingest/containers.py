"""The lines of a program out of the log of the container that it runs in.

A runtime writes each line of the program into one of its own, and long ones in pieces of 16 KB.
What the program wrote is the line; what is not in the runtime's form stays as it is.
Reads: bytes. Writes: nothing. Next: ingest/parse.py.
"""

import re
from typing import Literal

import msgspec

from ingest.batch import Line
from ingest.split import Splitter

Wrapper = Literal["cri", "docker"]
# `2026-03-10T09:00:00.1Z stdout P text`; tags after the first, F or P, stand behind colons.
_CRI = re.compile(rb"\d{4}-\d\d-\d\dT\S+ (stdout|stderr) ([FP])[^ ]* ?(.*)", re.DOTALL)
HELD = 4 << 20  # bytes that wait for a line of the other stream; then its pieces are lines
PIECE = 256 << 10  # bytes: a piece of 16 KB, every character of it escaped by JSON, and its stamp


class _Docker(msgspec.Struct):
    log: str
    stream: str = "stdout"


_docker = msgspec.json.Decoder(_Docker).decode


class Unwrapped:
    """Cuts a stream of chunks into the program's lines. As a Splitter, but `consumed` is a
    position at which no line is under way in any of the program's streams."""

    def __init__(self, wrapper: Wrapper, max_line: int, envelope: str | None = None) -> None:
        self._wrapper, self._limits = wrapper, (max_line, envelope)
        self._outer = Splitter(max(PIECE, max_line))
        self._streams: dict[str, Splitter] = {}
        self._done: list[Line] = []  # whole, but a line of another stream is under way
        self.consumed = 0

    @property
    def pending(self) -> int:
        """Bytes fed after the clean position."""
        return self._outer.consumed + self._outer.pending - self.consumed

    def split(self, chunk: bytes) -> list[Line]:
        """The program's lines that end in this chunk."""
        given: list[Line] = []
        for end, line in self._outer.feed(chunk):
            self._take(line)
            if self._done and end - self.consumed > HELD:
                self._end_pieces()
            if not any(each.pending for each in self._streams.values()):
                self.consumed = end
                given += self._done
                self._done = []
        return given

    def finish(self) -> list[Line]:
        """What is left, the pieces of unfinished lines among it."""
        for line in self._outer.finish():
            self._take(line)
        self._end_pieces()
        left, self._done, self.consumed = self._done, [], self._outer.consumed
        return left

    def _end_pieces(self) -> None:
        self._done += [line for each in self._streams.values() for line in each.finish()]

    def _take(self, line: Line) -> None:
        found = self._piece(line) if isinstance(line, bytes) else None
        if found is None:
            self._done.append(line)
            return
        stream, text = found
        if stream not in self._streams:
            self._streams[stream] = Splitter(*self._limits)
        self._done += self._streams[stream].split(text)

    def _piece(self, line: bytes) -> tuple[str, bytes] | None:
        """The stream and the text that a line of the runtime brings; None for no such line."""
        if self._wrapper == "cri":
            if (found := _CRI.fullmatch(line)) is None:
                return None
            stream, tag, text = found.groups()
            return stream.decode(), text + b"\n" if tag == b"F" else text
        try:
            kept = _docker(line)
        except msgspec.MsgspecError:
            return None
        return kept.stream if kept.stream == "stderr" else "stdout", kept.log.encode()
