"""Telegram's Bot API, sendMessage, as https://core.telegram.org/bots/api#sendmessage has it.

Lengths and places are UTF-16 units. Text outside `code` and `pre` is searched by every client for
@names, /commands, #tags and addresses, and what is found can be clicked. A button may lead only to
a host with a dot in its name (rubenlagus/TelegramBots #302).
"""

import re
from typing import Any

import httpx

from tests import fakes

LONGEST = 4_096
AUTO = re.compile(r"(?<![\w/])[#/$][A-Za-z_]\w*|(?<!\w)(?:https?|tg)://\S+|(?<![\w@.])(?:[\w-]+\.)+"
                  r"(?:com|net|org|example|io|cn|py|sh|zip|md)\b")  # fmt: skip
NAMED = re.compile(r"(?<!\w)@\w{2,}")
INTEGER, TRUE = {"type": "integer"}, {"const": True}
ENTITY = fakes.table(
    {
        "type": {"enum": ["bold", "italic", "code", "pre", "blockquote", "expandable_blockquote",
                          "text_link", "underline", "strikethrough"]},
        "offset": {"type": "integer", "minimum": 0},
        "length": {"type": "integer", "minimum": 1},
    },
    url=fakes.text(),
)  # fmt: skip
BUTTON = fakes.table({"text": fakes.text(), "url": fakes.text(2_048)})
ROW = {"type": "array", "items": BUTTON, "minItems": 1, "maxItems": 8}
SCHEMA = fakes.table(
    {"chat_id": {"type": ["integer", "string"]}, "text": {"type": "string"}},
    entities={"type": "array", "items": ENTITY, "maxItems": 100},
    reply_markup=fakes.table({"inline_keyboard": {"type": "array", "items": ROW}}),
    reply_parameters=fakes.table({"message_id": INTEGER}, allow_sending_without_reply=TRUE),
    link_preview_options=fakes.table({"is_disabled": TRUE}),
    message_thread_id=INTEGER,
    disable_notification={"type": "boolean"},
)


class Fake(fakes.Fake):
    """A bot in one supergroup."""

    limits = ((1, 1.0), (20, 60.0))

    def __init__(self, options: Any = None) -> None:
        super().__init__(options)
        self.chat = self.options.chat_id
        self.moved_from: int | None = None  # the id that the group had as a plain group
        self.kicked = False

    def take(self, request: httpx.Request) -> fakes.Seen:
        if request.url.host != "api.telegram.org" or request.method != "POST":
            raise fakes.NoError("no such page", httpx.Response(404, text="<html>404</html>"))
        if request.url.raw_path.decode() != f"/bot{self.options.token.reveal}/sendMessage":
            raise _no(401, "Unauthorized")
        try:
            body = fakes.json_of(request)
            fakes.check(body, SCHEMA)
        except ValueError as error:
            raise _no(400, f"Bad Request: {error}") from error
        self._admitted(str(body["chat_id"]))
        if self.crowded():
            raise _no(429, "Too Many Requests: retry after 7", retry_after=7)
        return self._read(body)

    def yes(self, seen: fakes.Seen) -> httpx.Response:
        said = {"message_id": int(seen.handle), "chat": {"id": self.chat}, "text": seen.text}
        return httpx.Response(200, json={"ok": True, "result": said})

    def _admitted(self, chat: str) -> None:
        if chat == str(self.moved_from):
            said = "Bad Request: group chat was upgraded to a supergroup chat"
            raise _no(400, said, migrate_to_chat_id=self.chat)
        if chat != str(self.chat):
            raise _no(400, "Bad Request: chat not found")
        if self.kicked:
            raise _no(403, "Forbidden: bot was kicked from the supergroup chat")

    def _read(self, body: dict[str, Any]) -> fakes.Seen:
        units = body["text"].encode("utf-16-le")
        if not body["text"].strip():
            raise _no(400, "Bad Request: message text is empty")
        if len(units) // 2 > LONGEST:
            raise _no(400, "Bad Request: message is too long")
        entities = body.get("entities", [])
        parts = [_part(units, each) for each in entities]
        rows = body.get("reply_markup", {}).get("inline_keyboard", [])
        buttons = [button for row in rows for button in row]
        for button in buttons:
            _openable(button["url"])
        loose = _outside(units, entities)
        linked = (each["url"] for each in entities if each["type"] == "text_link")
        return fakes.Seen(
            at=self.now,
            text="\n".join([body["text"], *(button["text"] for button in buttons)]),
            pinged=tuple(NAMED.findall(loose)),
            links=(*linked, *(button["url"] for button in buttons), *AUTO.findall(loose)),
            marks=tuple(parts),
            handle=str(len(self.accepted) + 1),
            reply_to=self._answered(body.get("reply_parameters")),
        )

    def _answered(self, said: dict[str, Any] | None) -> str:
        """The message that is answered; one that is gone is let be, when the request says so."""
        if said is None:
            return ""
        if 1 <= said["message_id"] <= len(self.accepted):
            return str(said["message_id"])
        if said.get("allow_sending_without_reply"):
            return ""
        raise _no(400, "Bad Request: message to be replied not found")


def _part(units: bytes, entity: dict[str, Any]) -> str:
    """What an entity covers. Raises NoError when it is not whole characters of the text."""
    begin, end = entity["offset"] * 2, (entity["offset"] + entity["length"]) * 2
    try:
        if end > len(units):
            raise ValueError("beyond the end")
        return units[begin:end].decode("utf-16-le")
    except ValueError as error:
        raise _no(400, f"Bad Request: can't parse entities: {error}") from error


def _outside(units: bytes, entities: list[dict[str, Any]]) -> str:
    """The text that a client looks through for names and addresses: all but code."""
    left = bytearray(units)
    for each in entities:
        if each["type"] in ("code", "pre"):
            begin, end = each["offset"] * 2, (each["offset"] + each["length"]) * 2
            left[begin:end] = "\n".encode("utf-16-le") * each["length"]
    return bytes(left).decode("utf-16-le")


def _openable(url: str) -> None:
    found = httpx.URL(url)
    if found.scheme not in ("http", "https") or "." not in found.host:
        said = f"Bad Request: inline keyboard button URL '{url}' is invalid: Wrong HTTP URL"
        raise _no(400, said)


def _no(code: int, text: str, **parameters: int) -> fakes.NoError:
    answer: dict[str, Any] = {"ok": False, "error_code": code, "description": text}
    if parameters:
        answer["parameters"] = parameters
    return fakes.NoError(text, httpx.Response(code, json=answer))
