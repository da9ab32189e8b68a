import importlib.util
from dataclasses import replace
from typing import Any

import pytest

from detectors import receivers
from detectors.receivers import Delivered, Handed, Outcome, Passed, Refused, Retry, apprise
from detectors.routing import load
from ingest.config import ConfigError
from tests.kit_receivers import MESSAGE, NOW, example

OPTIONS, _ = example("apprise")
SHORT = replace(MESSAGE, evidence=MESSAGE.evidence[:3], events=3)


def handed(**change: Any) -> Handed:
    """What is handed to the library."""
    asked = next(apprise.deliver(replace(SHORT, **change), OPTIONS, NOW))
    assert isinstance(asked, Handed)
    return asked


def answered(answer: Passed) -> Outcome:
    """What the receiver makes of an answer."""
    flow = apprise.deliver(SHORT, OPTIONS, NOW)
    next(flow)
    with pytest.raises(StopIteration) as end:
        flow.send(answer)
    outcome: Outcome = end.value.value
    return outcome


def config(url: str, **more: Any) -> dict[str, Any]:
    return {"phone": {"type": "apprise", "url": url, **more}}


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (Passed(True, 200), Delivered(accepted=True)),
        (Passed(True, 0), Delivered(accepted=True)),
        (Passed(False, 0), Retry("Apprise says no, and not why", "other")),
        (Passed(False, 200), Retry("Apprise says no: HTTP 200", "other")),
        (Passed(False, 307), Retry("Apprise says no: HTTP 307", "other")),
        (Passed(False, 401), Refused("Apprise says no: HTTP 401", "authError", "token")),
        (Passed(False, 404), Refused("Apprise says no: HTTP 404", "clientError")),
        (Passed(False, 408), Retry("Apprise says no: HTTP 408", "clientError")),
        (Passed(False, 429), Retry("Apprise says no: HTTP 429", "rateLimited")),
        (Passed(False, 503), Retry("Apprise says no: HTTP 503", "serverError")),
        (Passed(False, why="unknown"), Refused("unknown", "other", "address")),
    ],
)
def test_a_yes_is_accepted_and_never_delivered(answer: Passed, outcome: Outcome) -> None:
    assert answered(answer) == outcome


@pytest.mark.parametrize(("scheme", "ours"), apprise.OURS.items())
def test_what_has_a_receiver_of_its_own_is_sent_there(scheme: str, ours: str) -> None:
    assert ours in receivers.names()

    with pytest.raises(ConfigError, match=f"use type = '{ours}', which reads what") as error:
        load(config(f"{scheme.upper()}://FAKEtoken/x"))

    assert "FAKEtoken" not in str(error.value)


@pytest.mark.parametrize(
    "query",
    [
        "?verify=no",
        "?x=1&verify=0",
        "?VERIFY=off",
        "?%76erify=no",
        "?verify=",
        "?verify=yes&verify=n",
    ],
)
def test_no_url_turns_the_check_of_certificates_off(query: str) -> None:
    with pytest.raises(ConfigError, match="turns the check of certificates off"):
        load(config(f"ntfys://ntfy.corp.example/topic{query}"))


@pytest.mark.parametrize(
    ("url", "error"),
    [
        ("https://ntfy.sh/topic", "is one that Apprise knows, such as ntfys://host/topic"),
        ("FAKEtoken", "is one that Apprise knows"),
        ("ntfys://127.0.0.1/topic", "the address is 127.0.0.1, inside this network"),
        ("ntfys://u:p@localhost:80/topic", "the address is inside this network"),
        ("ntfys://[::ffff:10.0.0.1]/topic", "inside this network"),
        ("ntfys://169.254.169.254/topic", "which no receiver has"),
        ("ntfys://0x7f000001/topic", "inside this network"),
    ],
)
def test_case_b174_a_url_that_leads_inside_is_refused_when_the_config_is_read(
    url: str, error: str
) -> None:
    with pytest.raises(ConfigError) as found:
        load(config(url))

    assert error in str(found.value)
    assert "FAKE" not in str(found.value)


@pytest.mark.parametrize(
    "url",
    ["pover://FAKEuserkey@FAKEapptoken", "ntfy://mytopic", "gotifys://push.example/FAKEtoken",
     "jira://FAKE_token@cloud/", "opsgenie://FAKE-key/#team", "matrixs://u:p@m.example/#room"],
)  # fmt: skip
def test_urls_whose_host_is_no_host_are_taken(url: str) -> None:
    [route] = load(config(url))

    assert route.options.url.reveal == url
    assert "FAKE" not in f"{route!r} {route.options!r}"


def test_without_the_library_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)

    with pytest.raises(ConfigError, match=r"pip install 'gatewatch\[apprise\]'"):
        load(config("ntfy://mytopic"))


def test_the_link_comes_before_anything_that_a_service_may_cut() -> None:
    body = handed(buttons=(("ack", "https://gatewatch.example/a"),)).body.splitlines()

    assert body[0] == "HIGH · Opened · al_7f3a"
    assert body[3:5] == [
        f"Open al_7f3a: {MESSAGE.link}",
        "Acknowledge: https://gatewatch.example/a",
    ]


@pytest.mark.parametrize(
    ("severity", "tone"),
    [("critical", "failure"), ("high", "failure"), ("medium", "warning"), ("low", "info"),
     ("unheard", "failure")],
)  # fmt: skip
def test_the_tone_is_that_of_the_severity_until_it_is_over(severity: str, tone: str) -> None:
    assert handed(severity=severity).tone == tone
    assert handed(severity=severity, kind="resolved").tone == "success"


def test_markup_is_broken_and_names_stay_whole() -> None:
    found = handed(title="**x** _y_ deny_retry [a](https://evil.example) `z` @all")

    assert "deny_retry" in found.title
    assert [mark for mark in ("**", "_y_", "](", "://", "@all") if mark in found.title] == []
