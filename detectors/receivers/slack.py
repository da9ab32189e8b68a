"""Slack incoming webhook: one message of blocks. The address is the password."""

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
    Outcome,
    Refused,
    Retry,
    body,
    judge,
    quoted,
)
from detectors.shorten import fit, plain, utf16

EXAMPLE = """
[receivers.oncall]
type    = "slack"
webhook = "https://hooks.slack.com/services/TFAKE0001/BFAKE0001/FAKEgatewatchEXAMPLE"
"""
YES = (200, "ok")
MANNERS = Manners(limits=((3, 3.0),))  # one a second, short bursts; then 429 and Retry-After

ROOM = 9_000  # UTF-16 units in all: refused as msg_blocks_too_long from 11 341 counted characters
SECTION = 2_900  # of 3 000 that a section may hold
ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "@": "@\u200b"})
NO_ACCESS = {"no_service", "invalid_token", "invalid_auth", "not_authed", "token_revoked"}


class Options(Hook, frozen=True, forbid_unknown_fields=True):
    """An incoming webhook, and nothing else."""


def deliver(message: Message, options: Options, now: datetime) -> Flow:
    response = yield httpx.Request("POST", options.webhook.reveal, json=_payload(message))
    if outcome := judge(response, now):
        return outcome
    if response.status_code == 200 and response.text.strip() == "ok":
        return Delivered()
    return _refusal(response)


def _refusal(response: httpx.Response) -> Outcome:
    """A no with HTTP 200: a word of the service is final, a page from somewhere else is not."""
    word = body(response).get("error", response.text.strip())
    reason = f"answered {quoted(response)}"
    if word == "ratelimited":
        return Retry(reason, "rateLimited")
    if isinstance(word, str) and word.isascii() and word.replace("_", "").isalnum():
        return Refused(reason, "authError" if word in NO_ACCESS else "clientError")
    return Retry(reason, "other")


def _payload(message: Message) -> dict[str, Any]:
    """Log text goes into plain_text, which knows no markup; escaped all the same."""
    worded = parts(message, _safe)
    head = f"*{worded.state}* {worded.notes}".rstrip()
    foot = f"<{message.link}|{worded.open_link}>"
    fallback = f"{worded.state} {worded.notes}\n{worded.title}\n{foot}"
    fixed = [head, foot, fallback, worded.title, worded.about, *map("".join, worded.facts)]
    room = ROOM - sum(map(utf16, fixed))
    lines = fit(worded.lines, worded.total, room, lambda line: utf16(line) + 1, worded.rest)
    blocks = [_markup(head), _plain(worded.title), _plain(worded.about), *_fields(worded)]
    blocks += [*map(_plain, _sections(lines)), _markup(foot)]
    return {"text": fallback, "blocks": blocks, "unfurl_links": False, "unfurl_media": False}


def _sections(lines: list[str]) -> list[str]:
    """Lines gathered into as few sections as the service's limit for one allows."""
    done: list[str] = []
    for line in lines:
        if done and utf16(done[-1]) + utf16(line) < SECTION:
            done[-1] += f"\n{line}"
        else:
            done.append(line)
    return done


def _fields(worded: Parts) -> list[dict[str, Any]]:
    fields = [_text(f"{name}\n{value}") for name, value in worded.facts]
    return [{"type": "section", "fields": fields}] if fields else []


def _text(text: str) -> dict[str, Any]:
    return {"type": "plain_text", "text": text or "-", "emoji": False}


def _plain(text: str) -> dict[str, Any]:
    return {"type": "section", "text": _text(text)}


def _markup(text: str) -> dict[str, Any]:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text, "verbatim": True}}


def _safe(text: str) -> str:
    return plain(text).translate(ENTITIES)
