"""What a mail server, and a network, can do to a letter: on a real server and on real sockets."""

import ipaddress
import re
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from detectors import delivery
from detectors.receivers import Delivered, Flow, Mail, Refused, Retry
from ingest.config import Secret
from tests.kit_mail import PASSWORD, options, post, reciting, relay
from tests.kit_sockets import listening, self_signed

GREET = b"220 mx.corp.example ESMTP\r\n"
OK = b"250 ok\r\n"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return self_signed(tmp_path_factory.mktemp("tls"))


def test_a_letter_arrives_over_starttls_with_a_login(certificate: Path) -> None:
    with relay(starttls=certificate, auth=True) as server:
        to = options(server.port, security="starttls", login=True)
        assert post(to, ca=certificate) == Delivered()

    assert server.secure == [True]
    assert server.logins == [("PLAIN", PASSWORD, True)]
    assert server.took[0].mail_from == "gatewatch@corp.example"
    assert server.took[0].rcpt_tos == ["duty@corp.example"]


def test_a_letter_arrives_over_tls_from_the_first_byte(certificate: Path) -> None:
    with relay(tls=certificate, auth=True) as server:
        assert post(options(server.port, security="tls", login=True), ca=certificate) == Delivered()

    assert len(server.took) == 1


def test_a_wrong_password_is_refused_once_and_not_shown(
    certificate: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    with relay(starttls=certificate, auth=True) as server:
        to = options(server.port, security="starttls", login=True, username="another")
        outcome = post(to, ca=certificate)

    assert isinstance(outcome, Refused)
    assert (outcome.label, outcome.hint) == ("authError", "password")
    assert outcome.reason.startswith("SMTP 535 to auth")
    assert len(server.logins) == 1
    assert PASSWORD not in f"{outcome} {to!r} {caplog.text}"


def test_who_must_log_in_and_does_not_is_told_so(certificate: Path) -> None:
    with relay(starttls=certificate, auth=True) as server:
        outcome = post(options(server.port, security="starttls"), ca=certificate)

    assert isinstance(outcome, Refused)
    assert (outcome.label, outcome.reason) == (
        "authError",
        "SMTP 530 to sender: 5.7.0 Authentication required",
    )
    assert server.took == []


@pytest.mark.parametrize("security", ["starttls", "tls"])
def test_case_b135_an_unknown_certificate_is_refused_before_anything_is_said(
    certificate: Path, security: str
) -> None:
    certificates: dict[str, Any] = {security: certificate}
    with relay(**certificates, auth=True) as server:
        outcomes = [
            post(options(server.port, security=security, login=True)),
            post(options(server.port, security=security, login=True, host="127.0.0.1"),
                 ca=certificate),
        ]  # fmt: skip

    assert [each.hint for each in outcomes if isinstance(each, Refused)] == ["tls", "tls"]
    assert (server.logins, server.took) == ([], [])


def test_a_server_that_offers_no_starttls_hears_nothing_of_us() -> None:
    with listening(reciting(GREET, b"250-mx\r\n250 AUTH PLAIN\r\n", OK)) as (port, heard):
        outcome = post(options(port, security="starttls", login=True))

    assert outcome == Refused("SMTP 502 to tls: it does not offer STARTTLS", "other", "tls")
    assert re.fullmatch(rb"EHLO \[127\.0\.0\.1\]\r\nQUIT\r\n", b"".join(heard))


@pytest.mark.parametrize(
    ("reply", "outcome"),
    [
        (b"454 4.7.0 TLS not available\r\n",
         Retry("SMTP 454 to tls: 4.7.0 TLS not available", "serverError")),
        (b"502 no\r\n", Refused("SMTP 502 to tls: no", "other", "tls")),
        (b"220 go\r\n235 you are in\r\n250 ok\r\n", Retry("ConnectError", "other")),
    ],
)  # fmt: skip
def test_starttls_that_fails_is_no_way_to_go_on_in_clear(reply: bytes, outcome: Any) -> None:
    with listening(reciting(GREET, b"250-mx\r\n250 STARTTLS\r\n", reply, OK)) as (port, heard):
        assert post(options(port, security="starttls", login=True)) == outcome

    said = {line.split()[0] for line in heard if line}
    assert said <= {b"EHLO", b"STARTTLS", b"QUIT"}


def test_login_is_used_where_there_is_no_plain(certificate: Path) -> None:
    with relay(starttls=certificate, auth=True, without=("PLAIN",)) as server:
        to = options(server.port, security="starttls", login=True)
        assert post(to, ca=certificate) == Delivered()

    assert server.logins == [("LOGIN", PASSWORD, True)]


@pytest.mark.parametrize(
    ("step", "reply", "outcome"),
    [
        ("MAIL", "451 4.3.0 later",
         Retry("SMTP 451 to sender: 4.3.0 later", "serverError")),
        ("MAIL", "550 5.7.1 not you",
         Refused("SMTP 550 to sender: 5.7.1 not you", "clientError")),
        ("duty@corp.example", "450 4.2.1 greylisted",
         Retry("SMTP 450 to recipients: 4.2.1 greylisted", "serverError")),
        ("duty@corp.example", "550 5.1.1 nobody of that name",
         Refused("SMTP 550 to recipients: 5.1.1 nobody of that name", "clientError")),
        ("DATA", "452 4.3.1 disk full",
         Retry("SMTP 452 to data: 4.3.1 disk full", "serverError")),
        ("DATA", "421 4.7.28 rate limited",
         Retry("SMTP 421 to data: 4.7.28 rate limited", "rateLimited")),
        ("DATA", "554 5.6.0 spam",
         Refused("SMTP 554 to data: 5.6.0 spam", "clientError")),
    ],
)  # fmt: skip
def test_4xx_is_later_and_5xx_is_never(step: str, reply: str, outcome: Any) -> None:
    with relay(said={step: reply}) as server:
        assert post(options(server.port)) == outcome


def test_a_refused_recipient_is_named_and_the_others_have_the_letter() -> None:
    both = ("duty@corp.example", "gone@corp.example")

    with relay(said={"gone@corp.example": "550 5.1.1 no such user"}) as server:
        outcome = post(options(server.port, to=both))

    assert outcome == Delivered("not to gone@corp.example (550)")
    assert server.took[0].rcpt_tos == ["duty@corp.example"]


def test_of_recipients_that_are_all_refused_one_that_may_be_taken_later_counts() -> None:
    both = ("duty@corp.example", "gone@corp.example")
    said = {"duty@corp.example": "450 4.2.0 later", "gone@corp.example": "550 5.1.1 never"}

    with relay(said=said) as server:
        outcome = post(options(server.port, to=both))

    assert isinstance(outcome, Retry)


def test_a_connection_that_breaks_after_quit_changes_nothing() -> None:
    replies = (GREET, OK, OK, OK, b"354 go\r\n", b"250 taken\r\n")

    with listening(reciting(*replies)) as (port, heard):
        assert post(options(port)) == Delivered()

    assert heard[-1] == b"QUIT\r\n"


def test_a_server_that_hangs_up_after_the_letter_leaves_a_doubt() -> None:
    with relay(drop=True) as server:
        assert post(options(server.port)) == Retry("ReadError", "other", doubt=True)


def test_a_server_that_keeps_silent_after_the_letter_leaves_a_doubt() -> None:
    with relay(hang=True) as server:
        outcome = post(options(server.port), total=0.5)

    assert outcome == Retry("ReadTimeout", "contextDeadlineExceeded", doubt=True)


@pytest.mark.parametrize("replies", [(), (GREET,), (GREET, OK, OK, OK)])
def test_one_that_hangs_up_before_has_nothing(replies: tuple[bytes, ...]) -> None:
    with listening(reciting(*replies)) as (port, _):
        assert post(options(port)) == Retry("ConnectError", "other")


def test_a_server_that_drips_is_left_at_the_deadline() -> None:
    over = threading.Event()

    def drip(connection: socket.socket, _: object) -> None:
        connection.sendall(b"220-welcome\r\n")
        while not over.wait(0.05):
            connection.sendall(b"220-and\r\n")

    with listening(drip) as (port, _):
        start = time.monotonic()
        outcome = post(options(port), total=0.5)
        seconds = time.monotonic() - start
        over.set()

    assert outcome == Retry("ConnectTimeout", "contextDeadlineExceeded")
    assert 0.4 < seconds < 3


@pytest.mark.parametrize("noise", [b"x" * 100_000, b"220-so\r\n" * 20_000, b"HTTP/1.1 400\r\n\r\n"])
def test_a_server_that_is_none_is_left_at_once(noise: bytes) -> None:
    with listening(reciting(noise)) as (port, _):
        assert post(options(port)) == Retry("ConnectError", "other")


def test_no_letter_leaves_for_an_inside_address_that_nobody_allowed() -> None:
    with relay() as server:
        outcomes = [post(options(server.port, host=host, security="tls"), private=False)
                    for host in ("localhost", "127.0.0.1")]  # fmt: skip

    assert server.took == []
    assert [each.hint for each in outcomes if isinstance(each, Refused)] == ["address", "address"]


def test_case_b174_a_mail_server_is_judged_by_what_its_name_resolves_to_at_each_letter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def resolve(host: str | bytes, port: int, **_: object) -> list[object]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("169.254.169.254", port))]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)  # the world's DNS is not ours to change

    outcome = post(options(25, host="smtp.example", security="tls"))

    assert isinstance(outcome, Refused)
    assert outcome.reason == "smtp.example is 169.254.169.254, which no receiver has"


