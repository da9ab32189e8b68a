"""E-mail over SMTP: one letter, in plain text and in HTML, on a thread of its alert.

Sizes and headers: RFC 5322 (lines of at most 998 octets), RFC 2046 (parts), RFC 3834 (what a
machine sends says so). Codes: RFC 5321 4.2.1, 4xx later and 5xx never; RFC 4954 for those of AUTH.
"""

import base64
import hashlib
import re
from datetime import datetime
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from html import escape
from typing import Literal

import msgspec

from detectors.phrases import Parts, parts
from detectors.receivers import (
    Delivered,
    Flow,
    Label,
    Mail,
    Mailed,
    Manners,
    Message,
    Outcome,
    Refused,
    Retry,
)
from detectors.shorten import cut, fit, plain
from ingest.config import Secret

EXAMPLE = """
[receivers.duty]
type     = "email"
host     = "smtp.corp.example"
from     = "gatewatch@corp.example"
to       = ["duty@corp.example", "soc@corp.example"]
username = "gatewatch"
password = "FAKE0001-mail-EXAMPLE"
"""
YES = (250, "2.0.0 Ok: queued as FAKE0001")
MANNERS = Manners(limits=((10, 60.0),), total=20.0)  # a relay slows down, and a person as well

PORTS = {"starttls": 587, "tls": 465, "none": 25}
SUBJECT = 180  # code points: a longer one was refused for a line of 1 110 octets
ROOM = 30_000  # bytes of what a cut may take, in HTML: with text and encoding below 100 kB in all
ADDRESS = re.compile(r"[!-;=?A-~]+@[0-9A-Za-z.-]+")  # ASCII, without blanks and angle brackets
BUSY = re.compile(r"4\.7\.28|\brate\b|too many|too fast|throttl", re.IGNORECASE)
CLOSED = (530, 534, 535, 538)  # AUTH is demanded, too weak, wrong, or wants TLS
POLICY = SMTP.clone(cte_type="7bit")  # `=?` in a header's text would be decoded on the way


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"sender": "from"}):
    """`security` is never negotiated: a server that does not keep to it is told nothing."""

    host: str
    sender: str
    to: tuple[str, ...]
    port: int = 0  # 0: 587, 465 for tls, 25 for none
    security: Literal["starttls", "tls", "none"] = "starttls"
    username: str = ""
    password: Secret | None = None

    def __post_init__(self) -> None:
        if not 1 <= len(self.to) <= 50:
            raise ValueError("`to` names 1 to 50 addresses")
        for address in (self.sender, *self.to):
            if not ADDRESS.fullmatch(address):
                raise ValueError(
                    f"{address!r} is no bare address such as duty@corp.example (in ASCII: a domain"
                    " in other letters has a form that begins with xn--)"
                )
        if not re.fullmatch(r"[^\s/@[\]]+", self.host):
            raise ValueError(f"`host` is the name of a mail server, found {self.host!r}")
        if not 0 <= self.port <= 65_535:
            raise ValueError(f"`port` is a number up to 65535, found {self.port}")
        if bool(self.username) != (self.password is not None):
            raise ValueError("`username` and `password` come together, or not at all")
        if self.password is not None and self.security == "none":
            raise ValueError("a password never goes to a server without TLS: set `security`")

    @property
    def address(self) -> str:
        scheme = "smtp" if self.security == "none" else "smtps"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}://{host}:{self.port or PORTS[self.security]}"


def deliver(message: Message, options: Options, now: datetime) -> Flow:
    answer = yield Mail(
        host=options.host,
        port=options.port or PORTS[options.security],
        security=options.security,
        sender=options.sender,
        recipients=options.to,
        content=bytes(letter(message, options, now)),
        username=options.username,
        password=options.password,
    )
    return _read(answer, options)


def _read(answer: Mailed, options: Options) -> Outcome:
    said = _said(answer, options)
    if answer.step == "data" and 200 <= answer.code < 300:
        names = ", ".join(f"{address} ({no[0]})" for address, no in answer.refused.items())
        return Delivered(f"not to {names}" if names else "")
    reason = f"SMTP {answer.code} to {answer.step}{f': {said}' if said else ''}"
    one_by_one = [code for code, _ in answer.refused.values()]
    codes = one_by_one if answer.step == "recipients" else [answer.code]
    if any(400 <= code < 500 for code in codes):  # of several, one may be taken later
        label: Label = "rateLimited" if BUSY.search(answer.text) else "serverError"
        return Retry(reason, label)
    if answer.step == "tls":
        return Refused(reason, "other", "tls")
    if answer.step == "auth" or answer.code in CLOSED:
        return Refused(reason, "authError", "password")
    return Refused(reason, "clientError")


def _said(answer: Mailed, options: Options) -> str:
    """The server's words for people, unless they repeat the password in any of its forms."""
    text = " ".join(plain(answer.text.replace("\n", " ")).split())[:160]
    if options.password is None:
        return text
    user, password = options.username, options.password.reveal
    forms = (password, _base64(password), _base64(f"\0{user}\0{password}"))
    return "" if any(form in answer.text for form in forms) else text


