"""What the library Apprise does, in its process, against a server that behaves as ntfy's does."""

import base64
import json
import logging
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest

from detectors import delivery, handing, receivers
from detectors.handing import Order
from detectors.receivers import Delivered, Outcome, Refused, Retry
from ingest.config import Secret
from tests.kit_mail import server_context
from tests.kit_receivers import MESSAGE, NOW
from tests.kit_sockets import self_signed

SHORT = replace(MESSAGE, evidence=MESSAGE.evidence[:3], events=5_000)
USER, PASSWORD = "gatewatch", "FAKE0001secret"


@dataclass
class Ntfy:
    """What it took, and the answer that it gives instead. https://docs.ntfy.sh/publish/"""

    port: int = 0
    took: list[dict[str, Any]] = field(default_factory=list)
    heard: list[str] = field(default_factory=list)  # every request's line
    status: int = 200
    location: str = ""
    silent: threading.Event | None = None


def _handler(it: Ntfy) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            it.heard.append(self.requestline)
            said = json.loads(self.rfile.read(int(self.headers["content-length"])))
            login = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
            if self.headers["authorization"] != f"Basic {login}":
                self._answer(401, {"code": 40101, "http": 401, "error": "unauthorized"})
                return
            if it.silent:
                it.silent.wait(30)
            if it.status == 0:
                return  # hang up
            if it.status == 200:
                it.took.append(said)
                self._answer(200, {"id": "FAKE0001", "event": "message", "topic": said["topic"]})
            else:
                self._answer(it.status, {"http": it.status, "error": f"no {PASSWORD}"})

        def _answer(self, status: int, body: dict[str, Any]) -> None:
            content = json.dumps(body).encode()
            self.send_response(status)
            if it.location:
                self.send_header("location", it.location)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing to say."""

    return Handler


class Server(ThreadingHTTPServer):
    """Says nothing of a client that was ended."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing to say."""


