"""What tests of mail are written with: a real SMTP server (aiosmtpd), and one that misbehaves."""

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from pathlib import Path
from typing import Any, cast

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from detectors import delivery, receivers
from detectors.receivers import Message, Outcome, email
from ingest.config import Secret
from tests.kit_receivers import MESSAGE, NOW

USER, PASSWORD = "gatewatch", "s3cret-püß"
SHORT = replace(MESSAGE, evidence=MESSAGE.evidence[:3], events=5_000)


@dataclass
class Relay:
    """What a server answers, and what it took."""

    said: dict[str, str] = field(default_factory=dict)  # step, or recipient, and the reply
    took: list[Envelope] = field(default_factory=list)
    secure: list[bool] = field(default_factory=list)  # was it, when a letter was taken
    logins: list[tuple[str, str, bool]] = field(default_factory=list)
    drop: bool = False  # hang up instead of answering the letter
    hang: bool = False  # never answer it
    port: int = 0

    async def handle_MAIL(  # noqa: N802 - aiosmtpd's own names
        self, server: Any, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if "MAIL" in self.said:
            return self.said["MAIL"]
        envelope.mail_from = address
        return "250 2.1.0 Ok"

    async def handle_RCPT(  # noqa: N802
        self, server: Any, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if address in self.said:
            return self.said[address]
        envelope.rcpt_tos.append(address)
        return "250 2.1.5 Ok"

    async def handle_DATA(  # noqa: N802
        self, server: SMTP, session: Session, envelope: Envelope
    ) -> str:
        if self.hang:
            await asyncio.Event().wait()
        self.took.append(envelope)
        self.secure.append(session.ssl is not None)
        if self.drop:
            cast(asyncio.Transport, server.transport).abort()
        return self.said.get("DATA", "250 2.0.0 Ok: queued as 1")

    def let_in(
        self, server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: Any
    ) -> AuthResult:
        assert isinstance(data, LoginPassword)
        user, password = data.login.decode(), data.password.decode()
        self.logins.append((mechanism, password, session.ssl is not None))
        return AuthResult(success=(user, password) == (USER, PASSWORD), handled=False)

    @property
    def letters(self) -> list[EmailMessage]:
        """What arrived, read as a mail program reads it."""
        return [read(envelope.content) for envelope in self.took]


def read(content: Any) -> EmailMessage:
    assert isinstance(content, bytes)
    found = message_from_bytes(content, policy=default)
    assert isinstance(found, EmailMessage)
    assert found.defects == []
    return found


def body(letter: EmailMessage, kind: str) -> str:
    """The text of the `plain` or the `html` part."""
    part = letter.get_body((kind,))
    assert part is not None
    text = part.get_content()
    assert isinstance(text, str)
    return text


def server_context(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


@contextmanager
def relay(
    starttls: Path | None = None,
    tls: Path | None = None,
    auth: bool = False,
    without: tuple[str, ...] = (),
    kind: type[Relay] = Relay,
    **more: Any,
) -> Iterator[Relay]:
    """A running server, with the certificates given. `auth`: only who logs in may send, by any
    mechanism but those `without` which it has to do."""
    it, ready = kind(**more), threading.Event()
    settings: dict[str, Any] = {"hostname": "mx.corp.example", "timeout": 30}
    if starttls:
        settings |= {"tls_context": server_context(starttls), "require_starttls": True}
    if auth:
        settings |= {"authenticator": it.let_in, "auth_exclude_mechanism": without}
        demand = tls is None  # aiosmtpd knows of TLS only by STARTTLS
        settings |= {"auth_required": demand, "auth_require_tls": demand}
    ends: list[Callable[[], object]] = []

    async def serve() -> None:
        loop, over = asyncio.get_running_loop(), asyncio.Event()
        context = server_context(tls) if tls else None
        server = await loop.create_server(
            lambda: SMTP(it, loop=loop, **settings), "127.0.0.1", 0, ssl=context
        )
        it.port = server.sockets[0].getsockname()[1]
        ends.append(lambda: loop.call_soon_threadsafe(over.set))
        ready.set()
        async with server:
            await over.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert ready.wait(5)
    try:
        yield it
    finally:
        ends[0]()
        thread.join(5)


def reciting(*replies: bytes) -> Callable[[socket.socket, list[bytes]], None]:
    """Greets with the first reply, and gives the next one for each line that it hears."""

    def behave(connection: socket.socket, heard: list[bytes]) -> None:
        for reply in replies:
            connection.sendall(reply)
            heard.append(connection.recv(65_536))

    return behave


def options(port: int, **more: Any) -> email.Options:
    """A receiver that tells the server on that port, in plain words unless told otherwise."""
    values: dict[str, Any] = {
        "host": "localhost",
        "port": port,
        "security": "none",
        "sender": "gatewatch@corp.example",
        "to": ("duty@corp.example",),
    }
    if more.pop("login", False):
        values |= {"username": USER, "password": Secret(PASSWORD)}
    return email.Options(**values | more)


def post(
    to: email.Options,
    message: Message = SHORT,
    total: float = 10.0,
    private: bool = True,
    ca: Path | None = None,
) -> Outcome:
    """One letter through the real client."""
    module = receivers.load("email", "tests")
    ca_file = str(ca) if ca else None
    with delivery.client(total, allow_http=True, allow_private=private, ca_file=ca_file) as client:
        return delivery.attempt(module.deliver(message, to, NOW), client)
