from dataclasses import replace
from datetime import timedelta
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest

from detectors.receivers import Delivered, Mailed, Refused, Retry, email
from detectors.routing import load
from detectors.worker import try_out
from ingest.config import ConfigError, Secret, convert
from tests.fakes import load as fake
from tests.fakes import tell
from tests.fakes.email import parsed
from tests.kit_mail import SHORT, body, options, post, relay
from tests.kit_receivers import NOW, example
from tests.kit_sockets import self_signed

TABLE: dict[str, Any] = {
    "type": "email",
    "host": "smtp.corp.example",
    "from": "gatewatch@corp.example",
    "to": ["duty@corp.example"],
}
OPTIONS, [PASSWORD] = example("email")


def letter(**change: Any) -> EmailMessage:
    """The letter of a message, read as a strict relay reads it."""
    return parsed(bytes(email.letter(replace(SHORT, **change), OPTIONS, NOW)))


def answered(*answers: Mailed) -> Any:
    """What the receiver makes of an answer."""
    flow = email.deliver(SHORT, OPTIONS, NOW)
    next(flow)
    with pytest.raises(StopIteration) as end:
        flow.send(answers[0])
    return end.value.value


def test_what_a_real_server_took_is_what_a_person_reads(tmp_path: Path) -> None:
    with relay() as server:
        assert post(options(server.port)) == Delivered()

    [found] = server.letters
    assert str(found["Subject"]).startswith("HIGH · Opened · a1")
    assert str(found["From"]) == "gatewatch <gatewatch@corp.example>"
    assert body(found, "plain").splitlines()[0] == "HIGH · Opened · al_7f3a"
    assert SHORT.link in body(found, "plain")
    assert f'href="{SHORT.link}"' in body(found, "html")
    assert "&lt;!channel&gt;" in body(found, "html")
    assert "#d9480f" in body(found, "html")


@pytest.mark.parametrize(
    "text",
    [
        "x\r\nBcc: evil@evil.example\r\n\r\nEVIL",
        "=?utf-8?q?a=0D=0ABcc:_evil@evil.example?=",
        "=?utf-8?b?DQpCY2M6IGV2aWxAZXZpbC5leGFtcGxlDQoNCkVWSUw=?=",
        "=?" * 200,
        "x" * 2_000,
        "案" * 2_000,
    ],
)
def test_no_subject_from_a_log_makes_a_header_or_a_long_line(text: str) -> None:
    found = letter(title=text, subject=text, alert=text, severity=text)

    assert "Bcc" not in found
    assert len(str(found["Subject"])) <= 180
    assert len(found.get_all("Subject", [])) == 1


def test_letters_of_one_alert_are_one_thread_and_each_has_its_own_id() -> None:
    first = letter()
    end = letter(kind="resolved", delivery="dl_0002")
    again = letter(repeat=True)

    assert first["References"] == end["References"] == first["In-Reply-To"]
    assert first["Message-ID"] == again["Message-ID"] != end["Message-ID"]
    assert "(repeat, al_7f3a)" in body(again, "plain")
    assert "#2b8a3e" in body(end, "html")


def test_a_digest_is_no_answer_to_anything() -> None:
    assert "References" not in letter(kind="digest", alert="3 alerts")


def test_a_critical_alert_is_marked_for_the_mail_program() -> None:
    assert letter(severity="critical")["Importance"] == "high"
    assert "Importance" not in letter(severity="critical", kind="resolved")
    assert "Importance" not in letter()


def test_a_letter_is_7_bit_whatever_is_in_it() -> None:
    ways = {
        text: [part["Content-Transfer-Encoding"] for part in letter(title=text).iter_parts()]
        for text in ("a" * 180, "案" * 180)
    }

    assert ways == {
        "a" * 180: ["quoted-printable", "quoted-printable"],
        "案" * 180: ["base64", "base64"],
    }


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (Mailed(250, "queued"), Delivered()),
        (Mailed(250, "queued", {"a@b.example": (550, "no")}),
         Delivered("not to a@b.example (550)")),
        (Mailed(421, "bye", step="greeting"), Retry("SMTP 421 to greeting: bye", "serverError")),
        (Mailed(250, "hm", step="greeting"), Refused("SMTP 250 to greeting: hm", "clientError")),
        (Mailed(454, "later", step="auth"), Retry("SMTP 454 to auth: later", "serverError")),
        (Mailed(334, "more", step="auth"),
         Refused("SMTP 334 to auth: more", "authError", "password")),
        (Mailed(535, "5.7.8 no", step="auth"),
         Refused("SMTP 535 to auth: 5.7.8 no", "authError", "password")),
        (Mailed(450, "too many connections", step="sender"),
         Retry("SMTP 450 to sender: too many connections", "rateLimited")),
        (Mailed(354, "go"), Refused("SMTP 354 to data: go", "clientError")),
    ],
)  # fmt: skip
def test_only_2xx_to_the_letter_is_a_delivery(answer: Mailed, outcome: Any) -> None:
    assert answered(answer) == outcome


