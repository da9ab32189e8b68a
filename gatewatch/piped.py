"""Standard input that goes on: lines are landed as they come, not when the pipe ends.

Reads: a pipe. Writes: nothing. Next: ingest/files.py.
"""

import queue
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Protocol, cast

from ingest.batch import Batch, Line
from ingest.cut import How
from ingest.files import groups, is_compressed, read_file

AT_ONCE = 2**16  # bytes of one read: a pipe holds no more
AHEAD = 64  # reads that may wait: memory stays flat however fast the other side writes
QUIET = 0.3  # seconds without a byte, then what has come is a batch


class Pipe(Protocol):
    """sys.stdin.buffer, or what reads like it."""

    def peek(self, size: int, /) -> bytes: ...
    def read1(self, size: int, /) -> bytes: ...


def batches(
    pipe: Pipe, source: str, adapter: str, max_line: int, batch_bytes: int, how: How
) -> Iterator[Batch]:
    """The lines of a pipe, a batch whenever it falls quiet; one that is packed only when it ends.

    A last line without a line end counts when the pipe has ended. Raises ReadError, OSError.
    """
    if is_compressed(pipe.peek(4)[:4]):
        packed = cast("BinaryIO", pipe)
        yield from read_file(Path("-"), source, adapter, max_line, batch_bytes, packed, how)
        return
    for at, lines in _grouped(pipe, max_line, batch_bytes, how):
        for part in groups(lines, batch_bytes):
            yield Batch(source, adapter, part, pos=f"-:{at}", zone=how.zone)


def _grouped(
    pipe: Pipe, max_line: int, batch_bytes: int, how: How
) -> Iterator[tuple[int, list[Line]]]:
    """Where each group begins, and its lines."""
    start, cutter, at, lines = b"", None, 0, list[Line]()
    for piece in _pieces(pipe):
        if cutter is not None:
            lines += cutter.split(piece or b"")
        else:
            start += piece or b""
            if how.told(start) or len(start) > max_line:
                cutter = how.cutter(start, max_line)
                lines += cutter.split(start)
        if cutter is not None and lines and (piece is None or cutter.consumed - at >= batch_bytes):
            yield at, lines
            at, lines = cutter.consumed, []
    if cutter is None:
        cutter = how.cutter(start, max_line)
        lines += cutter.split(start)
    lines += cutter.finish()
    if lines:
        yield at, lines


def _pieces(pipe: Pipe) -> Iterator[bytes | None]:
    """What comes, until the pipe ends; None when nothing has come for a while."""
    waiting: queue.Queue[bytes | OSError] = queue.Queue(AHEAD)

    def read() -> None:
        try:
            while piece := pipe.read1(AT_ONCE):
                waiting.put(piece)
            waiting.put(b"")
        except OSError as error:
            waiting.put(error)

    threading.Thread(target=read, name="stdin", daemon=True).start()
    while True:
        try:
            piece = waiting.get(timeout=QUIET)
        except queue.Empty:
            yield None
            continue
        if isinstance(piece, OSError):
            raise piece
        if not piece:
            return
        yield piece
