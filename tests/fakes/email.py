"""A mail relay and the program that shows its letters: RFC 5321 and 5322, at their strictest.

The conversation itself is tried on a real server: tests/detectors/test_mailing.py. This one reads a
letter as a reader's program does: it makes a link of whatever looks like one, in either part.
"""

import re
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from html.parser import HTMLParser
from typing import Any

from detectors.receivers import Mail, Mailed
from tests import fakes

LONGEST = 998  # octets of a line, RFC 5322 2.1.1
LARGEST = 100_000  # bytes of a letter that a person opens on a telephone
ONCE = {"From", "To", "Subject", "Date", "Message-ID", "MIME-Version", "Content-Type"}
KNOWN = ONCE | {
    "In-Reply-To", "References", "Auto-Submitted", "X-Auto-Response-Suppress", "Importance",
    "X-Priority", "X-Gatewatch-Alert", "X-Gatewatch-Severity", "X-Gatewatch-Kind",
}  # fmt: skip
TAGS = {  # attributes, and where a tag may stand: log text is in h2, p, th, td and li
    "html": ({"lang"}, {""}), "head": (set(), {"html"}), "meta": ({"charset"}, {"head"}),
    "body": ({"style"}, {"html"}), "div": ({"style"}, {"body"}), "h2": ({"style"}, {"div"}),
    "p": ({"style"}, {"body", "div"}), "br": (set(), {"p"}), "a": ({"href", "style"}, {"p"}),
    "table": ({"style"}, {"div"}), "tr": (set(), {"table"}), "th": ({"style"}, {"tr"}),
    "td": ({"style"}, {"tr"}), "ul": ({"style"}, {"div"}), "li": (set(), {"ul"}),
}  # fmt: skip
LINK = re.compile(r"(?:https?://|www\.)[^\s<>\"]+")
ID = re.compile(r"<[\w.-]+@[\w.-]+>", re.ASCII)


class Fake(fakes.Fake):
    """The relay that the EXAMPLE names, with the password that it takes."""

    limits = ((20, 60.0),)

    def take(self, request: Mail) -> fakes.Seen:
        own = self.options
        if (request.host, request.sender) != (own.host, own.sender):
            raise _no(550, "5.7.1 relaying denied", "sender")
        if request.security == "none" or request.password is None:
            raise _no(530, "5.7.0 authentication required", "auth")
        if (request.username, request.password.reveal) != (own.username, own.password.reveal):
            raise _no(535, "5.7.8 authentication failed", "auth")
        if self.crowded():
            raise _no(421, "4.7.28 too many letters in a minute", "sender")
        try:
            return self._read(request)
        except ValueError as error:
            raise _no(554, f"5.6.0 {error}", "data") from error

    def yes(self, seen: fakes.Seen) -> Mailed:
        return Mailed(250, "2.0.0 Ok: queued as FAKE0001")

    def _read(self, request: Mail) -> fakes.Seen:
        letter = parsed(request.content)
        if {each.addr_spec for each in letter["To"].addresses} != {*request.recipients}:
            raise ValueError("To is not who gets it")
        text, html = (_part(letter, kind) for kind in ("plain", "html"))
        page = Page()
        page.feed(html)
        page.close()
        links = [*page.links, *LINK.findall(text), *LINK.findall("".join(page.text))]
        return fakes.Seen(
            at=self.now,
            text="\n".join([letter["Subject"], text, *page.text]).replace("\r", ""),
            links=tuple(links),
            reply_to=letter["References"] or "",
        )


class Page(HTMLParser):
    """What a program draws of the HTML part. Raises ValueError for what many would refuse."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.text: list[str] = []
        self.links: list[str] = []
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names, parents = TAGS.get(tag, (set(), set()))
        if not {name for name, _ in attrs} <= names or (self._open or [""])[-1] not in parents:
            raise ValueError(f"a tag in the wrong place: {self.get_starttag_text()}")
        if href := dict(attrs).get("href"):
            self.links.append(href)
        if tag not in ("meta", "br"):
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open.pop() != tag:
            raise ValueError(f"</{tag}> closes nothing")

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def close(self) -> None:
        super().close()
        if self._open:
            raise ValueError(f"{self._open} stay open")


def parsed(content: bytes) -> EmailMessage:
    """A letter as it went over the wire. Raises ValueError for one that a relay may refuse."""
    if not content.endswith(b"\r\n") or re.search(rb"(?<!\r)\n|\r(?!\n)", content):
        raise ValueError("a line ends otherwise than by CRLF")
    if any(len(line) > LONGEST for line in content.split(b"\r\n")):
        raise ValueError("line too long")
    if len(content) > LARGEST or not content.isascii():
        raise ValueError("too large, or not 7 bit")
    letter = message_from_bytes(content, policy=default)
    assert isinstance(letter, EmailMessage)
    names = letter.keys()
    if not ONCE <= {*names} <= KNOWN or len({*names}) != len(names):
        raise ValueError(f"headers {sorted(names)}")
    if letter.defects or any(part.defects for part in letter.walk()):
        raise ValueError("not well-formed")
    ids = [letter["Message-ID"], letter["References"] or letter["Message-ID"]]
    if len(letter["Subject"]) > 180 or not all(ID.fullmatch(each.strip()) for each in ids):
        raise ValueError("Subject or ids")
    return letter


def _part(letter: EmailMessage, kind: str) -> str:
    kinds = [part.get_content_type() for part in letter.iter_parts()]
    if letter.get_content_type() != "multipart/alternative" or kinds != ["text/plain", "text/html"]:
        raise ValueError(f"{letter.get_content_type()} of {kinds}")
    part = letter.get_body((kind,))
    assert part is not None
    text: Any = part.get_content()
    return str(text)


def _no(code: int, text: str, step: Any) -> fakes.NoError:
    return fakes.NoError(text, Mailed(code, text, step=step))
