"""Many alerts at once: a summary instead of a flood, and nothing that matters waits behind it."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

from ingest.config import Duration, Telling
from tests.kit import CASES
from tests.kit_lifecycle import OPS, PAGER, Desktop, minutes

FIXTURES = CASES / "fixtures"


def flood(desk: Desktop, count: int, severity: str = "low", start: int = 0) -> None:
    for number in range(start, start + count):
        desk.open(f"al_{number:03}", subject=f"a{number}", severity=severity)


def kinds(messages: list[dict[str, Any]]) -> list[str]:
    return [each["kind"] for each in messages]


def test_the_first_ten_are_told_each_and_the_rest_in_one_summary(desk: Desktop) -> None:
    flood(desk, 190)
    flood(desk, 10, "medium", start=190)

    told = desk.queue()

    assert sorted(kinds(told)) == ["open"] * 10 + ["storm"]
    assert {each["severity"] for each in told if each["kind"] == "open"} == {"medium"}
    said = told[-1]["said"]
    assert said["title"] == "190 more alerts of deny_retry, 190 of them new"
    assert said["facts"][0] == ["LOW", "190"]
    assert (len(said["evidence"]), said["events"]) == (190, 190)
    assert said["evidence"][0].startswith("LOW · al_000 · a0: 3 denials")


def test_a_summary_comes_every_five_minutes_and_only_when_there_is_news(desk: Desktop) -> None:
    flood(desk, 12)
    desk.queue()
    flood(desk, 3, start=12)

    early, late = desk.wait(4), desk.wait(1)
    calm = [desk.wait(5) for _ in range(5)]

    assert early == []
    assert [kind for kind, _ in late] == ["storm"]
    assert calm == [[]] * 5
    [row] = desk.store.rows("SELECT * FROM storms")
    assert row["tellings"] == 2


def test_when_the_rush_is_over_the_next_is_told_by_itself(desk: Desktop) -> None:
    flood(desk, 30)
    desk.queue()

    desk.now += minutes(11)
    flood(desk, 1, start=30)

    assert desk.tell() == [("open", "al_030")]


def test_who_is_in_a_summary_counts_as_told(desk: Desktop) -> None:
    flood(desk, 30)
    desk.queue()

    rows = desk.store.rows("SELECT * FROM alerts")
    assert {row["told_at"] for row in rows} == {desk.now}
    assert {row["quiet_reason"] for row in rows} == {None}


def test_what_waits_for_the_next_summary_says_so(desk: Desktop) -> None:
    flood(desk, 30)
    desk.queue()
    flood(desk, 5, start=30)
    desk.wait(1)

    assert {desk.alert(f"al_{n:03}")["quiet_reason"] for n in range(30, 35)} == {"storm"}


def test_the_end_of_each_that_was_told_and_one_message_for_the_others(desk: Desktop) -> None:
    flood(desk, 15)
    desk.queue()
    desk.now += minutes(20)
    for number in range(14):
        desk.over(f"al_{number:03}")

    some = desk.wait(10)
    desk.over("al_014")
    last = desk.wait(10)

    told = desk.store.rows("SELECT alert_id FROM deliveries WHERE kind = 'open'")
    alone = {row["alert_id"] for row in told}
    assert {alert for kind, alert in some if kind == "resolved"} == alone - {"al_014"}
    assert [kind for kind, _ in some if kind != "resolved"] == []
    assert [kind for kind, _ in last] == ["calm"]
    assert desk.store.rows("SELECT 1 FROM alerts WHERE NOT closed_told") == []
    assert [desk.wait(30) for _ in range(3)] == [[]] * 3


def test_b132_a_group_is_over_when_its_last_member_is(tmp_path: Path) -> None:
    case = json.loads((FIXTURES / "B132-group-early-resolve.sim.json").read_text())
    figures = Telling(storm_after=0, hold=Duration("0 minutes"))
    desk = Desktop(tmp_path, figures)
    began, calm = desk.now, []
    for second in range(0, 901, 60):
        desk.now = began + minutes(second / 60)
        for name, (opens, ends) in case["members"].items():
            if second == opens:
                desk.open(name, subject=name)
            if second == ends:
                desk.over(name)
        calm += [(kind, second) for kind, _ in desk.tell() if kind in ("calm", "resolved")]

    assert calm == [("calm", case["expect"]["group_resolved_at_s"])]
    left = desk.store.rows("SELECT 1 FROM alerts WHERE status = 'open' OR NOT closed_told")
    assert len(left) == case["expect"]["open_rows_at_end"]
    desk.close()


def test_b180_what_is_worse_than_the_storm_is_told_at_once(tmp_path: Path) -> None:
    text = (FIXTURES / "B180-noise-cover.jsonl").read_text().splitlines()
    expect = json.loads((CASES / "manifest.json").read_text())
    desk = Desktop(tmp_path, ops=OPS, pager=PAGER)
    told: list[tuple[str, str, datetime]] = []
    for line in text:  # an alert a line: all the noise in one group with what matters
        event = json.loads(line)
        desk.now = datetime.fromisoformat(event["ts"])
        desk.open(event["event_id"], event["event_id"], event["severity"])
        told += [(each["kind"], each["alert_id"], desk.now) for each in desk.queue()]

    last = json.loads(text[-1])
    delay = {at - datetime.fromisoformat(last["ts"]) for _, alert, at in told
             if alert == last["event_id"]}  # fmt: skip
    assert last["severity"] == "critical"
    assert "B180" in json.dumps(expect)
    assert {each.total_seconds() for each in delay} == {0.0}  # 60 seconds at most
    assert len(told) < 20
    desk.close()


def test_the_tenth_critical_alert_is_told_though_a_thousand_low_ones_came(desk: Desktop) -> None:
    flood(desk, 1_000)
    desk.queue()
    desk.now += minutes(1)
    flood(desk, 12, "critical", start=1_000)

    told = desk.tell()
    desk.now += minutes(4)
    [storm] = desk.queue()

    assert [kind for kind, _ in told] == ["open"] * 10
    assert (storm["kind"], storm["severity"]) == ("storm", "critical")
    assert storm["said"]["evidence"][0].startswith("CRITICAL")


def test_another_detector_is_told_at_once(desk: Desktop) -> None:
    flood(desk, 50)
    desk.queue()

    desk.open("al_x", name="call_loop", severity="low")

    assert desk.tell() == [("open", "al_x")]


def test_a_member_that_gets_worse_is_told_at_once(desk: Desktop) -> None:
    flood(desk, 50)
    desk.queue()
    herded = desk.store.rows("SELECT alert_id FROM storm_members ORDER BY 1")[0]["alert_id"]

    desk.change(herded, severity="high")

    assert desk.wait(0.1) == [("worse", herded)]


def test_one_that_waits_and_gets_worse_is_told_at_once_and_is_in_no_summary(desk: Desktop) -> None:
    flood(desk, 50)
    desk.queue()
    flood(desk, 2, start=50)
    desk.wait(1)

    desk.change("al_050", severity="high")

    assert desk.wait(1) == [("open", "al_050")]
    desk.now += minutes(3)
    [storm] = desk.queue()
    assert "al_050" not in " ".join(storm["said"]["evidence"])


def test_what_was_over_before_its_summary_is_in_it_as_over(desk: Desktop) -> None:
    flood(desk, 50)
    desk.queue()
    flood(desk, 1, start=50)
    desk.wait(1)
    desk.over("al_050")
    desk.now += minutes(4)

    [storm] = desk.queue()

    assert "LOW · al_050 · Resolved · a50: 3 denials" in storm["said"]["evidence"]


def test_what_was_withdrawn_before_its_summary_is_in_none(desk: Desktop) -> None:
    flood(desk, 50)
    desk.queue()
    flood(desk, 1, start=50)
    desk.wait(1)
    desk.change("al_050", status="withdrawn")

    assert [desk.wait(5) for _ in range(3)] == [[]] * 3


def test_receivers_of_different_severities_have_storms_of_their_own(tmp_path: Path) -> None:
    desk = Desktop(tmp_path, ops=OPS, pager=PAGER | {"min_severity": "critical"})
    flood(desk, 30)
    flood(desk, 11, "critical", start=30)

    desk.queue()

    rows = desk.store.rows(
        "SELECT receiver, kind, count(*) AS n FROM deliveries GROUP BY ALL ORDER BY ALL"
    )
    assert [(row["receiver"], row["kind"], row["n"]) for row in rows] == [
        ("ops", "open", 20), ("ops", "storm", 2),
        ("pager", "open", 10), ("pager", "storm", 1),
    ]  # fmt: skip
    desk.close()


def test_a_storm_survives_a_rebuild(tmp_path: Path) -> None:
    desk = Desktop(tmp_path)
    flood(desk, 30)
    desk.queue()
    desk.deliver()
    before = desk.store.rows("SELECT * FROM storms")

    again = desk.rebuild()
    nothing, after = again.tell(), again.store.rows("SELECT * FROM storms")
    again.now += minutes(20)
    for number in range(30):
        again.over(f"al_{number:03}")
    over = again.wait(10)

    assert nothing == []
    assert after == before
    assert sorted({kind for kind, _ in over}) == ["calm", "resolved"]
    assert len(over) == 11
    again.close()


def test_a_long_storm_that_goes_on_is_told_again(desk: Desktop) -> None:
    flood(desk, 12)
    desk.queue()
    desk.now += minutes(61)
    for number in range(12):
        desk.change(f"al_{number:03}", ended_at=desk.now)

    told = [kind for kind, _ in desk.tell()]

    assert sorted(told) == ["reminder"] * 10 + ["storm"]
