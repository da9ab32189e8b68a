"""Google Chat webhook: a card with a coloured state, a fact a row, and buttons that are links.

The address is the password. All tellings of an alert stand in one thread, and a message that comes
twice under one request id is posted once. Figures: developers.google.com/workspace/chat,
spaces.messages.create (32 000 B, threads, requestId), "Cards v2" (100 widgets, where HTML is read)
and "Usage limits" (60 a minute of a space, for all apps in it together).
"""

from datetime import datetime
from typing import Any

import httpx

from detectors.phrases import Parts, parts
from detectors.receivers import (
    Delivered,
    Flow,
    Hook,
    Manners,
    Message,
    Refused,
    Retry,
    body,
    judge,
    quoted,
)
from detectors.shorten import escaped, fit, plain, unlinked, wire

EXAMPLE = """
[receivers.space]
type    = "google_chat"
webhook = "https://chat.googleapis.com/v1/spaces/FAKE0001/messages?key=FAKEkey&token=FAKEgatewatchEXAMPLE"
"""
YES = (200, '{"name": "spaces/FAKE0001/messages/FAKE.1"}')
MANNERS = Manners(limits=((1, 1.0), (45, 60.0)), keyed=True)

ROOM = 28_000  # bytes of a message, of 32 000, text and cards together
WIDGETS = 60  # lines, of 100 widgets in a card: what is beyond is not shown
SECTION = 80  # bytes of one more section, folded
SHOWN = 6  # lines that are seen before somebody unfolds the rest
FALLBACK = 1_000  # characters for a notification
MANY = ("digest", "daily")  # kinds that belong to no thread
IN_THREAD = "REPLY_MESSAGE_FALLBACK_TO_NEW_THREAD"  # by default the key of a thread is ignored
HTML = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "@": "@\u200b"})
CHAT = str.maketrans({char: f"{char}\u200b" for char in "<@*_~`"})  # what a chat text reads


class Options(Hook, frozen=True, forbid_unknown_fields=True):
    """The address of the webhook, and nothing else."""


def deliver(message: Message, options: Options, now: datetime) -> Flow:
    query = {"messageReplyOption": IN_THREAD, "requestId": message.delivery}
    url = httpx.URL(options.address).copy_merge_params(query)
    response = yield httpx.Request("POST", url, json=_payload(message))
    answer, status = body(response), response.status_code
    known = judge(response, now)
    error = answer.get("error")
    if isinstance(known, Refused) and isinstance(error, dict):
        said = " ".join(plain(str(error.get(key, "")))[:120] for key in ("status", "message"))
        return Refused(f"HTTP {status}: {said}", known.label, known.hint)
    if known:
        return known
    if status == 200 and isinstance(answer.get("name"), str):
        return Delivered()  # the thread is found by its key, so the name is of no use
    return Retry(f"answered {quoted(response)}", "other")


def _payload(message: Message) -> dict[str, Any]:
    worded = parts(message, _safe)
    payload = _card(message, worded, [])
    room = ROOM - len(wire(payload)) - SECTION
    lines = fit(worded.lines[:WIDGETS], worded.total, room, _size, worded.rest)
    return _card(message, worded, lines)


def _card(message: Message, worded: Parts, lines: list[str]) -> dict[str, Any]:
    """The header is plain text, and fallbackText a chat text; every widget reads HTML."""
    state = f'<font color="{worded.color}">{worded.state}</font> {_safe(worded.notes)}'
    widgets = [_text(f"<b>{state.rstrip()}<br>{worded.title}</b>"), _text(worded.about)]
    widgets += [
        {"decoratedText": {"topLabel": name or "-", "text": value or "-", "wrapText": True}}
        for name, value in worded.facts
    ]
    said = worded.total - len(message.evidence)  # lines before what the log says
    details = {"widgets": [*map(_text, lines[:said]), _text(worded.when)]}
    sections: list[dict[str, Any]] = [{"widgets": widgets}, details]
    if samples := [_text(line) for line in lines[said:]]:
        folded = {"collapsible": True, "uncollapsibleWidgetsCount": SHOWN}
        sections.append({"widgets": samples} | (folded if len(samples) > SHOWN else {}))
    links = [(worded.open_link, message.link), *worded.buttons]
    buttons = [{"text": label, "onClick": {"openLink": {"url": url}}} for label, url in links]
    sections.append({"widgets": [{"buttonList": {"buttons": buttons}}]})
    header = {"title": worded.state, "subtitle": f"gatewatch · {message.alert}"}
    payload: dict[str, Any] = {
        "fallbackText": escaped(f"{worded.state} · {message.title}", _chat, FALLBACK),
        "cardsV2": [{"cardId": message.delivery, "card": {"header": header, "sections": sections}}],
    }
    if message.kind not in MANY:
        payload["thread"] = {"threadKey": message.alert}
    return payload


def _text(text: str) -> dict[str, Any]:
    return {"textParagraph": {"text": text or "-"}}


def _size(line: str) -> int:
    return len(wire(_text(line))) + 1


def _safe(text: str) -> str:
    return unlinked(plain(text)).translate(HTML)


def _chat(text: str) -> str:
    return unlinked(plain(text)).translate(CHAT)
