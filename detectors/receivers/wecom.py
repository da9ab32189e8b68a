"""WeCom group bot: one message of Markdown to the bot's webhook.

`markdown_v2`, because it has code blocks, in which text from logs is only text, and calls nobody;
a template card would hold six short fields and no evidence.
https://developer.work.weixin.qq.com/document/path/99110 (limits, types, what Markdown it reads).
"""

from dataclasses import replace
from datetime import datetime

import httpx

from detectors.markdown import escape, fenced
from detectors.phrases import SURE, WORDS, parts
from detectors.receivers import Flow, Hook, Manners, Message, Outcome, Refused
from detectors.robots import by_errcode
from detectors.shorten import cut, fit

EXAMPLE = """
[receivers.ops]
type    = "wecom"
webhook = "https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=FAKE0001-0000-0000-0000-000000000000"
"""
YES = (200, '{"errcode": 0, "errmsg": "ok"}')
MANNERS = Manners(limits=((15, 60.0),), bundle=9)  # 20 a minute, a quarter left free for others

ROOM = 3_900  # bytes of UTF-8 in the content; above 4 096 the service answers 40058
TOO_LONG = {"40058"}
BUSY = {"-1": None, "45009": 60.0}  # busy; too many in this minute
NO_ACCESS = {"93000": "token"}  # no such webhook
TITLE, SUBJECT, NAME, FACT = 400, 200, 60, 200  # bytes of what no cut takes
FRAME = 40  # bytes of a code block's own lines and of line ends


class Options(Hook, frozen=True, forbid_unknown_fields=True):
    pass


def deliver(message: Message, options: Options, now: datetime) -> Flow:
    response = yield _request(message, options, ROOM)
    outcome = _read(response, now)
    if isinstance(outcome, Refused) and outcome.hint == "too_long":
        response = yield _request(message, options, ROOM // 2)
        outcome = _read(response, now)
    return outcome


def _read(response: httpx.Response, now: datetime) -> Outcome:
    return by_errcode(response, now, BUSY, TOO_LONG, NO_ACCESS)


def _request(message: Message, options: Options, room: int) -> httpx.Request:
    content = _content(message, room)
    payload = {"msgtype": "markdown_v2", "markdown_v2": {"content": content}}
    return httpx.Request("POST", options.address, json=payload)


def _content(message: Message, room: int) -> str:
    """At most `room` bytes. Evidence goes first, then the links beside the main one."""
    worded, coded = parts(_short(message), escape), parts(message, fenced)
    colon = WORDS[message.language][":"]
    head = [f"## {worded.dot} {worded.state} {worded.notes}".rstrip(), f"**{worded.title}**  "]
    head += [f"{worded.about}  ", worded.when]
    head += [f"> {name}{colon}{value}  " for name, value in worded.facts]
    links = [f"[{worded.open_link}]({message.link})"]
    room -= sum(map(_size, [*head, *links])) + FRAME
    spare = room - _size(coded.rest(coded.total, coded.total))
    for link in (f"[{label}]({url})" for label, url in worded.buttons):
        if (size := _size(f" · {link}")) <= spare:
            links.append(link)
            room, spare = room - size, spare - size
    lines = fit(coded.lines, coded.total, room, _size, coded.rest)
    rest = [] if len(lines) == coded.total and lines == [*coded.lines] else [lines.pop()]
    block = ["```", *lines, "```"] if lines else []
    return "\n".join([*head, *block, *rest, " · ".join(links)])


def _short(message: Message) -> Message:
    """With what no cut takes short enough for a service that counts bytes."""
    return replace(
        message,
        title=_cut(message.title, TITLE),
        subject=_cut(message.subject, SUBJECT),
        facts=(
            *((_cut(name, NAME), _cut(value, FACT)) for name, value in message.facts[:SURE]),
            *message.facts[SURE:],
        ),
    )


def _cut(text: str, room: int) -> str:
    return cut(text[: room + 1], room, lambda beginning: _size(escape(beginning)))


def _size(line: str) -> int:
    """Bytes of one line, its end included."""
    return len(line.encode()) + 1
