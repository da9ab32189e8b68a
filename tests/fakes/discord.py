"""Discord's webhooks, as docs.discord.com has them: every limit of an embed in UTF-16 units.

Two rates were seen and are not promised: 5 in 2 seconds of a webhook, 30 a minute of a channel.
"""

import re
from datetime import timedelta
from typing import Any

import httpx

from detectors.shorten import utf16
from tests import fakes
from tests.kit_markdown import FENCE, draw

URL = re.compile(r"(?<!\]\()https?://[^\s<>()]+")
BARE = re.compile(r"<(https?://[^\s<>|]+)>")
WEB = {"type": "string", "pattern": r"^https?://[^\s/]+\.[^\s]+$", "maxLength": 2_048}
FIELD = fakes.table({"name": fakes.text(), "value": fakes.text()}, inline={"type": "boolean"})
EMBED = fakes.table(
    {},
    title=fakes.text(),
    description=fakes.text(),
    url=WEB,
    color={"type": "integer", "minimum": 0, "maximum": 0xFFFFFF},
    fields={"type": "array", "maxItems": 25, "items": FIELD},
    footer=fakes.table({"text": fakes.text()}),
    author=fakes.table({"name": fakes.text()}, url=WEB),
    timestamp=fakes.text(),
)
BUTTON = fakes.table(
    {"type": {"const": 2}, "style": {"const": 5}, "label": fakes.text(80),
     "url": WEB | {"maxLength": 512}}
)  # fmt: skip
ROW = fakes.table(
    {"type": {"const": 1},
     "components": {"type": "array", "minItems": 1, "maxItems": 5, "items": BUTTON}}
)  # fmt: skip
SCHEMA = fakes.table(
    {},
    content={"type": "string"},
    username=fakes.text(80),
    embeds={"type": "array", "maxItems": 10, "items": EMBED},
    components={"type": "array", "maxItems": 5, "items": ROW},
    allowed_mentions=fakes.table({"parse": {"type": "array", "items": {"type": "string"}}}),
)
MOST = {"content": 2_000, "title": 256, "description": 4_096, "name": 256, "value": 1_024,
        "text": 2_048}  # fmt: skip
SUM = 6_000  # of all embeds together


class Fake(fakes.Fake):
    """One webhook of one channel."""

    limits = ((5, 2.0), (30, 60.0))

    def take(self, request: httpx.Request) -> fakes.Seen:
        own, url = httpx.URL(self.options.address), request.url
        if request.method != "POST" or (url.host, url.path) != (own.host, own.path):
            raise _no(404, 10015, "Unknown Webhook")
        if self.crowded():
            raise self._busy()
        try:
            payload = fakes.json_of(request)
            fakes.check(payload, SCHEMA)
            _sizes(payload)
        except ValueError as error:
            raise _no(400, 50035, f"Invalid Form Body: {error}") from error
        if url.params.get("with_components") != "true":
            payload.pop("components", None)  # taken, and not shown
        if not any(payload.get(key) for key in ("content", "embeds", "components")):
            raise _no(400, 50006, "Cannot send an empty message")
        waits = url.params.get("wait") == "true"
        return self._seen(payload, str(10**18 + len(self.accepted)) if waits else "")

    def yes(self, seen: fakes.Seen) -> httpx.Response:
        if not seen.handle:
            return httpx.Response(204)
        return httpx.Response(200, json={"id": seen.handle, "type": 0, "content": ""})

    def _busy(self) -> fakes.NoError:
        """How long to wait is told as a fraction of a second, and in whole ones in the header."""
        waits = [
            (self.arrived[-count - 1] + timedelta(seconds=seconds) - self.now).total_seconds()
            for count, seconds in self.limits
            if len(self.arrived) > count
        ]
        after = max(0.25, *waits)
        told = {"message": "You are being rate limited.", "retry_after": after, "global": False}
        headers = {"retry-after": str(int(after) + 1), "x-ratelimit-remaining": "0"}
        return fakes.NoError("too many", httpx.Response(429, json=told, headers=headers))

    def _seen(self, payload: Any, handle: str) -> fakes.Seen:
        """Embeds ping nobody; content does, unless `allowed_mentions` says nobody."""
        shown = [payload.get("content", "")]
        links: list[str] = []
        for embed in payload.get("embeds", ()):
            shown += [embed.get("title", ""), embed.get("description", "")]
            shown += [each[key] for each in embed.get("fields", ()) for key in ("name", "value")]
            links += [embed["url"]] if "url" in embed else []
        shown = [BARE.sub(r"\1", text) for text in shown]  # a link without a preview
        drawn = [draw(text, fences=True) for text in shown]
        quiet = payload.get("allowed_mentions") == {"parse": []}
        tags = [tag for each in drawn for tag in each.tags]
        texts = [each.text for each in drawn]
        texts += [embed["footer"]["text"] for embed in payload.get("embeds", ())
                  if "footer" in embed]  # fmt: skip
        buttons = [each for row in payload.get("components", ()) for each in row["components"]]
        return fakes.Seen(
            at=self.now,
            text="\n".join([*texts, *(each["label"] for each in buttons)]),
            pinged=() if quiet else (*drawn[0].mentions, *tags),
            links=(
                *links,
                *(link for each in drawn for link in each.links),
                *(link for text in shown for link in URL.findall(FENCE.sub("", text))),
                *(each["url"] for each in buttons),
            ),
            marks=(*tags, *(mark for each in drawn for mark in (*each.strong, *each.headings))),
            handle=handle,
        )


def _sizes(payload: Any) -> None:
    """Raises ValueError for the first text that has too many UTF-16 units, or nothing to see."""
    if utf16(payload.get("content", "")) > MOST["content"]:
        raise ValueError("content: Must be 2000 or fewer in length.")
    total = 0
    for embed in payload.get("embeds", ()):
        parts = [embed, *embed.get("fields", ()), embed.get("footer", {})]
        for key, value in ((key, each[key]) for each in parts for key in MOST if key in each):
            if utf16(value) > MOST[key] or not value.strip():
                raise ValueError(f"{key}: BASE_TYPE_BAD_LENGTH, {utf16(value)}")
            total += utf16(value)
    if total > SUM:
        raise ValueError(f"embeds: MAX_EMBED_SIZE_EXCEEDED, {total}")


def _no(status: int, code: int, text: str) -> fakes.NoError:
    return fakes.NoError(text, httpx.Response(status, json={"message": text, "code": code}))
