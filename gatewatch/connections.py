"""Connections to the service: a bounded number, and none that is held without getting on.

Every step has its time. A client that drips bytes, or does not take its answer, ends with that time
and keeps nobody else waiting.
Reads: sockets. Writes: nothing. Next: gatewatch/api.py.
"""

import asyncio
from typing import Any, cast

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 10.0  # for the head of a request, from its first byte on
REQUEST_SECONDS = 180.0  # for a request; the body has less, see gatewatch/body.py
IDLE_SECONDS = 75  # between two requests: longer than the pause of any exporter (30 s)
FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 2\r\n"
    b"Connection: close\r\nContent-Length: 0\r\n\r\n"
)


def bounded(limit: int) -> type[asyncio.Protocol]:
    """A protocol for uvicorn that holds at most `limit` connections."""
    return cast("type[asyncio.Protocol]", type("Bounded", (_Bounded,), {"most": limit}))


class _Bounded(H11Protocol):
    most = 0

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._timer: asyncio.TimerHandle | None = None
        self._idle = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.most:
            transport.write(FULL)
            transport.close()
        else:
            self._give(HEAD_SECONDS)

    def data_received(self, data: bytes) -> None:
        before = self.cycle
        if self._idle:
            self._idle = False
            self._give(HEAD_SECONDS)
        super().data_received(data)
        self._begun(before)

    def on_response_complete(self) -> None:
        before = self.cycle
        self._idle = True
        self._give(REQUEST_SECONDS)  # to take the answer; uvicorn sees to what is only idle
        super().on_response_complete()  # and goes on with a request that has come already
        self._begun(before)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def _begun(self, before: object) -> None:
        if self.cycle is not before and not self.cycle.response_complete:
            self._idle = False
            self._give(REQUEST_SECONDS)

    def _give(self, seconds: float) -> None:
        """So long may it take until something else happens."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_later(seconds, self.transport.abort)
