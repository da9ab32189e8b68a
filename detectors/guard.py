"""The way out to a receiver: each connection goes to an address that was judged, in time.

A name is looked up anew for each request, each address it gives is judged, and the connection goes
to an address so judged; the name stays in the certificate check and in the Host header. Through a
proxy it is the proxy's address that is judged and connected to: what the proxy then resolves is
its own affair.
Reads: nothing. Writes: nothing. Next: detectors/delivery.py.
"""

import ipaddress
import queue
import socket
import ssl
import threading
import time
import zlib
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import httpcore
import httpx

from detectors.addresses import Address, refused, refused_url
from detectors.shorten import plain
from ingest.config import Secret

CONNECT = 3.0  # seconds to look a name up, and again to connect
LARGEST = 64 * 1024  # bytes of an answer that are read, after decompression
BROKEN = (httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError)


class ForbiddenError(Exception):
    """A request would have gone where none may go. The text names no secret."""


class Guarded(httpx.BaseTransport):
    """One connection for each request, to a judged address, within one deadline.

    A request may carry a `deadline` of its own among its extensions: that of its whole flow.
    """

    def __init__(
        self,
        context: ssl.SSLContext,
        total: float,
        allow_http: bool,
        allow_private: bool,
        proxy: Secret | None = None,
    ) -> None:
        self._context, self._total = context, total
        self._allow_http, self._allow_private = allow_http, allow_private
        self._proxy = httpx.Proxy(proxy.reveal) if proxy else None

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if why := refused_url(str(request.url), self._allow_http, self._allow_private):
            raise ForbiddenError(f"the address {why}")
        until = time.monotonic() + self._total
        backend = Backend(
            min(until, request.extensions.get("deadline", until)), self._allow_private
        )
        target = httpcore.URL(
            scheme=request.url.raw_scheme,
            host=request.url.raw_host,
            port=request.url.port,
            target=request.url.raw_path,
        )
        timeout = {"connect": CONNECT, "read": self._total, "write": self._total, "pool": CONNECT}
        try:
            with (
                self._pool(backend) as pool,
                pool.stream(
                    request.method,
                    target,
                    headers=request.headers.raw,
                    content=request.read(),
                    extensions={"timeout": timeout},
                ) as response,
            ):
                return _read(response, request)
        except httpcore.ProxyError as error:  # its text begins with the proxy's status
            raise httpx.ProxyError(str(error)[:3], request=request) from error
        except BROKEN as error:
            kind = getattr(httpx, type(error).__name__)  # both packages use the same names
            raise kind(type(error).__name__, request=request) from error

    def _pool(self, backend: "Backend") -> httpcore.ConnectionPool:
        if self._proxy is None:
            return httpcore.ConnectionPool(self._context, network_backend=backend)
        url = self._proxy.url
        return httpcore.HTTPProxy(
            proxy_url=httpcore.URL(
                scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=b"/"
            ),
            proxy_auth=self._proxy.raw_auth,
            ssl_context=self._context,
            proxy_ssl_context=self._context if url.scheme == "https" else None,
            network_backend=backend,
        )


class Backend(httpcore.NetworkBackend):
    """Connects to addresses that have been judged. `deadline` is on the monotonic clock."""

    def __init__(self, deadline: float, allow_private: bool) -> None:
        self._deadline, self._allow_private = deadline, allow_private
        self._sockets = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str | bytes,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        name = host.decode("ascii") if isinstance(host, bytes) else host
        addresses = look_up(name, port)
        for address in addresses:
            if why := refused(address, self._allow_private):
                raise ForbiddenError(f"{plain(name)[:100]} {why}")
        last: Exception = httpcore.ConnectError("no address")
        for address in addresses:
            seconds = _left(self._deadline, timeout, httpcore.ConnectTimeout)
            try:
                stream = self._sockets.connect_tcp(str(address), port, seconds)
                return Stream(stream, self._deadline)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                last = error
        raise last


class Stream(httpcore.NetworkStream):
    """A connection that ends at the deadline, however slowly the other side drips."""

    def __init__(self, stream: httpcore.NetworkStream, deadline: float) -> None:
        self._stream, self._deadline = stream, deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        seconds = _left(self._deadline, timeout, httpcore.ReadTimeout)
        return self._stream.read(max_bytes, seconds)

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, _left(self._deadline, timeout, httpcore.WriteTimeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        seconds = _left(self._deadline, timeout, httpcore.ConnectTimeout)
        inner = self._stream.start_tls(ssl_context, server_hostname, seconds)
        return Stream(inner, self._deadline)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


def look_up(host: str, port: int) -> list[Address]:
    """Every address of a name, in the system's order. Raises httpcore.ConnectError without one.

    The system's resolver knows no time-out, so it works in a thread that may be left behind.
    """
    found: queue.SimpleQueue[list[Address] | None] = queue.SimpleQueue()

    def ask() -> None:
        addresses: list[Address] | None = None
        with suppress(OSError, UnicodeError, ValueError):
            rows = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            addresses = [ipaddress.ip_address(str(row[4][0]).partition("%")[0]) for row in rows]
        found.put(addresses)

    threading.Thread(target=ask, name="look-up", daemon=True).start()
    try:
        addresses = found.get(timeout=CONNECT)
    except queue.Empty:
        raise httpcore.ConnectTimeout("the name was not resolved in time") from None
    if not addresses:
        raise httpcore.ConnectError("the name does not resolve")
    return list(dict.fromkeys(addresses))


def _left(deadline: float, timeout: float | None, late: type[Exception]) -> float:
    """Seconds for the next step of a connection."""
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise late("the deadline has passed")
    return seconds if timeout is None else min(seconds, timeout)


def _read(response: httpcore.Response, request: httpx.Request) -> httpx.Response:
    """At most LARGEST bytes of an answer; a compressed one grows no further either."""
    raw = bytearray()
    for chunk in response.iter_stream():
        raw += chunk
        if len(raw) >= LARGEST:
            break
    content = bytes(raw[:LARGEST])
    headers = httpx.Headers(response.headers)
    if headers.pop("content-encoding", "identity") in ("gzip", "x-gzip", "deflate"):
        try:
            content = zlib.decompressobj(47).decompress(content, LARGEST)
        except zlib.error:
            content = b""
    headers.pop("content-length", None)
    headers.pop("transfer-encoding", None)
    headers.pop("content-type", None)  # it may name an encoding that decodes nothing, or raises
    if "location" in headers and not _leads(headers["location"]):
        del headers["location"]
    return httpx.Response(response.status, headers=headers, content=content, request=request)


def _leads(location: str) -> bool:
    """Is it an address? httpx looks into it, whether it is to be followed or not."""
    with suppress(httpx.InvalidURL, UnicodeError):
        return bool(httpx.URL(location).host or location.startswith("/"))
    return False
