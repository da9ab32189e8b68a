"""The part of the book that is made from the receivers: a list, and how a message looks in each.

`pytest tests/test_book_receivers.py --accept` writes it; a page that is stale fails.
"""

import email
import email.policy
import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import httpx
import msgspec
import pytest

from detectors import receivers
from detectors.receivers import Delivered, Handed, Language, Mail, Message
from detectors.routing import Common
from detectors.sample import sample
from ingest.config import Secret
from tests import fakes
from tests.kit_receivers import ROOT, example

PAGES = ROOT / "docs" / "receivers"
MARK = "<!-- rendered -->"
ACCEPT = "pytest tests/test_book_receivers.py --accept"
URL, ZONE = "https://gatewatch.example", "Asia/Shanghai"
AT = datetime(2026, 3, 10, 9, 3, tzinfo=UTC)
BUTTONS = (("ack", f"{URL}/links/FAKE.ack"), ("pause", f"{URL}/links/FAKE.pause"))
LANGUAGES: dict[Language, str] = {"en": "English", "zh": "Chinese"}
SIGNING = ("sign_key", "secrets")
LONG = '案"*<' * 2_000
every = pytest.mark.parametrize("name", receivers.names())


def told(language: Language) -> Message:
    """The alert that all pages show."""
    return sample(language, URL, AT, ZONE, BUTTONS)


def sent(name: str, message: Message) -> tuple[fakes.Seen, Any]:
    """What people see of a message, and the request that brought it."""
    fake = fakes.load(name)
    fake.now = AT
    outcome = fakes.tell(fake, name, message)
    assert isinstance(outcome, Delivered), (outcome, fake.refused)
    return fake.accepted[-1], fake.requests[-1]


def wire(request: Any) -> str:
    """What is sent, laid out for a reader: invisible blanks are spelled."""
    match request:
        case httpx.Request():
            body = json.loads(request.content)
            text = json.dumps(body, ensure_ascii=False, indent=1)
        case Mail():
            letter = email.message_from_bytes(request.content, policy=email.policy.default)
            shown = ("From", "To", "Subject", "In-Reply-To", "References")
            head = [f"{key}: {letter[key]}" for key in shown if letter[key]]
            plain = letter.get_body(("plain",))
            assert plain is not None
            text = "\n".join([*head, "", plain.get_content().strip()])
        case Handed():
            text = f"{request.title}\n\n{request.body}"
        case _:
            raise AssertionError(request)
    return text.replace("\r\n", "\n").replace("\u200b", "\\u200b")


def block(language: str, text: str) -> list[str]:
    """A fenced block, however many back-quotes are in it."""
    fence = "`" * max(3, 1 + max((len(run) for run in _fences(text)), default=0))
    return [f"{fence}{language}", text, fence, ""]


def _fences(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if set(line.strip()) == {"`"}]


def rendered(name: str) -> str:
    """The end of a receiver's page: one alert as it is read, and as it is sent."""
    lines = [
        MARK, "", "## What it looks like", "",
        f"One alert, as `gatewatch test-send` sends it; made by `{ACCEPT}`.", "",
    ]  # fmt: skip
    for language, word in LANGUAGES.items():
        seen, request = sent(name, told(language))
        text = "\n".join(line.rstrip() for line in seen.text.replace("\u200b", "").splitlines())
        lines += [f"As it is read, in {word}:", "", *block("text", text.strip())]
        kind = "json" if isinstance(request, httpx.Request) else "text"
        lines += ["As it is sent:", "", *block(kind, wire(request))]
    return "\n".join(lines).rstrip() + "\n"


@cache
def longest(name: str) -> int:
    """Bytes that are sent of a message whose every part is far too long."""
    parts = tuple((f"{place}{LONG}", LONG) for place in range(30))
    message = replace(
        told("zh"), title=LONG, subject=LONG, respond=LONG, facts=parts, params=parts,
        evidence=(LONG,) * 300,
    )  # fmt: skip
    request = sent(name, message)[1]
    return len(f"{request.title}{request.body}".encode() if isinstance(request, Handed)
               else request.content)  # fmt: skip


