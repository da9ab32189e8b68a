"""Telegram bot: one message to a chat, with buttons under it.

Plain text with `entities`, never `parse_mode`: nothing has to be escaped, and in `code` and `pre`
no client looks for names, commands or addresses.
https://core.telegram.org/bots/api#sendmessage and https://core.telegram.org/bots/faq (its limits).
"""

import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import httpx
import msgspec

from detectors.phrases import WORDS, Parts, parts
from detectors.receivers import (
    LONGEST_WAIT,
    Delivered,
    Flow,
    Language,
    Manners,
    Message,
    Outcome,
    Refused,
    Retry,
    body,
    judge,
    quoted,
)
from detectors.shorten import fit, plain, utf16
from ingest.config import Secret

EXAMPLE = """
[receivers.ops]
type    = "telegram"
token   = "110201543:FAKE0001gatewatchEXAMPLE"
chat_id = -1001234567890
"""
YES = (200, '{"ok": true, "result": {"message_id": 42, "chat": {"id": -1001234567890}}}')
MANNERS = Manners(limits=((1, 1.0), (15, 60.0)))  # a group takes 20 a minute, a chat 1 a second

LONGEST_URL = 2_000  # characters of a button's address
ROOM = 4_000  # UTF-16 units; above 4 096 the service says that the message is too long
REPAIRED = re.compile(r"too long|parse|entit|button|reply", re.IGNORECASE)  # by sending less
GONE = re.compile(r"chat not found|kicked|not a member|blocked|rights|deactivated", re.IGNORECASE)
CALLS = re.compile(r"([@#/$]|:(?=//)|\.(?=\w))(?=\S)")  # what a client makes a link of
TOKEN = re.compile(r"[0-9]{3,20}:[A-Za-z0-9_-]{20,100}")


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    token: Secret
    chat_id: int | str  # a number, or @name of a public channel
    topic: int | None = None  # of a group with topics: message_thread_id
    api: str = "https://api.telegram.org"  # or a Bot API server of your own

    def __post_init__(self) -> None:
        if not TOKEN.fullmatch(self.token.reveal):
            raise ValueError("a token is digits, ':' and at least 20 letters, from @BotFather")

    @property
    def address(self) -> str:
        return f"{self.api.rstrip('/')}/bot{self.token.reveal}/sendMessage"


@dataclass
class Text:
    """A text that grows, and the entities that lie over it, counted in UTF-16 units."""

    said: str = ""
    entities: list[dict[str, Any]] = field(default_factory=list)

    def add(self, text: str, kind: str = "") -> None:
        if kind and text:
            place = {"offset": utf16(self.said), "length": utf16(text)}
            self.entities.append({"type": kind, **place})
        self.said += text


def deliver(message: Message, options: Options, now: datetime) -> Flow:
    """What the service cannot read goes out once more, without buttons and entities, halved."""
    payload = _payload(message, options, ROOM)
    response = yield _request(payload, options)
    outcome, hint = _read(response, now), ""
    if moved := _moved(response):
        hint = f"the group has become a supergroup: set chat_id = {moved}"
        payload["chat_id"] = moved
        response = yield _request(payload, options)
        outcome = _read(response, now)
    if isinstance(outcome, Refused) and outcome.hint == "too_long":
        bare = _bare(message, options) | {"chat_id": payload["chat_id"]}
        response = yield _request(bare, options)
        outcome = _read(response, now)
    if isinstance(outcome, Delivered):
        return Delivered(hint, outcome.handle)
    return outcome


def _read(response: httpx.Response, now: datetime) -> Outcome:
    answer = body(response)
    ok, code = answer.get("ok"), answer.get("error_code")
    if response.status_code == 200 and ok is True:
        result = answer.get("result")
        handle = result.get("message_id") if isinstance(result, dict) else None
        return Delivered(handle=str(handle) if type(handle) is int else "")
    if ok is not False or not isinstance(code, int):  # a proxy's page, or nothing
        return judge(response, now) or Retry(f"answered {quoted(response)}", "other")
    said = plain(str(answer.get("description", "no description")))[:200]
    reason = f"error_code {code}: {said}"
    if code == 429:
        return Retry(reason, "rateLimited", _named(answer))
    if code >= 500:
        return Retry(reason, "serverError")
    if code in (401, 403, 404) or GONE.search(said):
        return Refused(reason, "authError", "token" if code in (401, 404) else "chat")
    return Refused(reason, "clientError", "too_long" if REPAIRED.search(said) else "")