@contextmanager
def ntfy(certificate: Path | None = None, **more: Any) -> Iterator[Ntfy]:
    it = Ntfy(**more)
    server = Server(("127.0.0.1", 0), _handler(it))
    if certificate:
        context = server_context(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    it.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield it
    finally:
        if it.silent:
            it.silent.set()
        server.shutdown()
        server.server_close()
        thread.join(5)


def url(port: int, scheme: str = "ntfy", password: str = PASSWORD, host: str = "localhost") -> str:
    return f"{scheme}://{USER}:{password}@{host}:{port}/gatewatch"


def hand(
    to: str, total: float = 20.0, private: bool = True, http: bool = True, ca: Path | None = None
) -> Outcome:
    """One message through the real client, the real process and the real library."""
    module = receivers.load("apprise", "tests")
    ca_file = str(ca) if ca else None
    with delivery.client(total, allow_http=http, allow_private=private, ca_file=ca_file) as client:
        flow = module.deliver(SHORT, module.Options(Secret(to)), NOW)
        return delivery.attempt(flow, client)


def test_a_message_is_accepted_and_reads_as_we_wrote_it() -> None:
    with ntfy() as server:
        assert hand(url(server.port)) == Delivered(accepted=True)

    [took] = server.took
    assert took["topic"] == "gatewatch"
    assert took["title"].startswith("HIGH · Opened · a1")
    assert MESSAGE.link in took["message"]
    assert "denials: 3" in took["message"]
    assert "&lt;" not in took["message"]


def test_over_tls_only_with_a_certificate_that_is_accepted(tmp_path: Path) -> None:
    certificate = self_signed(tmp_path)

    with ntfy(certificate) as server:
        unknown = hand(url(server.port, "ntfys"), http=False)
        known = hand(url(server.port, "ntfys"), http=False, ca=certificate)

    assert isinstance(unknown, Retry)
    assert known == Delivered(accepted=True)
    assert len(server.took) == 1


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (0, Retry("ReadTimeout", "contextDeadlineExceeded", doubt=True)),
        (403, Refused("Apprise says no: HTTP 403", "authError", "token")),
        (413, Refused("Apprise says no: HTTP 413", "clientError")),
        (429, Retry("Apprise says no: HTTP 429", "rateLimited")),
        (500, Retry("Apprise says no: HTTP 500", "serverError")),
    ],
)
def test_the_status_that_the_library_only_logs_says_what_to_do(
    status: int, outcome: Outcome, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with ntfy(status=status) as server:
        found = hand(url(server.port))

    assert found == outcome
    assert PASSWORD not in f"{found} {caplog.text}"


def test_a_wrong_password_says_so() -> None:
    with ntfy() as server:
        outcome = hand(url(server.port, password="wrong"))  # noqa: S106

    assert outcome == Refused("Apprise says no: HTTP 401", "authError", "token")


def test_nobody_listening_is_tried_again() -> None:
    with ntfy() as server:
        pass

    assert hand(url(server.port)) == Retry("Apprise says no, and not why", "other")


def test_a_service_that_keeps_silent_leaves_a_doubt() -> None:
    with ntfy(silent=threading.Event()) as server:
        outcome = hand(url(server.port) + "?rto=0.5")

    assert outcome == Retry("ReadTimeout", "contextDeadlineExceeded", doubt=True)


def test_a_library_that_does_not_come_back_is_ended_at_the_deadline() -> None:
    with ntfy(silent=threading.Event()) as server:
        outcome = hand(url(server.port) + "?rto=60", total=4.0)

    assert outcome == Retry("ReadTimeout", "contextDeadlineExceeded", doubt=True)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_case_b174_no_connection_is_made_to_an_inside_address(host: str) -> None:
    with ntfy() as server:
        outcome = hand(url(server.port, host=host), private=False)

    assert isinstance(outcome, Refused)
    assert outcome.hint == "address"
    assert "inside this network" in outcome.reason
    assert server.heard == []


def test_case_b175_a_redirect_is_not_followed_whatever_the_url_says() -> None:
    with ntfy() as inner, ntfy(status=307) as server:
        server.location = f"http://127.0.0.1:{inner.port}/inside"
        outcome = hand(url(server.port) + "?redirect=yes")

    assert not isinstance(outcome, Delivered)
    assert inner.heard == []


def test_without_tls_only_when_that_is_allowed() -> None:
    with ntfy() as server:
        outcome = hand(url(server.port), http=False)

    assert outcome == Refused(
        "the address says ntfy, which is sent without TLS", "other", "address"
    )
    assert server.heard == []


def test_no_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")

    with ntfy() as server:
        assert hand(url(server.port)) == Delivered(accepted=True)


def test_no_login_is_taken_from_a_file_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".netrc").write_text(f"machine localhost login {USER} password {PASSWORD}\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))

    with ntfy() as server:
        outcome = hand(f"ntfy://localhost:{server.port}/gatewatch")

    assert outcome == Refused("Apprise says no: HTTP 401", "authError", "token")


def test_a_url_that_the_library_does_not_know_is_refused() -> None:
    assert hand("nosuchthing://host/x") == Refused(
        "the library knows no such URL, or something in it is missing", "other", "address"
    )


GOING: dict[str, str] = {  # what the library might do -> what the process says of it
    "socket.socket().connect(('169.254.169.254', 80))": "169.254.169.254, which no receiver has",
    "socket.socket().connect_ex(('169.254.169.254', 80))": "169.254.169.254, which no receiver has",
    "socket.socket(2, 2).sendto(b'x', ('169.254.169.254', 80))": "169.254.169.254, which no",
    "socket.socket(10).connect(('::ffff:169.254.169.254', 80))": "::ffff:a9fe:a9fe, which no",
    "socket.socket(1).connect('/var/run/docker.sock')": "to connect without an address",
    "socket.socket().connect(('localhost', 80))": "to connect without an address",
    "subprocess.run(['true'])": "to start a program",
    "os.system('true')": "to start a program",
    # A name that was judged, and resolves to something else when it is connected to.
    "setattr(socket, 'getaddrinfo', lambda *a, **k: [(2, 1, 6, '', ('169.254.169.254', 80))])"
    " or socket.create_connection(('rebind.example', 80), timeout=1)": "169.254.169.254, which no",
}


def test_the_process_is_kept_from_where_none_may_go() -> None:
    code = (
        "import json, os, socket, subprocess, sys\n"
        "from detectors.courier import Watch\n"
        "watch, said = Watch(allow_private=True), []\n"
        "sys.addaudithook(watch)\n"
        f"for each in {[*GOING]!r}:\n"
        "    watch.forbidden = ''\n"
        "    try: eval(each)\n"
        "    except PermissionError: said.append(watch.forbidden)\n"
        "    else: said.append('nothing')\n"
        "print(json.dumps(said))\n"
    )
    done = subprocess.run([*handing.COMMAND[:2], "-c", code], capture_output=True, check=True)

    said = json.loads(done.stdout)
    assert len(said) == len(GOING)
    assert [(found, why) for found, why in zip(said, GOING.values(), strict=True)
            if why not in found] == []  # fmt: skip


def test_a_process_that_dies_leaves_a_doubt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(handing.__dict__, "COMMAND", ["false"])

    assert hand(url(9)) == Retry("ReadError", "other", doubt=True)


def test_the_url_is_neither_in_the_command_line_nor_in_the_environment() -> None:
    order = Order(url(9), "t", "b", "info", True, True, 1.0)
    library = handing.Library(1.0, True, True, None)

    assert PASSWORD not in f"{handing.COMMAND} {library._environment()}"
    assert PASSWORD in msgspec.json.encode(order).decode()
