"""The stand-ins refuse: what has never turned anything away proves nothing about what it takes."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import httpx
import pytest

from tests import fakes
from tests.kit_receivers import NOW, deliver, yes

ROBOTS = ("dingtalk", "feishu", "wecom", "telegram")
Body = dict[str, Any]


def damaged(name: str, change: Callable[[Body], object]) -> httpx.Request:
    """A good request whose body has been changed."""
    good = deliver(name, yes(name))[1]
    body = json.loads(good.content)
    change(body)
    return httpx.Request("POST", good.url, json=body)


def answered(name: str, request: httpx.Request) -> str:
    fake = fakes.load(name)
    fake(request)
    assert len(fake.refused) == 1, "it was let through"
    return fake.refused[0].why


@pytest.mark.parametrize(
    ("name", "change", "why"),
    [
        ("dingtalk", lambda body: body["actionCard"].pop("title"), "40035"),
        ("dingtalk", lambda body: body["actionCard"].update(text="x" * 20_000), "460101"),
        ("dingtalk", lambda body: body["actionCard"].update(text="x", title="x"), "310000"),
        ("dingtalk", lambda body: body.update(msgtype="card"), "40035"),
        ("feishu", lambda body: body.pop("sign"), "19021"),
        ("feishu", lambda body: body.update(timestamp=int(body["timestamp"])), "19021"),
        ("feishu", lambda body: body["card"].update(elements=[]), "11246"),
        ("feishu", lambda body: body["card"]["header"].update(template="scarlet"), "11246"),
        ("feishu", lambda body: body["card"].update(extra=1), "11246"),
        ("feishu", lambda body: body.update(filler="x" * 21_000), "9499"),
        ("wecom", lambda body: body["markdown_v2"].update(content="案" * 1_366), "40058"),
        ("wecom", lambda body: body.update(msgtype="markdown"), "40008"),
        ("telegram", lambda body: body.update(text=""), "message text is empty"),
        ("telegram", lambda body: body.update(text="😀" * 2_049, entities=[]), "too long"),
        ("telegram", lambda body: body.update(chat_id=1), "chat not found"),
        ("telegram", lambda body: body.update(parse_mode="HTML"), "Bad Request"),
        ("telegram", lambda body: body["entities"].append(
            {"type": "bold", "offset": 4_000, "length": 200}), "can't parse entities"),
        ("telegram", lambda body: body["entities"].append(
            {"type": "bold", "offset": 1, "length": 1}), "can't parse entities"),
        ("telegram", lambda body: body["reply_markup"]["inline_keyboard"][0][0].update(
            url="http://localhost:8501/"), "Wrong HTTP URL"),
        ("telegram", lambda body: body.update(reply_parameters={"message_id": 9}),
         "message to be replied not found"),
    ],
)  # fmt: skip
def test_a_damaged_message_is_refused_by_its_own_code(
    name: str, change: Callable[[Body], object], why: str
) -> None:
    assert why in answered(name, damaged(name, change))


@pytest.mark.parametrize("name", ROBOTS)
@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"a": 1, "a": 2}', b"\xff", b'{"a": NaN}', b'"\\ud83d"']
)
def test_what_is_no_json_is_refused(name: str, content: bytes) -> None:
    good = deliver(name, yes(name))[1]
    headers = {"content-type": "application/json"}

    assert answered(name, httpx.Request("POST", good.url, headers=headers, content=content))


@pytest.mark.parametrize("name", ROBOTS)
def test_what_is_not_sent_as_json_or_to_another_address_is_refused(name: str) -> None:
    good = deliver(name, yes(name))[1]

    assert answered(name, httpx.Request("POST", good.url, content=good.content))
    elsewhere = str(good.url).replace("FAKE0001", "FAKE0002")
    assert answered(
        name, httpx.Request("POST", elsewhere, headers=good.headers, content=good.content)
    )
    assert answered(name, httpx.Request("GET", good.url))


@pytest.mark.parametrize("name", ROBOTS)
def test_one_more_than_the_limit_is_refused_and_after_the_window_all_is_well(name: str) -> None:
    fake = fakes.load(name)
    count, seconds = fake.limits[0]
    for _ in range(count):
        fakes.tell(fake, name)
    assert fake.refused == []

    fakes.tell(fake, name)

    assert len(fake.refused) == 1
    fake.now += timedelta(seconds=max(seconds, 600.0))
    fakes.tell(fake, name)
    assert len(fake.accepted) == count + 1


def test_the_busiest_window_is_found_wherever_it_begins() -> None:
    moments = [NOW + timedelta(seconds=each) for each in (0, 59, 60, 61, 118, 119)]

    assert fakes.busiest(moments, 60) == 4  # from 59 to 118: what minutes by the clock hide
    assert fakes.busiest([], 60) == 0
