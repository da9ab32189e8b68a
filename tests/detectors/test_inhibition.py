"""Alerts for which another one speaks: kept quiet while it is open, told afterwards."""

from dataclasses import replace
from typing import Any

import pytest

from tests.kit_lifecycle import Desktop


@pytest.fixture
def desk(desk: Desktop) -> Desktop:
    desk.header("deny_retry", inhibited_by=("silent_source",))
    return desk


def event(desk: Desktop, event_id: str, source: str, **more: Any) -> None:
    values = {"event_id": event_id, "source": source, "ts": desk.now, "kind": "tool_decided",
              "ledger_seq": 1} | more  # fmt: skip
    names, places = ", ".join(values), ", ".join(f"${each}" for each in values)
    desk.run(f"INSERT INTO events ({names}) VALUES ({places})", **values)


def silent(desk: Desktop, source: str = "gate") -> None:
    desk.open("al_silent", source, name="silent_source")


def test_while_its_source_is_not_heard_an_alert_is_recorded_and_not_told(desk: Desktop) -> None:
    event(desk, "e1", "gate")
    event(desk, "e2", "other")
    silent(desk)
    desk.open("al_1", "a1", event_ids=["e1"])
    desk.open("al_2", "a2", event_ids=["e2"])
    desk.open("al_3", "gate", event_ids=[])

    first = desk.tell()
    reasons = {name: desk.alert(name)["quiet_reason"] for name in ("al_1", "al_3")}
    desk.over("al_silent")
    after = desk.wait(1)

    assert sorted(first) == [("open", "al_2"), ("open", "al_silent")]
    assert reasons == {"al_1": "inhibited", "al_3": "inhibited"}
    assert sorted(after) == [("open", "al_1"), ("open", "al_3")]


def test_what_is_over_by_then_is_not_told(desk: Desktop) -> None:
    silent(desk)
    desk.open("al_1", "gate")
    desk.tell()
    desk.over("al_1")
    desk.over("al_silent")

    assert desk.wait(15) == [("resolved", "al_silent")]


def test_a_detector_that_does_not_name_it_is_told(desk: Desktop) -> None:
    event(desk, "e1", "gate")
    silent(desk)
    desk.open("al_1", "gate", name="call_loop", event_ids=["e1"])

    assert ("open", "al_1") in desk.tell()


def test_an_agent_that_is_called_as_a_source_is_does_not_keep_others_quiet(desk: Desktop) -> None:
    desk.header("deny_retry", inhibited_by=("call_loop",))
    event(desk, "e1", "gate")
    desk.open("al_loop", "gate", name="call_loop", event_ids=["e9"])
    desk.open("al_1", "a1", event_ids=["e1"])

    assert ("open", "al_1") in desk.tell()


def test_one_that_speaks_of_the_same_events_keeps_it_quiet(desk: Desktop) -> None:
    desk.header("deny_retry", inhibited_by=("call_loop",))
    desk.open("al_loop", "t-1", name="call_loop", event_ids=["e1", "e2"])
    desk.run(
        "INSERT INTO stretches VALUES ('call_loop', '', 't-1', $now::TIMESTAMPTZ,"
        " $now::TIMESTAMPTZ, 'medium', ['e1', 'e2'], '{}')", now=desk.now
    )  # fmt: skip
    desk.open("al_1", "a1", event_ids=["e2", "e3"])
    desk.open("al_2", "a2", event_ids=["e4"])

    assert sorted(desk.tell()) == [("open", "al_2"), ("open", "al_loop")]
    assert desk.alert("al_1")["quiet_reason"] == "inhibited"


def test_one_that_nobody_would_be_told_of_does_not_speak_for_others(desk: Desktop) -> None:
    desk.detectors["silent_source"] = replace(desk.detectors["silent_source"], status="shadow")
    silent(desk)
    desk.open("al_1", "gate")

    assert desk.tell() == [("open", "al_1")]


def test_what_a_detector_left_open_that_is_switched_off_does_not_speak_for_others(
    desk: Desktop,
) -> None:
    desk.header("deny_retry", inhibited_by=("call_loop",))
    desk.open("al_loop", "t-1", name="call_loop", event_ids=["e1"])
    desk.run(
        "INSERT INTO stretches VALUES ('call_loop', '', 't-1', $now::TIMESTAMPTZ,"
        " $now::TIMESTAMPTZ, 'medium', ['e1'], '{}')", now=desk.now
    )  # fmt: skip
    desk.open("al_1", "a1", event_ids=["e1"])
    desk.tell()
    del desk.detectors["call_loop"]

    assert desk.tell() == [("open", "al_1")]
