"""Discord channel webhook: one embed with a coloured bar, and buttons that are links.

The address is the password. Figures: docs.discord.com, "Message resource" (embed limits, allowed
mentions), "Webhook resource" (wait, with_components), "Component reference" (buttons) and "Rate
limits"; link buttons on a plain webhook: discord-api-docs pull request 7368.
"""

from datetime import datetime
from typing import Any

import httpx

from detectors.markdown import escape, fenced
from detectors.phrases import LINE, LINES, WORDS, Parts, parts
from detectors.receivers import (
    LONGEST_WAIT,
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
from detectors.shorten import cut, escaped, fit, plain, utf16

EXAMPLE = """
[receivers.guild]
type    = "discord"
webhook = "https://discord.com/api/webhooks/1000000000000000001/FAKEgatewatchEXAMPLE"
"""
YES = (200, '{"id": "1100000000000000001", "type": 0}')
MANNERS = Manners(limits=((1, 2.0),))  # 5 in 2 s were seen, and 30 a minute for a channel

ROOM = 5_800  # UTF-16 units of an embed, of 6 000
TITLE, DESCRIPTION = 256, 4_096  # UTF-16 units
CONTENT = 2_000
FENCE = "```"
LABEL, URL, PAGE = 80, 512, 2_048  # characters: a button and its URL, the URL of a title
CDN_WAIT = 60.0  # seconds: the network before the service says 429 in HTML, often not how long
BANNED = 3_600.0  # seconds: code 0 without rate headers is a ban of the address, issue 5810
TOO_RICH = 50035  # "Invalid Form Body": a field too long, a URL that it does not take
NO_ACCESS = {10015, 50027}  # unknown webhook, invalid webhook token
NOBODY: dict[str, list[str]] = {"parse": []}


class Options(Hook, frozen=True, forbid_unknown_fields=True):
    """The address of the webhook, and nothing else. It may name a thread: `?thread_id=`."""


def deliver(message: Message, options: Options, now: datetime) -> Flow:
    worded = parts(message, escape)
    url = httpx.URL(options.address).copy_merge_params({"wait": "true", "with_components": "true"})
    response = yield httpx.Request("POST", url, json=_payload(message, worded))
    if response.status_code == 400 and body(response).get("code") == TOO_RICH:
        response = yield httpx.Request("POST", url, json=_bare(message, worded))
    return _read(response, now)


def _read(response: httpx.Response, now: datetime) -> Outcome:
    answer, status = body(response), response.status_code
    if status == 429:
        return _busy(response, answer, now)
    if status == 204 and not response.text:
        return Delivered()
    if status == 200 and isinstance(answer.get("id"), str):
        return Delivered()  # its id is of no use: a webhook cannot reply to a message
    if 400 <= status < 500 and "code" in answer:
        said = f"{plain(str(answer.get('message', '')))[:80]} ({plain(str(answer['code']))[:20]})"
        denied = answer["code"] in NO_ACCESS if isinstance(answer["code"], int) else False
        known = judge(response, now)
        if isinstance(known, Refused):
            hint = "token" if denied else known.hint
            return Refused(f"HTTP {status}: {said}", known.label, hint)
    return judge(response, now) or Retry(f"answered {quoted(response)}", "other")


def _busy(response: httpx.Response, answer: dict[str, Any], now: datetime) -> Outcome:
    """Too many: of this webhook in JSON, of the whole address in JSON or in HTML."""
    known = judge(response, now)
    after = known.after if isinstance(known, Retry) else None
    seconds = answer.get("retry_after")
    if isinstance(seconds, int | float) and not isinstance(seconds, bool) and seconds >= 0:
        after = float(min(seconds, LONGEST_WAIT))
    limited = any(name.startswith("x-ratelimit") for name in response.headers)
    if answer.get("code") == 0 and not limited:
        return Retry("HTTP 429: this address is banned for a while", "rateLimited", BANNED)
    return Retry("HTTP 429", "rateLimited", CDN_WAIT if after is None else after)


def _payload(message: Message, worded: Parts) -> dict[str, Any]:
    links = [(worded.open_link, message.link), *worded.buttons]
    pressed = all(len(url) <= URL for _, url in links)
    foot = [] if pressed else [" · ".join(_link(label, url) for label, url in links)]
    title = escaped(message.title, escape, TITLE, utf16).strip() or worded.open_link
    fields = [(_filled(name), _filled(value)) for name, value in worded.facts]
    outside = [title, worded.when, *map("".join, fields)]
    room = min(ROOM - sum(map(_size, outside)), DESCRIPTION)
    embed: dict[str, Any] = {
        "title": title,
        "description": _description(message, worded, foot, room),
        "color": int(worded.color.removeprefix("#"), 16),
        "fields": [{"name": name, "value": value, "inline": True} for name, value in fields],
        "footer": {"text": worded.when},
    }
    if len(message.link) <= PAGE:
        embed["url"] = message.link
    buttons = [
        {"type": 2, "style": 5, "label": escaped(label, plain, LABEL), "url": url}
        for label, url in links
    ]
    return {
        "content": _head(worded),
        "embeds": [embed],
        "components": [{"type": 1, "components": buttons[:5]}] if pressed else [],
        "allowed_mentions": NOBODY,
    }


def _description(message: Message, worded: Parts, foot: list[str], room: int) -> str:
    """Facts and advice as text; what the log says as a block of code."""
    before = worded.total - len(message.evidence)
    samples = [fenced(cut(plain(line), LINE)) for line in message.evidence[:LINES]]
    every = [*worded.lines[:before], *samples]
    room -= sum(map(_size, [worded.about, *foot, FENCE, FENCE]))
    lines = fit(every, worded.total, room, _size, worded.rest)
    rest = [] if lines == every else [lines.pop()]
    code = [FENCE, *lines[before:], FENCE] if lines[before:] else []
    return "\n".join([worded.about, *lines[:before], *code, *rest, *foot])


def _bare(message: Message, worded: Parts) -> dict[str, Any]:
    """The same as text alone, for when an embed is refused."""
    colon = WORDS[message.language][":"]
    facts = [f"{name}{colon}{value}" for name, value in worded.facts]
    foot = f"{worded.open_link}{colon}<{message.link}>"
    head = [_head(worded), worded.title]
    room = CONTENT - sum(map(_size, [*head, foot]))
    lines = fit([worded.about, *facts], 1 + len(facts), room, _size, lambda *_: "…")
    return {"content": "\n".join([*head, *lines, foot]), "allowed_mentions": NOBODY}


def _head(worded: Parts) -> str:
    return f"**{worded.state}** {worded.notes}".rstrip()


def _link(label: str, url: str) -> str:
    return f"[{escape(label)}]({url.replace('(', '%28').replace(')', '%29')})"


def _filled(text: str) -> str:
    return text.strip() or "-"


def _size(line: str) -> int:
    return utf16(line) + 1
