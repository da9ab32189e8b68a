"""What tests of sockets are written with: a server that behaves as told, and the real client."""

import re
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from socketserver import BaseServer
from typing import Any

import httpx
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from detectors import delivery
from detectors.receivers import Delivered, Flow, Outcome, Refused

YES = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
Behave = Callable[[socket.socket, bytes], None]


@contextmanager
def listening(
    behave: Callable[[socket.socket, list[bytes]], None],
) -> Iterator[tuple[int, list[bytes]]]:
    """A server on a loopback port that does what `behave` does with each connection, one after the
    other; what it heard, which `behave` writes down."""
    listener = socket.create_server(("127.0.0.1", 0))
    heard: list[bytes] = []

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with suppress(OSError), connection:
                behave(connection, heard)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1], heard
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(5)


@contextmanager
def answering(server: BaseServer) -> Iterator[None]:
    """A server of the standard library, in a thread of its own; closed at the end."""
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


@contextmanager
def service(
    behave: Behave, context: ssl.SSLContext | None = None
) -> Iterator[tuple[int, list[bytes]]]:
    """A web server on a loopback port; what it was sent. `behave` answers on the connection."""

    def answer(connection: socket.socket, heard: list[bytes]) -> None:
        wrapped = context.wrap_socket(connection, server_side=True) if context else connection
        heard.append(whole(wrapped))
        behave(wrapped, heard[-1])
        wrapped.close()

    with listening(answer) as found:
        yield found


def whole(connection: socket.socket) -> bytes:
    """One request, body and all: hanging up before its end would reset the connection."""
    data = b""
    while b"\r\n\r\n" not in data and (more := connection.recv(65_536)):
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)content-length: *(\d+)", head)
    while len(body) < int(length[1] if length else 0) and (more := connection.recv(65_536)):
        body += more
        data += more
    return data


def say(answer: bytes) -> Behave:
    return lambda connection, _: connection.sendall(answer)


def ask(url: str, total: float = 10.0, private: bool = True, **more: Any) -> Outcome:
    """One request through the real client; a body of `ok` is a yes. `more`: see delivery.client."""

    def flow() -> Flow:
        response = yield httpx.Request("POST", url, json={"text": "x"})
        if response.status_code == 200 and response.text == "ok":
            return Delivered()
        return Refused(f"HTTP {response.status_code}, {len(response.content)} bytes", "clientError")

    with delivery.client(total, allow_http=True, allow_private=private, **more) as client:
        return delivery.attempt(flow(), client)


def self_signed(folder: Path) -> Path:
    """A self-signed certificate for localhost, with its key, in one PEM file."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(datetime(2020, 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(2120, 1, 1, tzinfo=UTC))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    path = folder / "self.pem"
    path.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    return path
