"""The receiver of last resort: told the alert itself when none of those chosen can be reached."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kit_duty import Duty
from tests.world import at, native

TREE: dict[str, Any] = {"to": ["ops", "soc"], "fallback": "pager"}


@pytest.fixture
def duty(tmp_path: Path) -> Iterator[Duty]:
    made = Duty(tmp_path, TREE)
    made.denials(0, 1, 2)
    yield made
    made.world.close()


def told(duty: Duty, *minutes: float) -> list[str]:
    return [f"{m} {each}" for m in minutes for each in duty.tick(m) if "pager" in each]


def test_where_all_refuse_the_alert_goes_to_the_fallback_which_is_told_why(duty: Duty) -> None:
    duty.deaf = {"ops", "soc"}

    assert told(duty, 3, 3.5, 4, 9) == ["3.5 pager escalated"]

    message = duty.message("pager", "escalated")
    assert message.alert == duty.alert["alert_id"]
    assert message.facts[0][0] == "转给您的原因"
    assert message.facts[0][1].startswith("ops, soc 均无法送达：")
    assert "410" in message.facts[0][1]
    assert message.title == duty.alert["title_zh"]


def test_where_one_is_reached_the_fallback_is_left_alone(duty: Duty) -> None:
    duty.deaf = {"ops"}

    assert told(duty, 3, 4, 9) == []


def test_who_does_not_answer_for_minutes_cannot_be_reached(duty: Duty) -> None:
    duty.down = {"ops"}
    duty.deaf = {"soc"}

    minutes = [3 + n / 2 for n in range(14)]
    assert told(duty, *minutes) == ["8.0 pager escalated"]


def test_while_a_receiver_fails_the_next_alert_goes_to_the_fallback_at_once(duty: Duty) -> None:
    duty.down = {"ops", "soc"}
    for n in range(14):
        duty.tick(3 + n / 2)

    duty.world.land([native(10, "a2", "egress", host="evil.example", event_id="x")], now=at(10))

    assert told(duty, 10.5, 11, 12) == ["10.5 pager escalated"]


def test_it_is_told_that_the_alert_is_over_and_once_more_when_it_gets_worse(duty: Duty) -> None:
    duty.deaf = {"ops", "soc"}
    assert told(duty, 3, 4) == ["4 pager escalated"]
    with duty.world.store.writing() as db:
        db.execute("UPDATE alerts SET severity = 'critical'")

    assert told(duty, 5, 6) == ["5 pager worse"]
    assert told(duty, *range(10, 60, 5))[-1].endswith("pager resolved")


def test_a_restart_and_a_rebuild_tell_it_nothing_twice(duty: Duty) -> None:
    duty.deaf = {"ops", "soc"}
    assert told(duty, 3, 4) == ["4 pager escalated"]

    duty.restart()
    assert told(duty, 5) == []
    duty.rebuild()
    assert told(duty, 6, 7) == []


def test_what_somebody_has_taken_or_hidden_reaches_nobody_for_good_reason(duty: Duty) -> None:
    duty.deaf = {"ops", "soc"}
    duty.tick(3)
    duty.ack(3.5)

    assert told(duty, 4, 9) == []


def test_a_silence_holds_for_the_fallback_too(duty: Duty) -> None:
    duty.deaf = {"ops", "soc"}
    duty.tick(3)
    duty.silence(3.2, until=8)

    assert told(duty, 4, 7) == []
    assert told(duty, 9, 10) == ["9 pager escalated"]


def test_a_storm_that_reaches_nobody_goes_to_it_as_one_message(duty: Duty) -> None:
    duty.deaf = {"ops", "soc"}
    for n in range(14):
        duty.denials(0.1, 1.1, 2.1, agent=f"b{n}")
    for n in range(40):
        duty.tick(3 + n / 10)

    carried = duty.messages("pager")
    assert len(carried) == 11  # ten alerts that were told of their own, and the rest together
    [storm] = [message for message in carried if message.alert.startswith("st_")]
    assert storm.facts[0][1].startswith(
        "nobody of ops, soc can be reached: "
    )  # nobody read Chinese
