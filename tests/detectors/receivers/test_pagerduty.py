import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from detectors.receivers import Delivered, Kind, Message, Outcome, Refused, Retry, pagerduty
from detectors.routing import load
from ingest.config import ConfigError
from tests.fakes import load as service
from tests.fakes import tell
from tests.fakes.pagerduty import Fake
from tests.kit_receivers import MESSAGE, ROOT, deliver, example

OPTIONS, [KEY] = example("pagerduty")
SHORT = replace(MESSAGE, evidence=MESSAGE.evidence[:3], events=3)
FIXTURES = ROOT.parent / "shared" / "cases" / "fixtures"


@pytest.fixture
def pager() -> Fake:
    found = service("pagerduty")
    assert isinstance(found, Fake)
    return found


def event(message: Message = SHORT, **change: Any) -> Any:
    """What is sent for a message."""
    sent = deliver("pagerduty", httpx.Response(500), message=replace(message, **change))[1]
    return json.loads(sent.content)


def test_an_alert_rings_once_is_taken_and_ends(pager: Fake) -> None:
    kinds: tuple[Kind, ...] = ("open", "worse", "reminder", "escalated", "acknowledged", "resolved")

    outcomes = [tell(pager, "pagerduty", replace(SHORT, kind=kind)) for kind in kinds]

    assert outcomes == [Delivered()] * len(kinds)
    assert pager.rang == 1
    assert [action for action, _ in pager.history] == [
        "trigger", "trigger", "trigger", "trigger", "acknowledge", "resolve",
    ]  # fmt: skip
    assert {key for _, key in pager.history} == {"al_7f3a"}
    assert pager.incidents == {}


@pytest.mark.parametrize("over", ["resolved", "withdrawn"])
def test_every_end_of_an_alert_closes_it_there(pager: Fake, over: Kind) -> None:
    tell(pager, "pagerduty", SHORT)

    tell(pager, "pagerduty", replace(SHORT, kind=over))

    assert pager.incidents == {}


def test_an_alert_that_comes_again_rings_again(pager: Fake) -> None:
    for kind in ("open", "resolved", "open"):
        tell(pager, "pagerduty", replace(SHORT, kind=kind))

    assert pager.rang == 2


def test_a_storm_is_one_incident_that_its_end_closes(pager: Fake) -> None:
    storm = replace(SHORT, alert="st_deny_retry_1", kind="storm")

    for minute in range(3):
        tell(pager, "pagerduty", replace(storm, delivery=f"dl_{minute}"))
    assert (pager.rang, [*pager.incidents]) == (1, ["st_deny_retry_1"])
    tell(pager, "pagerduty", replace(storm, kind="calm"))

    assert pager.incidents == {}


def test_a_digest_of_a_day_is_no_incident(pager: Fake) -> None:
    outcome = tell(pager, "pagerduty", replace(SHORT, kind="daily"))

    assert outcome == Delivered("not sent: it is no incident")
    assert pager.requests == []


def test_a_message_said_twice_does_no_harm(pager: Fake) -> None:
    for _ in range(3):
        tell(pager, "pagerduty", replace(SHORT, repeat=True))

    assert pager.rang == 1
    assert pagerduty.MANNERS.keyed


def test_case_b123_twenty_thousand_lines_are_cut_and_the_key_stays(pager: Fake) -> None:
    case = json.loads((FIXTURES / "B123-pd-512k.recv.json").read_text(encoding="utf-8"))
    count = case["incident"]["evidence_count"]
    line = "案" * 500
    huge = replace(MESSAGE, title=case["incident"]["title"], evidence=(line,) * count, events=count)

    assert tell(pager, "pagerduty", huge) == Delivered()

    [request] = pager.requests
    assert 470_000 < len(request.content) <= 480_000
    sent = json.loads(request.content)
    details = sent["payload"]["custom_details"]
    assert sent["dedup_key"] == event()["dedup_key"]
    assert (
        details["samples shown"] == f"{len([k for k in details if k[:7] == 'sample '])} / {count}"
    )
    assert "sample 1" in details
    assert case["expect"] == {"state": "delivered"}


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [("critical", "critical"), ("high", "error"), ("medium", "warning"), ("low", "info"),
     ("never heard of", "critical")],
)  # fmt: skip
def test_severities_are_the_four_that_pagerduty_knows(ours: str, theirs: str) -> None:
    assert event(severity=ours)["payload"]["severity"] == theirs


