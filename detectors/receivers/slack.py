"""Slack incoming webhook: the news and its numbers in blocks, the rest beside a coloured bar.

The address is the password. Figures: docs.slack.dev, Block Kit reference (header, section, context,
actions, button element) and "Rate limits"; answers: changelog 2016-05-17, "Changes to errors for
incoming webhooks".
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import httpx

from detectors.phrases import WORDS, Parts, parts
from detectors.receivers import (
    Delivered,
    Flow,
    Hook,
    Label,
    Manners,
    Message,
    Outcome,
    Refused,
    Retry,
    body,
    judge,
    quoted,
)
from detectors.shorten import escaped, fit, plain, unlinked, utf16, wire

EXAMPLE = """
[receivers.oncall]
type    = "slack"
webhook = "https://hooks.slack.com/services/TFAKE0001/BFAKE0001/FAKEgatewatchEXAMPLE"
"""
YES = (200, "ok")
MANNERS = Manners(limits=((3, 3.0),))  # one a second, short bursts; then 429 and Retry-After

ROOM = 9_000  # UTF-16 units in all: msg_blocks_too_long from 11 341 on, bolt-js issue 2867
HEADER = 150  # characters of a header block
SECTION = 2_900  # of 3 000 that a section may hold
LABEL, URL = 75, 3_000  # characters of a button
ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "@": "@\u200b"})
NO_ACCESS = {"no_service", "invalid_token", "invalid_auth", "not_authed", "token_revoked"}
TOO_RICH = {"invalid_blocks", "invalid_blocks_format", "invalid_attachments", "msg_blocks_too_long"}
STILL = {"mrkdwn": False, "unfurl_links": False, "unfurl_media": False}  # of `text`, and of links


class Options(Hook, frozen=True, forbid_unknown_fields=True):
    buttons: bool = True  # Slack marks a pressed one with a warning while interactivity is off


def deliver(message: Message, options: Options, now: datetime) -> Flow:
    worded = parts(message, _safe)
    payload = _payload(message, worded, options.buttons)
    response = yield httpx.Request("POST", options.address, json=payload)
    if _word(response) in TOO_RICH:  # rather told without blocks than lost
        response = yield httpx.Request("POST", options.address, json=_bare(message, worded))
    return _read(response, now)


def _read(response: httpx.Response, now: datetime) -> Outcome:
    word, status = _word(response), response.status_code
    if word and status in (400, 403, 404, 410):
        reason = f"HTTP {status}: answered {quoted(response)}"
        return _denied(reason, word, "authError" if status == 403 else "clientError")
    if outcome := judge(response, now):
        return outcome
    if status == 200 and word == "ok":
        return Delivered()
    reason = f"answered {quoted(response)}"  # a no with status 200
    if word == "ratelimited":
        return Retry(reason, "rateLimited")
    if word:
        return _denied(reason, word)
    return Retry(reason, "other")


def _denied(reason: str, word: str, label: Label = "clientError") -> Refused:
    if word in NO_ACCESS:
        return Refused(reason, "authError", "token")
    return Refused(reason, label)


def _word(response: httpx.Response) -> str:
    """The word that Slack answers with; none in a page from somewhere else."""
    word = body(response).get("error", response.text.strip())
    if isinstance(word, str) and word.isascii() and word.replace("_", "").isalnum():
        return word
    return ""


def _payload(message: Message, worded: Parts, buttons: bool) -> dict[str, Any]:
    """Log text goes into plain_text, which knows no markup; escaped all the same."""
    title = f"{worded.state} · {message.title}"
    header = escaped(title, _safe, HEADER, utf16)
    blocks: list[dict[str, Any]] = [{"type": "header", "text": _text(header)}]
    if header != f"{worded.state} · {worded.title}":
        blocks.append(_section(worded.title))
    blocks += [*_fields(worded), _context(worded), _links(message, worded, buttons)]
    bar: dict[str, Any] = {"color": worded.color, "blocks": []}
    payload = {
        "text": _fallback(message, worded),
        "blocks": blocks,
        "attachments": [bar],
        **STILL,
    }
    room = ROOM - utf16(wire(payload).decode())
    lines = fit(worded.lines, worded.total, room, lambda line: utf16(line) + 1, worded.rest)
    said = worded.total - len(message.evidence)  # lines before what the log says
    bar["blocks"] += map(_section, _sections(lines[:said] or [worded.about]))
    if lines[said:]:
        bar["blocks"] += [{"type": "divider"}, *map(_section, _sections(lines[said:]))]
    return payload


def _bare(message: Message, worded: Parts) -> dict[str, Any]:
    colon = WORDS[message.language][":"]
    facts = [f"{name}{colon}{value}" for name, value in worded.facts]
    text = "\n".join([_fallback(message, worded), worded.about, *facts])
    return {"text": text, **STILL}


def _fallback(message: Message, worded: Parts) -> str:
    """What a notification shows, and whoever sees no blocks."""
    head = f"{worded.state} {worded.notes}".rstrip()
    colon = WORDS[message.language][":"].strip()
    link = f"{_safe(worded.open_link)}{colon} {_address(message.link)}"  # a blank begins a link
    return f"{head}\n{worded.title}\n{link}"


def _sections(lines: list[str]) -> Iterator[str]:
    """Lines gathered into as few sections as the service's limit for one allows."""
    gathered = ""
    for line in lines:
        if gathered and utf16(gathered) + utf16(line) >= SECTION:
            yield gathered
            gathered = ""
        gathered = f"{gathered}\n{line}" if gathered else line
    yield gathered


def _fields(worded: Parts) -> Iterator[dict[str, Any]]:
    fields = [_text(f"{name}\n{value}") for name, value in worded.facts]
    if fields:
        yield {"type": "section", "fields": fields}


def _context(worded: Parts) -> dict[str, Any]:
    said = filter(None, (worded.notes, worded.about, worded.when))
    return {"type": "context", "elements": [_text(text) for text in said]}


def _links(message: Message, worded: Parts, buttons: bool) -> dict[str, Any]:
    links = [(worded.open_link, message.link), *worded.buttons]
    if not buttons or any(len(url) > URL for _, url in links):
        text = " · ".join(_link(label, url) for label, url in links)
        markup = {"type": "mrkdwn", "text": text, "verbatim": True}
        return {"type": "context", "elements": [markup]}
    elements: list[dict[str, Any]] = [
        {"type": "button", "text": _text(escaped(label, _safe, LABEL, utf16)), "url": url}
        for label, url in links
    ]
    elements[0]["style"] = "primary"
    return {"type": "actions", "elements": elements}


def _link(label: str, url: str) -> str:
    return f"<{_address(url)}|{_safe(label)}>"


def _address(url: str) -> str:
    return url.replace("&", "&amp;")


def _section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": _text(text)}


def _text(text: str) -> dict[str, Any]:
    return {"type": "plain_text", "text": text.strip() or "-", "emoji": False}


def _safe(text: str) -> str:
    return unlinked(plain(text)).translate(ENTITIES)
