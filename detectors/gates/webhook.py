"""A gate of your own: one JSON object to pause, one to resume, signed as Standard Webhooks 1.0.0
says (https://www.standardwebhooks.com). How to verify it: docs/containment.md.
"""

import json
from datetime import datetime
from typing import Any

import httpx

from detectors.gates import Order, moment
from detectors.receivers import Delivered, Flow, Hook, Refused, Retry, body, judge
from detectors.receivers.webhook import signature
from ingest.config import Secret

EXAMPLE = """
[containment.till]
type    = "webhook"
webhook = "https://gate.example/gatewatch-FAKE0001"
secrets = ["whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="]
agents  = ["billing-*"]
"""
AGAIN: float | None = None
SOON = 5.0  # seconds until a gate that answered 202 is asked how it went


class Options(Hook, frozen=True, forbid_unknown_fields=True):
    """With two `secrets` each request carries both signatures: that is how a key is changed.

    `honours_until`: the gate itself lets go at `until`; otherwise it is sent a resume then.
    """

    secrets: tuple[Secret, ...]
    honours_until: bool = False

    def __post_init__(self) -> None:
        if not self.secrets:
            raise ValueError("a gate that can be told to pause by anybody is none: name a secret")
        signature(b"", self.secrets)

    @property
    def folder(self) -> str:
        return ""

    @property
    def forgets(self) -> bool:
        return self.honours_until


def pause(order: Order, options: Options, now: datetime) -> Flow:
    return (yield from _say("pause", order, options, now))


def resume(order: Order, options: Options, now: datetime) -> Flow:
    return (yield from _say("resume", order, options, now))


def _say(what: str, order: Order, options: Options, now: datetime) -> Flow:
    key = f"{order.id}-{what}"  # the same at every attempt
    content = _encode({"type": f"gatewatch.{what}", "timestamp": moment(now), "data": data(order)})
    seconds = str(int(now.timestamp()))
    headers = {
        "content-type": "application/json",
        "idempotency-key": key,
        "webhook-id": key,
        "webhook-timestamp": seconds,
        "webhook-signature": signature(f"{key}.{seconds}.".encode() + content, options.secrets),
    }
    answer = yield httpx.Request("POST", options.address, headers=headers, content=content)
    if outcome := judge(answer, now):
        return outcome
    if answer.status_code == 202:  # taken, which is not done: ask again, the key is the same
        return Retry("HTTP 202: taken, not done yet", "other", SOON)
    if what == "pause" and body(answer).get("paused") is False:
        return Refused("it answered that nothing is paused", "other")
    return Delivered()  # any other 2xx is a yes


def data(order: Order) -> dict[str, Any]:
    """What a gate is told: whom, until when, by whom and why."""
    return {
        "pause_id": order.id,
        "target": {"kind": order.kind, "name": order.name},
        "tenant": order.tenant,
        "until": moment(order.until),
        "reason": order.reason,
        "actor": order.actor,
        "automatic": order.automatic,
        "alert_id": order.alert or None,
        "link": order.link or None,
    }


def _encode(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
