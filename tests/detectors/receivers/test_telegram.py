import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import httpx
import pytest

from detectors.receivers import Delivered, Outcome, Refused, Retry, telegram
from detectors.shorten import utf16
from ingest.config import ConfigError, Secret, convert
from tests import fakes
from tests.kit_receivers import MESSAGE, deliver, exchange, table, yes
from tests.kit_telling import Build

TOKEN = "110201543:FAKE0001gatewatchEXAMPLE"  # noqa: S105  # that of the EXAMPLE


def no(code: int, text: str, **parameters: Any) -> httpx.Response:
    found = {"ok": False, "error_code": code, "description": text}
    return httpx.Response(code, json=found | ({"parameters": parameters} if parameters else {}))


def payload(message: Any = MESSAGE) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        deliver("telegram", yes("telegram"), message=message)[1].content
    )
    return found


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (no(429, "Too Many Requests: retry after 35", retry_after=35),
         Retry("error_code 429: Too Many Requests: retry after 35", "rateLimited", 35.0)),
        (no(429, "Too Many Requests"), Retry("error_code 429: Too Many Requests", "rateLimited")),
        (no(500, "Internal Server Error"),
         Retry("error_code 500: Internal Server Error", "serverError")),
        (no(401, "Unauthorized"), Refused("error_code 401: Unauthorized", "authError", "token")),
        (no(404, "Not Found"), Refused("error_code 404: Not Found", "authError", "token")),
        (no(403, "Forbidden: bot was kicked from the group chat"),
         Refused("error_code 403: Forbidden: bot was kicked from the group chat", "authError",
                 "chat")),
        (no(400, "Bad Request: chat not found"),
         Refused("error_code 400: Bad Request: chat not found", "authError", "chat")),
        (no(400, "Bad Request: something else"),
         Refused("error_code 400: Bad Request: something else", "clientError")),
        (no(429, "soon", retry_after=True), Retry("error_code 429: soon", "rateLimited")),
    ],
)  # fmt: skip
def test_the_answer_tells_what_became_of_a_message(
    answer: httpx.Response, outcome: Outcome
) -> None:
    found, sent = exchange("telegram", answer)

    assert (found, len(sent)) == (outcome, 1)


def test_a_message_keeps_to_the_limit_counted_in_utf16() -> None:
    family = "👨‍👩‍👧‍👦" * 200

    shown = payload(replace(MESSAGE, title=family, facts=((family, family),) * 6))

    assert utf16(shown["text"]) <= 4_000
    assert len(shown["entities"]) <= 100


def test_entities_lie_over_what_they_mean() -> None:
    shown = payload(replace(MESSAGE, title="👨‍👩‍👧‍👦 denied", facts=(("agent", "🇨🇳 a1"),)))

    units = shown["text"].encode("utf-16-le")
    covered = [(each["type"], units[each["offset"] * 2 : (each["offset"] + each["length"]) * 2]
                .decode("utf-16-le")) for each in shown["entities"]]  # fmt: skip
    assert covered[:3] == [
        ("bold", "HIGH · Opened"),
        ("bold", "👨‍👩‍👧‍👦 denied"),
        ("code", "🇨🇳 a1"),
    ]
    assert covered[3][0] == "pre"
    assert "parse_mode" not in shown


def test_buttons_open_the_alert_and_what_belongs_to_it() -> None:
    links = (("trace", "https://gatewatch.example/trace"), ("ack", "https://gatewatch.example/a"))

    shown = payload(replace(MESSAGE, buttons=links))

    rows = shown["reply_markup"]["inline_keyboard"]
    assert [[button["text"] for button in row] for row in rows] == [
        ["Open al_7f3a", "Trace"], ["Acknowledge"],
    ]  # fmt: skip
    assert shown["link_preview_options"] == {"is_disabled": True}


