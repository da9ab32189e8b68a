import json
from dataclasses import replace
from typing import Any

import httpx
import pytest

from detectors.receivers import Delivered, Label, Message, Refused, Retry
from detectors.shorten import utf16
from tests import fakes
from tests.kit_receivers import MESSAGE, ROOT, deliver, exchange, yes

TRACE = ("trace", "https://gatewatch.example/trace?trace=t-1")
LIMITED = {"message": "You are being rate limited.", "retry_after": 0.372, "global": False}


def payload(message: Message = MESSAGE) -> Any:
    return json.loads(deliver("discord", yes("discord"), message=message)[1].content)


def test_case_b122_what_is_too_long_for_discord_is_shortened_and_204_is_a_yes() -> None:
    fixture = json.loads(
        (ROOT.parent / "shared/cases/fixtures/B122-discord-limits.recv.json").read_text()
    )
    told = fixture["incident"]
    text, fields = told["text"], tuple(map(tuple, told.get("fields", ())))
    message = replace(MESSAGE, title=text, respond=text, facts=fields * 8, evidence=(text,) * 8)

    outcome, sent = exchange("discord", httpx.Response(204), message=message)

    expected = fixture["expect"]
    assert (outcome, len(sent)) == (Delivered(), expected["sent_times"])
    body = json.loads(sent[0].content)
    [embed] = body["embeds"]
    parts = [embed["title"], embed["description"], embed["footer"]["text"],
             *(each[key] for each in embed["fields"] for key in ("name", "value"))]  # fmt: skip
    assert sum(map(utf16, parts)) <= 6_000
    assert len(body["content"]) <= 2_000


def test_each_limit_of_an_embed_is_kept_for_signs_of_two_units() -> None:
    text = "🟥*" * 4_000
    long = replace(
        MESSAGE, title=text, subject=text, facts=((text, text),) * 30, evidence=(text,) * 300
    )
    fake = fakes.load("discord")

    assert fakes.tell(fake, "discord", long) == Delivered()
    assert fake.refused == []


def test_the_bar_has_the_colour_of_the_severity_and_the_buttons_are_links() -> None:
    found = payload(replace(MESSAGE, buttons=(TRACE,)))

    [embed], [row] = found["embeds"], found["components"]
    assert (embed["color"], embed["url"]) == (0xD9480F, MESSAGE.link)
    assert [(each["label"], each["url"]) for each in row["components"]] == [
        ("Open al_7f3a", MESSAGE.link),
        ("Trace", TRACE[1]),
    ]
    assert embed["fields"][0] == {"name": "denials", "value": "3", "inline": True}
    assert payload(replace(MESSAGE, kind="resolved"))["embeds"][0]["color"] == 0x2B8A3E


def test_it_asks_for_an_answer_and_for_buttons_and_keeps_the_thread_of_the_address() -> None:
    fake = fakes.load("discord")
    fake.options = type(fake.options)(
        type(fake.options.webhook)(f"{fake.options.address}?thread_id=42")
    )

    fakes.tell(fake, "discord")

    url = fake.requests[0].url
    assert {**url.params} == {"thread_id": "42", "wait": "true", "with_components": "true"}


def test_a_link_too_long_for_a_button_stands_in_the_text() -> None:
    long = "https://gatewatch.example/links/" + "x" * 600

    found = payload(replace(MESSAGE, buttons=(("ack", long),)))

    assert found["components"] == []
    assert f"[Acknowledge]({long})" in found["embeds"][0]["description"]


def test_an_embed_that_is_refused_goes_out_once_more_as_text() -> None:
    no = httpx.Response(400, json={"message": "Invalid Form Body", "code": 50035})

    outcome, [_, second] = exchange("discord", no, yes("discord"))

    assert outcome == Delivered()
    bare = json.loads(second.content)
    assert bare.keys() == {"content", "allowed_mentions"}
    assert all(part in bare["content"] for part in ("HIGH · Opened", MESSAGE.link, "denials: 3"))
    again, sent = exchange("discord", no)
    assert again == Refused("HTTP 400: Invalid Form Body (50035)", "clientError")
    assert len(sent) == 2


def test_an_address_that_discord_makes_no_link_of_does_not_cost_the_alert() -> None:
    fake = fakes.load("discord")

    outcome = fakes.tell(fake, "discord", replace(MESSAGE, link="http://gatewatch:8501/alert"))

    assert (outcome, len(fake.refused), len(fake.accepted)) == (Delivered(), 1, 1)
    assert "http://gatewatch:8501/alert" in fake.accepted[0].text


@pytest.mark.parametrize(
    ("status", "code", "label", "hint"),
    [(404, 10015, "clientError", "token"), (401, 50027, "authError", "token"),
     (400, 50006, "clientError", ""), (400, "x", "clientError", "")],
)  # fmt: skip
def test_a_refusal_names_the_words_and_the_code(
    status: int, code: int | str, label: Label, hint: str
) -> None:
    no = httpx.Response(status, json={"message": "No", "code": code})

    outcome, sent = exchange("discord", no)

    assert outcome == Refused(f"HTTP {status}: No ({code})", label, hint)
    assert len(sent) == 1


@pytest.mark.parametrize(
    ("answer", "after"),
    [
        (httpx.Response(429, json=LIMITED, headers={"retry-after": "1"}), 0.372),
        (httpx.Response(429, json=LIMITED | {"retry_after": 10**9}), 86_400.0),
        (httpx.Response(429, json=LIMITED | {"retry_after": "soon"}), 60.0),
        (httpx.Response(429, text="<html>Cloudflare</html>", headers={"retry-after": "9"}), 9.0),
        (httpx.Response(429, text="<html>Cloudflare</html>"), 60.0),
    ],
)
def test_each_form_of_429_says_how_long_to_wait(answer: httpx.Response, after: float) -> None:
    assert deliver("discord", answer)[0] == Retry("HTTP 429", "rateLimited", after)


def test_a_ban_of_the_address_is_waited_out() -> None:
    ban = {"message": "You are being blocked from accessing our API temporarily", "code": 0}
    headers = {"x-ratelimit-limit": "5"}

    banned = deliver("discord", httpx.Response(429, json=ban))[0]
    limited = deliver("discord", httpx.Response(429, json=ban | LIMITED, headers=headers))[0]

    assert banned == Retry("HTTP 429: this address is banned for a while", "rateLimited", 3_600.0)
    assert limited == Retry("HTTP 429", "rateLimited", 0.372)


def test_nobody_is_mentioned_not_even_by_a_repeat() -> None:
    for message in (MESSAGE, replace(MESSAGE, repeat=True)):
        assert payload(message)["allowed_mentions"] == {"parse": []}