def test_the_name_that_is_connected_to_is_the_one_that_was_judged(
    monkeypatch: pytest.MonkeyPatch, certificate: Path
) -> None:
    """A second look-up would get another answer; the certificate is still that of the name."""
    real = socket.getaddrinfo
    asked: list[object] = []

    def resolve(host: str | bytes, port: int, *rest: Any, **more: Any) -> Any:
        if host in ("localhost", b"localhost"):
            asked.append(host)
            if len(asked) > 1:
                return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("169.254.169.254", port))]
        return real(host, port, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)

    with relay(starttls=certificate) as server:
        assert post(options(server.port, security="starttls"), ca=certificate) == Delivered()

    assert len(asked) == 1


def test_without_tls_nothing_goes_to_an_address_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loopback stands in for the server; that it is outside is what the test says of it."""
    monkeypatch.setattr(socket.socket, "getpeername", lambda _: ("203.0.113.9", 25))
    monkeypatch.setattr(ipaddress.IPv4Address, "is_global", True)
    monkeypatch.setattr(ipaddress.IPv4Address, "is_private", False)

    with listening(reciting(GREET, OK)) as (port, heard):
        outcome = post(options(port))

    assert outcome == Refused(
        "localhost is 203.0.113.9: outside this network nothing goes without TLS",
        "other",
        "address",
    )
    assert b"".join(heard) == b""


def test_a_password_goes_to_nobody_without_tls_whoever_asks_for_it() -> None:
    def flow() -> Flow:
        yield Mail(
            "localhost", port, "none", "a@b.example", ("c@d.example",), b"", "a", Secret("b")
        )
        return Delivered()

    with (
        listening(reciting(GREET, OK)) as (port, heard),
        delivery.client(5.0, allow_http=True, allow_private=True) as client,
    ):
        outcome = delivery.attempt(flow(), client)

    assert outcome == Refused("a password goes to no server without TLS", "other", "address")
    assert b"".join(heard) == b""
