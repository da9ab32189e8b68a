"""Feishu or Lark custom bot: one interactive card to the bot's webhook.

The webhook's host says which of the two it is: open.feishu.cn or open.larksuite.com.
https://open.feishu.cn/document/client-docs/bot-v3/add-custom-bot (limits, codes, signature) and
https://open.feishu.cn/document/uAjLw4CM/ukzMukzMukzM/feishu-cards/card-json-structure (the card).
"""

import base64
import hashlib
import hmac
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
from detectors.robots import by_its_clock, code_in
from detectors.shorten import fit, plain, wire
from ingest.config import Secret

EXAMPLE = """
[receivers.ops]
type     = "feishu"
webhook  = "https://open.feishu.cn/open-apis/bot/v2/hook/FAKE0001-0000-0000-0000-000000000000"
sign_key = "FAKE-feishu-secret-0001"
keyword  = "gatewatch"
"""
YES = (
    200,
    '{"StatusCode": 0, "StatusMessage": "success", "code": 0, "data": {}, "msg": "success"}',
)
# 100 a minute and 5 a second are published, and full and half hours are to be avoided: 11232
MANNERS = Manners(limits=((1, 1.0), (60, 60.0)), crowded=40.0)

ROOM = 18_000  # bytes of a body; above 20 KB the service answers 9499
BUSY = {"11232"}  # frequency limited
NO_ACCESS = {"19021": "sign", "19022": "ip", "19024": "keyword", "19001": "token"}
MANY = "too many request"  # what a 9499 says that is no bad request (nightingale #1437)
TEMPLATES = {"critical": "red", "high": "orange", "medium": "yellow", "low": "blue"}
OVER = "green"
HEAD = 80  # code points of a title that a card's header shows on a telephone
BREAK = str.maketrans({"<": "<\u200b", "@": "@\u200b"})


class Options(Hook, frozen=True, forbid_unknown_fields=True):
    sign_key: Secret | None = None
    keyword: str = ""  # a bot may insist on a word in every message


def deliver(message: Message, options: Options, now: datetime) -> Flow:
    worded = parts(message, _safe)

    def request(at: datetime) -> httpx.Request:
        return _request(message, worded, options, at)

    response = yield request(now)
    outcome = _read(response, now)
    if isinstance(outcome, Refused) and outcome.hint == "sign":
        return (yield from by_its_clock(outcome, response, now, request, _read))
    return outcome


def _read(response: httpx.Response, now: datetime) -> Outcome:
    """The code in the body tells, whatever the status; old bots spell it StatusCode."""
    answer = body(response)
    code = code_in(answer, "code", "StatusCode")
    if code is None:  # a proxy's page, or nothing
        return judge(response, now) or Retry(f"answered {quoted(response)}", "other")
    said = plain(str(answer.get("msg", answer.get("StatusMessage", "no msg"))))[:200]
    if code == "0" and response.status_code == 200:
        return Delivered()
    reason = f"code {code}: {said}"
    if code in BUSY or (code == "9499" and MANY in said.lower()):
        return Retry(reason, "rateLimited")
    if code in NO_ACCESS:
        return Refused(reason, "authError", NO_ACCESS[code])
    by_status = judge(response, now)
    return by_status if isinstance(by_status, Retry) else Refused(reason, "clientError")


def signature(secret: str, seconds: str) -> str:
    """Key and message change places against DingTalk: the text signed is empty."""
    digest = hmac.digest(f"{seconds}\n{secret}".encode(), b"", hashlib.sha256)
    return base64.b64encode(digest).decode()


def _request(message: Message, worded: Parts, options: Options, now: datetime) -> httpx.Request:
    """Signed anew for each attempt: the service refuses a signature an hour old."""
    signed: dict[str, str] = {}
    if options.sign_key is not None:
        seconds = str(int(now.timestamp()))
        signed = {"timestamp": seconds, "sign": signature(options.sign_key.reveal, seconds)}
    card = _card(message, worded, options.keyword, [])
    payload = {**signed, "msg_type": "interactive", "card": card}
    room = ROOM - len(wire(payload)) - len(wire(_lines([""])))
    lines = fit(worded.lines, worded.total, room, _size, worded.rest)
    payload["card"] = _card(message, worded, options.keyword, lines)
    headers = {"content-type": "application/json; charset=utf-8"}
    return httpx.Request("POST", options.address, headers=headers, content=wire(payload))


def _card(message: Message, worded: Parts, keyword: str, lines: list[str]) -> dict[str, Any]:
    """Log text stands in plain_text alone, which knows no markup and calls nobody."""
    elements = [_div(worded.title)] if len(worded.title) > HEAD else []  # a header shows no more
    elements.append(_div(f"{worded.about}\n{worded.when}"))
    if worded.facts:
        fields = [_text(f"{name}\n{value}") for name, value in worded.facts]
        elements += [{"tag": "div", "fields": [{"is_short": True, "text": e} for e in fields]}]
    if lines:
        elements += [{"tag": "hr"}, _lines(lines)]
    links = ((worded.open_link, message.link), *worded.buttons)
    elements.append({"tag": "action", "actions": [_button(*each) for each in links]})
    if note := f"{worded.notes} {keyword}".strip():
        elements.append({"tag": "note", "elements": [_text(note)]})
    template = OVER if worded.over else TEMPLATES.get(message.severity, TEMPLATES["critical"])
    return {
        "config": {"wide_screen_mode": True},
        "header": {"template": template, "title": _text(f"{worded.state} · {worded.title}")},
        "elements": elements,
    }


def _lines(lines: list[str]) -> dict[str, Any]:
    return _div("\n".join(lines))


def _div(text: str) -> dict[str, Any]:
    return {"tag": "div", "text": _text(text)}


def _text(text: str) -> dict[str, Any]:
    return {"tag": "plain_text", "content": text or "-"}


def _button(label: str, url: str) -> dict[str, Any]:
    return {"tag": "button", "text": _text(label), "url": url, "type": "default"}


def _safe(text: str) -> str:
    return plain(text).translate(BREAK)


def _size(line: str) -> int:
    """Bytes of one line in the JSON that is sent, its line end included."""
    return len(wire(line))
