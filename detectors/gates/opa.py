"""Open Policy Agent: the pause becomes a document that your policy reads.

`PUT /v1/data/PATH/ID` stores it, `DELETE` takes it away; 204 is the yes, 404 of a `PUT` a conflict
with another document or a rule (https://www.openpolicyagent.org/docs/rest-api#data-api).
OPA keeps what is pushed in memory, so a standing pause is pushed again and again: a restart of OPA
lifts it for a minute at most.
"""

import json
import re
from datetime import datetime
from typing import Any

import httpx
import msgspec

from detectors.gates import Order
from detectors.gates.webhook import data
from detectors.receivers import Delivered, Flow, Outcome, Refused, body, judge, quoted
from ingest.config import Secret

EXAMPLE = """
[containment.opa]
type  = "opa"
url   = "https://opa.example:8181"
token = "FAKE-opa-token-0001"
ask   = "gatewatch/denied"
"""
AGAIN: float | None = 60.0
PLACE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(/[A-Za-z_][A-Za-z0-9_]*)*")


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`path`: where the documents go. `ask`: a rule that must say true of whoever is paused; with
    it a pause counts only when some policy really reads it."""

    url: str
    token: Secret | None = None
    path: str = "gatewatch/paused"
    ask: str | None = None

    def __post_init__(self) -> None:
        for place in (self.path, self.ask):
            if place is not None and not PLACE.fullmatch(place):
                raise ValueError(f"{place!r} is no path of a document: gatewatch/paused")

    @property
    def address(self) -> str:
        return self.url

    @property
    def folder(self) -> str:
        return ""

    @property
    def forgets(self) -> bool:
        return False  # the rule lets go at `until`; the document stays until it is taken away


def pause(order: Order, options: Options, now: datetime) -> Flow:
    answer = yield _request("PUT", f"{options.path}/{order.id}", options, data(order))
    if outcome := _judge(answer, now):
        return outcome
    if options.ask is None:
        return Delivered("stored; whether a policy reads it, nobody has asked")
    asked = {"agent": "", "trace": "", "tenant": order.tenant} | {order.kind: order.name}
    answer = yield _request("POST", options.ask, options, {"input": asked})
    if outcome := judge(answer, now):
        return outcome
    if body(answer).get("result") is True:
        return Delivered()
    says = quoted(answer)
    return Refused(f"stored, but {options.ask} says {says}: no policy reads it", "other")


def resume(order: Order, options: Options, now: datetime) -> Flow:
    answer = yield _request("DELETE", f"{options.path}/{order.id}", options)
    if answer.status_code == 404:
        return Delivered("it was not there any more")
    return _judge(answer, now) or Delivered()


def _judge(answer: httpx.Response, now: datetime) -> Outcome | None:
    """None: OPA's own yes, which has no content. A page of HTML with 200 is none."""
    if outcome := judge(answer, now):
        return outcome
    if answer.status_code == 204:
        return None
    return Refused(f"HTTP {answer.status_code} is not OPA's yes", "other", "address")


def _request(
    method: str, path: str, options: Options, content: dict[str, Any] | None = None
) -> httpx.Request:
    headers = {"content-type": "application/json"} if content is not None else {}
    if options.token:
        headers["authorization"] = f"Bearer {options.token.reveal}"
    text = None if content is None else json.dumps(content, ensure_ascii=False).encode()
    url = f"{options.url.rstrip('/')}/v1/data/{path}"
    return httpx.Request(method, url, headers=headers, content=text)
