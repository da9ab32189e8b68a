"""PagerDuty, Events API v2: one alert there for each of ours, triggered, acknowledged and resolved.

https://developer.pagerduty.com/docs/send-alert-event (fields, severities, 512 KB, dedup_key) and
https://developer.pagerduty.com/docs/events-api-v2-overview (202, 400, 429).
"""

import hashlib
import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Literal

import httpx
import msgspec

from detectors.phrases import FACT, LINE, NAME, RESPOND, TITLE, Parts, parts
from detectors.receivers import (
    OVER,
    Delivered,
    Flow,
    Language,
    Manners,
    Message,
    Outcome,
    Refused,
    Retry,
    body,
    judge,
    quoted,
)
from detectors.shorten import cut, plain
from ingest.config import Secret

EXAMPLE = """
[receivers.pager]
type        = "pagerduty"
routing_key = "FAKE0001FAKE0001FAKE0001FAKE0001"
"""
YES = (202, '{"status": "success", "message": "Event processed", "dedup_key": "al_7f3a"}')
# 120 a minute for one key, "adjusted dynamically": a third is left for other senders.
MANNERS = Manners(limits=((80, 60.0),), digest=False, keyed=True, mirrors=True)

HOSTS = {"us": "events.pagerduty.com", "eu": "events.eu.pagerduty.com"}
SEVERITY = {"critical": "critical", "high": "error", "medium": "warning", "low": "info"}
ROOM = 480_000  # bytes of an event; above 512 KB it is refused whole
SUMMARY, KEY = 1_024, 255  # characters
NAMES: dict[Language, dict[str, str]] = {
    "en": {
        "alert": "alert", "state": "state", "detector": "detector", "tenant": "tenant",
        "subject": "subject", "at": "local time", "notes": "note", "respond": "what to do",
        "parameter": "parameter", "events": "events", "sample": "sample", "shown": "samples shown",
    },
    "zh": {
        "alert": "告警", "state": "状态", "detector": "检测器", "tenant": "租户",
        "subject": "对象", "at": "本地时间", "notes": "备注", "respond": "处置",
        "parameter": "参数", "events": "事件数", "sample": "样本", "shown": "显示样本",
    },
}  # fmt: skip


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    routing_key: Secret  # the integration key of a service, or that of an event orchestration
    region: Literal["us", "eu"] = "us"

    def __post_init__(self) -> None:
        if len(self.routing_key.reveal) != 32:
            raise ValueError("`routing_key` has 32 characters")

    @property
    def address(self) -> str:
        return f"https://{HOSTS[self.region]}/v2/enqueue"


def deliver(message: Message, options: Options, now: datetime) -> Flow:
    if message.kind in ("daily", "digest"):
        return Delivered("not sent: it is no incident")
    content = _encode(_event(message, options))
    headers = {"content-type": "application/json"}
    response = yield httpx.Request("POST", options.address, headers=headers, content=content)
    return _read(response, options, now)


def _read(response: httpx.Response, options: Options, now: datetime) -> Outcome:
    if (no := judge(response, now)) and response.status_code != 400:
        return no
    answer = body(response)
    if response.status_code == 202 and answer.get("status") == "success":
        return Delivered()
    if response.status_code != 400:
        return Retry(f"answered {quoted(response)}", "other")
    said = plain(json.dumps(answer.get("errors", ""), ensure_ascii=False))[:200]
    if options.routing_key.reveal in said or not answer.get("errors"):
        return Refused("HTTP 400", "clientError")
    if "routing_key" in said:
        return Refused(f"HTTP 400: {said}", "authError", "token")
    return Refused(f"HTTP 400: {said}", "clientError")


def _event(message: Message, options: Options) -> dict[str, Any]:
    """`acknowledge` and `resolve` name the alert and nothing else: the rest would be ignored."""
    key = options.routing_key.reveal
    event: dict[str, Any] = {"routing_key": key, "dedup_key": _key(message.alert)}
    if message.kind in OVER:
        return event | {"event_action": "resolve"}
    if message.kind == "acknowledged":
        return event | {"event_action": "acknowledge"}
    said = parts(message, str)
    links = [(said.open_link, message.link), *said.buttons]
    details: dict[str, str] = {}
    payload = {
        "summary": cut(f"{said.title} ({message.alert})", SUMMARY),
        "timestamp": message.at,
        "severity": SEVERITY.get(message.severity, "critical"),
        "source": _short(message.subject, TITLE) or "gatewatch",
        "component": "gatewatch",
        "group": _short(message.tenant or message.subject, TITLE),
        "class": message.detector,
        "custom_details": details,
    }
    event |= {
        "event_action": "trigger",
        "client": "gatewatch",
        "client_url": message.link,
        "payload": payload,
        "links": [{"href": url, "text": label} for label, url in links],
    }
    _fill(details, message, said, ROOM - len(_encode(event)))
    return event


def _fill(details: dict[str, str], message: Message, said: Parts, room: int) -> None:
    """The details, the most telling first; samples until there is no room, and how many there are.

    Cut here, never dropped whole: a page without a reason wakes somebody for nothing.
    """
    names = NAMES[message.language]
    shown, total = 0, max(message.events, len(message.evidence))
    room -= len(_encode({names["shown"]: f"{total} / {total}"}))
    for name, value in _rows(message, said):
        room -= len(_encode({name: value}))
        if value and room > 0:
            details[name] = value
    for line in message.evidence:
        name, value = f"{names['sample']} {shown + 1}", _short(line, LINE)
        if (room := room - len(_encode({name: value}))) < 0:
            break
        details[name] = value
        shown += 1
    details[names["shown"]] = f"{shown} / {total}"


def _rows(message: Message, said: Parts) -> Iterator[tuple[str, str]]:
    """Name and value of what is always told. A name from a log never takes the place of ours."""
    names = NAMES[message.language]
    yield names["state"], said.state
    yield names["alert"], message.alert
    yield names["notes"], said.notes
    yield names["detector"], message.detector
    yield names["tenant"], _short(message.tenant, TITLE)
    yield names["subject"], _short(message.subject, TITLE)
    yield names["at"], message.at_local
    ours = {*names.values()}
    for name, value in message.facts:
        name = _short(name, NAME)
        yield f"{name}{' ' if name in ours else ''}", _short(value, FACT)
    yield names["respond"], _short(message.respond, RESPOND)
    for name, value in message.params:
        yield f"{names['parameter']} {_short(name, NAME)}", _short(value, FACT)


def _key(alert: str) -> str:
    """The same for all that is told of an alert."""
    return alert if len(alert) <= KEY else f"al_{hashlib.sha256(alert.encode()).hexdigest()}"


def _short(text: str, room: int) -> str:
    return cut(plain(text), room)


def _encode(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
