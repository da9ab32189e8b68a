"""Somebody's own service that keeps to Standard Webhooks 1.0.0 (https://www.standardwebhooks.com/).

It checks the signature as the specification's libraries do, and the body against the schema that
the book publishes.
"""

import base64
import hashlib
import hmac
import json
from collections.abc import Iterator
from typing import Any

import httpx

from tests import fakes
from tests.kit_receivers import ROOT

SCHEMA = json.loads((ROOT / "docs/receivers/webhook.schema.json").read_text(encoding="utf-8"))
LARGEST = 256 * 1024  # bytes of a body; the specification advises to stay below 20 kB
TOLERANCE = 300.0  # seconds between the clocks


class Fake(fakes.Fake):
    """A service that knows the secrets of the config. `twice`: ids that came again, and were not
    taken for something new."""

    limits = ((60, 10.0),)

    def __init__(self, options: Any = None) -> None:
        super().__init__(options)
        self.seen: set[str] = set()
        self.twice: list[str] = []

    def take(self, request: httpx.Request) -> fakes.Seen:
        if (request.method, str(request.url)) != ("POST", self.options.address):
            raise fakes.NoError("no such page", httpx.Response(404))
        if self.crowded():
            raise fakes.NoError("too many", httpx.Response(429, headers={"retry-after": "5"}))
        if len(request.content) > LARGEST:
            raise fakes.NoError("too large", httpx.Response(413))
        name = request.headers["webhook-id"]
        self._verify(name, request)
        try:
            payload = fakes.json_of(request)
            fakes.check(payload, SCHEMA)
            if payload["data"]["delivery_id"] != name:
                raise ValueError("webhook-id and delivery_id differ")
        except ValueError as error:
            raise fakes.NoError(str(error), httpx.Response(400)) from error
        if name in self.seen:
            self.twice.append(name)
        self.seen.add(name)
        return fakes.Seen(self.now, "\n".join(_texts(payload)), links=(payload["data"]["link"],))

    def yes(self, seen: fakes.Seen) -> httpx.Response:
        return httpx.Response(204)

    def _verify(self, name: str, request: httpx.Request) -> None:
        """Any one signature that fits is enough; a time too far away is none."""
        seconds = request.headers["webhook-timestamp"]
        signed = f"{name}.{seconds}.".encode() + request.content
        said = request.headers.get("webhook-signature", "").split(" ")
        wanted = {
            "v1," + base64.b64encode(hmac.digest(_key(each), signed, hashlib.sha256)).decode()
            for each in self.options.secrets
        }
        if wanted and not wanted & {*said}:
            raise fakes.NoError("signature", httpx.Response(401))
        if "." in name or abs(float(seconds) - self.now.timestamp()) > TOLERANCE:
            raise fakes.NoError("id or time", httpx.Response(401))


def _key(secret: Any) -> bytes:
    return base64.b64decode(secret.reveal.removeprefix("whsec_"))


def _texts(value: Any) -> Iterator[str]:
    """Every word that the service can show."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)
    else:
        yield str(value)
