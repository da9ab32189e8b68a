import json
from dataclasses import replace
from typing import Any

import httpx
import pytest

from detectors.receivers import Delivered, Kind, Label, Message, Refused, Retry
from tests import fakes
from tests.fakes.google_chat import Fake
from tests.kit_receivers import MESSAGE, deliver, exchange, yes

TRACE = ("trace", "https://gatewatch.example/trace?trace=t-1")


def card(message: Message = MESSAGE) -> Any:
    body = json.loads(deliver("google_chat", yes("google_chat"), message=message)[1].content)
    return body["cardsV2"][0]["card"]


def test_a_card_says_the_state_in_its_colour_a_fact_a_row_and_buttons_last() -> None:
    found = card(replace(MESSAGE, title="a1 ran", buttons=(TRACE,)))

    assert found["header"] == {"title": "HIGH · Opened", "subtitle": "gatewatch · al_7f3a"}
    facts, details, samples, buttons = found["sections"]
    said = [each["textParagraph"]["text"] for each in facts["widgets"][:2]]
    assert said == ['<b><font color="#d9480f">HIGH · Opened</font><br>a1 ran</b>',
                    "deny_retry · a1"]  # fmt: skip
    row = facts["widgets"][2]["decoratedText"]
    assert row == {"topLabel": "denials", "text": "3", "wrapText": True}
    assert details["widgets"][-1]["textParagraph"]["text"] == "2026-03-10T09:03:00Z"
    assert (samples["collapsible"], samples["uncollapsibleWidgetsCount"]) == (True, 6)
    links = [each["onClick"]["openLink"]["url"]
             for each in buttons["widgets"][0]["buttonList"]["buttons"]]  # fmt: skip
    assert links == [MESSAGE.link, TRACE[1]]


def test_all_tellings_of_an_alert_stand_in_one_thread() -> None:
    fake = Fake()

    kinds: list[Kind] = ["open", "worse", "resolved"]
    for kind in kinds:
        fakes.tell(fake, "google_chat", replace(MESSAGE, kind=kind, delivery=f"dl_{kind}"))

    assert {name: len(handles) for name, handles in fake.threads.items()} == {"al_7f3a": 3}


def test_a_digest_belongs_to_no_thread() -> None:
    fake = Fake()

    fakes.tell(fake, "google_chat", replace(MESSAGE, kind="digest", alert="7 alerts"))

    assert (len(fake.accepted), fake.threads) == (1, {})


def test_a_repeat_is_posted_once_though_nobody_heard_the_first_answer() -> None:
    fake = Fake()

    first = fakes.tell(fake, "google_chat")
    again = fakes.tell(fake, "google_chat", replace(MESSAGE, repeat=True))

    assert (first, again) == (Delivered(), Delivered())
    assert len(fake.accepted) == 1


def test_a_message_is_never_larger_than_google_takes_nor_has_widgets_that_are_not_shown() -> None:
    text = "案<&" * 3_000
    long = replace(
        MESSAGE, title=text, subject=text, facts=((text, text),) * 60, evidence=(text,) * 300
    )

    _, request = deliver("google_chat", yes("google_chat"), message=long)

    assert len(request.content) <= 28_000
    for message in (long, replace(MESSAGE, evidence=("x",) * 300)):
        assert sum(len(section["widgets"]) for section in card(message)["sections"]) <= 100
        assert card(message)["sections"][-1]["widgets"][0]["buttonList"]


@pytest.mark.parametrize(
    ("status", "word", "label", "hint"),
    [(400, "INVALID_ARGUMENT", "clientError", ""), (403, "PERMISSION_DENIED", "authError", "token"),
     (404, "NOT_FOUND", "clientError", "")],
)  # fmt: skip
def test_a_refusal_names_the_status_of_google(
    status: int, word: str, label: Label, hint: str
) -> None:
    error = {"code": status, "message": "No.", "status": word}

    outcome, sent = exchange("google_chat", httpx.Response(status, json={"error": error}))

    assert outcome == Refused(f"HTTP {status}: {word} No.", label, hint)
    assert len(sent) == 1


def test_a_200_that_names_no_message_is_no_yes() -> None:
    found = deliver("google_chat", httpx.Response(200, json={"name": 7}))[0]

    assert found == Retry("""answered '{"name":7}'""", "other")


def test_the_fake_knows_no_field_that_google_does_not() -> None:
    fake = Fake()
    body = {"text": "x", "color": "red"}

    answer = fake(httpx.Request("POST", fake.options.address, json=body))

    assert answer.status_code == 400
    assert "color" in answer.json()["error"]["message"]
