import json
from typing import Any

import httpx
import pytest

from detectors.receivers import Delivered, Outcome, Refused, Retry
from detectors.shorten import utf16
from tests.kit_receivers import MESSAGE, deliver, yes


def texts(payload: Any) -> list[str]:
    """Every text of a message that Slack shows."""
    if isinstance(payload, dict):
        return [text for value in payload.values() for text in texts(value)]
    if isinstance(payload, list):
        return [text for value in payload for text in texts(value)]
    return [payload] if isinstance(payload, str) else []


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("ok \n", Delivered()),
        ("invalid_payload", Refused("answered 'invalid_payload'", "clientError")),
        ("no_service", Refused("answered 'no_service'", "authError")),
        ('{"ok":false,"error":"ratelimited"}',
         Retry("""answered '{"ok":false,"error":"ratelimited"}'""", "rateLimited")),
        ('{"ok":false,"error":"channel_not_found"}',
         Refused("""answered '{"ok":false,"error":"channel_not_found"}'""", "clientError")),
        ("<html>login</html>", Retry("answered '<html>login</html>'", "other")),
        ("", Retry("answered nothing", "other")),
    ],
)  # fmt: skip
def test_only_the_word_ok_is_a_yes(text: str, outcome: Outcome) -> None:
    assert deliver("slack", httpx.Response(200, text=text))[0] == outcome


def test_limits_of_slack_are_kept() -> None:
    payload = json.loads(deliver("slack", yes("slack"))[1].content)

    assert sum(map(utf16, texts(payload))) <= 11_000
    assert len(payload["blocks"]) <= 40
    assert all(utf16(text) <= 2_900 for text in texts(payload))


def test_log_text_stands_only_where_no_markup_is_read() -> None:
    payload = json.loads(deliver("slack", yes("slack"))[1].content)

    marked = [block["text"]["text"] for block in payload["blocks"]
              if block.get("text", {}).get("type") == "mrkdwn"]  # fmt: skip
    assert marked == ["*HIGH · Opened*", f"<{MESSAGE.link}|Open al_7f3a>"]
    assert "&lt;!channel&gt;" in payload["text"]
