"""Microsoft Teams: an Adaptive Card for a Workflow, or for a connector of the retired kind.

The address is the password, and does not tell which of the two it is: the config does. Figures:
learn.microsoft.com, "Microsoft Teams" connector reference (28 KB), "Create Incoming Webhooks"
(28 KB, 4 requests a second), "Text formatting in cards" (where Markdown is read) and the Adaptive
Cards schema explorer. Declared as 1.4: the action "Post card in a chat or channel" has shown "this
card couldn't be displayed" for 1.5 (AdaptiveCards issues 7676 and 8965), and nothing here needs it.
"""

import json
import re
from collections.abc import Callable
from datetime import datetime
from typing import Any, Literal

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
from detectors.shorten import fit, plain, unlinked, wire

EXAMPLE = """
[receivers.desk]
type    = "teams"
webhook = "https://prod-01.westeurope.logic.azure.com/workflows/FAKE0001/triggers/manual/paths/invoke?api-version=2016-06-01&sig=FAKEgatewatchEXAMPLE"
flavour = "workflow"
"""
YES = (202, "")
MANNERS = Manners(limits=((2, 1.0),))  # more than 4 in a second are throttled

ROOM = 20_000  # bytes on the wire; a client settled on 21 000 after tests, msteams_hermes
TWICE = 28_672  # bytes of the body as text inside another JSON, \\u for all but ASCII: issue 11274
RULE = 40  # bytes of the rule above what the log says
ACTIONS = 6  # buttons that Teams shows in a row
TOO_LONG = "HTTP error 413"  # what the connector answers, with status 200
TOO_MANY = "HTTP error 429"
STYLES = {"critical": "attention", "high": "attention", "medium": "warning", "low": "accent"}
BREAK = str.maketrans({"@": "@\u200b", "<": "<\u200b"})  # <at> is nothing without an entity
DATES = re.compile(r"(?<=[{$])(?=\{)")  # {{DATE(..)}} and ${..} are worked out in a text
MARKUP = str.maketrans({char: f"\\{char}" for char in "\\`*_[]()~#>|!"})
LIST = re.compile(r"^(\d*)(?=[-+.])")  # what makes a list where a text begins


class Options(Hook, frozen=True, forbid_unknown_fields=True):
    flavour: Literal["workflow", "connector"] = "workflow"
    answer: str = ""  # what a flow's own Response step says, with status 200, if it has one


def deliver(message: Message, options: Options, now: datetime) -> Flow:
    worded = parts(message, _safe)
    response = yield _request(message, worded, options, 1)
    outcome = _read(response, options, now)
    if isinstance(outcome, Refused) and outcome.hint == "too_long":
        response = yield _request(message, worded, options, 2)
        outcome = _read(response, options, now)
    return outcome


def _read(response: httpx.Response, options: Options, now: datetime) -> Outcome:
    status, said = response.status_code, response.text.strip()
    if status == 413:
        return Refused("HTTP 413", "clientError", "too_long")
    error = body(response).get("error")
    if isinstance(error, dict) and isinstance(known := judge(response, now), Refused):
        code = f"HTTP {status}: {plain(str(error.get('code', '')))[:80]}"
        return Refused(code, known.label, known.hint)
    if outcome := judge(response, now):
        return outcome
    if options.flavour == "connector":
        return _connector(response, said)
    if status == 202:
        return Delivered(accepted=True)  # a card that is refused inside the flow is not told
    if status == 200 and said and said == options.answer:
        return Delivered()
    return Retry(f"answered HTTP {status} and {quoted(response)}", "other")


def _connector(response: httpx.Response, said: str) -> Outcome:
    """The retired kind says yes and no with status 200."""
    reason = f"answered {quoted(response)}"
    if response.status_code == 200 and said == "1":
        return Delivered()
    if TOO_LONG in said:
        return Refused(reason, "clientError", "too_long")
    if TOO_MANY in said:
        return Retry(reason, "rateLimited")
    if not said or said[0] in "<[{":  # a page or an object from somewhere else
        return Retry(reason, "other")
    return Refused(reason, "clientError")


def _request(message: Message, worded: Parts, options: Options, part: int) -> httpx.Request:
    """With as many lines as both measures allow, each divided by `part`."""
    block = _run if options.flavour == "workflow" else _marked_block
    empty = _payload(message, worded, block, [])
    once = max(1, ROOM // part - len(wire(empty)) - RULE)
    twice = max(1, TWICE // part - _twice(empty) - RULE)

    def size(text: str) -> int:  # on the scale of `twice`: whichever measure it fills more of
        said = block(text, fontType="Monospace")
        return max(_twice(said), (len(wire(said)) + 1) * twice // once + 1)

    lines = fit(worded.lines, worded.total, twice, size, worded.rest)
    payload = _payload(message, worded, block, lines)
    return httpx.Request("POST", options.address, json=payload)


def _payload(
    message: Message, worded: Parts, block: Callable[..., dict[str, Any]], lines: list[str]
) -> dict[str, Any]:
    style = "good" if worded.over else STYLES.get(message.severity, "attention")
    state = f"{worded.state} {worded.notes}".rstrip()
    head = {"type": "TextBlock", "text": state, "weight": "Bolder", "size": "Medium", "wrap": True}
    top = [head, block(worded.title, weight="Bolder")]
    facts = [{"title": _marked(name), "value": _marked(value)} for name, value in worded.facts]
    body: list[dict[str, Any]] = [
        {"type": "Container", "style": style, "bleed": True, "items": top},
        block(worded.about),
    ]
    if facts:
        body.append({"type": "FactSet", "facts": facts})
    said = worded.total - len(message.evidence)  # lines before what the log says
    body += [block(line) for line in lines[:said]]
    samples = [block(line, fontType="Monospace") for line in lines[said:]]
    body += [each | {"separator": True} if each is samples[0] else each for each in samples]
    body.append(block(worded.when, isSubtle=True))
    links = [(worded.open_link, message.link), *worded.buttons]
    card = {
        "type": "AdaptiveCard",
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "version": "1.4",
        "msteams": {"width": "Full"},
        "body": body,
        "actions": [
            {"type": "Action.OpenUrl", "title": label, "url": url} for label, url in links[:ACTIONS]
        ],
    }
    kind = "application/vnd.microsoft.card.adaptive"
    attachment = {"contentType": kind, "contentUrl": None, "content": card}
    return {"type": "message", "attachments": [attachment]}


def _run(text: str, **look: Any) -> dict[str, Any]:
    """A text in which nothing is markup."""
    run = {"type": "TextRun", "text": text.strip() or "-"} | look
    return {"type": "RichTextBlock", "spacing": "Small", "inlines": [run]}


def _marked_block(text: str, **look: Any) -> dict[str, Any]:
    """The connector refuses a TextRun (AdaptiveCards issue 8804): a text that reads Markdown."""
    return {"type": "TextBlock", "spacing": "Small", "wrap": True, "text": _marked(text)} | look


def _twice(value: object) -> int:
    """Bytes of JSON once it stands inside another JSON as a text, as a flow hands it on."""
    return len(json.dumps(json.dumps(value)))


def _marked(text: str) -> str:
    """What is shown where Markdown is read."""
    return LIST.sub(r"\1\\", text.strip().translate(MARKUP)) or "-"


def _safe(text: str) -> str:
    return DATES.sub("\u200b", unlinked(plain(text))).translate(BREAK)