def test_details_are_flat_and_a_name_from_a_log_does_not_hide_ours() -> None:
    facts = (("state", "fine"), ("alert", "al_0000"), ("denials", "3"))

    details = event(facts=facts, params=(("a.b", "1"),))["payload"]["custom_details"]

    assert details["state"] == "HIGH · Opened"
    assert details["alert"] == "al_7f3a"
    assert (details["state "], details["denials"], details["parameter a.b"]) == ("fine", "3", "1")
    assert {type(value) for value in details.values()} == {str}


def test_chinese_people_read_chinese_details() -> None:
    details = event(language="zh")["payload"]["custom_details"]

    assert details["状态"] == "高 · 新告警"
    assert details["处置"] == "Open the trace."


def test_links_lead_to_the_alert_and_to_what_can_be_done() -> None:
    ack = "https://gatewatch.example/a/ack?s=FAKE"

    sent = event(buttons=(("ack", ack),))

    assert sent["client_url"] == MESSAGE.link
    assert sent["links"] == [
        {"href": MESSAGE.link, "text": "Open al_7f3a"},
        {"href": ack, "text": "Acknowledge"},
    ]


def test_a_key_that_is_too_long_is_hashed_the_same_each_time() -> None:
    keys = {event(alert="x" * 300, kind=kind)["dedup_key"] for kind in ("open", "resolved")}

    assert [len(key) for key in keys] == [67]


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (httpx.Response(202, json={"status": "success"}), Delivered()),
        (httpx.Response(202, text=""), Retry("answered nothing", "other")),
        (httpx.Response(200, json={"status": "success"}),
         Retry("""answered '{"status":"success"}'""", "other")),
        (httpx.Response(202, json={"status": "failed"}),
         Retry("""answered '{"status":"failed"}'""", "other")),
        (httpx.Response(400, json={"errors": ["Length of 'routing_key' is incorrect"]}),
         Refused("""HTTP 400: ["Length of 'routing_key' is incorrect"]""", "authError", "token")),
        (httpx.Response(400, json={"errors": ["'payload.severity' is invalid"]}),
         Refused("""HTTP 400: ["'payload.severity' is invalid"]""", "clientError")),
        (httpx.Response(400, json={"errors": [f"no {KEY}"]}), Refused("HTTP 400", "clientError")),
        (httpx.Response(400, json={"errors": {"a": ["\x1b[31m\n"]}}),
         Refused("""HTTP 400: {"a": ["\\u001b[31m\\n"]}""", "clientError")),
        (httpx.Response(429), Retry("HTTP 429", "rateLimited")),
        (httpx.Response(503, headers={"retry-after": "60"}),
         Retry("HTTP 503", "serverError", 60.0)),
    ],
)  # fmt: skip
def test_only_202_with_success_is_a_delivery(answer: httpx.Response, outcome: Outcome) -> None:
    assert deliver("pagerduty", answer)[0] == outcome


def test_each_region_has_its_host(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(KEY)
    table = {"type": "pagerduty", "routing_key": f"file:{tmp_path / 'key'}", "region": "eu"}

    [route] = load({"pager": table})

    assert route.options.address == "https://events.eu.pagerduty.com/v2/enqueue"
    assert OPTIONS.address == "https://events.pagerduty.com/v2/enqueue"


def test_a_key_of_another_length_is_refused_without_showing_it() -> None:
    with pytest.raises(ConfigError, match="`routing_key` has 32 characters") as error:
        load({"pager": {"type": "pagerduty", "routing_key": "s3cret"}})

    assert "s3cret" not in str(error.value)


def test_too_many_events_are_asked_to_wait(pager: Fake) -> None:
    outcomes = [tell(pager, "pagerduty", SHORT) for _ in range(121)]

    assert outcomes[-2:] == [Delivered(), Retry("HTTP 429", "rateLimited")]
