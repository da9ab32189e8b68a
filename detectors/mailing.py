"""Carry a letter to an SMTP server: one conversation, within one deadline, to a judged address.

Nothing is said before the connection is encrypted, and a server that does not offer that hears no
more; plain SMTP goes only to addresses inside the own network. Commands: RFC 5321; STARTTLS: RFC
3207; AUTH: RFC 4954.
Reads: nothing. Writes: nothing. Next: detectors/worker.py.
"""

import base64
import ipaddress
import re
import ssl
import time
from contextlib import closing, suppress

import httpcore
import httpx

from detectors.addresses import refused
from detectors.guard import BROKEN, CONNECT, LARGEST, Backend, ForbiddenError
from detectors.receivers import Mail, Mailed
from detectors.shorten import plain

PARTING = 1.0  # seconds for the answer to QUIT, which changes nothing
LONGEST = 2_048  # bytes of one reply line; RFC 5321 4.5.3.1.5 says 512


class Post(httpx.BaseTransport):
    """Takes requests that carry a `Mail`; the response carries what the server said, a `Mailed`."""

    def __init__(self, context: ssl.SSLContext, total: float, allow_private: bool) -> None:
        self._context, self._total, self._allow_private = context, total, allow_private

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        mail: Mail = request.extensions["asked"]
        until = time.monotonic() + self._total
        backend = Backend(
            min(until, request.extensions.get("deadline", until)), self._allow_private
        )
        try:
            stream = backend.connect_tcp(mail.host, mail.port, CONNECT)
        except BROKEN as error:
            raise _broken(error, False) from error
        talk = Talk(stream, mail.host)
        with closing(talk):
            try:
                answer = _converse(talk, mail, self._context)
                with suppress(*BROKEN):  # what was accepted stays so
                    talk.ask("QUIT", PARTING)
            except BROKEN as error:
                raise _broken(error, talk.sent) from error
        return httpx.Response(200, extensions={"answer": answer}, request=request)


class Talk:
    """Commands and replies. `sent`: the whole letter is out, so it may be theirs."""

    def __init__(self, stream: httpcore.NetworkStream, host: str) -> None:
        self._stream, self._host = stream, host
        self._heard, self._total = bytearray(), 0
        self.sent = False

    def close(self) -> None:
        self._stream.close()

    def peer(self) -> str:
        """The address at the other end."""
        return str(self._stream.get_extra_info("server_addr")[0]).partition("%")[0]

    def own(self) -> str:
        """How this host names itself: by its address, which needs no look-up (RFC 5321 4.1.3)."""
        address = str(self._stream.get_extra_info("client_addr")[0]).partition("%")[0]
        return f"[IPv6:{address}]" if ":" in address else f"[{address}]"

    def secure(self, context: ssl.SSLContext) -> None:
        """Encrypt from here on. What came before in clear is not believed."""
        if self._heard:
            raise httpcore.RemoteProtocolError("spoke before the connection was encrypted")
        self._stream = self._stream.start_tls(context, self._host, None)

    def ask(self, line: str, timeout: float | None = None) -> tuple[int, str]:
        self._stream.write(line.encode("ascii") + b"\r\n", timeout)
        return self.reply(timeout)

    def letter(self, content: bytes) -> tuple[int, str]:
        """The letter after DATA, its dots doubled, and what the server says to it."""
        self._stream.write(re.sub(rb"(?m)^\.", b"..", content) + b".\r\n")
        self.sent = True
        return self.reply()

    def reply(self, timeout: float | None = None) -> tuple[int, str]:
        """Code and text of one reply, its lines joined by LF."""
        said: list[str] = []
        while True:
            line = self._line(timeout)
            found = re.fullmatch(r"([2-5]\d\d)(?:([ -])(.*))?", line)
            if not found:
                raise httpcore.RemoteProtocolError("no reply of an SMTP server")
            said.append(found[3] or "")
            if found[2] != "-":
                return int(found[1]), "\n".join(said)

    def _line(self, timeout: float | None) -> str:
        while (end := self._heard.find(b"\n")) < 0:
            data = self._stream.read(LONGEST, timeout)
            self._total += len(data)
            if not data or self._total > LARGEST or len(self._heard) > LONGEST:
                raise httpcore.RemoteProtocolError("hung up, or does not stop talking")
            self._heard += data
        line = self._heard[:end]
        del self._heard[: end + 1]
        return line.rstrip(b"\r").decode("utf-8", "replace")