def ended(name: str) -> tuple[Delivered, fakes.Seen]:
    """What a service answers to an alert, and how its end is seen a minute later."""
    fake = fakes.load(name)
    begun = fakes.tell(fake, name, told("en"))
    assert isinstance(begun, Delivered)
    over = replace(told("en"), kind="resolved", delivery="dl_2", reply_to=begun.handle)
    fake.now += timedelta(minutes=1)
    assert isinstance(fakes.tell(fake, name, over), Delivered)
    return begun, fake.accepted[-1]


def row(name: str) -> str:
    """A line of the list."""
    module = receivers.load(name, "book")
    manners, (options, _) = module.MANNERS, example(name)
    rates = " and ".join(f"{count} in {seconds:g} s" for count, seconds in manners.limits)
    held_back = [
        f"`{field}`" + (" (signs)" if field in SIGNING else "")
        for field in options.__struct_fields__
        if secret_in(getattr(options, field))
    ]
    begun, over = ended(name)
    yes = "taken: nobody says whether it is shown" if begun.accepted else "its own yes"
    if not manners.digest:
        stands = "the same alert, by its id"
    else:
        stands = "with its beginning" if over.reply_to else "a message of its own"
    repeat = "dropped by its id" if manners.keyed else "marked `(repeat, …)`"
    cells = [f"[{name}]({name}.md)", rates, f"{longest(name):,} B", ", ".join(held_back), yes,
             stands, repeat]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def secret_in(value: object) -> bool:
    """Is it a secret, or does it hold one?"""
    return any(
        isinstance(each, Secret) for each in (value if isinstance(value, tuple) else [value])
    )


def index() -> str:
    """The list in docs/receivers/README.md."""
    head = "receiver", "at most", "longest message", "secrets", "receipt", "the end", "a repeat"
    table = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}", *map(row, receivers.names())]
    said = [
        f"Made from the receivers themselves by `{ACCEPT}`.",
        "The longest message is measured: every part of it is far too long.",
        "Of a rate of four messages or more a quarter is kept for critical alerts.",
    ]
    return "\n".join([MARK, "", "## All receivers", "", *said, "", *table]) + "\n"


def held(page: Any, made: str, accept: bool) -> None:
    """A page ends with what is made, or is made to."""
    text = page.read_text(encoding="utf-8")
    told = text.partition(MARK)[0].rstrip() + "\n\n"
    if accept:
        page.write_text(told + made, encoding="utf-8")
    assert page.read_text(encoding="utf-8") == told + made, f"stale: {ACCEPT}"


@every
def test_the_page_of_a_receiver_ends_with_how_an_alert_looks_there(
    name: str, pytestconfig: pytest.Config
) -> None:
    page = PAGES / f"{name}.md"
    assert page.exists(), f"docs/receivers/{name}.md: no such page"

    held(page, rendered(name), pytestconfig.getoption("--accept"))


def test_the_list_of_receivers_says_what_each_of_them_does(pytestconfig: pytest.Config) -> None:
    held(PAGES / "README.md", index(), pytestconfig.getoption("--accept"))


@every
def test_the_page_of_a_receiver_shows_the_example_that_the_tests_run_on(name: str) -> None:
    page = (PAGES / f"{name}.md").read_text(encoding="utf-8")
    module = receivers.load(name, "book")

    assert module.EXAMPLE.strip() in page
    keys = {field.encode_name for field in msgspec.structs.fields(module.Options)}
    assert [key for key in keys if f"`{key}`" not in page] == []


def test_the_list_describes_the_keys_that_every_receiver_has() -> None:
    page = (PAGES / "README.md").read_text(encoding="utf-8")
    keys = {field.encode_name for field in msgspec.structs.fields(Common)}

    assert [key for key in keys if not re.search(rf"^\| .*`{key}`.* \|", page, re.MULTILINE)] == []


@every
@pytest.mark.parametrize("language", LANGUAGES)
def test_the_alert_of_the_book_arrives_whole_in_every_receiver(
    name: str, language: Language
) -> None:
    message = told(language)

    seen, request = sent(name, message)

    shown = f"{seen.text} {' '.join(seen.links)}".replace("\u200b", "")
    sample_line = "limit=5000"
    wanted = [message.title, message.respond, message.link, *(url for _, url in message.buttons)]
    wanted += [value for pair in message.facts[:4] for value in pair]
    if not isinstance(request, Handed):
        wanted.append(sample_line)
    assert [each for each in wanted if each not in shown] == []