def test_an_address_that_no_button_may_have_stands_in_the_text() -> None:
    fake = fakes.load("telegram")
    message = replace(MESSAGE, link="http://localhost:8501/alert?alert=al_7f3a")

    outcome = fakes.tell(fake, "telegram", message)

    assert (outcome, len(fake.requests)) == (Delivered(handle="1"), 1)
    assert fake.accepted[0].text.endswith("Open al_7f3a: http://localhost:8501/alert?alert=al_7f3a")


@pytest.mark.parametrize(
    "said", ["message is too long", "can't parse entities: x", "BUTTON_URL_INVALID"]
)
def test_what_the_service_cannot_read_goes_out_once_more_with_nothing_to_trip_over(
    said: str,
) -> None:
    found, sent = exchange("telegram", no(400, f"Bad Request: {said}"), yes("telegram"))

    assert (found, len(sent)) == (Delivered(handle="42"), 2)
    bare = json.loads(sent[1].content)
    assert not {"entities", "reply_markup"} & bare.keys()
    assert utf16(bare["text"]) <= 2_200
    assert MESSAGE.link in bare["text"]


def test_what_it_still_cannot_read_is_refused() -> None:
    found, sent = exchange("telegram", no(400, "Bad Request: message is too long"))

    assert isinstance(found, Refused)
    assert len(sent) == 2


def test_a_group_that_has_moved_is_told_at_its_new_id_and_the_operator_what_to_change() -> None:
    fake = fakes.load("telegram")
    assert isinstance(fake, fakes.Fake)
    options = telegram.Options(Secret(TOKEN), chat_id=-4_242)
    fake.moved_from = -4_242  # type: ignore[attr-defined]

    outcome = fakes.tell(fake, "telegram", options=options)

    assert outcome == Delivered(
        "the group has become a supergroup: set chat_id = -1001234567890", "1"
    )
    assert len(fake.accepted) == 1


def test_the_end_of_an_alert_answers_its_beginning_also_when_that_was_deleted() -> None:
    fake = fakes.load("telegram")
    begun = fakes.tell(fake, "telegram")
    assert isinstance(begun, Delivered)
    fake.now = fake.now.replace(minute=40)

    fakes.tell(fake, "telegram", replace(MESSAGE, kind="resolved", reply_to=begun.handle))
    fake.now = fake.now.replace(minute=50)
    fakes.tell(fake, "telegram", replace(MESSAGE, kind="resolved", reply_to="77"))

    assert [seen.reply_to for seen in fake.accepted] == ["", "1", ""]


def test_the_outbox_keeps_what_the_first_message_was_called_over_a_restart(build: Build) -> None:
    house, fake = build(ops=table("telegram")), fakes.load("telegram")
    house.answer = fake.on(lambda: house.now)
    alert = house.alert()
    house.owe(alert)
    house.run()
    house.restart()
    house.now += timedelta(minutes=20)

    house.owe(alert | {"tellings": 2}, "resolved")
    house.run()

    assert [seen.reply_to for seen in fake.accepted] == ["", "1"]
    assert "Resolved" in fake.accepted[1].text


def test_a_topic_of_a_group_and_a_server_of_ones_own_are_addressed() -> None:
    options = telegram.Options(Secret(TOKEN), chat_id="@soc", topic=7, api="https://bots.example/")

    _, sent = exchange("telegram", yes("telegram"), options=options)

    body = json.loads(sent[0].content)
    assert (body["chat_id"], body["message_thread_id"]) == ("@soc", 7)
    assert str(sent[0].url) == f"https://bots.example/bot{TOKEN}/sendMessage"


@pytest.mark.parametrize("token", ["hunter2", "110201543", "110201543:short", "../x:" + "a" * 30])
def test_a_token_that_is_none_is_refused_without_showing_it(token: str) -> None:
    table = {"token": token, "chat_id": 1}

    with pytest.raises(ConfigError, match="BotFather") as error:
        convert(table, telegram.Options, "gatewatch.toml: receivers.ops")

    assert token not in str(error.value)
