"""What a request carries: packed or not, in time, and never more of it than is allowed.

Reads: requests. Writes: nothing. Next: gatewatch/api.py.
"""

import asyncio
import gzip
import io
import zlib
from typing import Any

import msgspec
import zstandard
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request

BODY_SECONDS = 60.0  # for a whole body: one slow sender must not hold a place for ever


async def read_body(request: Request, limit: int) -> bytes:
    """The plain body, however it was packed. Never holds more than twice `limit` bytes."""
    coding = request.headers.get("content-encoding", "identity").strip().lower()
    if coding not in ("identity", "", "gzip", "zstd"):
        raise HTTPException(415, f"content-encoding {coding!r}: send gzip, zstd or none.")
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.stream():
                body += chunk
                if len(body) > limit:
                    raise HTTPException(413, f"more than {limit} bytes.")
    except TimeoutError:
        raise HTTPException(408, f"no whole body within {BODY_SECONDS:g} seconds.") from None
    if coding in ("gzip", "zstd"):
        return await run_in_threadpool(_unpacked, bytes(body), coding, limit)
    return bytes(body)


def _unpacked(packed: bytes, coding: str, limit: int) -> bytes:
    source = io.BytesIO(packed)
    stream: Any = gzip.GzipFile(fileobj=source)
    if coding == "zstd":
        stream = zstandard.ZstdDecompressor().stream_reader(source, read_across_frames=True)
    body = bytearray()
    try:
        while chunk := stream.read(65_536):  # a small body may unpack to gigabytes
            body += chunk
            if len(body) > limit:
                raise HTTPException(413, f"unpacks to more than {limit} bytes.")
    except (OSError, EOFError, zlib.error, zstandard.ZstdError) as error:
        raise HTTPException(400, f"the body is not {coding}: {error}") from None
    return bytes(body)


async def read_object(request: Request) -> dict[str, Any]:
    body = await read_body(request, 2**20)
    try:
        found = msgspec.json.decode(body)
    except (msgspec.MsgspecError, RecursionError):
        raise HTTPException(400, "the body is not JSON.") from None
    if not isinstance(found, dict):
        raise HTTPException(400, "the body is not a JSON object.")
    return found
