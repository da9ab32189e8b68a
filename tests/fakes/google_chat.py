"""Google Chat's webhooks: spaces.messages.create of developers.google.com/workspace/chat.

A field that it does not know is an error; a request id that it has seen posts nothing again; more
widgets than a card may have are not shown.
"""

import html
import re
from dataclasses import replace
from typing import Any

import httpx

from tests import fakes

LARGEST = 32_000  # bytes, text and cards together
WIDGETS = 100
TAG = re.compile(r"<(/?)(\w+)([^<>]*)>")
HREF = re.compile(r"""<a\s[^<>]*href=["']?([^"'\s>]+)""")
BOLD = re.compile(r"<b>(.*?)</b>")
URL = re.compile(r"""(?<!["'=])(?:https?://|\bwww\.)[^\s<>"']+""")
KNOWN = {"b", "i", "u", "s", "font", "a", "br"}
BUTTON = fakes.table(
    {"text": fakes.text(),
     "onClick": fakes.table({"openLink": fakes.table(
         {"url": {"type": "string", "pattern": r"^https?://\S+$"}})})}
)  # fmt: skip
WIDGET = {
    "oneOf": [
        fakes.table({"textParagraph": fakes.table({"text": fakes.text()})}),
        fakes.table({"decoratedText": fakes.table(
            {"text": fakes.text()}, topLabel=fakes.text(), wrapText={"type": "boolean"})}),
        fakes.table({"buttonList": fakes.table(
            {"buttons": {"type": "array", "minItems": 1, "items": BUTTON}})}),
    ]
}  # fmt: skip
SECTION = fakes.table(
    {"widgets": {"type": "array", "minItems": 1, "items": WIDGET}},
    header=fakes.text(), collapsible={"type": "boolean"},
    uncollapsibleWidgetsCount={"type": "integer", "minimum": 0},
)  # fmt: skip
CARD = fakes.table(
    {"sections": {"type": "array", "minItems": 1, "items": SECTION}},
    header=fakes.table({"title": fakes.text()}, subtitle=fakes.text()),
)
SCHEMA = fakes.table(
    {},
    text=fakes.text(),
    fallbackText=fakes.text(),
    thread=fakes.table({"threadKey": fakes.text(4_000)}),
    cardsV2={"type": "array", "items": fakes.table({"cardId": fakes.text(), "card": CARD})},
)


class Fake(fakes.Fake):
    """One webhook of one space. `threads`: the messages of each, by its key; new ones have none."""

    limits = ((60, 60.0),)

    def __init__(self, options: Any = None) -> None:
        super().__init__(options)
        self.seen: dict[str, str] = {}
        self.threads: dict[str, list[str]] = {}

    def take(self, request: httpx.Request) -> fakes.Seen:
        own, url = httpx.URL(self.options.address), request.url
        if request.method != "POST" or (url.host, url.path) != (own.host, own.path):
            raise _no(404, "NOT_FOUND", "Requested entity was not found.")
        if any(url.params.get_list(key) != [own.params[key]] for key in ("key", "token")):
            raise _no(403, "PERMISSION_DENIED", "The caller does not have permission")
        if self.crowded():
            raise _no(429, "RESOURCE_EXHAUSTED", "Resource has been exhausted (e.g. check quota).")
        if len(request.content) > LARGEST:
            raise _no(400, "INVALID_ARGUMENT", "Message cannot have more than 32000 bytes")
        try:
            payload = fakes.json_of(request)
            fakes.check(payload, SCHEMA)
        except ValueError as error:
            raise _no(400, "INVALID_ARGUMENT", f"Invalid JSON payload: {error}") from error
        if not payload.get("text") and not payload.get("cardsV2"):
            raise _no(400, "INVALID_ARGUMENT", "Message cannot be empty")
        name = url.params.get("requestId", "")
        if name in self.seen:
            raise fakes.NoError("seen before", httpx.Response(200, json={"name": self.seen[name]}))
        seen = self._seen(payload, f"spaces/FAKE0001/messages/M{len(self.accepted)}")
        self.seen |= {name: seen.handle} if name else {}
        key = payload.get("thread", {}).get("threadKey", "")
        if not key or not url.params.get("messageReplyOption", "").startswith("REPLY_MESSAGE"):
            return seen
        thread = self.threads.setdefault(key, [])
        thread.append(seen.handle)
        return replace(seen, reply_to=thread[0] if len(thread) > 1 else "")

    def yes(self, seen: fakes.Seen) -> httpx.Response:
        return httpx.Response(200, json={"name": seen.handle, "thread": {}})

    def _seen(self, payload: Any, handle: str) -> fakes.Seen:
        """Chat text knows <users/all>; a card reads HTML; a header reads nothing."""
        chat = [payload.get("text", ""), payload.get("fallbackText", "")]
        plain, texts, buttons = list[str](), list[str](), list[Any]()
        for card in (each["card"] for each in payload.get("cardsV2", ())):
            plain += card.get("header", {}).values()
            left = WIDGETS
            for section in card["sections"]:
                left -= len(section["widgets"])
                for widget in section["widgets"] if left >= 0 else ():
                    [inner] = widget.values()
                    buttons += inner.get("buttons", ())
                    texts += [inner[key] for key in ("topLabel", "text") if key in inner]
        foreign = [found[0] for text in texts for found in TAG.finditer(text)
                   if found[2] not in KNOWN]  # fmt: skip
        shown = [html.unescape(TAG.sub("", text.replace("<br>", "\n"))) for text in texts]
        pinged = [name for text in [*chat, *texts] for name in re.findall(r"<users/[^>]*>", text)]
        links = [link for text in texts for each in (HREF, URL) for link in each.findall(text)]
        links += [link for text in chat for link in URL.findall(text)]
        return fakes.Seen(
            at=self.now,
            text="\n".join([*plain, *shown, *(each["text"] for each in buttons)]),
            pinged=tuple(pinged),
            links=(*links, *(each["onClick"]["openLink"]["url"] for each in buttons)),
            marks=(*foreign, *(mark for text in texts for mark in BOLD.findall(text))),
            handle=handle,
        )


def _no(code: int, status: str, message: str) -> fakes.NoError:
    error = {"code": code, "message": message, "status": status}
    return fakes.NoError(message, httpx.Response(code, json={"error": error}))
