import json
from dataclasses import replace
from typing import Any

import httpx
import pytest

from detectors.receivers import Delivered, Label, Outcome, Refused, Retry, slack
from ingest.config import Secret
from tests import fakes
from tests.kit_receivers import MESSAGE, deliver, exchange, yes

BUTTONS = (("trace", "https://gatewatch.example/trace?trace=t-1"),)


def payload(message: Any = MESSAGE, **options: Any) -> Any:
    """What is sent for a message."""
    chosen = slack.Options(Secret("https://hooks.slack.com/x"), **options)
    return json.loads(
        exchange("slack", yes("slack"), message=message, options=chosen)[1][0].content
    )


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("ok \n", Delivered()),  # B109
        ("invalid_payload", Refused("answered 'invalid_payload'", "clientError")),  # B109
        ("no_service", Refused("answered 'no_service'", "authError", "token")),
        ('{"ok":false,"error":"ratelimited"}',  # B107
         Retry("""answered '{"ok":false,"error":"ratelimited"}'""", "rateLimited")),
        ('{"ok":false,"error":"channel_not_found"}',  # B107
         Refused("""answered '{"ok":false,"error":"channel_not_found"}'""", "clientError")),
        ("<html>login</html>", Retry("answered '<html>login</html>'", "other")),
        ("", Retry("answered nothing", "other")),
    ],
)  # fmt: skip
def test_only_the_word_ok_is_a_yes(text: str, outcome: Outcome) -> None:
    assert deliver("slack", httpx.Response(200, text=text))[0] == outcome


@pytest.mark.parametrize(
    ("status", "word", "label", "hint"),
    [
        (400, "user_not_found", "clientError", ""),
        (403, "action_prohibited", "authError", ""),
        (403, "invalid_token", "authError", "token"),
        (404, "channel_not_found", "clientError", ""),
        (404, "no_service", "authError", "token"),
        (410, "channel_is_archived", "clientError", ""),
    ],
)
def test_a_refusal_names_the_word_of_slack(status: int, word: str, label: Label, hint: str) -> None:
    outcome, sent = exchange("slack", httpx.Response(status, text=word))

    assert outcome == Refused(f"HTTP {status}: answered {word!r}", label, hint)
    assert len(sent) == 1


def test_an_error_of_slack_itself_is_tried_again() -> None:
    found = deliver("slack", httpx.Response(500, text="rollup_error"))[0]

    assert found == Retry("HTTP 500", "serverError")


def test_what_slack_takes_for_too_rich_goes_out_once_more_as_text() -> None:
    no = httpx.Response(400, text="invalid_blocks")

    outcome, [_, second] = exchange("slack", no, yes("slack"))

    assert outcome == Delivered()
    bare = json.loads(second.content)
    assert bare.keys() == {"text", "mrkdwn", "unfurl_links", "unfurl_media"}
    assert all(part in bare["text"] for part in ("HIGH · Opened", MESSAGE.link, "denials: 3"))
    again, sent = exchange("slack", no)
    assert (again, len(sent)) == (
        Refused("HTTP 400: answered 'invalid_blocks'", "clientError"), 2
    )  # fmt: skip


def test_the_news_stands_in_blocks_and_the_rest_beside_a_bar_in_the_colour_of_its_severity() -> (
    None
):
    found = payload(replace(MESSAGE, buttons=BUTTONS, at_local="2026-03-10 17:03:00 +08:00"))

    kinds = [block["type"] for block in found["blocks"]]
    assert kinds == ["header", "section", "context", "actions"]
    assert found["blocks"][0]["text"]["text"].startswith("HIGH · Opened · a1")
    assert found["blocks"][1]["fields"][0]["text"] == "denials\n3"
    context = [each["text"] for each in found["blocks"][2]["elements"]]
    assert context[-1] == "2026-03-10T09:03:00Z (2026-03-10 17:03:00 +08:00)"
    [bar] = found["attachments"]
    assert bar["color"] == "#d9480f"
    assert [block["type"] for block in bar["blocks"]][:3] == ["section", "divider", "section"]
    assert bar["blocks"][0]["text"]["text"].startswith("chain: t-1")
    assert "**true**" in bar["blocks"][2]["text"]["text"]
    over = payload(replace(MESSAGE, kind="resolved"))
    assert over["attachments"][0]["color"] == "#2b8a3e"


def test_buttons_lead_to_the_alert_and_to_what_else_can_be_done() -> None:
    message = replace(MESSAGE, buttons=BUTTONS)

    buttons = payload(message)["blocks"][-1]["elements"]
    links = payload(message, buttons=False)["blocks"][-1]["elements"][0]["text"]

    assert [(each["text"]["text"], each["url"]) for each in buttons] == [
        ("Open al_7f3a", MESSAGE.link),
        ("Trace", BUTTONS[0][1]),
    ]
    assert links == f"<{MESSAGE.link}|Open al_7f3a> · <{BUTTONS[0][1]}|Trace>"


def test_a_link_too_long_for_a_button_is_a_link_in_the_text() -> None:
    message = replace(MESSAGE, buttons=(("ack", "https://gatewatch.example/" + "x" * 3_000),))

    assert payload(message)["blocks"][-1]["type"] == "context"


def test_a_title_too_long_for_a_header_stands_below_it_whole() -> None:
    title = "a1: " + "&" * 190

    blocks = payload(replace(MESSAGE, title=title))["blocks"]

    assert blocks[0]["text"]["text"].endswith("&amp;…")
    assert blocks[1]["text"]["text"] == "a1: " + "&amp;" * 190


def test_an_alert_with_nothing_to_add_still_shows_its_colour() -> None:
    bare = replace(MESSAGE, facts=(), evidence=(), respond="", title="", subject="")

    fake = fakes.load("slack")

    assert fakes.tell(fake, "slack", bare) == Delivered()
    assert "deny_retry" in fake.accepted[0].text


def test_log_text_stands_only_where_no_markup_is_read() -> None:
    found = payload(buttons=False)

    elements = [each for block in found["blocks"] for each in block.get("elements", ())]
    marked = [each["text"] for each in elements if each["type"] == "mrkdwn"]
    assert marked == [f"<{MESSAGE.link}|Open al_7f3a>"]
    assert "&lt;!channel&gt;" in found["text"]
