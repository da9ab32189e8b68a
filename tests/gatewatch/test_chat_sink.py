import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from detectors import delivery, routing
from detectors.receivers import Delivered, Message, Outcome, Refused
from detectors.worker import client_for
from gatewatch.chat_sink import ChatSink

NOW = datetime(2026, 6, 3, 15, 20, tzinfo=UTC)
SECRET = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="  # noqa: S105 - of this test
OTHER = "whsec_HxwdGxoZGBcWFRQTEhEQDw4NDAsKCQgHBgUEAwIBAAA="
MESSAGE = Message(
    kind="open",
    alert="al_7f3a",
    delivery="dl_1",
    at="2026-06-03T15:20:00Z",
    detector="deny_retry",
    severity="high",
    subject="a1",
    title="a1: 3 denials in a row for <script>alert(1)</script>",
    facts=(("denials", "3"),),
    evidence=("15:19 a1 crm.export_contacts -> deny",),
    respond="Open the trace.",
    link="http://127.0.0.1:8501/?alert=al_7f3a",
)


@pytest.fixture
def sink(tmp_path: Path) -> Iterator[ChatSink]:
    found = ChatSink(0, SECRET, lambda: NOW, tmp_path / "chat.ndjson")
    found.start()
    yield found
    found.stop()


def send(sink: ChatSink, kind: str, now: datetime = NOW, **options: Any) -> Outcome:
    """What a real receiver says when it tells this chat."""
    table = {"type": kind, "webhook": f"{sink.url}/{kind}", "allow_http": True}
    [route] = routing.load({"chat": table | {"allow_private": True} | options})
    with client_for(route) as client:
        return delivery.attempt(route.module.deliver(MESSAGE, route.options, now), client)


@pytest.mark.parametrize(
    ("kind", "options"),
    [("webhook", {"secrets": [SECRET]}), ("slack", {}), ("dingtalk", {"sign_key": SECRET})],
)
def test_each_receiver_takes_the_answer_for_a_yes(
    sink: ChatSink, kind: str, options: dict[str, Any]
) -> None:
    assert send(sink, kind, **options) == Delivered()
    [message] = sink.messages
    assert (message.service, message.accepted, message.repeat) == (kind, True, False)


@pytest.mark.parametrize(
    ("kind", "options"),
    [("webhook", {"secrets": [OTHER]}), ("webhook", {}), ("dingtalk", {"sign_key": OTHER})],
)
def test_a_wrong_or_missing_signature_is_refused(
    sink: ChatSink, kind: str, options: dict[str, Any]
) -> None:
    assert isinstance(send(sink, kind, **options), Refused)
    assert not any(each.accepted for each in sink.messages)


def test_a_signature_that_is_too_old_is_refused(sink: ChatSink) -> None:
    late = NOW - timedelta(minutes=6)

    assert isinstance(send(sink, "webhook", late, secrets=[SECRET]), Refused)


def test_a_message_that_comes_twice_is_marked(sink: ChatSink) -> None:
    for _ in range(2):
        send(sink, "webhook", secrets=[SECRET])

    assert [each.repeat for each in sink.messages] == [False, True]


def test_what_arrives_is_kept_and_shown_as_text(sink: ChatSink, tmp_path: Path) -> None:
    send(sink, "webhook", secrets=[SECRET])
    send(sink, "slack")
    page = httpx.get(sink.url, trust_env=False).text

    kept = [json.loads(each) for each in (tmp_path / "chat.ndjson").read_text().splitlines()]
    assert [each["service"] for each in kept] == ["webhook", "slack"]
    assert "3 denials in a row" in page
    assert "<script>" not in page


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [("/webhook", b"[]", 400), ("/slack", b"\xff", 400), ("/elsewhere", b"{}", 404)],
)
def test_what_no_service_would_take_is_refused(
    sink: ChatSink, path: str, body: bytes, status: int
) -> None:
    assert httpx.post(sink.url + path, content=body, trust_env=False).status_code == status
