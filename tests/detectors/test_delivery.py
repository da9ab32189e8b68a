"""What a network can do to a delivery, on real sockets."""

import gzip
import socket
import ssl
import threading
import time
from pathlib import Path

import httpx
import pytest

from detectors import delivery
from detectors.receivers import Delivered, Flow, Refused, Retry
from tests.kit_sockets import YES, ask, say, self_signed, service


def test_a_yes_arrives_and_the_host_is_named_as_configured() -> None:
    with service(say(YES)) as (port, heard):
        assert ask(f"http://localhost:{port}/hook") == Delivered()

    assert f"host: localhost:{port}\r\n".encode() in heard[0].lower()


def test_no_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")

    with service(say(YES)) as (port, _):
        assert ask(f"http://127.0.0.1:{port}/") == Delivered()


def test_a_server_that_drips_is_left_at_the_deadline() -> None:
    over = threading.Event()

    def drip(connection: socket.socket, _: bytes) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n")
        while not over.wait(0.05):
            connection.sendall(b"x-drip: 1\r\n")

    with service(drip) as (port, _):
        start = time.monotonic()
        outcome = ask(f"http://127.0.0.1:{port}/", total=0.5)
        seconds = time.monotonic() - start
        over.set()

    assert outcome == Retry("ReadTimeout", "contextDeadlineExceeded", doubt=True)
    assert 0.4 < seconds < 3


def test_a_server_that_hangs_up_after_the_request_leaves_a_doubt() -> None:
    with service(lambda connection, _: None) as (port, _):
        outcome = ask(f"http://127.0.0.1:{port}/")

    assert isinstance(outcome, Retry)
    assert (outcome.label, outcome.doubt) == ("other", True)


def test_nobody_listening_is_tried_again_without_a_doubt() -> None:
    with service(say(YES)) as (port, _):
        pass

    assert ask(f"http://127.0.0.1:{port}/") == Retry("ConnectError", "other")


def test_a_name_that_does_not_resolve_is_tried_again() -> None:
    assert ask("http://no-such-host.invalid/") == Retry("ConnectError", "other")


def test_only_the_beginning_of_a_big_answer_is_read() -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-length: 100000000\r\n\r\n"

    with service(say(head + b"x" * 300_000)) as (port, _):
        outcome = ask(f"http://127.0.0.1:{port}/")

    assert outcome == Refused("HTTP 200, 65536 bytes", "clientError")


def test_a_small_answer_that_unpacks_to_a_huge_one_does_not_grow() -> None:
    bomb = gzip.compress(b"x" * 50_000_000)
    head = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(bomb)

    with service(say(head + bomb)) as (port, _):
        assert ask(f"http://127.0.0.1:{port}/") == Refused("HTTP 200, 65536 bytes", "clientError")


def test_a_redirect_is_not_followed() -> None:
    with service(say(YES)) as (port, heard):
        to = f"http://127.0.0.1:{port}/inside".encode()
        answer = b"HTTP/1.1 307 Moved\r\nlocation: " + to + b"\r\ncontent-length: 0\r\n\r\n"
        with service(say(answer)) as (first, _):
            outcome = ask(f"http://127.0.0.1:{first}/")

        assert outcome == Refused("HTTP 307, 0 bytes", "clientError")
        assert heard == []


def test_no_request_leaves_for_an_inside_address() -> None:
    with service(say(YES)) as (port, heard):
        outcomes = [ask(f"http://{host}:{port}/", private=False)
                    for host in ("127.0.0.1", "localhost", "2130706433")]  # fmt: skip

    assert heard == []
    assert all(isinstance(each, Refused) and each.hint == "address" for each in outcomes)


def test_a_name_is_judged_by_what_it_resolves_to_at_each_send(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[object] = []

    def resolve(host: str | bytes, port: int, **_: object) -> list[object]:
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.0.0.1", port))]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)  # the world's DNS is not ours to change

    outcome = ask("http://rebind.example/", private=False)

    assert asked == ["rebind.example"]
    assert isinstance(outcome, Refused)
    assert "rebind.example is 10.0.0.1, inside this network" in outcome.reason


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return self_signed(tmp_path_factory.mktemp("tls"))


def test_case_b135_an_unknown_certificate_is_refused_until_its_authority_is_configured(
    certificate: Path,
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    with service(say(YES), context) as (port, heard):
        unknown = ask(f"https://localhost:{port}/")
        known = ask(f"https://localhost:{port}/", ca_file=str(certificate))
        other_name = ask(f"https://127.0.0.1:{port}/", ca_file=str(certificate))

    assert known == Delivered()
    assert isinstance(unknown, Refused)
    assert isinstance(other_name, Refused)
    assert (unknown.hint, other_name.hint, len(heard)) == ("tls", "tls", 1)
    assert "self-signed" in unknown.reason


def test_no_error_shows_the_address(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")

    with service(lambda connection, _: None) as (port, _):
        outcome = ask(f"http://127.0.0.1:{port}/s3cret-token")

    assert "s3cret" not in f"{outcome!r} {caplog.text}"


def test_a_flow_that_never_ends_is_ended() -> None:
    def endless() -> Flow:
        while True:
            yield httpx.Request("POST", "https://soc.example/")

    transport = httpx.MockTransport(lambda _: httpx.Response(200))
    with httpx.Client(transport=transport) as client:
        assert delivery.attempt(endless(), client) == Refused("no end after 4 requests", "other")
