"""Mattermost incoming webhook: one attachment with a coloured bar, a table of facts, and links.

The address is the password. Figures: developers.mattermost.com, "Incoming webhooks" and "Message
attachments"; answers: the server's web/webhook.go and mattermost issues 14207 and 30071.
"""

from datetime import datetime
from typing import Any

import httpx

from detectors.markdown import escape
from detectors.phrases import Parts, parts
from detectors.receivers import (
    Delivered,
    Flow,
    Hook,
    Manners,
    Message,
    Outcome,
    Refused,
    Retry,
    body,
    judge,
    quoted,
)
from detectors.shorten import fit, plain, wire

EXAMPLE = """
[receivers.hall]
type    = "mattermost"
webhook = "https://mattermost.example/hooks/FAKEgatewatchEXAMPLE0001"
"""
YES = (200, "ok")
MANNERS = Manners(limits=((2, 1.0),), bundle=16)  # the server's administrator sets it

ROOM = 7_000  # characters of the attachment as the server writes it: 7 900 before server 5.0
FALLBACK = 300  # characters for a notification
TOO_LONG = (400, 413)  # also said of what it cannot decode, as a very large body: issue 30071
NO_ACCESS = {"web.incoming_webhook.invalid.app_error", "web.incoming_webhook.permissions.app_error"}
DISABLED = "web.incoming_webhook.disabled.app_error"  # with status 501: nothing to wait for
QUIET = str.maketrans({"<": "<\u200b", "@": "@\u200b"})  # where no Markdown is read


class Options(Hook, frozen=True, forbid_unknown_fields=True):
    """The address of the webhook, and nothing else: its channel is set in Mattermost."""


def deliver(message: Message, options: Options, now: datetime) -> Flow:
    worded = parts(message, _safe)
    response = yield _request(message, worded, options, ROOM)
    if response.status_code in TOO_LONG and str(body(response).get("id")) not in NO_ACCESS:
        response = yield _request(message, worded, options, ROOM // 2)
    return _read(response, now)


def _read(response: httpx.Response, now: datetime) -> Outcome:
    answer, status = body(response), response.status_code
    known = judge(response, now)
    if isinstance(known, Refused) or answer.get("id") == DISABLED:
        name = answer.get("id")
        if not isinstance(name, str):
            return known or Retry(f"answered {quoted(response)}", "other")
        said = f"HTTP {status}: {plain(name)[:60]}: {plain(str(answer.get('message', '')))[:120]}"
        label = known.label if isinstance(known, Refused) else "clientError"
        return Refused(said, label, "token" if name in NO_ACCESS else "")
    if known:
        return known
    if status == 200 and response.text.strip() == "ok":
        return Delivered()
    return Retry(f"answered {quoted(response)}", "other")


def _request(message: Message, worded: Parts, options: Options, room: int) -> httpx.Request:
    attachment = _attachment(message, worded, [])
    lines = fit(worded.lines, worded.total, room - _size(attachment), _size, worded.rest)
    payload = {"attachments": [_attachment(message, worded, lines)]}
    return httpx.Request("POST", options.address, json=payload)


def _attachment(message: Message, worded: Parts, lines: list[str]) -> dict[str, Any]:
    """The links stand above what a client folds away."""
    links = [(worded.open_link, message.link), *worded.buttons]
    row = " · ".join(f"[{_safe(label)}]({url})" for label, url in links)
    news = f"**{worded.state} · {worded.title}** {worded.notes}".rstrip()
    head = [news, worded.about, row]
    return {
        "fallback": f"{worded.state} · {_quiet(message.title)[:FALLBACK]}",
        "color": worded.color,
        "text": "\n\n".join([*head, *lines]),
        "fields": [
            {"title": name or "-", "value": value or "-", "short": True}
            for name, value in worded.facts
        ],
        "footer": worded.when,
    }


def _size(value: object) -> int:
    """Characters of JSON as Go writes it, which spells & < > with six characters each."""
    text = wire(value).decode()
    return len(text) + 5 * sum(map(text.count, "&<>")) + 4  # and a blank line after each


def _quiet(text: str) -> str:
    return plain(text).translate(QUIET)


def _safe(text: str) -> str:
    """The server makes a mention of <!channel>, and a link of <url|text>, before anything else is
    read: no angle bracket may be left."""
    shown = escape(plain(text).replace("&", "&amp;")).replace("#", "\\#")
    return shown.replace("<\u200b", "&lt;").replace(">", "&gt;")
