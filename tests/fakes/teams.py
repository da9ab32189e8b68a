"""Teams behind a Workflow, and behind a connector of the retired kind.

A flow says 202 and posts afterwards: what it cannot post is gone, and nobody is told. The connector
says yes and no with status 200. Sources: learn.microsoft.com, "Microsoft Teams" connector and
"Create Incoming Webhooks"; msteams-docs issues 402 and 11274; AdaptiveCards issues 8804 and 8965.
"""

import json
from typing import Any

import httpx

from tests import fakes
from tests.kit_markdown import draw

LARGEST = 28 * 1024  # bytes of what is posted, everything counted
SUBTLE = {"type": "boolean"}
FONT = {"enum": ["Default", "Monospace"]}
WEIGHT = {"enum": ["Default", "Lighter", "Bolder"]}
SPACING = {"enum": ["None", "Small", "Default", "Medium", "Large"]}
LIST = {"type": "array", "minItems": 1}
RUN = fakes.table({"type": {"const": "TextRun"}, "text": fakes.text()},
                  weight=WEIGHT, isSubtle=SUBTLE, fontType=FONT)  # fmt: skip
FACT = fakes.table({"title": fakes.text(), "value": fakes.text()})
PARTS = {
    "TextBlock": fakes.table(
        {"type": {}, "text": fakes.text()}, weight=WEIGHT, isSubtle=SUBTLE, fontType=FONT,
        spacing=SPACING, separator=SUBTLE, wrap=SUBTLE,
        size={"enum": ["Small", "Default", "Medium", "Large"]},
    ),
    "RichTextBlock": fakes.table(
        {"type": {}, "inlines": LIST | {"items": RUN}}, spacing=SPACING, separator=SUBTLE
    ),
    "FactSet": fakes.table({"type": {}, "facts": LIST | {"items": FACT}}),
    "Container": fakes.table(
        {"type": {}, "items": LIST}, bleed=SUBTLE,
        style={"enum": ["default", "emphasis", "good", "attention", "warning", "accent"]},
    ),
}  # fmt: skip
ACTION = fakes.table(
    {"type": {"const": "Action.OpenUrl"}, "title": fakes.text(),
     "url": {"type": "string", "pattern": r"^https?://\S+$"}}
)  # fmt: skip
CARD = fakes.table(
    {"type": {"const": "AdaptiveCard"}, "version": {"enum": ["1.0", "1.1", "1.2", "1.3", "1.4"]},
     "body": LIST},
    actions={"type": "array", "maxItems": 6, "items": ACTION},
    msteams=fakes.table({"width": {"const": "Full"}}),
    **{"$schema": {"const": "http://adaptivecards.io/schemas/adaptive-card.json"}},
)  # fmt: skip
SCHEMA = fakes.table(
    {"type": {"const": "message"},
     "attachments": LIST | {"maxItems": 1, "items": fakes.table(
         {"contentType": {"const": "application/vnd.microsoft.card.adaptive"}, "content": CARD},
         contentUrl={"type": "null"})}}
)  # fmt: skip
FAILED = ("Webhook message delivery failed with error: Microsoft Teams endpoint returned "
          "HTTP error {status} with ContextId tcid=0")  # fmt: skip


class Fake(fakes.Fake):
    """One flow, or one connector, of one channel. `dropped`: accepted, and never shown."""

    limits = ((4, 1.0),)

    def __init__(self, options: Any = None) -> None:
        super().__init__(options)
        self.dropped: list[str] = []

    def take(self, request: httpx.Request) -> fakes.Seen:
        if request.method != "POST" or str(request.url) != self.options.address:
            error = {"code": "DirectApiAuthorizationRequired", "message": "no such signature"}
            raise fakes.NoError("401", httpx.Response(401, json={"error": error}))
        if self.options.flavour == "connector":
            return self._connector(request)
        if self.crowded():
            raise fakes.NoError("429", httpx.Response(429, headers={"retry-after": "1"}))
        try:
            payload = fakes.json_of(request)
        except ValueError as error:
            told = {"error": {"code": "InvalidRequestContent", "message": str(error)}}
            raise fakes.NoError(str(error), httpx.Response(400, json=told)) from error
        size = len(json.dumps(json.dumps(payload)))  # as a flow hands it on, case B112
        try:
            if size > LARGEST:
                raise ValueError(f"Request entity too large: {size} bytes")
            return self._seen(payload)
        except ValueError as error:
            self.dropped.append(str(error))
            raise fakes.NoError(str(error), httpx.Response(202)) from error

    def yes(self, seen: fakes.Seen) -> httpx.Response:
        connector = self.options.flavour == "connector"
        return httpx.Response(200, text="1") if connector else httpx.Response(202)

    def _connector(self, request: httpx.Request) -> fakes.Seen:
        if self.crowded():
            raise fakes.NoError("429", httpx.Response(200, text=FAILED.format(status=429)))
        if len(request.content) > LARGEST:
            raise fakes.NoError("413", httpx.Response(200, text=FAILED.format(status=413)))
        try:
            seen = self._seen(fakes.json_of(request))
            if b'"TextRun"' in request.content:
                raise ValueError("no TextRun here")
        except ValueError as error:
            bad = "Bad payload received by generic incoming webhook."
            raise fakes.NoError(str(error), httpx.Response(400, text=bad)) from error
        return seen

    def _seen(self, payload: Any) -> fakes.Seen:
        fakes.check(payload, SCHEMA)
        card = payload["attachments"][0]["content"]
        plain: list[str] = []
        marked: list[str] = []
        order: list[str] = []
        _read(card["body"], plain, marked, order)
        drawn = {text: draw(text) for text in marked}
        every = list(drawn.values())
        shown = [drawn[text].text if text in drawn else text for text in order]
        actions = card.get("actions", [])
        links = [link for each in every for link in each.links]
        dates = [text for text in marked if "{{" in text or "${" in text]
        return fakes.Seen(
            at=self.now,
            text="\n".join([*shown, *(action["title"] for action in actions)]),
            links=(*links, *(action["url"] for action in actions)),
            marks=(
                *dates,
                *(mark for each in every for mark in (*each.strong, *each.headings, *each.code)),
            ),
        )


def _read(items: Any, plain: list[str], marked: list[str], order: list[str]) -> None:
    """Gather the texts of a card's parts, each by whether Markdown is read there."""
    for item in items:
        kind = item.get("type") if isinstance(item, dict) else None
        fakes.check(item, PARTS.get(str(kind), False))
        found: list[str] = []
        if kind == "Container":
            _read(item["items"], plain, marked, order)
        elif kind == "RichTextBlock":
            found = [run["text"] for run in item["inlines"]]
            plain += found
        elif kind == "FactSet":
            found = [fact[key] for fact in item["facts"] for key in ("title", "value")]
            marked += found
        else:
            found = [item["text"]]
            marked += found
        order += found