def _converse(talk: Talk, mail: Mail, context: ssl.SSLContext) -> Mailed:
    if mail.security == "none":
        _only_inside(talk, mail)
    elif mail.security == "tls":
        talk.secure(context)
    code, text = talk.reply()
    if code != 220:
        return Mailed(code, text, step="greeting")
    code, text = talk.ask(f"EHLO {talk.own()}")
    if code != 250:
        return Mailed(code, text, step="greeting")
    if mail.security == "starttls":
        if not re.search(r"(?im)^STARTTLS\b", text):  # none, or somebody between took it out
            return Mailed(502, "it does not offer STARTTLS", step="tls")
        code, text = talk.ask("STARTTLS")
        if code != 220:
            return Mailed(code, text, step="tls")
        talk.secure(context)
        code, text = talk.ask(f"EHLO {talk.own()}")
        if code != 250:
            return Mailed(code, text, step="greeting")
    if mail.password is not None:
        code, text = _log_in(talk, mail.username, mail.password.reveal, text)
        if code != 235:
            return Mailed(code, text, step="auth")
    return _hand_over(talk, mail)


def _only_inside(talk: Talk, mail: Mail) -> None:
    peer = ipaddress.ip_address(talk.peer())
    if refused(peer, allow_private=False) is None:
        name = plain(mail.host)[:100]
        raise ForbiddenError(f"{name} is {peer}: outside this network nothing goes without TLS")
    if mail.password is not None:
        raise ForbiddenError("a password goes to no server without TLS")


def _log_in(talk: Talk, user: str, password: str, offered: str) -> tuple[int, str]:
    """235: let in. By PLAIN, or by LOGIN where that is all there is."""
    line = re.search(r"(?im)^AUTH[ =](.*)$", offered)
    methods = line[1].upper().split() if line else []
    if "PLAIN" in methods:
        return talk.ask("AUTH PLAIN " + _base64(f"\0{user}\0{password}"))
    if "LOGIN" not in methods:
        return 504, "it offers neither AUTH PLAIN nor AUTH LOGIN"
    code, text = talk.ask("AUTH LOGIN")
    for answer in (user, password):
        if code == 334:
            code, text = talk.ask(_base64(answer))
    return code, text


def _hand_over(talk: Talk, mail: Mail) -> Mailed:
    code, text = talk.ask(f"MAIL FROM:<{mail.sender}>")
    if code != 250:
        return Mailed(code, text, step="sender")
    refusals: dict[str, tuple[int, str]] = {}
    for address in mail.recipients:
        code, text = talk.ask(f"RCPT TO:<{address}>")
        if code // 100 != 2:
            refusals[address] = (code, text)
    if len(refusals) == len(mail.recipients):
        return Mailed(code, text, refusals, step="recipients")
    code, text = talk.ask("DATA")
    if code == 354:
        code, text = talk.letter(mail.content)
    return Mailed(code, text, refusals)


def _broken(error: Exception, sent: bool) -> httpx.HTTPError:
    """Until the letter is out, whatever fails has delivered nothing; afterwards nobody knows."""
    late = isinstance(error, httpcore.TimeoutException)
    if sent:
        return httpx.ReadTimeout("ReadTimeout") if late else httpx.ReadError("ReadError")
    return httpx.ConnectTimeout("ConnectTimeout") if late else httpx.ConnectError("ConnectError")


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
