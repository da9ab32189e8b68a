"""A gate of one's own: who holds the key can tell that it is us, and what a 2xx means."""

import json
from datetime import timedelta

import httpx
import pytest

from detectors.containment import Verb
from detectors.gates.webhook import Options
from detectors.receivers import Delivered, Refused, Retry
from ingest.config import ConfigError, Secret
from tests.kit_gates import KEY, ORDER, TILL, Till, asked, gate, verified
from tests.kit_receivers import NOW

B = "whsec_ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8="


def request(verb: Verb = "pause", **options: object) -> httpx.Request:
    sent: list[httpx.Request] = []

    def reply(one: httpx.Request) -> httpx.Response:
        sent.append(one)
        return httpx.Response(204)

    asked(gate(**(TILL | options)), verb, reply)
    [only] = sent
    return only


def test_it_says_whom_until_when_by_whom_and_why() -> None:
    assert json.loads(request().content) == {
        "type": "gatewatch.pause",
        "timestamp": "2026-03-10T09:30:00Z",
        "data": {
            "pause_id": "pa_0123456789ab",
            "target": {"kind": "agent", "name": "a1"},
            "tenant": "acme",
            "until": "2026-03-10T10:30:00Z",
            "reason": "it exports customers",
            "actor": "mei",
            "automatic": False,
            "alert_id": "al_7f3a",
            "link": "https://gatewatch.example/alert?alert=al_7f3a",
        },
    }


def test_the_key_of_a_request_is_the_same_at_every_attempt_and_another_for_each_verb() -> None:
    verbs: tuple[Verb, ...] = ("pause", "pause", "resume")
    keys = [request(verb).headers["idempotency-key"] for verb in verbs]

    assert keys == ["pa_0123456789ab-pause"] * 2 + ["pa_0123456789ab-resume"]
    assert "." not in keys[0]


def test_who_holds_the_key_verifies_it_and_sees_a_changed_body() -> None:
    good = request()
    forged = httpx.Request(
        "POST", good.url, headers=good.headers, content=good.content.replace(b"a1", b"a2")
    )

    assert verified(good, NOW)
    assert not verified(forged, NOW)
    assert not verified(good, NOW + timedelta(minutes=6))


def test_while_a_key_is_changed_both_sign() -> None:
    signatures = request(secrets=[KEY, B]).headers["webhook-signature"].split()

    assert len(signatures) == 2
    assert verified(request(secrets=[B, KEY]), NOW)


def test_a_gate_that_pauses_is_confirmed_and_one_that_says_it_did_not_is_no() -> None:
    no = httpx.Response(200, json={"paused": False, "why": "unknown agent"})

    assert isinstance(asked(gate(), "pause", Till()).outcome, Delivered)
    got = asked(gate(), "pause", lambda _: no)

    assert isinstance(got.outcome, Refused)
    assert "unknown agent" in got.text


def test_taken_is_not_done() -> None:
    got = asked(gate(), "pause", lambda _: httpx.Response(202))

    assert got.outcome == Retry("HTTP 202: taken, not done yet", "other", 5.0)


@pytest.mark.parametrize("secrets", [(), ("short",), ("whsec_AAAA",)])
def test_a_gate_without_a_good_secret_is_refused(secrets: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError, match="secret"):
        gate(**(TILL | {"secrets": list(secrets)}))


def test_nothing_of_the_options_shows_a_secret() -> None:
    options = Options(webhook=Secret(TILL["webhook"]), secrets=(Secret(KEY),))

    assert "FAKE" not in repr(options)
    assert KEY not in repr((options, ORDER))
