"""What a request carries: packed or not, in time, and never more of it than there is room for.

Reads: requests. Writes: nothing. Next: gatewatch/intake.py.
"""

import asyncio
import gzip
import io
import threading
import zlib
from collections.abc import Iterator
from typing import Any

import msgspec
import zstandard
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request

from ingest.files import Zstd

BODY_SECONDS = 60.0  # for a whole body: one slow sender must not hold a place for ever
PIECE = 65_536  # bytes that are unpacked at a time: a small body may unpack to gigabytes
OBJECT_BYTES = 2**20  # of what a viewer or an operator asks


class Room:
    """Bytes that all the bodies of this moment may take together."""

    def __init__(self, size: int) -> None:
        self._free = size
        self._turn = threading.Lock()

    def take(self, size: int) -> bool:
        """False when there is no room; then nothing was taken."""
        with self._turn:
            if size > self._free:
                return False
            self._free -= size
            return True

    def give(self, size: int) -> None:
        with self._turn:
            self._free += size


class Share:
    """The part of the room that one request takes; all of it goes back when the request ends."""

    def __init__(self, room: Room | None) -> None:
        self._room, self._taken = room, 0

    def take(self, size: int) -> None:
        """Raises HTTPException 429 when there is no room."""
        if self._room is None:
            return
        if not self._room.take(size):
            raise HTTPException(429, "too much is on its way in.", {"Retry-After": "1"})
        self._taken += size

    def give(self) -> None:
        if self._room is not None:
            self._room.give(self._taken)
            self._taken = 0


async def read_body(request: Request, limit: int, share: Share | None = None) -> bytes:
    """The plain body, however it was packed. Never holds more than twice `limit` bytes.

    Raises HTTPException: 400 unpackable, 408 too slow, 413 too large, 415 packed otherwise,
    429 no room.
    """
    share = share or Share(None)
    coding = request.headers.get("content-encoding", "identity").strip().lower()
    if coding not in ("identity", "", *PACKED):
        raise HTTPException(415, f"content-encoding {coding!r}: send gzip, zstd or none.")
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length[:20]) > limit:
        raise HTTPException(413, f"more than {limit} bytes.")
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.stream():
                if len(body) + len(chunk) > limit:
                    raise HTTPException(413, f"more than {limit} bytes.")
                share.take(len(chunk))
                body += chunk
    except TimeoutError:
        raise HTTPException(408, f"no whole body within {BODY_SECONDS:g} seconds.") from None
    if coding in PACKED:
        return await run_in_threadpool(_unpacked, bytes(body), coding, limit, share)
    return bytes(body)


def _unpacked(packed: bytes, coding: str, limit: int, share: Share) -> bytes:
    body = bytearray()
    try:
        for chunk in PACKED[coding](packed):
            if len(body) + len(chunk) > limit:
                body.clear()  # the error holds on to this frame until it has been answered
                raise HTTPException(413, f"unpacks to more than {limit} bytes.")
            share.take(len(chunk))
            body += chunk
    except (OSError, EOFError, zlib.error, zstandard.ZstdError) as error:
        why = str(error) or "it was cut off"
        raise HTTPException(400, f"the body is not {coding}: {why}") from None
    return bytes(body)


def _gzip(packed: bytes) -> Iterator[bytes]:
    with gzip.GzipFile(fileobj=io.BytesIO(packed)) as stream:
        yield from iter(lambda: stream.read(PIECE), b"")


def _zstd(packed: bytes) -> Iterator[bytes]:
    stream = Zstd(io.BytesIO(packed))  # the library's own reader ends quietly where a frame is cut
    yield from iter(lambda: stream.read1(PIECE), b"")


def _deflate(packed: bytes) -> Iterator[bytes]:
    """What HTTP calls deflate is the format of zlib, RFC 9110 section 8.4.1.2."""
    unpacker = zlib.decompressobj()
    while not unpacker.eof:
        chunk = unpacker.decompress(packed, PIECE)
        packed = unpacker.unconsumed_tail
        if not chunk and not packed and not unpacker.eof:
            raise EOFError("it was cut off")
        yield chunk


PACKED = {"gzip": _gzip, "zstd": _zstd, "deflate": _deflate}


async def read_object(request: Request) -> dict[str, Any]:
    body = await read_body(request, OBJECT_BYTES)
    try:
        found = msgspec.json.decode(body)
    except (msgspec.MsgspecError, RecursionError):
        raise HTTPException(400, "the body is not JSON.") from None
    if not isinstance(found, dict):
        raise HTTPException(400, "the body is not a JSON object.")
    return found
