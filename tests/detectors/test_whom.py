"""Who would be told of an alert, and why: of one that there is, and of one that is supposed."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from detectors.explain import UnknownAlertError
from detectors.hushed import Office
from detectors.maintenance import load as windows
from detectors.routing import Desk, furnished
from detectors.whom import Supposed, whom
from detectors.whom_words import render
from ingest.config import ConfigError
from tests.kit_duty import Duty
from tests.world import at

TREE: dict[str, Any] = {
    "to": ["ops"],
    "fallback": "pager",
    "routes": [
        {"name": "night", "when": "unattended", "to": ["boss"]},
        {"tags": ["denials"], "to": ["soc", "ops"], "escalate": {"after": "15 minutes",
                                                                 "to": ["lead"]}},
    ],
}  # fmt: skip
DEAF = {"soc": {"type": "slack", "webhook": "https://hooks.slack.com/services/FAKE",
                "min_severity": "critical"}}  # fmt: skip


@pytest.fixture
def duty(tmp_path: Path) -> Iterator[Duty]:
    made = Duty(tmp_path, TREE, receivers=DEAF)
    made.denials(0, 1, 2)
    made.tick(3)
    yield made
    made.world.close()


def office(duty: Duty, **more: Any) -> Office:
    world = duty.world
    tags = {name: each.tags for name, each in world.detectors.items()}
    with world.store.reading() as db:
        desk = furnished(Desk(world.routes), db, duty.tree, tags)
    return Office(world.store, desk, world.detectors, **more)


def asked(duty: Duty, minutes: float, **more: Any) -> dict[str, Any]:
    return whom(office(duty, **more), duty.alert["alert_id"], Supposed(), at(minutes))


def supposed(duty: Duty, **given: Any) -> dict[str, Any]:
    return whom(office(duty), None, Supposed(**{"detector": "deny_retry"} | given), at(5))


def test_of_an_alert_that_is_told_all_is_said(duty: Duty) -> None:
    found = asked(duty, 5)

    assert (found["told"], found["quiet"]) == (["ops"], [])
    assert found["state"] == [
        {"what": "told", "says": "told at 2026-03-10T09:03:00Z; again when it gets worse, or after"
                                 " 2026-03-10T10:03:00Z if it still goes on"}
    ]  # fmt: skip
    assert found["alert"]["agents"] == ["a1"]
    assert found["alert"]["tags"] == ["denials", "loops"]
    assert [(each["receiver"], each["named_by"], each["wants"]) for each in found["receivers"]] == [
        ("ops", ["routing.routes[1]"], True),
        ("soc", ["routing.routes[1]"], False),
        ("lead", [], True),
        ("boss", [], True),
        ("pager", [], True),
    ]
    assert found["escalate"] == [
        {"after_seconds": 900, "to": ["lead"], "willing": ["lead"], "at": "2026-03-10T09:18:00Z",
         "told_at": None}
    ]  # fmt: skip
    assert found["fallback"]["receiver"] == "pager"
    assert [(each["receiver"], each["kind"], each["state"]) for each in found["sent"]] == [
        ("ops", "open", "delivered")
    ]
    assert msgspec.json.decode(msgspec.json.encode(found)) == found


def test_a_step_that_was_told_says_when(duty: Duty) -> None:
    duty.denials(8, 13, 18)
    duty.tick(18)

    assert asked(duty, 20)["escalate"][0]["told_at"] == "2026-03-10T09:18:00Z"


def test_the_answer_is_text_too(duty: Duty) -> None:
    text = render(asked(duty, 5))

    for line in (
        "high deny_retry: a1 (agents a1; tags denials, loops)",
        "At 2026-03-10T09:05:00Z: tue 09:05 UTC, attended",
        "Told now: ops",
        "  routing: takes it",
        "    routing.routes[0] 'night': does not take it (time tue 09:05 UTC, attended is not unat",
        "    routing.routes[1]: takes it, and decides: soc, ops (tag denials and loops is denials)",
        "  soc (slack): named by routing.routes[1]; its own filter refuses: it takes critical or w",
        "  lead (webhook): no route names it for this",
        "  after 15 minutes, at 2026-03-10T09:18:00Z: lead",
        "If none of them can be reached: pager",
        "  2026-03-10T09:03:00Z  ops  open  delivered",
    ):
        assert line in text, text


def test_what_keeps_it_quiet_is_named(duty: Duty) -> None:
    duty.silence(4, until=60)
    table = [{"name": "migration", "agent": "a*", "since": at(0), "until": at(30)}]

    found = asked(duty, 5, windows=windows(table, ["deny_retry"]))

    assert found["told"] == []
    assert [each["what"] for each in found["quiet"]] == ["maintenance", "silence"]
    assert found["quiet"][0]["says"] == "planned work: migration"
    assert found["quiet"][1]["says"].endswith("of wang until 2026-03-10T10:00:00Z: known")
    assert asked(duty, 70)["told"] == ["ops"]


def test_who_has_it_and_what_they_said_is_named(duty: Duty) -> None:
    duty.ack(4)

    assert asked(duty, 5)["state"] == [
        {"what": "acknowledged", "says": "wang has it since 2026-03-10T09:04:00Z: no reminders and"
                                         " no steps; what gets worse is told"}
    ]  # fmt: skip
    for minutes in (20, 40):
        duty.tick(minutes)
    [over] = asked(duty, 41)["quiet"]
    assert over["what"] == "resolved"


def test_a_receiver_that_fails_is_named(duty: Duty) -> None:
    duty.down = {"ops"}
    duty.world.land([], now=at(10))
    with duty.world.store.writing() as db:
        db.execute("UPDATE alerts SET severity = 'critical'")
    duty.tick(10)

    failing = {e["receiver"]: e["failing_since"] for e in asked(duty, 12)["receivers"]}
    assert failing["ops"] == "2026-03-10T09:10:00Z"
    assert failing["lead"] is None


def test_an_alert_may_be_supposed_at_any_time(duty: Duty) -> None:
    night = at(14 * 60)

    assert supposed(duty)["told"] == ["ops"]
    assert supposed(duty, severity="critical")["told"] == ["soc", "ops"]
    assert supposed(duty, at=night)["told"] == ["boss"]
    assert supposed(duty, at=night)["escalate"] == []
    assert supposed(duty, detector="unlisted_egress")["told"] == ["ops"]
    assert supposed(duty, agent="b7")["alert"]["subject"] == "b7"
    [step] = supposed(duty)["escalate"]
    assert step["at"] == "2026-03-10T09:20:00Z"


def test_of_a_supposed_one_the_cool_down_is_told(duty: Duty) -> None:
    [quiet] = supposed(duty, agent="a1")["quiet"]

    assert quiet["what"] == "cooldown"
    assert "until 2026-03-10T10:03:00Z no other is" in quiet["says"]
    assert supposed(duty, agent="a1", severity="critical")["quiet"] == []
    assert supposed(duty, agent="a1", at=at(64))["quiet"] == []


def test_something_else_may_be_supposed_of_an_alert_that_there_is(duty: Duty) -> None:
    found = whom(office(duty), duty.alert["alert_id"], Supposed(severity="critical"), at(5))

    assert found["told"] == ["soc", "ops"]
    assert found["alert"]["severity"] == "critical"


def test_without_a_tree_each_receivers_own_filter_is_the_reason(duty: Duty) -> None:
    world = duty.world
    found = whom(Office(world.store, Desk(world.routes), world.detectors),
                 None, Supposed(detector="deny_retry"), at(5))  # fmt: skip

    assert found["told"] == ["ops", "lead", "boss", "pager"]
    assert "there is no [routing], so each receiver's own filter decides" in render(found)


@pytest.mark.parametrize(
    ("alert", "given", "error", "text"),
    [
        ("al_0", {}, UnknownAlertError, "no alert 'al_0'"),
        (None, {}, ConfigError, "name an alert, or suppose one: --detector says of which"),
        (None, {"detector": "deny_retri"}, ConfigError, "Did you mean 'deny_retry'?"),
        (None, {"detector": "deny_retry", "severity": "urgent"}, ConfigError, "severity: 'urgent'"),
    ],
)
def test_what_cannot_be_answered_is_a_mistake(
    duty: Duty, alert: str | None, given: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        whom(office(duty), alert, Supposed(**given), at(5))


def test_nothing_in_a_name_reaches_the_terminal(duty: Duty) -> None:
    text = render(supposed(duty, agent="a\x1b[2J\u202e\n# told: everybody"))

    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "\n# told" not in text