def _named(answer: dict[str, Any]) -> float | None:
    """Seconds that the service asks to be left alone for."""
    parameters = answer.get("parameters")
    after = parameters.get("retry_after") if isinstance(parameters, dict) else None
    if not isinstance(after, int | float) or isinstance(after, bool) or not after >= 0:  # or NaN
        return None
    return float(min(after, LONGEST_WAIT))


def _moved(response: httpx.Response) -> int | None:
    """The id that a group has had since it became a supergroup."""
    parameters = body(response).get("parameters")
    found = parameters.get("migrate_to_chat_id") if isinstance(parameters, dict) else None
    return found if type(found) is int else None


def _request(payload: dict[str, Any], options: Options) -> httpx.Request:
    return httpx.Request("POST", options.address, json=payload)


def _payload(message: Message, options: Options, room: int) -> dict[str, Any]:
    shown, verbatim = parts(message, _loose), parts(message, plain)
    links = [(shown.open_link, message.link), *shown.buttons]
    buttons = [{"text": label, "url": url} for label, url in links if _opens(url)]
    tail = "" if _opens(message.link) else f"\n{shown.open_link}: {message.link}"
    text = _text(shown, verbatim, message.language, room - utf16(tail))
    rows = [buttons[place : place + 2] for place in range(0, len(buttons), 2)]
    return {
        **_where(message, options),
        "text": text.said + tail,
        "entities": text.entities,
        **({"reply_markup": {"inline_keyboard": rows}} if rows else {}),
    }


def _bare(message: Message, options: Options) -> dict[str, Any]:
    """The same with nothing that a service could trip over; the link stands in the text."""
    worded = parts(message, _loose)
    text = _text(worded, worded, message.language, ROOM // 2)
    return _where(message, options) | {"text": f"{text.said}\n{worded.open_link}: {message.link}"}


def _opens(url: str) -> bool:
    """May a button lead there? A host without a dot, such as localhost, spoils the message."""
    return "." in httpx.URL(url).host and len(url) <= LONGEST_URL


def _where(message: Message, options: Options) -> dict[str, Any]:
    found: dict[str, Any] = {
        "chat_id": options.chat_id,
        "link_preview_options": {"is_disabled": True},
    }
    if options.topic is not None:
        found["message_thread_id"] = options.topic
    if message.reply_to.isdecimal():
        reply = {"message_id": int(message.reply_to), "allow_sending_without_reply": True}
        found["reply_parameters"] = reply
    return found


def _text(shown: Parts, verbatim: Parts, language: Language, room: int) -> Text:
    """State and title bold, what logs say in `code`, the lines that a cut may take in `pre`."""
    text = Text()
    text.add(f"{shown.dot} ")
    text.add(shown.state, "bold")
    text.add(f" {shown.notes}" if shown.notes else "")
    text.add("\n")
    text.add(shown.title, "bold")
    text.add(f"\n{shown.about}\n{shown.when}\n")
    for (name, _), (_, value) in zip(shown.facts, verbatim.facts, strict=True):
        text.add(f"{name}{WORDS[language][':']}")
        text.add(value, "code")
        text.add("\n")
    room -= utf16(text.said)
    lines = fit(verbatim.lines, verbatim.total, room, lambda line: utf16(line) + 1, verbatim.rest)
    text.add("\n".join(lines), "pre")
    text.said = text.said.rstrip("\n")
    return text


def _loose(text: str) -> str:
    """For text that a client looks through: no name, command, tag or address in it."""
    return CALLS.sub("\\1\u200b", plain(text)).strip()
