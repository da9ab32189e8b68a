"""Feishu's and Lark's custom bot, as https://open.feishu.cn/document/client-docs/bot-v3/add-custom-bot
has it.

Code 9499 means two things: a bad request, and with HTTP 400 too many requests. Cards are read as
https://open.feishu.cn/document/uAjLw4CM/ukzMukzMukzM/feishu-cards/card-json-structure (JSON 1.0).
"""

import base64
import hashlib
import hmac
import re
from datetime import timedelta
from typing import Any

import httpx

from tests import fakes
from tests.kit_markdown import draw

LARGEST = 20 * 1024  # bytes of a body
HOUR = timedelta(hours=1)
SECONDLY, MINUTELY = (5, 1.0), (100, 60.0)
TEMPLATES = ["blue", "wathet", "turquoise", "green", "yellow", "orange", "red", "carmine",
             "violet", "purple", "indigo", "grey"]  # fmt: skip
PLAIN = fakes.table({"tag": {"const": "plain_text"}, "content": fakes.text()})
TEXT = fakes.table({"tag": {"enum": ["plain_text", "lark_md"]}, "content": fakes.text()})
FIELD = fakes.table({"is_short": {"type": "boolean"}, "text": TEXT})
BUTTON = fakes.table(
    {"tag": {"const": "button"}, "text": PLAIN},
    url={"type": "string", "pattern": "^https?://"},
    type={"enum": ["default", "primary", "danger"]},
)
ELEMENTS = [
    fakes.table({"tag": {"const": "div"}, "text": TEXT}),
    fakes.table(
        {"tag": {"const": "div"}, "fields": {"type": "array", "items": FIELD, "minItems": 1}}
    ),
    fakes.table({"tag": {"const": "hr"}}),
    fakes.table(
        {"tag": {"const": "action"}, "actions": {"type": "array", "items": BUTTON, "minItems": 1}}
    ),
    fakes.table(
        {"tag": {"const": "note"}, "elements": {"type": "array", "items": TEXT, "minItems": 1}}
    ),
]
CARD = fakes.table(
    {"elements": {"type": "array", "items": {"oneOf": ELEMENTS}, "minItems": 1}},
    config=fakes.table({"wide_screen_mode": {"type": "boolean"}}),
    header=fakes.table({"title": PLAIN}, template={"enum": TEMPLATES}),
)
SIGNED = {"timestamp": {"type": "string"}, "sign": {"type": "string"}}
AT = re.compile(r"<at\b[^>]*>")


class Fake(fakes.Fake):
    """A bot that demands both a signature and a keyword."""

    limits = (SECONDLY, MINUTELY)

    def take(self, request: httpx.Request) -> fakes.Seen:
        if (request.method, str(request.url)) != ("POST", self.options.address):
            raise _no(19001, "param invalid: incoming webhook access token invalid")
        if self.crowded():
            burst = sum(self.now - at < timedelta(seconds=1) for at in self.arrived) > SECONDLY[0]
            raise _no(9499, "too many request", 400) if burst else _no(11232, "frequency limited")
        if len(request.content) > LARGEST:
            raise _no(9499, "Bad Request")
        try:
            body = fakes.json_of(request)
            if not isinstance(body, dict):
                raise ValueError("not an object")
        except ValueError as error:
            raise _no(9499, f"Bad Request: {error}") from error
        self._signed(body)
        try:
            return self._read(body)
        except ValueError as error:
            raise _no(11246, f"parse card json err: {error}") from error

    def yes(self, seen: fakes.Seen) -> httpx.Response:
        answer = {"StatusCode": 0, "StatusMessage": "success", "code": 0, "data": {}}
        return httpx.Response(200, json=answer | {"msg": "success"})

    def _signed(self, body: dict[str, Any]) -> None:
        """The time is a text of seconds, and key and message change places against DingTalk."""
        if self.options.sign_key is None:
            return
        said = body.get("timestamp")
        fresh = isinstance(said, str) and said.isdecimal()
        if not fresh or abs(float(said or 0) - self.now.timestamp()) > HOUR.total_seconds():
            raise _no(
                19021, "sign match fail or timestamp is not within one hour from current time"
            )
        key = f"{said}\n{self.options.sign_key.reveal}".encode()
        if body.get("sign") != base64.b64encode(hmac.digest(key, b"", hashlib.sha256)).decode():
            raise _no(
                19021, "sign match fail or timestamp is not within one hour from current time"
            )

    def _read(self, body: dict[str, Any]) -> fakes.Seen:
        shape = {"msg_type": {"const": "interactive"}, "card": CARD}
        fakes.check(body, fakes.table(shape, **SIGNED))
        card = body["card"]
        shown: list[str] = [card["header"]["title"]["content"]] if "header" in card else []
        links: list[str] = []
        pinged: list[str] = []
        marks: list[str] = []
        for each in _texts(card["elements"]):
            if each["tag"] == "plain_text":
                shown.append(each["content"])
                continue
            drawn = draw(each["content"], escapes=False)
            shown.append(drawn.text)
            links += drawn.links
            pinged += AT.findall(each["content"])
            marks += (*drawn.strong, *drawn.tags)
        links += (button["url"] for each in card["elements"] for button in each.get("actions", ())
                  if "url" in button)  # fmt: skip
        if not any(self.options.keyword in each for each in shown):
            raise _no(19024, "Key Words Not Found")
        return fakes.Seen(
            self.now, "\n".join(shown), tuple(pinged), tuple(links), marks=tuple(marks)
        )


def _texts(value: Any) -> list[dict[str, Any]]:
    """Every text of a card, top to bottom."""
    if isinstance(value, list):
        return [found for each in value for found in _texts(each)]
    if not isinstance(value, dict):
        return []
    if "content" in value:
        return [value]
    return [found for each in value.values() for found in _texts(each)]


def _no(code: int, text: str, status: int = 200) -> fakes.NoError:
    answer = httpx.Response(status, json={"code": code, "msg": text, "data": {}})
    return fakes.NoError(f"{code}: {text}", answer)
