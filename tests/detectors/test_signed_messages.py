"""Links in messages: signed when they are sent, and kept nowhere that a viewer may read."""

import re
from datetime import timedelta

import httpx
import pytest

from detectors import outbox
from detectors.links import Links
from detectors.receivers import Kind
from detectors.routing import Desk
from detectors.worker import Worker
from ingest.config import Secret
from tests.kit_telling import URL, Build, House

LINKS = Links(
    "https://gw.example", Secret("FAKE-link-key-0001-0123456789abcdef"), timedelta(days=1)
)
LINK = re.compile(rb"https://gw\.example/links/([\w.-]+)")


@pytest.fixture
def house(build: Build) -> House:
    return build(soc={"type": "webhook", "webhook": "https://soc.example/FAKE"})


def owed(house: House, kind: Kind = "open") -> None:
    alert = house.alert()
    with house.store.writing() as db:
        outbox.enqueue(db, alert, kind, house.now, Desk(house.routes, URL, LINKS))


def sent(house: House, links: Links | None = LINKS) -> list[list[str]]:
    """What each link of each message that goes out says."""
    client = httpx.Client(transport=httpx.MockTransport(house._reply))
    [route] = house.routes
    worker = Worker(
        route, house.store, house.lander, house.routes, client, lambda: 1.0, links=links
    )
    house.workers = {route.name: worker}
    house.run(timedelta(minutes=10), route.name)
    found = [LINK.findall(request.content) for _, request in house.sent]
    return [[each.decode() for each in one] for one in found]


def test_the_outbox_holds_no_link_that_lets_its_reader_act(house: House) -> None:
    owed(house)

    [row] = house.rows("SELECT message FROM deliveries")
    assert "/links/" not in row["message"]
    assert "ack" in row["message"]


def test_the_message_that_goes_out_carries_links_that_open(house: House) -> None:
    house.answer = lambda _: httpx.Response(204)
    owed(house)
    began = house.now

    [links] = sent(house)

    tickets = [LINKS.opened(each) for each in links]
    assert [each and (each.action, each.alert, each.receiver) for each in tickets] == [
        ("ack", "al_7f3a", "soc"), ("pause", "al_7f3a", "soc"),
    ]  # fmt: skip
    assert {each.until for each in tickets if each} == {began + timedelta(days=1)}
    assert "/links/" not in repr(house.rows("SELECT * FROM deliveries"))


def test_every_attempt_says_the_same(house: House) -> None:
    answers = iter([503, 503, 204])
    house.answer = lambda _: httpx.Response(next(answers))
    owed(house)

    first, second, third = sent(house)

    assert first == second == third


def test_without_a_key_a_message_has_no_button_that_leads_nowhere(house: House) -> None:
    house.answer = lambda _: httpx.Response(204)
    owed(house)

    assert sent(house, links=None) == [[]]
    assert b'"ack"' not in house.sent[0][1].content


def test_what_is_over_can_neither_be_acknowledged_nor_paused(house: House) -> None:
    house.answer = lambda _: httpx.Response(204)
    owed(house)
    with house.store.writing() as db:
        [alert] = house.rows("SELECT * FROM alerts")
        outbox.enqueue(db, alert, "resolved", house.now, Desk(house.routes, URL, LINKS))
    rows = house.rows("SELECT message FROM deliveries WHERE kind = 'resolved'")

    assert ['"ack"' in row["message"] for row in rows] == [False]
