"""How the bytes of a source become lines: at line ends, at JSON values, out of a container's log.

Reads: nothing. Writes: nothing. Next: ingest/split.py, ingest/documents.py, ingest/containers.py.
"""

from dataclasses import dataclass
from typing import Protocol

from ingest.adapter import Header
from ingest.batch import Line
from ingest.config import Source
from ingest.containers import Unwrapped, Wrapper
from ingest.documents import Documents
from ingest.split import BOM, HEAD, Splitter, by_line, elements


class Cutter(Protocol):
    """Cuts a stream of chunks. From `consumed`, a position in it, another one can go on."""

    @property
    def consumed(self) -> int: ...
    @property
    def pending(self) -> int: ...  # bytes fed after `consumed`
    def split(self, chunk: bytes) -> list[Line]: ...
    def finish(self) -> list[Line]: ...


@dataclass(frozen=True)
class How:
    """`format` and `envelope` are the adapter's (ingest/adapter.py), the rest is the source's."""

    format: str = "ndjson"
    envelope: str | None = None
    wrapper: Wrapper | None = None
    zone: str = "UTC"

    def cutter(self, start: bytes, max_line: int) -> Cutter:
        """For a text that begins so; see told()."""
        if self.wrapper is not None:
            return Unwrapped(self.wrapper, max_line, self.envelope)
        if self.format == "json" or (self.format == "ndjson" and _spread(start, self.envelope)):
            return Documents(max_line, self.envelope)
        return Splitter(max_line, self.envelope)

    def told(self, start: bytes) -> bool:
        """Whether the start of a text, or no more than this of it, tells which cutter is right."""
        fixed = self.wrapper is not None or self.format != "ndjson"
        text = start.removeprefix(BOM).lstrip()
        return fixed or text[:1] == b"[" or b"\n" in text or len(start) >= HEAD

    @property
    def closes(self) -> bool:
        """Whether a last line can be seen to be whole before its line end comes."""
        return self.wrapper is None and self.format != "text"


LINES = How()


def how(header: Header, source: Source) -> How:
    """What a source's adapter and its settings say."""
    return How(header.format, header.envelope, source.wrapper, source.zone)


def of_body(body: bytes, header: Header, max_line: int) -> list[Line]:
    """The lines of what was sent at once, in an adapter's format."""
    if header.format == "text":
        return by_line(body, max_line, header.envelope)
    return elements(body, max_line, header.envelope)


def _spread(start: bytes, envelope: str | None) -> bool:
    """Whether a text that begins so holds values over several lines."""
    first, end, _ = start.removeprefix(BOM).lstrip().partition(b"\n")
    first = first.rstrip()
    if envelope is not None and end and first[:1] == b"{" and first[-1:] in b"{[":
        return True
    return first[:1] == b"[" or first == b"{"
