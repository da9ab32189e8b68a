"""What tests of telling are written with: one message, and a service that answers by hand."""

import re
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx

from detectors import delivery, receivers
from ingest.config import Secret, convert

ROOT = Path(__file__).parents[1]
NOW = datetime(2026, 3, 10, 9, 30, tzinfo=UTC)
MESSAGE = receivers.Message(
    kind="open",
    alert="al_7f3a",
    delivery="dl_0001",
    at="2026-03-10T09:03:00Z",
    detector="deny_retry",
    severity="high",
    subject="a1",
    title="a1：crm.export_contacts denied 3 times <!channel> @all\n# not a heading",
    facts=(
        ("denials", "3"),
        ("threshold", "3"),
        ("agent", "a1"),
        ("operation", "crm.export_contacts"),
        ("chain", "t-1 <@U123>"),
        ("since", "2026-03-10 09:00:00 UTC"),
    ),
    evidence=('09:14 crm.export_contacts {"export_all": **true**} deny: <rule-17>',) * 5_000,
    respond="Open the trace.",
    link="https://gatewatch.example/alert?alert=al_7f3a",
)
Answer = httpx.Response | Exception
PROGRAMS = {
    "webhook": "a program reads it: text is data there, and JSON keeps it apart",
    "pagerduty": "its custom details are data, shown as they are",
}
TAG = re.compile(r"<[^<>]*>")
CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufffd]")


def table(name: str) -> dict[str, Any]:
    """The config of a receiver's own EXAMPLE, its type included."""
    [found] = tomllib.loads(receivers.load(name, "tests").EXAMPLE)["receivers"].values()
    assert found["type"] == name
    return dict(found)


def example(name: str) -> tuple[Any, list[str]]:
    """The options that a receiver's own EXAMPLE gives, and the secrets in them."""
    written = {key: value for key, value in table(name).items() if key != "type"}
    options = convert(written, receivers.load(name, "tests").Options, f"{name}.EXAMPLE")
    values: list[object] = []
    for field in options.__struct_fields__:
        value = getattr(options, field)
        values += value if isinstance(value, tuple) else [value]
    return options, [value.reveal for value in values if isinstance(value, Secret)]


def exchange(
    name: str,
    *answers: Answer,
    message: receivers.Message = MESSAGE,
    now: datetime = NOW,
    options: Any = None,
) -> tuple[receivers.Outcome, list[httpx.Request]]:
    """Send a message to a service that answers so, the last answer again and again."""
    sent: list[httpx.Request] = []

    def reply(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        answer = answers[min(len(sent), len(answers)) - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer

    with httpx.Client(transport=httpx.MockTransport(reply)) as client:
        flow = receivers.load(name, "tests").deliver(message, options or example(name)[0], now)
        return delivery.attempt(flow, client), sent


def deliver(
    name: str,
    answer: Answer,
    now: datetime = NOW,
    message: receivers.Message = MESSAGE,
) -> tuple[receivers.Outcome, httpx.Request]:
    """Send one message to a service that answers so; the outcome, and the last request."""
    outcome, sent = exchange(name, answer, now=now, message=message)
    return outcome, sent[-1]


def yes(name: str) -> httpx.Response:
    """The answer that a service says yes with."""
    status, text = receivers.load(name, "tests").YES
    return httpx.Response(status, text=text)
