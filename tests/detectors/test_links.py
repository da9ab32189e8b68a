"""Signed links: genuine ones open, every other one does not, and a config that leaks is refused."""

from datetime import UTC, datetime, timedelta

import pytest

from detectors import links
from detectors.links import Links, Ticket
from ingest.config import ConfigError, Duration, Secret, SignedLinks

NOW = datetime(2026, 3, 10, 9, 30, tzinfo=UTC)
KEY = "FAKE-link-key-0001-0123456789abcdef"
OURS = Links("https://gatewatch.example:8686", Secret(KEY), timedelta(hours=24))
TICKET = Ticket("pause", "al_7f3a", "ops", NOW + timedelta(hours=24))
# HMAC-SHA256 of the text below, computed with `openssl dgst -sha256 -hmac KEY -binary | basenc`
SAID = '["gatewatch link 1","pause","al_7f3a","ops",1773221400]'
VECTOR = "znKwJ6Maz-c_H620ye8SFF99oGi3Xrm_z7K3SlVv6r8"


def token(of: Ticket = TICKET, by: Links = OURS) -> str:
    return by.address(of).rpartition("/")[2]


def test_a_message_carries_a_button_for_each_action_in_order() -> None:
    buttons = OURS.buttons("al_7f3a", "ops", NOW + timedelta(milliseconds=7))

    assert [word for word, _ in buttons] == ["ack", "pause"]
    assert all(url.startswith("https://gatewatch.example:8686/links/") for _, url in buttons)
    assert OURS.opened(buttons[1][1].rpartition("/")[2]) == TICKET


def test_the_signature_is_the_one_that_openssl_makes() -> None:
    said, _, signature = token().partition(".")

    assert links._bytes(said).decode() == SAID
    assert signature == VECTOR


def test_the_same_button_is_the_same_bytes() -> None:
    assert OURS.buttons("al_7f3a", "ops", NOW) == OURS.buttons("al_7f3a", "ops", NOW)


def test_a_receiver_may_have_any_name() -> None:
    for name in ('a","b', "组", "a|b.c/d", "\u202e"):
        ticket = Ticket("ack", "al_1", name, TICKET.until)

        assert OURS.opened(token(ticket)) == ticket
        assert set(token(ticket)) <= set(
            "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_."
        )


def test_no_changed_letter_opens() -> None:
    good = token()
    for place in range(len(good)):
        for letter in "A_.":
            forged = good[:place] + letter + good[place + 1 :]
            assert forged == good or OURS.opened(forged) is None


@pytest.mark.parametrize(
    "forged", ["", ".", "a.b", f"{token()}=", f" {token()}", f"{token()}.x", "é.é", "a" * 5_000]
)
def test_what_is_no_ticket_does_not_open(forged: str) -> None:
    assert OURS.opened(forged) is None


def test_another_key_does_not_open_it() -> None:
    other = Links(OURS.url, Secret(KEY[::-1]), OURS.valid)

    assert other.opened(token()) is None


def test_it_is_over_at_its_time_and_not_before() -> None:
    assert not TICKET.over(TICKET.until - timedelta(seconds=1))
    assert TICKET.over(TICKET.until)


def config(**changed: object) -> SignedLinks:
    values: dict[str, object] = {"url": "https://gatewatch.example:8686", "key": Secret(KEY)}
    return SignedLinks(**(values | changed))  # type: ignore[arg-type]


def test_without_a_table_there_are_no_links() -> None:
    assert links.load(None, True, "gatewatch.toml: links") is None


def test_without_a_gate_nobody_is_offered_a_pause() -> None:
    made = links.load(config(), False, "gatewatch.toml: links")

    assert made is not None
    assert [word for word, _ in made.buttons("al_1", "ops", NOW)] == ["ack"]


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"url": "gatewatch.example"}, "links.url: 'gatewatch.example' is no address: https://gat"),
        ({"url": "https://a:b@c.example"}, "links.url: 'https://...@c.example' holds a password."),
        ({"url": "https://c.example/?a=b"}, "links.url: 'https://c.example/?a=b' is no address"),
        ({"url": "http://c.example"}, "links.url: a link is a key, and http shows it"),
        ({"key": Secret("short")}, "links.key: at least 32 characters"),
        ({"valid": Duration("60 days")}, "links.valid: between 1 minute and 30 days."),
    ],
)
def test_a_mistake_is_named(changed: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        links.load(config(**changed), True, "gatewatch.toml: links")

    assert str(caught.value).startswith(f"gatewatch.toml: {says}")
    assert "short" not in str(caught.value).replace("shorter", "")


def test_http_is_taken_where_the_config_says_so() -> None:
    assert links.load(config(url="http://10.0.0.7:8686", allow_http=True), True, "x") is not None


def test_the_key_shows_in_no_text() -> None:
    assert KEY not in repr(OURS) + str(OURS) + token()
