"""Pauses that nobody orders by hand: only where the config says so, once an alert, and bounded."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.kit_gates import TILL, Guarded
from tests.kit_telling import House

AUTOMATIC = TILL | {"automatic": ["deny_retry"], "expires": "30 minutes"}


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = House(tmp_path)
    for event in ("e1", "e2", "e3"):
        made.event(event, made.now - timedelta(minutes=29), agent="a1", source="gate")
    yield made
    made.close()


def guarded(house: House, **table: Any) -> Guarded:
    made = Guarded(house, till=AUTOMATIC | table)
    made.detectors = {
        name: SimpleNamespace(status=status)
        for name, status in (("deny_retry", "stable"), ("call_loop", "stable"))
    }
    return made


def test_an_alert_of_a_named_detector_pauses_its_agent_once(house: House) -> None:
    made = guarded(house)
    house.alert()
    made.run(120)
    made.run(120)

    [row] = made.rows()
    assert (row["state"], row["actor"], row["automatic"], row["alert_id"]) == (
        "confirmed", "gatewatch", True, "al_7f3a",
    )  # fmt: skip
    assert (row["kind"], row["name"], row["until"] - row["asked_at"]) == (
        "agent", "a1", timedelta(minutes=30),
    )  # fmt: skip
    assert row["reason"] == "deny_retry: a1: 3 denials in a row for crm.export_contacts"
    assert made.till.seen[0]["data"]["automatic"] is True
    assert len(made.till.seen) == 1


@pytest.mark.parametrize(
    "columns",
    [
        {"detector": "call_loop"},
        {"backfill": True},
        {"status": "resolved"},
        {"quiet_reason": "silence"},
        {"quiet_reason": "shadow"},
        {"quiet_reason": "inhibited"},
        {"verdict": "expected"},
    ],
)
def test_what_is_quiet_over_or_of_another_detector_pauses_nobody(
    house: House, columns: dict[str, Any]
) -> None:
    made = guarded(house)
    house.alert(**columns)
    made.run(5)

    assert made.rows() == []


def test_one_that_opened_long_ago_is_no_reason(house: House) -> None:
    made = guarded(house)
    house.alert(opened_at=house.now - timedelta(minutes=11))
    made.run(5)

    assert made.rows() == []


def test_a_detector_in_shadow_pauses_nobody(house: House) -> None:
    made = guarded(house)
    made.detectors["deny_retry"].status = "shadow"
    house.alert()
    made.run(5)

    assert made.rows() == []


def test_a_gate_that_names_no_detector_is_never_asked_by_itself(house: House) -> None:
    made = guarded(house, automatic=[])
    house.alert()
    made.run(5)

    assert made.rows() == []


def test_beyond_its_bound_people_are_told_instead_and_it_is_decided_once(house: House) -> None:
    made = guarded(house, automatic_per_hour=2)
    for number in range(4):
        house.event(f"n{number}", house.now, agent=f"b{number}", source="gate")
        house.alert(f"al_{number}", subject=f"b{number}", event_ids=[f"n{number}"],
                    opened_at=house.now, ended_at=house.now)  # fmt: skip
    made.run(60)
    made.run(60)

    assert sorted(row["name"] for row in made.rows()) == ["b0", "b1"]
    assert made.told() == [
        f"NOT PAUSED automatically: b{number}: till has had its 2 for this hour"
        for number in (2, 3)
    ]
    assert [each[2] for each in made.log() if each[0] == "pause_withheld"] == ["al_2", "al_3"]


def test_an_hour_later_there_is_room_again(house: House) -> None:
    made = guarded(house, automatic_per_hour=1)
    house.alert()
    made.run(3_700)
    house.event("n1", house.now, agent="b1", source="gate")
    house.alert("al_1", subject="b1", event_ids=["n1"], opened_at=house.now, ended_at=house.now)
    made.run(5)

    assert [row["name"] for row in made.rows()] == ["a1", "b1"]


def test_evidence_of_several_agents_pauses_the_subject_alone(house: House) -> None:
    made = guarded(house)
    house.event("e9", house.now, agent="a9", source="gate")
    house.alert(event_ids=["e1", "e9"])
    made.run(5)

    assert [row["name"] for row in made.rows()] == ["a1"]


def test_a_crowd_without_a_subject_among_them_is_left_to_people(house: House) -> None:
    made = guarded(house)
    ids = [f"n{number}" for number in range(4)]
    for number, event in enumerate(ids):
        house.event(event, house.now, agent=f"b{number}", source="gate")
    house.alert(subject="billing.example", event_ids=ids)
    made.run(5)

    assert made.rows() == []
    assert made.told() == ["NOT PAUSED automatically: billing.example: its evidence names 4 agents"]


def test_evidence_without_an_agent_is_told(house: House) -> None:
    made = guarded(house)
    house.event("n1", house.now, agent=None, source="gate")
    house.alert(subject="gate", event_ids=["n1"])
    made.run(5)

    assert made.told() == ["NOT PAUSED automatically: gate: its evidence names no agent"]


def test_after_a_rebuild_nothing_is_paused_again(house: House) -> None:
    made = guarded(house)
    house.alert()
    made.run(5)
    with house.store.writing() as db:
        db.execute("DELETE FROM pauses")
        db.execute("UPDATE operator_log SET applied = false")
    made.caught_up()
    made.run(5)

    assert len(made.till.seen) == 1
    assert [each[0] for each in made.log()].count("pause") == 1
