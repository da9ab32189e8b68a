"""Proxies, certificates of one's own, and the deadline of a whole delivery, on real sockets."""

import socket
import ssl
import threading
import time
from base64 import b64encode
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from detectors import delivery
from detectors.receivers import Delivered, Flow, Refused, Retry, quoted
from ingest.config import Secret
from tests.kit_sockets import YES, ask, say, self_signed, service

PROXY_AUTH = b64encode(b"us:FAKE-pw")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return self_signed(tmp_path_factory.mktemp("tls"))


def server_side(certificate: Path, wants_client: bool = False) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    if wants_client:
        context.load_verify_locations(certificate)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def tunnel(connection: socket.socket, head: bytes) -> None:
    """What a proxy does of CONNECT: joins two connections until one of them ends."""
    name, port = head.split()[1].decode().rsplit(":", 1)
    with socket.create_connection((name, int(port)), 5) as far:
        connection.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")

        def back() -> None:
            with suppress(OSError):
                while data := far.recv(65_536):
                    connection.sendall(data)

        answering = threading.Thread(target=back)
        answering.start()
        with suppress(OSError):
            while data := connection.recv(65_536):
                far.sendall(data)
        with suppress(OSError):
            far.shutdown(socket.SHUT_RDWR)
        answering.join(5)


def test_a_proxy_that_is_configured_is_used_and_given_its_password(certificate: Path) -> None:
    with (
        service(say(YES), server_side(certificate)) as (port, heard),
        service(tunnel) as (through, asked),
    ):
        proxy = Secret(f"http://us:FAKE-pw@127.0.0.1:{through}")
        outcome = ask(f"https://localhost:{port}/x", ca_file=str(certificate), proxy=proxy)

    assert outcome == Delivered()
    assert asked[0].startswith(f"CONNECT localhost:{port} HTTP/1.1\r\n".encode())
    assert PROXY_AUTH in asked[0]
    assert heard[0].startswith(b"POST /x ")
    assert PROXY_AUTH not in heard[0]  # the service has no business with it


def test_behind_a_proxy_a_wrong_certificate_is_still_refused(certificate: Path) -> None:
    with (
        service(say(YES), server_side(certificate)) as (port, heard),
        service(tunnel) as (through, _),
    ):
        proxy = Secret(f"http://127.0.0.1:{through}")
        outcome = ask(f"https://localhost:{port}/", proxy=proxy)

    assert isinstance(outcome, Refused)
    assert (outcome.hint, heard) == ("tls", [])


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (b"407 Proxy Authentication Required", Refused("the proxy refused: HTTP 407", "other",
                                                       "proxy")),
        (b"403 Forbidden", Refused("the proxy refused: HTTP 403", "other", "proxy")),
        (b"502 Bad Gateway", Retry("the proxy answered HTTP 502", "other")),
    ],
)  # fmt: skip
def test_a_proxy_that_says_no_is_told_apart_from_the_service(
    status: bytes, expected: Refused | Retry
) -> None:
    with service(say(b"HTTP/1.1 " + status + b"\r\ncontent-length: 0\r\n\r\n")) as (through, _):
        proxy = Secret(f"http://us:FAKE-pw@127.0.0.1:{through}")

        assert ask("https://soc.example/FAKE-path", proxy=proxy) == expected


def test_the_address_of_a_proxy_is_judged_like_any_other() -> None:
    with service(say(YES)) as (through, heard):
        proxy = Secret(f"http://127.0.0.1:{through}")
        outcome = ask("https://soc.example/", private=False, proxy=proxy)

    assert isinstance(outcome, Refused)
    assert (outcome.hint, heard) == ("address", [])
    assert "127.0.0.1, inside this network" in outcome.reason


def test_no_proxy_is_asked_for_an_address_inside() -> None:
    with service(say(YES)) as (through, heard):
        proxy = Secret(f"http://127.0.0.1:{through}")
        outcome = ask("http://169.254.169.254/latest/", proxy=proxy)

    assert isinstance(outcome, Refused)
    assert (outcome.hint, heard) == ("address", [])


def test_a_service_that_asks_who_we_are_is_shown_our_certificate(certificate: Path) -> None:
    files = (str(certificate), str(certificate))
    with service(say(YES), server_side(certificate, wants_client=True)) as (port, _):
        url = f"https://localhost:{port}/"
        shown = ask(url, ca_file=str(certificate), identity=files)
        hidden = ask(url, ca_file=str(certificate))

    assert shown == Delivered()
    assert not isinstance(hidden, Delivered)


def test_all_requests_of_a_delivery_share_one_deadline() -> None:
    def late(connection: socket.socket, _: bytes) -> None:
        over.wait(10)

    def flow(url: str) -> Flow:
        request = httpx.Request("POST", url)
        yield request
        raise AssertionError

    over = threading.Event()
    with service(late) as (port, _):
        start = time.monotonic()
        with delivery.client(30, allow_http=True, allow_private=True) as client:
            outcome = delivery.attempt(flow(f"http://127.0.0.1:{port}/"), client, whole=0.5)
        seconds = time.monotonic() - start
        over.set()

    assert outcome == Retry("ReadTimeout", "contextDeadlineExceeded", doubt=True)
    assert 0.4 < seconds < 3


def test_after_the_deadline_of_a_delivery_no_request_leaves() -> None:
    def flow(url: str) -> Flow:
        while True:
            yield httpx.Request("POST", url)

    with (
        service(say(YES)) as (port, heard),
        delivery.client(30, allow_http=True, allow_private=True) as client,
    ):
        outcome = delivery.attempt(flow(f"http://127.0.0.1:{port}/"), client, whole=0.0)

    assert outcome == Retry("ConnectTimeout", "contextDeadlineExceeded")
    assert heard == []


@pytest.mark.parametrize(
    ("status", "line"),
    [
        (200, b"content-type: text/html; charset=idna"),
        (200, b"content-type: text/html; charset=rot13"),
        (200, b"content-type: text/html; charset=utf-16"),
        (302, b"location: https://xn--a/"),
        (302, b"location: https://[::1"),
        (302, b"location: https://\xff/"),
    ],
)
def test_headers_made_to_break_their_reader_break_nothing(status: int, line: bytes) -> None:
    said = b"HTTP/1.1 %d X\r\n%s\r\ncontent-length: 2\r\n\r\n\x80x" % (status, line)

    def flow() -> Flow:
        answer = yield httpx.Request("POST", f"http://127.0.0.1:{port}/")
        return Refused(f"HTTP {answer.status_code}: {quoted(answer)}", "other")

    with (
        service(say(said)) as (port, _),
        delivery.client(5.0, allow_http=True, allow_private=True) as client,
    ):
        outcome = delivery.attempt(flow(), client)

    assert outcome == Refused(f"HTTP {status}: '\ufffdx'", "other")
