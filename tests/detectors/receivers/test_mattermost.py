import json
from dataclasses import replace
from typing import Any

import httpx
import pytest

from detectors.receivers import Delivered, Message, Refused, Retry
from tests import fakes
from tests.kit_receivers import MESSAGE, deliver, exchange, yes


def attachment(message: Message = MESSAGE) -> Any:
    [found] = json.loads(deliver("mattermost", yes("mattermost"), message=message)[1].content)[
        "attachments"
    ]
    return found


def no(name: str, status: int = 400) -> httpx.Response:
    told = {"id": name, "message": "No.", "detailed_error": "", "status_code": status}
    return httpx.Response(status, json=told)


def test_an_attachment_has_a_coloured_bar_facts_and_links_above_what_is_folded() -> None:
    trace = ("trace", "https://gatewatch.example/trace?trace=t-1")

    found = attachment(replace(MESSAGE, title="a1 ran", buttons=(trace,)))

    assert found["color"] == "#d9480f"
    assert found["text"].split("\n\n")[:3] == [
        "**HIGH · Opened · a1 ran**",
        "deny_retry · a1",
        f"[Open al_7f3a]({MESSAGE.link}) · [Trace]({trace[1]})",
    ]
    assert found["fields"][0] == {"title": "denials", "value": "3", "short": True}
    assert attachment(replace(MESSAGE, kind="withdrawn"))["color"] == "#2b8a3e"


def test_an_old_server_that_counts_json_as_go_writes_it_takes_the_longest_message() -> None:
    text = "<&>案" * 2_000
    long = replace(MESSAGE, title=text, subject=text, respond=text, evidence=(text,) * 300)
    fake = fakes.load("mattermost")

    assert fakes.tell(fake, "mattermost", long) == Delivered()
    assert fake.refused == []


@pytest.mark.parametrize(
    "name",
    ["web.incoming_webhook.attachment.app_error", "web.incoming_webhook.decode.app_error"],
)
def test_what_is_too_long_is_shortened_once(name: str) -> None:
    outcome, [first, second] = exchange("mattermost", no(name), yes("mattermost"))

    assert outcome == Delivered()
    assert len(second.content) < 4_500 < len(first.content)
    again, sent = exchange("mattermost", no(name))
    assert (again, len(sent)) == (Refused(f"HTTP 400: {name}: No.", "clientError"), 2)


def test_an_unknown_webhook_is_refused_at_once() -> None:
    name = "web.incoming_webhook.invalid.app_error"

    outcome, sent = exchange("mattermost", no(name))

    assert (outcome, len(sent)) == (Refused(f"HTTP 400: {name}: No.", "clientError", "token"), 1)


def test_a_server_that_has_webhooks_switched_off_is_not_waited_for() -> None:
    name = "web.incoming_webhook.disabled.app_error"

    assert deliver("mattermost", no(name, 501))[0] == Refused(
        f"HTTP 501: {name}: No.", "clientError"
    )
    assert deliver("mattermost", no("api.context.500", 500))[0] == Retry("HTTP 500", "serverError")


@pytest.mark.parametrize("text", ["OK", "ok.", '"ok"', '{"status":"ok"}'])
def test_only_the_word_ok_is_a_yes(text: str) -> None:
    outcome = deliver("mattermost", httpx.Response(200, text=text))[0]

    assert isinstance(outcome, Retry)


def test_spellings_that_the_server_takes_from_slack_are_not_read() -> None:
    evil = "<!channel> <https://evil.example|Open al_7f3a> \\<!here>"
    fake = fakes.load("mattermost")

    fakes.tell(fake, "mattermost", replace(MESSAGE, title=evil, evidence=(evil,)))

    [seen] = fake.accepted
    assert seen.pinged == ()
    assert {*seen.links} == {MESSAGE.link}