def letter(message: Message, options: Options, now: datetime) -> EmailMessage:
    """The whole letter. The same message at the same time gives the same bytes."""
    said, shown = parts(message, _unlinked), parts(message, lambda text: escape(_unlinked(text)))
    lines, texts = fit(shown.lines, shown.total, ROOM, _bytes, shown.rest), list(said.lines)
    if lines != list(shown.lines):  # the last one says what is missing
        lines, texts = [*lines[:-1], escape(lines[-1])], [*texts[: len(lines) - 1], lines[-1]]
    mail, domain = EmailMessage(POLICY), options.sender.partition("@")[2]
    thread = f"<{_atom(message.alert)}@{domain}>"
    headers = {
        "From": f"gatewatch <{options.sender}>",
        "To": ", ".join(options.to),
        "Subject": cut(plain(f"{said.state} · {said.title}").replace("=?", "= ?"), SUBJECT),
        "Date": format_datetime(now),
        "Message-ID": f"<{_atom(message.delivery)}.gatewatch@{domain}>",
        "Auto-Submitted": "auto-generated",
        "X-Auto-Response-Suppress": "All",
        "X-Gatewatch-Alert": _atom(message.alert),
        "X-Gatewatch-Severity": _atom(message.severity),
        "X-Gatewatch-Kind": message.kind,
    }
    if message.kind not in ("digest", "daily"):
        headers |= {"In-Reply-To": thread, "References": thread}
    if message.severity == "critical" and not said.over:
        headers |= {"Importance": "high", "X-Priority": "1"}
    for name, value in headers.items():
        mail[name] = value
    text, html = _text(message, said, texts), _html(message, shown, lines)
    mail.set_content(text, cte=_encoding(text))
    mail.add_alternative(html, subtype="html", cte=_encoding(html))
    mail.set_boundary(f"=_{_atom(message.delivery)}")  # `=_` stands in neither encoding
    return mail


def _text(message: Message, said: Parts, lines: list[str]) -> str:
    state = f"{said.state} · {message.alert} {said.notes}".rstrip()
    head = [state, f"{said.about}: {said.title}", said.when, ""]
    facts = [f"{name}: {value}" for name, value in said.facts]
    links = [f"{label}: {url}" for label, url in _links(message, said)]
    return "\n".join([*head, *facts, *links, "", *(f"- {line}" for line in lines), ""])


def _html(message: Message, shown: Parts, lines: list[str]) -> str:
    """Tables and inline styles: all that mail programs agree on. No picture, nothing is loaded."""
    cell = 'style="padding:2px 12px 2px 0;vertical-align:top;text-align:left"'
    rows = "".join(
        f"<tr><th {cell}>{name}</th><td {cell}>{value}</td></tr>" for name, value in shown.facts
    )
    links = "\n".join(_button(label, url, shown.color) for label, url in _links(message, shown))
    more = "".join(f"<li>{line}</li>\n" for line in lines)
    more = f'<ul style="margin:8px 0;padding-left:20px">\n{more}</ul>\n' if more else ""
    state = escape(f"{shown.state} · {message.alert} {shown.notes}".rstrip())
    return (
        f'<!DOCTYPE html>\n<html lang="{message.language}"><head><meta charset="utf-8"></head>\n'
        '<body style="font-family:sans-serif;font-size:14px;color:#222222">\n'
        f'<p style="margin:0;padding:8px 12px;background:{shown.color};color:#ffffff;'
        f'font-weight:bold">{state}</p>\n'
        f'<div style="padding:8px 12px;border-left:4px solid {shown.color}">\n'
        f'<h2 style="font-size:17px;margin:4px 0">{shown.title}</h2>\n'
        f'<p style="margin:4px 0;color:#666666">{shown.about}<br>{escape(shown.when)}</p>\n'
        f'<table style="border-collapse:collapse;margin:8px 0">{rows}</table>\n'
        f"<p>{links}</p>\n{more}</div></body></html>\n"
    )


def _button(label: str, url: str, color: str) -> str:
    look = f"color:{color};border:1px solid {color};border-radius:4px;text-decoration:none"
    box = "display:inline-block;padding:6px 12px;margin:0 6px 6px 0;font-weight:bold"
    return f'<a href="{escape(url)}" style="{box};{look}">{escape(label)}</a>'


def _unlinked(text: str) -> str:
    """Mail programs make links of what looks like one: a log's would lead anywhere."""
    return re.sub(r"(?i)(://|www\.)", "\u200b\\1", text)


def _links(message: Message, said: Parts) -> list[tuple[str, str]]:
    return [(said.open_link, message.link), *said.buttons]


def _encoding(text: str) -> Literal["quoted-printable", "base64"]:
    """The shorter: 3 bytes for each one that is not ASCII, or 4 for every 3 whatever they are."""
    size = _bytes(text)
    return "quoted-printable" if 6 * (size - sum(map(str.isascii, text))) < size else "base64"


def _bytes(text: str) -> int:
    return len(text.encode())


def _atom(text: str) -> str:
    """Text as it may stand in a message id and in a header: our own ids are left as they are."""
    if re.fullmatch(r"[\w-]{1,64}", text, re.ASCII):
        return text
    return f"x{hashlib.sha256(text.encode()).hexdigest()[:24]}"


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
