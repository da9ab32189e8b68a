"""Slack's incoming webhooks, as docs.slack.dev has them: Block Kit's limits, one message a second.

Answers are words: changelog 2016-05-17. The sum over all blocks is that of bolt-js issue 2867.
"""

import html
import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import httpx

from detectors.shorten import utf16
from tests import fakes

URL = re.compile(r"https?://[^\s<>|]+")
MARK = re.compile(r"<([^<>|]+)(?:\|([^<>]*))?>")
STRONG = re.compile(r"(?<![\w*])\*(\S(?:[^*\n]*\S)?)\*(?![\w*])")
MOST = 11_341  # characters of all blocks together
PLAIN = {"type": {"const": "plain_text"}}
MARKDOWN = {"type": {"const": "mrkdwn"}}
FLAG = {"type": "boolean"}


def _text(most: int, *, plain: bool = False) -> dict[str, Any]:
    said = fakes.table({**PLAIN, "text": fakes.text(most)}, emoji=FLAG)
    marked = fakes.table({**MARKDOWN, "text": fakes.text(most)}, verbatim=FLAG)
    return said if plain else {"anyOf": [said, marked]}


def _list(item: Any, most: int) -> dict[str, Any]:
    return {"type": "array", "items": item, "minItems": 1, "maxItems": most}


BUTTON = fakes.table(
    {"type": {"const": "button"}, "text": _text(75, plain=True)},
    url={"type": "string", "pattern": r"^https?://\S+$", "maxLength": 3_000},
    style={"enum": ["primary", "danger"]},
    action_id=fakes.text(255),
    value=fakes.text(2_000),
)
BLOCKS = {
    "header": fakes.table({"type": {}, "text": _text(150, plain=True)}),
    "context": fakes.table({"type": {}, "elements": _list(_text(3_000), 10)}),
    "actions": fakes.table({"type": {}, "elements": _list(BUTTON, 25)}),
    "divider": fakes.table({"type": {}}),
    "section": {
        "anyOf": [
            fakes.table({"type": {}, "text": _text(3_000)}, fields=_list(_text(2_000), 10)),
            fakes.table({"type": {}, "fields": _list(_text(2_000), 10)}),
        ]
    },
}
BAR = fakes.table(
    {"blocks": {"type": "array"}},
    color={"type": "string", "pattern": "^#[0-9a-fA-F]{6}$|^(good|warning|danger)$"},
    fallback=fakes.text(),
)
SCHEMA = fakes.table(
    {},
    text=fakes.text(40_000),
    blocks={"type": "array", "maxItems": 50},
    attachments={"type": "array", "maxItems": 100, "items": BAR},
    mrkdwn=FLAG,
    unfurl_links=FLAG,
    unfurl_media=FLAG,
)


class Fake(fakes.Fake):
    """One channel of one workspace."""

    limits = ((3, 3.0),)

    def take(self, request: httpx.Request) -> fakes.Seen:
        if request.method != "POST" or str(request.url) != self.options.address:
            raise _no(404, "no_service")
        if self.crowded():
            ready = self.arrived[-4] + timedelta(seconds=3) - self.now
            raise _no(429, "rate_limited", str(max(1, -int(-ready.total_seconds()))))
        try:
            payload = fakes.json_of(request)
            fakes.check(payload, SCHEMA)
        except ValueError as error:
            raise _no(400, "invalid_payload", why=str(error)) from error
        blocks = payload.get("blocks", [])
        below = [block for bar in payload.get("attachments", []) for block in bar["blocks"]]
        if not payload.get("text") and not blocks and not below:
            raise _no(400, "no_text")
        _judge(blocks, "invalid_blocks")
        _judge(below, "invalid_attachments")
        said = [*_said([*blocks, *below])]
        if sum(utf16(each["text"]) for each in said) > MOST:
            raise _no(400, "msg_blocks_too_long")
        kind = "mrkdwn" if payload.get("mrkdwn", True) else "text"
        fallback = {"type": kind, "text": payload.get("text", "")}
        return self._seen(said or [fallback], fallback, [*blocks, *below])

    def yes(self, seen: fakes.Seen) -> httpx.Response:
        return httpx.Response(200, text="ok")

    def _seen(self, said: list[Any], fallback: Any, blocks: list[Any]) -> fakes.Seen:
        """The fallback is shown in notifications: it must ping nobody either."""
        texts, pinged, links, marks = [], list[str](), list[str](), list[str]()
        for each in [*said, fallback]:
            text = each["text"]
            for target, label in MARK.findall(text):
                (pinged if target[0] in "!@#" else links).append(html.unescape(target))
                text = text.replace(f"<{target}|{label}>", label).replace(f"<{target}>", target)
            if each["type"] == "mrkdwn":
                marks += STRONG.findall(text)
            if each["type"] != "plain_text" and not each.get("verbatim"):
                links += URL.findall(text)
            texts.append(html.unescape(text))
        buttons = [element for block in blocks if block["type"] == "actions"
                   for element in block["elements"]]  # fmt: skip
        links += [button["url"] for button in buttons]
        shown = texts[: len(said)]
        return fakes.Seen(self.now, "\n".join(shown), tuple(pinged), tuple(links), tuple(marks))


def _judge(blocks: list[Any], word: str) -> None:
    for block in blocks:
        kind = block.get("type") if isinstance(block, dict) else None
        try:
            fakes.check(block, BLOCKS.get(str(kind), False))
        except ValueError as error:
            raise _no(400, word, why=f"{kind}: {error}") from error


def _said(value: Any) -> Iterator[Any]:
    """Every text object, top to bottom."""
    if isinstance(value, dict) and value.get("type") in ("plain_text", "mrkdwn"):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _said(inner)


def _no(status: int, word: str, after: str = "", why: str = "") -> fakes.NoError:
    headers = {"retry-after": after} if after else {}
    return fakes.NoError(f"{word} {why}", httpx.Response(status, text=word, headers=headers))
