"""A Mattermost server's incoming webhooks, with the limits of old servers and of new ones.

It reads Slack's spellings, too: <!channel> becomes a mention and <url|text> a link, whatever stands
before them. Sources: developers.mattermost.com, "Incoming webhooks" and "Message attachments"; the
server's model/incoming_webhook.go; mattermost issues 14207 and 30071.
"""

import html
import json
import re
from typing import Any

import httpx

from tests import fakes
from tests.kit_markdown import draw

LARGEST = 7_900  # characters of the attachments, as JSON that Go wrote
BODY = 100_000  # bytes; beyond, the body is not decoded
ANNOUNCED = re.compile(r"<!(channel|here|all)>")
SLACK = re.compile(r"<([^\n<|>]+)\|([^|\n>]+)>")
URL = re.compile(r"(?<!\]\()(?:https?://|\bwww\.)[^\s<>()]+")
FIELD = fakes.table({"title": fakes.text(), "value": fakes.text()}, short={"type": "boolean"})
ATTACHMENT = fakes.table(
    {"fallback": fakes.text()},
    color={"type": "string", "pattern": "^#[0-9a-fA-F]{6}$"},
    pretext=fakes.text(),
    text=fakes.text(),
    author_name=fakes.text(),
    title=fakes.text(),
    title_link={"type": "string", "pattern": "^https?://"},
    fields={"type": "array", "items": FIELD},
    footer=fakes.text(300),
)
SCHEMA = fakes.table({}, text=fakes.text(), attachments={"type": "array", "items": ATTACHMENT})


class Fake(fakes.Fake):
    """One webhook of one channel, on a server older than 5.0."""

    limits = ((10, 1.0),)

    def take(self, request: httpx.Request) -> fakes.Seen:
        if request.method != "POST" or str(request.url) != self.options.address:
            raise _no("web.incoming_webhook.invalid.app_error", "Invalid webhook.")
        if self.crowded():
            headers = {"retry-after": "1"}
            raise fakes.NoError("429", httpx.Response(429, text="limit exceeded", headers=headers))
        if len(request.content) > BODY:
            raise _no("web.incoming_webhook.decode.app_error", "Failed to decode the payload.")
        try:
            payload = fakes.json_of(request)
            fakes.check(payload, SCHEMA)
        except ValueError as error:
            raise _no("web.incoming_webhook.parse_data.app_error", str(error)) from error
        attachments = payload.get("attachments", [])
        if not attachments and not payload.get("text"):
            raise _no("web.incoming_webhook.text.app_error", "No text specified.")
        if attachments and (size := len(_go(attachments))) > LARGEST:
            said = f"Maximum attachments length is {LARGEST} characters, received size is {size}"
            raise _no("web.incoming_webhook.attachment.app_error", said)
        return self._seen(payload.get("text", ""), attachments)

    def yes(self, seen: fakes.Seen) -> httpx.Response:
        return httpx.Response(200, text="ok")

    def _seen(self, head: str, attachments: list[Any]) -> fakes.Seen:
        marked, plain, links = [head], list[str](), list[str]()
        for each in attachments:
            marked += [each.get(key, "") for key in ("pretext", "text")]
            marked += [field[key] for field in each.get("fields", ()) for key in ("title", "value")]
            plain += [each.get(key, "") for key in ("title", "author_name", "footer")]
            links += [each["title_link"]] if "title_link" in each else []
            plain.append(ANNOUNCED.sub(r"@\1", each["fallback"]))
        marked = [SLACK.sub(r"[\2](\1)", ANNOUNCED.sub(r"@\1", text)) for text in marked]
        drawn = [draw(text, fences=True) for text in marked]
        shown = [html.unescape(each.text) for each in drawn]
        alarms = [name for text in plain for name in re.findall(r"@(all|here|channel)\b", text)]
        return fakes.Seen(
            at=self.now,
            text="\n".join([*shown, *filter(None, plain)]),
            pinged=(*alarms, *(name for each in drawn for name in each.mentions)),
            links=(
                *links,
                *(link for each in drawn for link in each.links),
                *(link for text in marked for link in URL.findall(text)),
            ),
            marks=tuple(
                mark for each in drawn for mark in (*each.tags, *each.strong, *each.headings)
            ),
        )


def _go(value: Any) -> str:
    """JSON as Go writes it."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return re.sub("[&<>]", lambda found: f"\\u{ord(found[0]):04x}", text)


def _no(name: str, message: str) -> fakes.NoError:
    told = {"id": name, "message": message, "detailed_error": "", "status_code": 400}
    return fakes.NoError(message, httpx.Response(400, json=told))
