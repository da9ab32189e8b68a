"""From a hostile line of a log to a person's screen, by every receiver: the real landing,
detectors, wording, outbox and workers. Nothing pings, nothing breaks out, nothing leaks."""

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import httpx
import pytest

from detectors import receivers, telling
from detectors.routing import Desk, load
from detectors.worker import Worker
from tests import fakes
from tests.kit_receivers import CONTROL, PROGRAMS, ROOT, TAG, table
from tests.world import World, at, denied

URL = "https://gatewatch.example"
SECRETS = (  # what the lines of B172 hold
    "FAKE.aaaaaaaaaaaaaaaa.bbbb", "FAKE-0123456789abcdef", "FAKEpass123", "MIIFAKE",
    "FAKE0123", "456789abcdef", "FAKE-hunter",
)  # fmt: skip
MENTIONS = '<!channel> @everyone <@U123> <at user_id="all"></at> <@all> @all <users/all>'
MARKUP = "**EVIL** [EVIL](https://evil.example) ![](https://evil.example/p.png) <b>EVIL</b> `EVIL`"
CONTROLS = "x\n# EVIL\n\x1b[31mEVIL\x1b[0m \u202eLIVE \u2028EVIL\u2028 \r\nBcc: evil@evil.example"


def hostile(text: str, minutes: float) -> bytes:
    """A denied call whose every field holds a text, and a parameter of a megabyte."""
    return denied(
        minutes, agent=text, tool=text, reason=text, rule_ids=[text], trace_id=text, host=text,
        params={text: text, "deep": {text: [text]}, "blob": "x" * 1_000_000},
    )  # fmt: skip


def rounds() -> list[list[bytes]]:
    """What a log holds, one alert's lines after the other's."""
    secrets = (ROOT.parent / "shared/cases/fixtures/B172-secrets.jsonl").read_bytes().splitlines()
    texts = (MENTIONS, MARKUP, CONTROLS)
    return [secrets, *([hostile(text, each * 10 + minute) for minute in (0, 1, 2)]
                       for each, text in enumerate(texts, 1))]  # fmt: skip


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, fakes.Fake]]:
    """Every receiver's fake, after each alert was sent as soon as it stood, in full."""
    world = World(tmp_path_factory.mktemp("road"), only=["deny_retry"])
    names = sorted({*receivers.names()} & {*fakes.names()})
    routes = load({name: table(name) for name in names})
    found = {name: fakes.load(name) for name in names}
    workers = [Worker(route, world.store, world.lander, routes, client(found[route.name]))
               for route in routes]  # fmt: skip
    for each, lines in enumerate(rounds()):
        now = at(each * 10 + 5)
        world.land(lines, now)
        world.engine.judge(now)
        with world.store.writing() as db:
            telling.tell(db, world.detectors, Desk(routes, URL), now)
        for worker in workers:
            send(worker, found[worker.route.name], now)
    alerts = {row["alert_id"] for row in world.rows("SELECT alert_id FROM alerts")}
    assert len(alerts) == 4
    assert [name for name, fake in found.items() if alerts - fake.told] == []
    yield found
    world.close()


def client(fake: fakes.Fake) -> httpx.Client:
    return httpx.Client(transport=httpx.MockTransport(fake.on(lambda: fake.now)))


def send(worker: Worker, fake: fakes.Fake, now: datetime) -> None:
    fake.now = now
    while (wait := worker.step(fake.now)) is not None:
        fake.now += timedelta(seconds=wait)
        assert fake.now < now + timedelta(minutes=4), "it never comes to an end"


every = pytest.mark.parametrize("name", receivers.names())


@every
def test_nothing_is_turned_away_whatever_a_log_holds(name: str, told: dict[str, Any]) -> None:
    assert told[name].refused == []


@every
def test_case_b172_no_secret_of_a_log_reaches_anybody(name: str, told: dict[str, Any]) -> None:
    for seen in told[name].accepted:
        assert [secret for secret in SECRETS if secret in seen.text] == []
    for request in told[name].requests:
        raw = getattr(request, "content", b"") or f"{request}".encode()
        assert [secret for secret in SECRETS if secret.encode() in raw] == []


@every
def test_nobody_is_called_and_nothing_breaks_out(name: str, told: dict[str, Any]) -> None:
    for seen in told[name].accepted:
        assert seen.pinged == ()
        assert [url for url in seen.links if url and not url.startswith(f"{URL}/")] == []
        assert CONTROL.findall(seen.text) == []
        drawn = [mark for mark in seen.marks if mark.strip() == "EVIL" or TAG.fullmatch(mark)]
        assert drawn == [] or name in PROGRAMS
        assert "EVIL" not in [line.strip("\u200b >#") for line in seen.text.splitlines()]


@every
def test_what_was_hostile_is_still_told(name: str, told: dict[str, Any]) -> None:
    text = " ".join(seen.text.replace("\u200b", "") for seen in told[name].accepted)

    assert "EVIL" in text
    assert "http.post" in text
    assert "deep" in text, "the parameters of the latest call are shown"


def test_the_secrets_are_in_what_landed() -> None:
    raw = b"\n".join(rounds()[0]).decode()

    assert [secret for secret in SECRETS if json.dumps(secret)[1:-1] not in raw] == []
