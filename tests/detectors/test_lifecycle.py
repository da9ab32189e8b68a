"""From the first telling to the last: cool-down, what gets worse, what comes and goes."""

import json
from pathlib import Path

import pytest

from detectors import triage
from ingest.config import Duration, Telling
from tests.kit import CASES
from tests.kit_lifecycle import OPS, PAGER, Desktop, minutes

FIXTURES = CASES / "fixtures"


def grow(desk: Desktop, alert_id: str, count: float) -> list[tuple[str, str]]:
    """So many minutes pass, and its trouble goes on."""
    desk.now += minutes(count)
    desk.change(alert_id, ended_at=desk.now)
    return desk.tell()


def test_what_stays_open_is_told_again_after_one_two_four_and_eight_hours(desk: Desktop) -> None:
    desk.open("al_1")
    hours = [0.0]
    assert desk.tell() == [("open", "al_1")]

    for half in range(1, 2 * 40):
        if grow(desk, "al_1", 30):
            hours.append(half / 2)

    assert hours == [0, 1, 3, 7, 15, 23, 31, 39]


def test_what_no_longer_grows_is_not_told_again(desk: Desktop) -> None:
    desk.open("al_1")
    desk.tell()

    assert [desk.wait(60) for _ in range(20)] == [[]] * 20


def test_what_somebody_has_is_not_told_again_but_when_it_gets_worse(desk: Desktop) -> None:
    desk.open("al_1")
    desk.tell()
    triage.acknowledge(desk.store, desk.lander, "al_1", "ann", "on it", desk.now)

    told = [grow(desk, "al_1", 60) for _ in range(5)]
    desk.change("al_1", severity="high")
    worse = desk.wait(1)

    assert told == [[]] * 5
    assert worse == [("worse", "al_1")]
    desk.change("al_1", severity="critical")
    assert desk.wait(0.1) == [("worse", "al_1")]  # in the cool-down, too


def test_reminders_begin_anew_when_an_acknowledgement_is_taken_back(desk: Desktop) -> None:
    desk.open("al_1")
    desk.tell()
    triage.acknowledge(desk.store, desk.lander, "al_1", "ann", "", desk.now)
    assert grow(desk, "al_1", 61) == []

    triage.reopen(desk.store, desk.lander, "al_1", "ann", "not mine", desk.now)

    assert grow(desk, "al_1", 1) == [("reminder", "al_1")]


def test_that_somebody_has_it_is_told_to_those_that_mirror_alerts(tmp_path: Path) -> None:
    desk = Desktop(tmp_path, ops=OPS, pager=PAGER)
    desk.open("al_1")
    assert desk.tell() == [("open", "al_1")]
    triage.acknowledge(desk.store, desk.lander, "al_1", "ann", "on it", desk.now)

    desk.wait(1)
    desk.wait(1)

    kinds = desk.store.rows("SELECT receiver, kind FROM deliveries ORDER BY ALL")
    mirrors = [row["receiver"] for row in kinds if row["kind"] == "acknowledged"]
    assert mirrors == [route.name for route in desk.desk.routes if route.module.MANNERS.mirrors]
    assert "ops" not in mirrors
    desk.close()


def test_an_end_is_told_once_after_it_has_been_quiet_for_the_hold(desk: Desktop) -> None:
    desk.open("al_1")
    desk.tell()
    desk.now += minutes(20)
    desk.over("al_1")

    assert desk.wait(9) == []
    assert desk.wait(1) == [("resolved", "al_1")]
    assert [desk.wait(30) for _ in range(5)] == [[]] * 5


def test_an_alert_that_is_open_again_after_its_end_was_told_is_told_again(desk: Desktop) -> None:
    desk.open("al_1")
    desk.tell()
    desk.over("al_1")
    assert desk.wait(10) == [("resolved", "al_1")]

    desk.change("al_1", status="open", ended_at=desk.now)
    within = desk.wait(30)
    after = desk.wait(30)
    desk.over("al_1")
    end = desk.wait(10)

    assert (within, after, end) == ([], [("open", "al_1")], [("resolved", "al_1")])


