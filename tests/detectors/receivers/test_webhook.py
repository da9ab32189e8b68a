import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

import httpx
import msgspec
import pytest

from detectors import routing
from detectors.receivers import Delivered, Kind, Refused, webhook
from detectors.receivers.webhook import signature
from detectors.worker import try_out
from ingest.config import ConfigError, Secret, convert
from tests.fakes import check, load, tell
from tests.fakes.webhook import SCHEMA, Fake
from tests.kit_receivers import MESSAGE, NOW, ROOT, deliver, exchange, yes
from tests.kit_sockets import say, service

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


@pytest.mark.parametrize("kind", get_args(Kind))
def test_every_kind_keeps_to_the_published_schema(kind: Kind) -> None:
    message = replace(MESSAGE, kind=kind, evidence=MESSAGE.evidence[:3], events=40)

    body = json.loads(deliver("webhook", yes("webhook"), message=message)[1].content)

    check(body, SCHEMA)
    of_many = kind in ("storm", "calm", "digest", "daily")
    assert body["type"] == (f"gatewatch.{kind}" if of_many else f"gatewatch.alert.{kind}")
    assert body["data"]["evidence_total"] == 40


def test_the_schema_knows_every_key_that_is_sent_and_no_other() -> None:
    data = json.loads(deliver("webhook", yes("webhook"))[1].content)["data"]

    assert SCHEMA["properties"]["data"]["properties"].keys() == data.keys()


def test_the_examples_in_the_book_keep_to_the_schema() -> None:
    page = (ROOT / "docs/receivers/webhook.md").read_text(encoding="utf-8")
    examples = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    assert examples

    for example in examples:
        check(json.loads(example), SCHEMA)


def test_a_test_message_is_closed_again() -> None:
    with service(say(b"HTTP/1.1 204 No Content\r\n\r\n")) as (port, heard):
        table = {"type": "webhook", "webhook": f"http://127.0.0.1:{port}/"}
        [route] = routing.load({"soc": table | {"allow_http": True, "allow_private": True}})
        assert try_out(route, "https://gatewatch.example", NOW) == Delivered()

    said = [json.loads(request.partition(b"\r\n\r\n")[2])["data"] for request in heard]
    assert [each["kind"] for each in said] == ["open", "resolved"]
    assert {each["alert_id"] for each in said} == {"al_test"}
    assert len({each["delivery_id"] for each in said}) == 2


def test_what_a_program_may_act_on_is_there() -> None:
    message = replace(
        MESSAGE,
        evidence=("one",),
        tenant="acme",
        at_local="2026-03-10 17:03:00 +0800",
        params=(("filter.region", "EU"), ("(+3 more)", "")),
        buttons=(("ack", "https://gatewatch.example/a"),),
    )

    data = json.loads(deliver("webhook", yes("webhook"), message=message)[1].content)["data"]

    assert data["links"] == {"ack": "https://gatewatch.example/a"}
    assert data["params"] == {"filter.region": "EU", "(+3 more)": ""}
    assert (data["tenant"], data["local_time"]) == ("acme", "2026-03-10 17:03:00 +0800")


def test_a_cut_takes_evidence_then_parameters_then_facts() -> None:
    many = tuple((f"{each}", "x" * 150) for each in range(100))
    message = replace(MESSAGE, facts=many[:60], params=many)

    sent = deliver("webhook", yes("webhook"), message=message)[1].content

    data = json.loads(sent)["data"]
    assert len(sent) <= 20_000
    assert (len(data["facts"]), data["evidence"]) == (60, [])
    assert 0 < len(data["params"]) < data["params_total"] == 100


def test_410_is_the_end_and_says_so() -> None:
    outcome, sent = exchange("webhook", httpx.Response(410))

    assert (outcome, len(sent)) == (Refused("HTTP 410", "clientError", "gone"), 1)


def test_during_a_change_of_keys_both_the_old_and_the_new_one_fit() -> None:
    options = webhook.Options(Secret("https://soc.example/"), (A, B))
    fakes: list[Any] = [
        load("webhook", webhook.Options(options.webhook, (each,))) for each in (A, B)
    ]

    for fake in fakes:
        assert tell(fake, "webhook", options=options) == Delivered()


def test_each_attempt_is_signed_for_its_moment_under_the_same_id() -> None:
    fake = load("webhook")
    assert isinstance(fake, Fake)

    tell(fake, "webhook", now=NOW)
    fake.now += timedelta(hours=2)
    assert tell(fake, "webhook", replace(MESSAGE, repeat=True)) == Delivered()
    stale = tell(fake, "webhook", now=NOW)

    assert fake.twice == ["dl_0001"]
    assert stale == Refused("HTTP 401", "authError", "token")