@pytest.mark.parametrize(
    "text",
    [
        f"bad password {PASSWORD}",
        "AHVzZXI= Z2F0ZXdhdGNo RkFLRTAwMDEtbWFpbC1FWEFNUExF",  # AUTH LOGIN's last line
        "AGdhdGV3YXRjaABGQUtFMDAwMS1tYWlsLUVYQU1QTEU=",  # AUTH PLAIN's
    ],
)
def test_a_server_that_repeats_the_password_is_not_quoted(text: str) -> None:
    assert answered(Mailed(535, text, step="auth")) == Refused(
        "SMTP 535 to auth", "authError", "password"
    )


def test_what_a_server_says_is_one_line_and_short() -> None:
    outcome = answered(Mailed(554, "no\r\n\x1b[31m" + "x" * 1_000))

    assert outcome.reason.startswith("SMTP 554 to data: no ")
    assert outcome.reason.isprintable()
    assert len(outcome.reason) < 200


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"to": []}, "`to` names 1 to 50 addresses"),
        ({"to": ["duty"]}, "'duty' is no bare address such as duty@corp.example"),
        ({"to": ["a@b.example>\r\nRCPT TO:<x@y.example"]}, "is no bare address"),
        ({"from": "Duty <duty@corp.example>"}, "is no bare address"),
        ({"to": ["a@bücher.example"]}, "a form that begins with xn--"),
        ({"host": "smtp://x"}, "`host` is the name of a mail server, found 'smtp://x'"),
        ({"port": 70_000}, "`port` is a number up to 65535, found 70000"),
        ({"username": "a"}, "`username` and `password` come together"),
        ({"password": "a"}, "`username` and `password` come together"),
        ({"username": "a", "password": "FAKE", "security": "none"}, "a password never goes to a"),
        ({"security": "none"}, "the address is spoken to without TLS, which goes only inside"),
        ({"security": "none", "allow_http": True}, "which goes only inside your own network"),
        ({"security": "none", "allow_private": True}, "which goes only inside your own network"),
        ({"host": "localhost"}, "is inside this network"),
        ({"host": "169.254.169.254", "allow_private": True}, "which no receiver has"),
        ({"host": "::1"}, "inside this network"),
        ({"sender": "a@b.example"}, "unknown key 'sender'"),
    ],
)  # fmt: skip
def test_a_config_that_is_wrong_says_what_is(change: dict[str, Any], error: str) -> None:
    with pytest.raises(ConfigError) as found:
        load({"duty": TABLE | change})

    assert error in str(found.value)
    assert "receivers.duty" in str(found.value)
    assert "FAKE" not in str(found.value)


@pytest.mark.parametrize(
    ("change", "port"),
    [({}, 587), ({"security": "tls"}, 465), ({"port": 2525}, 2525),
     ({"security": "none", "allow_http": True, "allow_private": True}, 25)],
)  # fmt: skip
def test_each_way_has_its_port(change: dict[str, Any], port: int) -> None:
    [route] = load({"duty": TABLE | change})

    mail = next(email.deliver(SHORT, route.options, NOW))

    assert (mail.port, mail.recipients) == (port, ("duty@corp.example",))


def test_a_relay_that_limits_is_asked_again_later() -> None:
    relay = fake("email")
    outcomes = [tell(relay, "email", replace(SHORT, delivery=f"dl_{n}")) for n in range(21)]

    assert outcomes[:20] == [Delivered()] * 20
    assert outcomes[20] == Retry(
        "SMTP 421 to sender: 4.7.28 too many letters in a minute", "rateLimited"
    )
    relay.now += timedelta(minutes=1)
    assert tell(relay, "email") == Delivered()


def test_the_password_is_a_secret_and_the_address_names_none(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("s3cret\n")
    table = {key: value for key, value in TABLE.items() if key != "type"}
    more = {"username": "a", "password": f"file:{tmp_path / 'password'}"}

    found = convert(table | more, email.Options, "test")

    assert isinstance(found.password, Secret)
    assert found.password.reveal == "s3cret"
    assert found.address == "smtps://smtp.corp.example:587"
    assert "s3cret" not in repr(found)


def test_a_test_message_goes_the_same_way(tmp_path: Path) -> None:
    certificate = self_signed(tmp_path)
    with relay(starttls=certificate) as server:
        more = {"host": "localhost", "port": server.port, "allow_private": True}
        [route] = load({"duty": TABLE | more | {"ca_file": str(certificate)}})
        assert try_out(route, "https://gatewatch.example", NOW) == Delivered()

    assert "This is a test message" in str(server.letters[0]["Subject"])
