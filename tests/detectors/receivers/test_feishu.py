import base64
import hashlib
import hmac
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from detectors.receivers import Delivered, Outcome, Refused, Retry, feishu
from detectors.receivers.feishu import signature
from ingest.config import Secret
from tests import fakes
from tests.kit_receivers import MESSAGE, NOW, deliver, exchange, yes

SECRET = "FAKE-feishu-secret-0001"  # noqa: S105  # of the reference's vectors
RIGHT = "d+DmAcRCx5tXnK2Aeersr84UQcQ/c/5JPabn22Z9rOI="
TURNED_ROUND = "4hfOONKoTlI3WfyrcR74ly3cPMM/QwgepMHbUaL8w08="  # as DingTalk wants it
MILLIS = "CUMtU1Y/2hyfzdQx7/TWxYtV2xfsMt9VmHjpH4/qHik="


def no(code: int, text: str, status: int = 200, **headers: str) -> httpx.Response:
    return httpx.Response(status, json={"code": code, "msg": text, "data": {}}, headers=headers)


def card(message: Any = MESSAGE) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(deliver("feishu", yes("feishu"), message=message)[1].content)
    return found


@pytest.mark.parametrize(
    ("secret", "seconds", "sign"),
    [
        (SECRET, "1767225600", RIGHT),
        ("FAKE-feishu-secret-0002", "1788220800", "bZyzHLiUicUjeardId//2L+XBxUHBr2Fooe3qwhk+94="),
    ],
)
def test_signatures_are_those_of_the_reference(secret: str, seconds: str, sign: str) -> None:
    assert signature(secret, seconds) == sign


def test_the_known_mistakes_are_mistakes() -> None:
    words = f"1767225600\n{SECRET}".encode()
    turned = hmac.digest(SECRET.encode(), words, hashlib.sha256)

    assert base64.b64encode(turned).decode() == TURNED_ROUND
    assert signature(SECRET, "1767225600000") == MILLIS
    assert RIGHT not in (TURNED_ROUND, MILLIS)


def test_time_and_signature_travel_in_the_body_and_the_address_stays_as_it_is() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)

    request = deliver("feishu", yes("feishu"), at)[1]

    body = json.loads(request.content)
    assert (body["timestamp"], body["sign"]) == ("1767225600", RIGHT)
    assert str(request.url).endswith("/hook/FAKE0001-0000-0000-0000-000000000000")


def test_case_b115_each_attempt_is_signed_for_its_own_moment() -> None:
    fake = fakes.load("feishu")

    first = fakes.tell(fake, "feishu")
    fake.now += timedelta(seconds=3_700)
    again = fakes.tell(fake, "feishu")

    assert (first, again, fake.refused) == (Delivered(), Delivered(), [])


def test_a_signature_of_an_hour_ago_is_refused_and_its_time_named() -> None:
    fake = fakes.load("feishu")

    outcome = fakes.tell(fake, "feishu", now=NOW - timedelta(hours=2))

    assert outcome == Delivered("clock_skew: own clock is -7200 s off")
    assert len(fake.requests) == 2


def test_case_b117_a_wrong_secret_is_tried_once_more_only_when_the_clocks_differ() -> None:
    wrong = replace_options(sign_key=Secret("another"))
    fake = fakes.load("feishu")

    outcome = fakes.tell(fake, "feishu", options=wrong)

    assert isinstance(outcome, Refused)
    assert (outcome.label, outcome.hint, len(fake.requests)) == ("authError", "sign", 1)
    later = fakes.tell(fake, "feishu", options=wrong, now=NOW + timedelta(hours=2))
    assert isinstance(later, Refused)
    assert (later.hint, len(fake.requests)) == ("clock_skew", 3)


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (no(9499, "Bad Request"), Refused("code 9499: Bad Request", "clientError")),
        (no(9499, "Bad Request", 400), Refused("code 9499: Bad Request", "clientError")),
        (no(9499, "too many request", 400), Retry("code 9499: too many request", "rateLimited")),
        (no(11232, "frequency limited"), Retry("code 11232: frequency limited", "rateLimited")),
        (no(19021, "sign match fail"), Refused("code 19021: sign match fail", "authError", "sign")),
        (no(19022, "Ip Not Allowed"), Refused("code 19022: Ip Not Allowed", "authError", "ip")),
        (no(19024, "Key Words Not Found"),
         Refused("code 19024: Key Words Not Found", "authError", "keyword")),
        (no(19001, "token invalid"), Refused("code 19001: token invalid", "authError", "token")),
        (no(1, "oops", 503), Retry("HTTP 503", "serverError")),
        (httpx.Response(200, json={"StatusCode": 0, "StatusMessage": "success"}), Delivered()),
        (httpx.Response(200, json={"StatusCode": 19024, "StatusMessage": "Key Words Not Found"}),
         Refused("code 19024: Key Words Not Found", "authError", "keyword")),
    ],
)  # fmt: skip
def test_the_code_in_the_body_tells_what_became_of_a_message(
    answer: httpx.Response, outcome: Outcome
) -> None:
    found, sent = exchange("feishu", answer)

    assert (found, len(sent)) == (outcome, 1)


def test_case_b114_a_keyword_survives_every_cut_and_its_lack_is_named_at_once() -> None:
    fake = fakes.load("feishu", replace_options(keyword="gate-alert"))

    assert fakes.tell(fake, "feishu") == Delivered()
    without = fakes.tell(fake, "feishu", options=replace_options(keyword=""))

    assert without == Refused("code 19024: Key Words Not Found", "authError", "keyword")
    assert len(fake.requests) == 2


def test_the_header_has_the_colour_of_the_severity_and_green_when_it_is_over() -> None:
    shown = [
        card(replace(MESSAGE, severity=severity))["card"]["header"]["template"]
        for severity in ("critical", "high", "medium", "low", "unheard of")
    ]

    assert shown == ["red", "orange", "yellow", "blue", "red"]
    assert card(replace(MESSAGE, kind="resolved"))["card"]["header"]["template"] == "green"


def test_every_text_is_plain_and_buttons_lead_to_the_dashboard() -> None:
    message = replace(MESSAGE, buttons=(("trace", "https://gatewatch.example/trace"),))

    found = card(message)

    assert "lark_md" not in json.dumps(found)
    [actions] = [each["actions"] for each in found["card"]["elements"] if each["tag"] == "action"]
    assert [each["url"] for each in actions] == [MESSAGE.link, "https://gatewatch.example/trace"]


def test_a_title_too_long_for_a_header_stands_in_the_card_as_well() -> None:
    long = "a1: " + "denied again and " * 6

    shown = fakes.load("feishu")
    fakes.tell(shown, "feishu", replace(MESSAGE, title=long))

    assert shown.accepted[0].text.count(long.strip()) == 2


def test_lark_is_told_at_its_own_host() -> None:
    lark = "https://open.larksuite.com/open-apis/bot/v2/hook/FAKE0001"
    options = feishu.Options(Secret(lark))
    fake = fakes.load("feishu", options)

    assert fakes.tell(fake, "feishu") == Delivered()
    assert str(fake.requests[0].url) == lark
    assert "sign" not in json.loads(fake.requests[0].content)


def replace_options(**change: Any) -> feishu.Options:
    options = fakes.load("feishu").options
    values = {name: getattr(options, name) for name in options.__struct_fields__}
    return feishu.Options(**values | change)
