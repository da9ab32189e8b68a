import json
from dataclasses import replace
from datetime import UTC, datetime

import msgspec
import pytest

from detectors.receivers import webhook
from detectors.receivers.webhook import signature
from ingest.config import ConfigError, Secret, convert
from tests.kit_receivers import MESSAGE, deliver, exchange, yes

A = Secret("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=")
B = Secret("whsec_ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=")
FIRST = (
    '{"type":"gatewatch.alert.firing","timestamp":"2026-01-01T00:00:00Z",'
    '"data":{"alert_id":"a-0001","severity":"high"}}'
)
SECOND = (
    '{"type":"gatewatch.alert.firing","timestamp":"2026-01-01T00:00:00Z",'
    '"data":{"alert_id":"a-0002","summary":"拒绝重试 ×5"}}'
)


@pytest.mark.parametrize(
    ("name", "text", "secrets", "value"),
    [
        ("msg_gw_0001", FIRST, (A,), "v1,I5j1/p3AoKfJX2AFHcObW+e/F9aZjzH3BsjdmvNMkoY="),
        ("msg_gw_0001", FIRST, (A, B), "v1,I5j1/p3AoKfJX2AFHcObW+e/F9aZjzH3BsjdmvNMkoY="
                                       " v1,g2gXFTFlT+QcJaii4Ut31nKPJW5SoTSFR7eGILec3tU="),
        ("msg_gw_0002", SECOND, (A,), "v1,Y5OcW8iFYV7XRyHo89zUgQBbVZu0vE6B/6ZIe5UlM8U="),
    ],
)  # fmt: skip
def test_signatures_are_those_of_the_standard(
    name: str, text: str, secrets: tuple[Secret, ...], value: str
) -> None:
    assert signature(f"{name}.1767225600.{text}".encode(), secrets) == value


def test_a_request_is_signed_over_the_bytes_that_are_sent() -> None:
    request = deliver("webhook", yes("webhook"), datetime(2026, 1, 1, tzinfo=UTC))[1]

    assert request.headers["webhook-id"] == "dl_0001"
    assert request.headers["webhook-timestamp"] == "1767225600"
    signed = b"dl_0001.1767225600." + request.content
    assert request.headers["webhook-signature"] == signature(signed, (A,))


def test_the_body_says_what_happened_as_data() -> None:
    message = replace(MESSAGE, evidence=("one", "two"), title="拒绝")

    body = json.loads(deliver("webhook", yes("webhook"), message=message)[1].content)

    assert (body["type"], body["timestamp"]) == ("gatewatch.alert.open", message.at)
    data = body["data"]
    assert (data["alert_id"], data["title"], data["evidence"]) == (
        "al_7f3a",
        "拒绝",
        ["one", "two"],
    )
    assert data["facts"]["denials"] == "3"


@pytest.mark.parametrize("secret", ["hunter2", "whsec_AAEC", "whsec_*"])
def test_a_secret_that_is_none_is_refused_without_showing_it(secret: str) -> None:
    table = {"webhook": "https://soc.example/", "secrets": [secret]}

    with pytest.raises(ConfigError, match="24 to 64 bytes") as error:
        convert(table, webhook.Options, "gatewatch.toml: receivers.soc")

    assert secret not in str(error.value)


def test_without_secrets_nothing_is_signed() -> None:
    options = webhook.Options(Secret("https://soc.example/"))

    _, sent = exchange("webhook", yes("webhook"), options=options)

    assert "webhook-signature" not in sent[0].headers
    assert msgspec.json.decode(sent[0].content)["data"]["severity"] == "high"
