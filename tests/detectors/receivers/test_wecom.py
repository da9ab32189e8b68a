import json
from dataclasses import replace
from typing import Any

import httpx
import pytest

from detectors.receivers import Delivered, Outcome, Refused, Retry
from tests import fakes
from tests.kit_receivers import MESSAGE, ROOT, deliver, exchange, yes


def no(code: int, text: str) -> httpx.Response:
    return httpx.Response(200, json={"errcode": code, "errmsg": text})


def content(message: Any = MESSAGE) -> str:
    request = deliver("wecom", yes("wecom"), message=message)[1]
    found: str = json.loads(request.content)["markdown_v2"]["content"]
    return found


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (no(45009, "api freq out of limit"),
         Retry("errcode 45009: api freq out of limit", "rateLimited", 60.0)),
        (no(-1, "system busy"), Retry("errcode -1: system busy", "serverError")),
        (no(93000, "invalid webhook url"),
         Refused("errcode 93000: invalid webhook url", "authError", "token")),
        (no(40008, "invalid message type"),
         Refused("errcode 40008: invalid message type", "clientError")),
    ],
)  # fmt: skip
def test_the_errcode_tells_what_became_of_a_message(
    answer: httpx.Response, outcome: Outcome
) -> None:
    found, sent = exchange("wecom", answer)

    assert (found, len(sent)) == (outcome, 1)


def test_what_is_too_long_is_shortened_once() -> None:
    found, sent = exchange("wecom", no(40058, "exceed max length 4096"), yes("wecom"))

    assert (found, len(sent)) == (Delivered(), 2)
    first, second = (len(json.loads(each.content)["markdown_v2"]["content"].encode())
                     for each in sent)  # fmt: skip
    assert second <= 1_950 < first <= 3_900


def test_what_is_still_too_long_is_refused() -> None:
    found, sent = exchange("wecom", no(40058, "exceed max length 4096"))

    assert found == Refused("errcode 40058: exceed max length 4096", "clientError", "too_long")
    assert len(sent) == 2


def test_case_b119_the_limit_counts_bytes_and_the_cut_says_so() -> None:
    path = ROOT.parent / "shared/cases/fixtures/B119-wecom-4096.recv.json"
    incident = json.loads(path.read_text())["incident"]
    text = incident["text"]
    assert len(text.encode()) > 4_096
    fake = fakes.load("wecom")
    message = replace(MESSAGE, title=incident["title"], evidence=(text,) * 40, respond=text)

    outcome = fakes.tell(fake, "wecom", message)

    assert (outcome, fake.refused) == (Delivered(), [])
    shown = json.loads(fake.requests[0].content)["markdown_v2"]["content"]
    assert len(shown.encode()) <= 3_900
    assert "shortened, full record" in " ".join(shown.split()).replace(";", ",")


@pytest.mark.parametrize("text", ["案" * 300, "👨‍👩‍👧‍👦" * 100, "*_[`<@|" * 60, "&" * 400])
def test_no_part_alone_or_all_together_pass_the_limit(text: str) -> None:
    links = tuple((word, f"https://gatewatch.example/{word}?s={'x' * 300}")
                  for word in ("trace", "ack", "pause"))  # fmt: skip
    message = replace(
        MESSAGE,
        title=text,
        subject=text,
        tenant=text,
        facts=((text, text),) * 9,
        params=((text, text),) * 9,
        buttons=links,
        late=True,
        repeat=True,
    )

    shown = content(message)

    assert len(shown.encode()) <= 3_900
    assert MESSAGE.link in shown
    assert "HIGH" in shown


def test_log_text_stands_in_a_block_of_code_that_it_cannot_end() -> None:
    message = replace(MESSAGE, evidence=("``` and ```` and `",), params=())

    shown = content(message)

    assert shown.count("```") == 2
    assert shown.index("What to do") > shown.index("```")


def test_links_beside_the_main_one_go_before_it_does() -> None:
    far = tuple(("trace", f"https://gatewatch.example/trace?x={'y' * 900}") for _ in range(5))

    shown = content(replace(MESSAGE, buttons=far))

    assert MESSAGE.link in shown
    assert 0 < shown.count("/trace?x=") < 5


def test_a_wrong_key_is_told_apart_from_a_flood() -> None:
    fake = fakes.load("wecom")
    for _ in range(20):
        assert fakes.tell(fake, "wecom") == Delivered()

    outcome = fakes.tell(fake, "wecom")

    assert isinstance(outcome, Retry)
    assert outcome.label == "rateLimited"
