"""Who hears of an alert that nobody takes: each step once, whatever happens in between."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from detectors import triage
from detectors.escalation import AT_ONCE
from tests.kit_duty import STEPS, TREE, Duty
from tests.world import at


class Called(Protocol):
    """The fixture that makes a Duty."""

    def __call__(self, tree: dict[str, Any] | None = None, **more: Any) -> Duty: ...


@pytest.fixture
def called(tmp_path: Path) -> Iterator[Called]:
    """Makes a Duty whose agent a1 was refused three times, of which ops is told at minute 3."""
    made: list[Duty] = []

    def one(tree: dict[str, Any] | None = None, **more: Any) -> Duty:
        made.append(Duty(tmp_path / str(len(made)), tree, **more))
        made[-1].denials(0, 1, 2)
        assert made[-1].tick(3) == ["ops open"]
        return made[-1]

    yield one
    for each in made:
        each.world.close()


def going_on(duty: Duty, until: int) -> None:
    """The agent is refused again and again, so that its alert stays open."""
    duty.denials(*range(8, until, 5))


def test_each_step_is_told_once_when_its_time_has_come(called: Called) -> None:
    duty = called()
    going_on(duty, 80)

    assert duty.tick(17.9) == []
    assert duty.tick(18) == ["lead escalated"]
    assert duty.tick(19) == []
    assert duty.tick(62.9) == []
    assert duty.tick(63) == ["boss escalated", "ops reminder"]
    assert duty.tick(70) == []
    message = duty.message("lead", "escalated")
    assert message.facts[0] == (
        "comes to you because", "nobody has acknowledged it within 15 minutes",
    )  # fmt: skip
    assert message.alert == duty.alert["alert_id"]
    noted = "SELECT detail FROM alert_events WHERE what = 'escalated' ORDER BY ts"
    assert [row["detail"] for row in duty.world.rows(noted)] == [
        "lead: nobody has acknowledged it within 15 minutes",
        "boss: nobody has acknowledged it within 60 minutes",
    ]


def test_who_was_told_by_a_step_is_told_that_it_is_over(called: Called) -> None:
    duty = called()
    duty.denials(8, 13)
    assert duty.tick(18) == ["lead escalated"]

    told = [each for m in range(30, 60, 5) for each in duty.tick(m)]

    assert told == ["lead resolved", "ops resolved"]


def test_an_acknowledgement_a_verdict_and_the_end_stop_it(called: Called) -> None:
    acked, over = called(), called()
    going_on(acked, 80)

    acked.tick(18)
    acked.ack(19)
    assert "boss escalated" not in [each for m in range(20, 90, 5) for each in acked.tick(m)]

    later = [each for m in range(17, 80, 7) for each in over.tick(m)]
    assert later == ["ops resolved"]


def test_a_restart_and_a_rebuild_tell_nobody_twice_and_forget_nothing(called: Called) -> None:
    duty = called()
    going_on(duty, 80)
    duty.tick(18)

    duty.restart()
    assert duty.tick(19) == []
    duty.rebuild()
    assert duty.tick(20) == []
    assert duty.tick(62) == []
    duty.rebuild()
    assert "boss escalated" in duty.tick(63)
    duty.rebuild()
    assert duty.tick(64) == []


def test_what_came_due_while_the_service_was_down_is_told_when_it_is_back(called: Called) -> None:
    duty = called()
    going_on(duty, 80)
    duty.restart()

    assert duty.tick(75) == ["boss escalated", "lead escalated", "ops reminder"]


def test_a_step_does_not_move_with_the_hour(called: Called) -> None:
    night = {"when": {"from": "09:10", "to": "22:00"}, "to": ["soc"], "escalate": []}
    duty = called(TREE | {"routes": [night]})
    going_on(duty, 30)

    assert duty.tick(18) == ["lead escalated"]  # ops was told at 09:03, by the top


def test_what_gets_worse_has_the_steps_of_its_new_route_from_the_same_start(
    called: Called,
) -> None:
    critical = {"severity": ["critical"], "to": ["soc"], "escalate": STEPS[0] | {"to": ["boss"]}}
    duty = called({"to": ["ops"], "routes": [critical]})
    duty.denials(8, 13)
    assert duty.tick(18) == []

    with duty.world.store.writing() as db:
        db.execute("UPDATE alerts SET severity = 'critical'")

    assert duty.tick(20) == ["boss escalated", "soc worse"]


def test_who_was_told_by_a_step_hears_that_it_gets_worse(called: Called) -> None:
    duty = called()
    duty.denials(8, 13)
    assert duty.tick(18) == ["lead escalated"]

    with duty.world.store.writing() as db:
        db.execute("UPDATE alerts SET severity = 'critical'")

    assert duty.tick(20) == ["lead worse", "ops worse"]


def test_a_storm_is_escalated_as_one_unless_somebody_has_one_of_its_alerts(tmp_path: Path) -> None:
    for has_it in (False, True):
        duty = Duty(tmp_path / str(has_it))
        for n in range(15):
            duty.denials(*(m + n / 100 for m in range(0, 40, 5)), agent=f"b{n}")
        assert duty.tick(12) == ["ops open"] * 10 + ["ops storm"]
        if has_it:
            [row] = duty.world.rows("SELECT alert_id FROM storm_members LIMIT 1")
            duty.ack(13, row["alert_id"])

        told = [each for m in (26, 27, 28) for each in duty.tick(m) if "escalated" in each]

        assert told == ["lead escalated"] * (10 + (not has_it))
        storms = [one for one in duty.messages("lead") if one.alert.startswith("st_")]
        assert len(storms) == (not has_it)
        if storms:
            assert storms[0].facts[0][1] == "nobody has acknowledged it within 15 minutes"
            over = [each for m in range(60, 100, 10) for each in duty.tick(m)]
            assert {"lead calm", "ops calm"} < set(over)
        duty.world.close()


def test_while_a_silence_hides_it_no_step_is_told_and_its_clock_begins_anew(called: Called) -> None:
    duty = called()
    going_on(duty, 60)
    duty.silence(10, until=20)

    assert duty.tick(18) == []
    assert duty.tick(21) == ["ops unsilenced"]
    assert duty.tick(35) == []
    assert duty.tick(36) == ["lead escalated"]


def test_what_was_taken_back_is_escalated_after_its_time_again(called: Called) -> None:
    duty = called()
    going_on(duty, 80)
    duty.tick(18)
    duty.ack(20)
    assert duty.tick(30) == ["lead acknowledged", "ops acknowledged"]
    world = duty.world
    triage.reopen(world.store, world.lander, duty.alert["alert_id"], "li", "", at(30))

    assert duty.tick(44) == []
    assert duty.tick(45) == ["lead escalated"]


def test_trouble_that_comes_back_after_its_end_was_told_is_escalated_anew(called: Called) -> None:
    duty = called()
    duty.denials(8, 13)
    assert [each for m in range(18, 60, 5) for each in duty.tick(m)] == [
        "lead escalated", "lead resolved", "ops resolved",
    ]  # fmt: skip

    duty.denials(*range(23, 33, 5), *range(38, 115, 5))  # late lines: it never stopped

    told = {m: duty.tick(m) for m in range(90, 107)}
    assert told[90] == ["ops open"]
    assert told[105] == ["lead escalated"]


def test_a_receivers_own_filter_has_the_last_word(called: Called) -> None:
    deaf = {"lead": {"type": "slack", "webhook": "https://hooks.slack.com/services/FAKE",
                     "min_severity": "critical"}}  # fmt: skip
    duty = called(receivers=deaf)
    going_on(duty, 30)

    assert duty.tick(20) == []


def test_without_steps_nothing_is_looked_at(called: Called) -> None:
    duty = called({"to": ["ops"]})
    going_on(duty, 80)

    assert duty.tick(60) == []
    assert duty.world.rows("SELECT * FROM escalations") == []


def test_of_many_that_are_due_at_once_the_worst_are_told_first_and_none_is_forgotten(
    tmp_path: Path,
) -> None:
    duty = Duty(tmp_path)
    row = """
        INSERT INTO alerts (alert_id, detector, tenant, subject, severity, status, started_at,
            ended_at, rows, title, title_zh, facts, event_ids, opened_at, backfill, told_at,
            told_severity, tellings)
        SELECT 'al_' || i, 'deny_retry', '', 'a' || i, CASE WHEN i % 2 = 0 THEN 'critical' ELSE
            'high' END, 'open', $at, $late, 1, '', '', '{}', [], $at, false, $at, 'critical', 1
        FROM range(120) t(i)
    """
    owed = """
        INSERT INTO deliveries (delivery_id, receiver, alert_id, kind, severity, created_at,
            message, state, attempts, next_at)
        SELECT alert_id, 'ops', alert_id, 'open', severity, opened_at, '{}', 'delivered', 1,
            opened_at FROM alerts
    """
    with duty.world.store.writing() as db:
        db.execute(row, {"at": at(0), "late": at(20)})
        db.execute(owed)
    told = "SELECT severity FROM deliveries WHERE kind = 'escalated' AND created_at = $at"

    def escalated(minutes: float) -> list[str]:
        duty.world.tick(at(minutes))
        return [each["severity"] for each in duty.world.rows(told, at=at(minutes))]

    assert escalated(14) == []
    assert set(first := escalated(16)) == {"critical"}
    assert len(first) == AT_ONCE
    assert sorted(escalated(16.1)) == ["critical"] * (60 - AT_ONCE) + ["high"] * (2 * AT_ONCE - 60)
    assert escalated(16.2) == ["high"] * (120 - 2 * AT_ONCE)
    assert escalated(16.3) == []
    duty.world.close()
