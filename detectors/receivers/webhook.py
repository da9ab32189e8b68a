"""Any service of your own: one JSON object, signed as Standard Webhooks 1.0.0 says."""

import base64
import binascii
import hashlib
import hmac
import json
from datetime import datetime
from typing import Any

import httpx

from detectors.phrases import FACT, LINE, NAME, RESPOND, TITLE
from detectors.receivers import Delivered, Flow, Hook, Manners, Message, Refused, judge
from detectors.shorten import cut, plain
from ingest.config import Secret

EXAMPLE = """
[receivers.soc]
type    = "webhook"
webhook = "https://soc.example/hooks/gatewatch-FAKE0001"
secrets = ["whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="]
"""
YES = (204, "")
MANNERS = Manners(limits=((5, 1.0),), total=15.0, digest=False, keyed=True, mirrors=True)

ROOM = 20_000  # bytes of a body; Standard Webhooks advises to stay below 20 kB
PREFIX = "whsec_"
OF_MANY = ("storm", "calm", "digest", "daily")  # kinds that are not about one alert


class Options(Hook, frozen=True, forbid_unknown_fields=True):
    """With two `secrets` each request carries both signatures: that is how a key is changed."""

    secrets: tuple[Secret, ...] = ()

    def __post_init__(self) -> None:
        for secret in self.secrets:
            _key(secret)


def deliver(message: Message, options: Options, now: datetime) -> Flow:
    content = _encode(_payload(message))
    seconds = str(int(now.timestamp()))
    headers = {
        "content-type": "application/json",
        "webhook-id": message.delivery,
        "webhook-timestamp": seconds,
    }
    if options.secrets:
        signed = f"{message.delivery}.{seconds}.".encode() + content
        headers["webhook-signature"] = signature(signed, options.secrets)
    url = options.webhook.reveal
    response = yield httpx.Request("POST", url, headers=headers, content=content)
    if response.status_code == 410:  # "should disable the endpoint", says the specification
        return Refused("HTTP 410", "clientError", "gone")
    return judge(response, now) or Delivered()  # any 2xx is a yes


def signature(signed: bytes, secrets: tuple[Secret, ...]) -> str:
    """The header's value for `id.seconds.body`: one signature for each secret."""
    digests = (hmac.digest(_key(secret), signed, hashlib.sha256) for secret in secrets)
    return " ".join(f"v1,{base64.b64encode(digest).decode()}" for digest in digests)


def _key(secret: Secret) -> bytes:
    text = secret.reveal
    try:
        key = base64.b64decode(text.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not text.startswith(PREFIX) or not 24 <= len(key) <= 64:
        raise ValueError(f"a secret is {PREFIX!r} and 24 to 64 bytes in Base64")
    return key


def _payload(message: Message) -> dict[str, Any]:
    """What is sent: docs/receivers/webhook.schema.json."""
    data: dict[str, Any] = {
        "alert_id": message.alert,
        "delivery_id": message.delivery,
        "kind": message.kind,
        "brief": message.brief,
        "repeat": message.repeat,
        "late": message.late,
        "detector": message.detector,
        "severity": message.severity,
        "tenant": _short(message.tenant, TITLE),
        "subject": _short(message.subject, TITLE),
        "title": _short(message.title, TITLE),
        "respond": _short(message.respond, RESPOND),
        "local_time": message.at_local,
        "link": message.link,
        "links": dict(message.buttons),
        "facts_total": len(message.facts),
        "facts": {},
        "params_total": len(message.params),
        "params": {},
        "evidence_total": max(message.events, len(message.evidence)),
        "evidence": [],
    }
    about = "" if message.kind in OF_MANY else "alert."
    payload = {"type": f"gatewatch.{about}{message.kind}", "timestamp": message.at, "data": data}
    _fill(data, message, ROOM - len(_encode(payload)))
    return payload


def _fill(data: dict[str, Any], message: Message, room: int) -> None:
    """A cut takes evidence, then parameters, then facts, from the last; the totals count all."""
    for pairs, key in ((message.facts, "facts"), (message.params, "params")):
        for name, value in pairs:
            name, value = _short(name, NAME), _short(value, FACT)
            if (room := room - len(_encode({name: value}))) < 0:
                return
            data[key][name] = value
    for line in message.evidence:
        line = _short(line, LINE)
        if (room := room - len(_encode(line)) - 1) < 0:
            return
        data["evidence"].append(line)


def _short(text: str, room: int) -> str:
    return cut(plain(text), room)


def _encode(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
