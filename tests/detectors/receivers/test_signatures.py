"""The vectors of reference/delivery.md section 8, right ones and wrong ones, as it prints them."""

import base64
import hashlib
import hmac
import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from detectors.receivers import dingtalk, feishu
from detectors.receivers.webhook import signature
from ingest.config import Secret
from tests.kit_receivers import ROOT, exchange, yes

PAGE = (ROOT.parent / "shared/reference/delivery.md").read_text()
[BLOCK] = re.findall(r"^### 8\.4.*?```json\n(.*?)\n```", PAGE, re.MULTILINE | re.DOTALL)
VECTORS: dict[str, list[dict[str, Any]]] = json.loads(BLOCK)
A = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
FIRST, SECOND = VECTORS["standard_webhooks"][0], VECTORS["standard_webhooks"][2]


def signed(vector: dict[str, Any], body: bytes) -> bytes:
    return f"{vector['id']}.{vector['timestamp_s']}.".encode() + body


def keyed(key: bytes, content: bytes) -> str:
    return f"v1,{base64.b64encode(hmac.digest(key, content, hashlib.sha256)).decode()}"


@pytest.mark.parametrize("vector", VECTORS["feishu"])
def test_feishu(vector: dict[str, Any]) -> None:
    assert feishu.signature(vector["secret"], str(vector["timestamp_s"])) == vector["sign"]


@pytest.mark.parametrize("vector", VECTORS["dingtalk"])
def test_dingtalk(vector: dict[str, Any]) -> None:
    now = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=vector["timestamp_ms"])
    hook = Secret("https://oapi.dingtalk.com/robot/send?access_token=FAKE0001")
    options = dingtalk.Options(hook, sign_key=Secret(vector["secret"]))

    _, [request] = exchange("dingtalk", yes("dingtalk"), options=options, now=now)

    assert str(request.url) == (
        "https://oapi.dingtalk.com/robot/send?access_token=FAKE0001"
        f"&timestamp={vector['timestamp_ms']}&sign={vector['query']}"
    )
    assert request.url.params["sign"] == vector["base64"]


def test_the_address_that_dingtalk_is_sent_has_the_length_of_the_page() -> None:
    [printed] = re.findall(r"^https://oapi\.dingtalk\.com/robot/send\S+$", PAGE, re.MULTILINE)

    assert len(printed) == 136
    assert printed.endswith(f"&sign={VECTORS['dingtalk'][0]['query']}")


@pytest.mark.parametrize("vector", VECTORS["standard_webhooks"])
def test_standard_webhooks(vector: dict[str, Any]) -> None:
    secrets = tuple(Secret(each) for each in vector["secrets"])

    assert signature(signed(vector, vector["body"].encode()), secrets) == vector["signature"]


def test_the_known_mistakes_of_standard_webhooks_are_mistakes() -> None:
    first, second = FIRST["body"].encode(), SECOND["body"].encode()
    again = json.dumps(json.loads(second), separators=(",", ":")).encode()  # \\uXXXX
    text = A.removeprefix("whsec_")
    wrong = [
        signature(signed(SECOND, again), (Secret(A),)),
        keyed(A.encode(), signed(FIRST, first)),
        keyed(text.encode(), signed(FIRST, first)),
        signature(signed(FIRST, first + b"\n"), (Secret(A),)),
    ]

    assert wrong == [
        "v1,PmYd76hF9yK9PX66JhDpvLUgr5YvrOBlIm8SX+Gukwo=",
        "v1,sxyben7N0t2Vda0mOnfNWRd0PYqtE6djaQvNs9BFJ6g=",
        "v1,jL+3XJE8W/wGVgS2K2cw+W4HWHmtJrYWxFR4NkfJzPw=",
        "v1,RxH5/zV8SsbAVUzck2rmif47W4z/KKaMtUSmTEoT0kI=",
    ]
    assert not {*wrong} & {vector["signature"] for vector in VECTORS["standard_webhooks"]}
    assert (len(first), len(second), len(again)) == (115, 126, 142)
