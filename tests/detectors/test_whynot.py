"""Why a detector says nothing: what it saw, what kept it quiet, and what value would have fired."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from detectors import detector, whynot
from ingest.config import ConfigError
from tests.world import World, at, denied


def asked(world: World, subject: str = "a1", minutes: float = 5, **more: Any) -> dict[str, Any]:
    with world.store.reading() as db:
        return whynot.why_not(
            db, more.pop("name", "deny_retry"), subject, at(minutes), world.detectors,
            more.pop("own", {}), **more,
        )  # fmt: skip


def failed(told: dict[str, Any]) -> list[tuple[str, str]]:
    return [(check["check"], check["says"]) for check in told["checks"] if not check["ok"]]


def test_the_nearest_value_that_would_have_fired_is_named(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.land([denied(0, event_id="1"), denied(1, event_id="2")])
    world.tick(at(60))

    told = asked(world)

    assert not told["fired"]
    assert failed(told) == []
    assert told["near"] == [{"with": {"denials": "2"}, "is": {"denials": "3"}}]
    assert told["saw"]["kinds"] == {"tool_decided": 2}
    assert "It would have fired with denials = 2 (now 3)" in "\n".join(whynot.lines(told))
    world.close()


def test_where_no_single_value_helps_several_are_tried_together(tmp_path: Path) -> None:
    world = World(tmp_path, settings={"deny_retry": {"within": "1 minute", "denials": 4}})
    world.land([denied(0, event_id="1"), denied(8, event_id="2")])
    world.tick(at(60))

    own = {"deny_retry": {"within": "1 minute", "denials": 4}}
    [near] = asked(world, own=own)["near"]

    assert near["with"] == {"denials": "2", "within": "480 seconds"}
    assert near["is"] == {"denials": "4", "within": "1 minute"}
    world.close()


def test_an_alert_that_was_kept_quiet_is_named_with_the_reason(tmp_path: Path) -> None:
    world = World(tmp_path, settings={"deny_retry": {"status": "shadow"}})
    world.land([denied(n, event_id=str(n)) for n in range(3)])
    world.tick(at(40))

    told = asked(world)

    assert told["fired"]
    [alert, status] = failed(told)
    assert alert[0] == "alert"
    assert alert[1].endswith("told nobody: shadow")
    assert status == ("status", "in shadow: alerts are kept and nobody is told")
    world.close()


def test_what_is_exempt_not_judged_or_unknown_is_said(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.land([denied(n, event_id=str(n)) for n in range(3)])
    exempt = {"exempt": [{"match": "a*", "reason": "load test"}]}
    with world.store.reading() as db:
        path = detector.files()["deny_retry"]
        world.detectors["deny_retry"] = detector.load(path, db, exempt, "gatewatch.toml")

    assert failed(asked(world, own={"deny_retry": exempt})) == [
        ("judged", "not yet: no event near it has been taken up"),
        ("exempt", "a*: load test"),
    ]
    near = asked(world, subject="a2", around=timedelta(minutes=10))
    assert ("events", "none names 'a2'. Known: a1.") in failed(near)
    world.close()


def test_a_source_that_lacks_what_the_detector_needs_is_said(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.land([denied(0, event_id="1", tool=None)])
    world.tick(at(60))

    assert ("needs tool", "0 of 1 events") in failed(asked(world))
    world.close()


def test_a_detector_that_there_is_not_or_is_off_is_a_mistake(tmp_path: Path) -> None:
    world = World(tmp_path)

    with pytest.raises(ConfigError) as unknown:
        asked(world, name="deny_rety")
    with pytest.raises(ConfigError) as off:
        asked(world, name="none", own={"none": {"enabled": False}})

    assert str(unknown.value) == "no detector 'deny_rety'. Did you mean 'deny_retry'?"
    assert str(off.value) == "none is switched off: detectors.none.enabled is false."
    world.close()


def test_hostile_text_cannot_move_the_cursor(tmp_path: Path) -> None:
    world = World(tmp_path)

    text = "\n".join(whynot.lines(asked(world, subject="\x1b[2Jevil\u202e")))

    assert "\x1b" not in text
    assert "\u202e" not in text
    world.close()
