"""Log files as streams of text: plain, gzip of any number of members, zstd of any number of frames.

What a file is shows in its first bytes, never in its name. Memory stays flat.
Reads: files. Writes: nothing. Next: ingest/tail.py, ingest/split.py.
"""

import gzip
import io
import sys
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Protocol, cast

import zstandard

from ingest.batch import Batch, Line
from ingest.cut import LINES, Cutter, How
from ingest.split import HEAD

CHUNK = 1 << 20
BITE = 1 << 10  # zstd: one byte of input can make 32 KiB of text


class ReadError(Exception):
    """A file is there and can't be read to its end; the text says why, without the path."""


def is_compressed(head: bytes) -> bool:
    return _is_gzip(head) or _is_zstd(head)


def _is_gzip(head: bytes) -> bool:
    return head[:2] == b"\x1f\x8b"


def _is_zstd(head: bytes) -> bool:
    """A frame, or one of the skippable frames that parallel compressors put first."""
    return head[:4] == b"\x28\xb5\x2f\xfd" or (
        head[1:4] == b"\x2a\x4d\x18" and head[0] & 0xF0 == 0x50
    )


class Text(Protocol):
    def read1(self, size: int, /) -> bytes: ...


class Zstd:
    """The text of zstd frames. A reader that stops quietly where a frame was cut won't do, so
    frames are followed by hand, in bites so small that a bomb makes no more than 32 MiB of one."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._packed, self._out = file, b"", io.BytesIO()
        self._frame: zstandard.ZstdDecompressionObj | None = None

    def read1(self, size: int) -> bytes:
        while not (out := self._out.read(size)):
            packed = self._packed or self._file.read(BITE)
            if not packed and self._frame is not None:
                raise EOFError
            if not packed:
                break
            self._frame = self._frame or zstandard.ZstdDecompressor().decompressobj()
            self._out = io.BytesIO(self._frame.decompress(packed))
            self._packed = self._frame.unused_data if self._frame.eof else b""
            self._frame = None if self._frame.eof else self._frame
        return out


def unpacked(file: BinaryIO) -> Text:
    """The text of a stream, whatever it is packed in."""
    raw = cast("io.RawIOBase", file)
    buffered = file if isinstance(file, io.BufferedReader) else io.BufferedReader(raw)
    head = buffered.peek(4)[:4]
    if _is_gzip(head):
        return gzip.GzipFile(fileobj=buffered)
    return Zstd(buffered) if _is_zstd(head) else buffered


def chunks(text: Text, size: int = CHUNK) -> Iterator[bytes]:
    """The stream in pieces of `size` bytes, the last one shorter. Where the packing is bad: what
    could be read, then ReadError."""
    error: ReadError | None = None
    have = size
    while have == size and error is None:
        parts, have = list[bytes](), 0
        while have < size:
            try:
                part = text.read1(size - have)
            except EOFError:
                error = ReadError("ends in the middle of its compressed stream")
                break
            except (zlib.error, zstandard.ZstdError, gzip.BadGzipFile) as bad:
                error = ReadError(f"is damaged: {bad}")
                break
            if not part:
                break
            parts.append(part)
            have += len(part)
        if parts:
            yield b"".join(parts)
    if error is not None:
        raise error


def start_of(path: Path) -> bytes:
    """The first bytes of the file as it is, enough for is_compressed."""
    with path.open("rb", buffering=0) as file:
        return file.read(4)


def head_of(path: Path) -> bytes:
    """The first bytes of the text, at most 1024; raises ReadError or OSError."""
    with path.open("rb") as file:
        head = b""
        for chunk in chunks(unpacked(file), HEAD):
            head += chunk
            if len(head) >= HEAD:
                break
        return head[:HEAD]


def before(path: Path, pos: int) -> bytes | None:
    """The bytes of the text just before `pos`, at most 1024; None when the text is shorter."""
    with path.open("rb") as file:
        text = unpacked(file)
        if text is file:
            file.seek(max(0, pos - HEAD))
            last = file.read(min(HEAD, pos))
            return last if len(last) == min(HEAD, pos) else None
        return skip(text, pos)


def skip(text: Text, pos: int) -> bytes | None:
    """Read up to `pos`; gives the last bytes before it (at most 1024), None beyond the end."""
    last = b""
    while pos > 0:
        chunk = next(chunks(text, min(CHUNK, pos)), b"")
        if not chunk:
            return None
        pos -= len(chunk)
        last = (last + chunk)[-HEAD:]
    return last


def read_file(
    path: Path,
    source: str,
    adapter: str,
    max_line: int,
    batch_bytes: int,
    stream: BinaryIO | None = None,
    how: How = LINES,
) -> Iterator[Batch]:
    """All lines of one file (`-`: of standard input, or of `stream`), the last one without a
    line end too. A JSON array or objects over several lines give one line per object, an
    `envelope` (see ingest/adapter.py) one per element.
    Raises ReadError for a damaged file, after all lines that could be read; OSError."""
    if stream is None and str(path) != "-":
        with path.open("rb") as file:
            yield from read_file(path, source, adapter, max_line, batch_bytes, file, how)
        return
    text = unpacked(stream or sys.stdin.buffer)
    pieces = chunks(text, min(CHUNK, batch_bytes))
    start, error = b"", None
    try:
        for chunk in pieces:
            start += chunk
            if how.told(start) or len(start) > max_line:
                break
    except ReadError as found:
        error = found
    text_of = _then(start, pieces, error)
    for at, group in _grouped(text_of, how.cutter(start, max_line), batch_bytes):
        for part in groups(group, 2 * batch_bytes):  # an opened envelope may be far more
            yield Batch(source, adapter, part, pos=f"{path}:{at}", zone=how.zone)


def _then(start: bytes, rest: Iterator[bytes], error: ReadError | None) -> Iterator[bytes]:
    yield start
    if error is not None:
        raise error
    yield from rest


def _grouped(
    pieces: Iterable[bytes], cutter: Cutter, batch_bytes: int
) -> Iterator[tuple[int, list[Line]]]:
    """Where each group begins, and its lines; of a damaged file, what could be read of it."""
    at, group = 0, list[Line]()
    try:
        for chunk in pieces:
            group += cutter.split(chunk)
            if group and cutter.consumed - at >= batch_bytes:
                yield at, group
                at, group = cutter.consumed, []
    except ReadError:
        if group:
            yield at, group
        raise
    group += cutter.finish()
    if group:
        yield at, group


def groups(lines: list[Line], batch_bytes: int) -> Iterator[list[Line]]:
    group, size = list[Line](), 0
    for line in lines:
        group.append(line)
        size += len(line) if isinstance(line, bytes) else HEAD
        if size >= batch_bytes:
            yield group
            group, size = [], 0
    if group:
        yield group