def test_b130_what_comes_and_goes_is_told_three_times_at_most(tmp_path: Path) -> None:
    case = json.loads((FIXTURES / "B130-flapping.sim.json").read_text())
    desk = Desktop(tmp_path)
    told: list[tuple[str, str]] = []
    for minute in range(case["minutes"]):
        fires = case["pattern"][minute % len(case["pattern"])] == "T"
        if fires:
            desk.open(f"al_{minute:02}")
        else:
            desk.over(f"al_{minute - 1:02}")
        told += desk.tell()
        desk.now += minutes(case["period_s"] / 60)

    for _ in range(120):
        told += desk.wait(1)

    assert told == [("open", "al_00"), ("flapping", "al_00"), ("resolved", "al_00")]
    assert len(told) <= case["expect"]["messages_max"]
    quiet = desk.alert("al_02")
    assert (quiet["quiet_reason"], quiet["continues"]) == ("flapping", "al_00")
    desk.close()


def test_what_comes_back_worse_is_told(desk: Desktop) -> None:
    desk.open("al_1", severity="low")
    desk.tell()
    desk.over("al_1")
    desk.now += minutes(2)

    desk.open("al_2", severity="high")

    assert desk.tell() == [("open", "al_2")]


def test_what_goes_on_for_hours_with_pauses_is_told_again_after_the_cool_down(
    desk: Desktop,
) -> None:
    desk.open("al_00")
    told = desk.tell()
    for number in range(1, 16):
        desk.over(f"al_{number - 1:02}")
        told += desk.wait(5)
        desk.open(f"al_{number:02}")
        told += desk.tell()

    assert told == [("open", "al_00"), ("flapping", "al_00"), ("reminder", "al_00")]


def test_a_quiet_moment_of_one_subject_is_not_the_end_for_another(desk: Desktop) -> None:
    desk.open("al_1", subject="a1")
    desk.open("al_2", subject="a2")
    desk.tell()
    desk.now += minutes(20)
    desk.over("al_1")

    assert desk.wait(10) == [("resolved", "al_1")]


def test_figures_of_the_config_are_those_that_hold(tmp_path: Path) -> None:
    figures = Telling(cool_down=Duration("5 minutes"), hold=Duration("0 minutes"))
    desk = Desktop(tmp_path, figures)
    desk.open("al_1")
    desk.tell()

    assert grow(desk, "al_1", 4) == []
    assert grow(desk, "al_1", 1) == [("reminder", "al_1")]
    desk.over("al_1")
    assert desk.tell() == [("resolved", "al_1")]
    desk.close()


@pytest.mark.parametrize("kinds", [("open",), ("open", "worse"), ("open", "resolved")])
def test_after_a_rebuild_the_same_alerts_are_told_of_at_the_same_times(
    tmp_path: Path, kinds: tuple[str, ...]
) -> None:
    desk = Desktop(tmp_path)
    desk.open("al_1")
    desk.tell()
    if "worse" in kinds:
        desk.change("al_1", severity="high")
        desk.wait(1)
    if "resolved" in kinds:
        desk.over("al_1")
        desk.wait(10)
    desk.deliver()
    before = desk.alert("al_1")

    again = desk.rebuild()
    told = again.tell()

    names = ("told_at", "told_severity", "tellings", "closed_told")
    assert told == []
    assert {name: again.alert("al_1")[name] for name in names} == {
        name: before[name] for name in names
    }
    again.close()


def test_after_a_rebuild_what_was_acknowledged_assigned_and_said_is_there(tmp_path: Path) -> None:
    desk = Desktop(tmp_path)
    desk.open("al_1")
    desk.tell()
    desk.deliver()
    triage.judge(desk.store, desk.lander, "al_1", "true", "ann", "it did", desk.now)
    triage.reopen(desk.store, desk.lander, "al_1", "bob", "it did not", desk.now)
    triage.acknowledge(desk.store, desk.lander, "al_1", "bob", "on it", desk.now)
    triage.assign(desk.store, desk.lander, "al_1", "kim", "bob", "knows it", desk.now)
    triage.comment(desk.store, desk.lander, "al_1", "looks like a test", "kim", desk.now)

    again = desk.rebuild()
    again.tell()

    row = again.alert("al_1")
    assert (row["acked_by"], row["verdict"], row["assigned_to"]) == ("bob", None, "kim")
    said = again.store.rows("SELECT what, detail FROM alert_events ORDER BY rowid")
    assert [(each["what"], each["detail"]) for each in said if each["what"] != "told"] == [
        ("verdict", "ann: true: it did"),
        ("retaken", "bob: it did not"),
        ("acked", "bob: on it"),
        ("assigned", "bob: kim: knows it"),
        ("comment", "kim: looks like a test"),
    ]
    again.close()
