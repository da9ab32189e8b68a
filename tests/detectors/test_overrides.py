"""What a user may set for some agents only: other values, and of whom nothing is found."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from detectors import detector
from ingest.config import ConfigError
from tests.kit import Event, at, denied, loaded, numbered, store
from tests.world import World
from tests.world import at as after_nine
from tests.world import denied as line

SPAN = at("08:00"), at("11:00")


def subjects(found: list[Event], **settings: Any) -> list[tuple[str, int]]:
    db = store(numbered(found))
    rows = detector.find(loaded("deny_retry", db, **settings), db, *SPAN)
    return sorted((row["subject"], row["denials"]) for row in rows)


def three(agent: str) -> list[Event]:
    return denied("09:00", "09:01", "09:02", agent=agent)


def test_an_override_holds_for_whom_it_names_and_for_nobody_else() -> None:
    found = [*three("batch-1"), *three("a1")]

    assert subjects(found) == [("a1", 3), ("batch-1", 3)]
    assert subjects(found, **{"for": [{"match": "batch-*", "denials": 4}]}) == [("a1", 3)]
    assert subjects(found, denials=4, **{"for": [{"match": "a?", "denials": 2}]}) == [
        ("a1", 2),
        ("a1", 3),
    ]


def test_the_first_override_that_matches_counts() -> None:
    tables = [{"match": "batch-1", "denials": 2}, {"match": "batch-*", "denials": 4}]

    assert subjects([*three("batch-1"), *three("batch-2")], **{"for": tables}) == [
        ("batch-1", 2),
        ("batch-1", 3),
    ]


def test_an_override_keeps_what_else_is_set_for_everybody() -> None:
    found = denied("09:00", "09:08", "09:16", agent="batch-1")
    tables = [{"match": "batch-*", "denials": 2}]

    assert subjects(found, within="5 minutes", **{"for": tables}) == []


def test_a_title_names_the_value_that_held() -> None:
    found = denied("09:00", trace_id="t-1") + denied("09:01", trace_id="t-1", tool="other")
    db = store(numbered(found))
    own = {"for": [{"match": "t-*", "denials": 2, "within": "90 seconds"}]}
    each = loaded("deny_rotation", db, **own)

    [row] = detector.find(each, db, *SPAN)

    assert row["within"] == "90 seconds"
    assert "in 90 seconds" in detector.word(each, row)[0]


def test_of_whom_is_exempt_nothing_is_found_and_only_for_so_long() -> None:
    found = [*three("load-test"), *three("a1")]
    exempt = {"match": "load-*", "reason": "load test of the gate"}

    assert subjects(found, exempt=[exempt]) == [("a1", 3)]
    over = exempt | {"until": at("09:02")}
    assert subjects(found, exempt=[over]) == [("a1", 3), ("load-test", 3)]
    still = exempt | {"until": at("09:02") + timedelta(seconds=1)}
    assert subjects(found, exempt=[still]) == [("a1", 3)]
    later = exempt | {"since": at("09:02") + timedelta(seconds=1)}
    assert subjects(found, exempt=[later]) == [("a1", 3), ("load-test", 3)]


def test_where_a_subject_is_more_than_its_agent_the_agent_is_matched() -> None:
    out = {"kind": "egress", "ts": at("09:00"), "agent": "a1", "host": "evil.example"}
    db = store(numbered([out]), {"egress": {"allowed_hosts": ["a.example"]}})
    exempt = [{"match": "a1", "reason": "known"}]

    assert len(detector.find(loaded("unlisted_egress", db), db, *SPAN)) == 1
    assert detector.find(loaded("unlisted_egress", db, exempt=exempt), db, *SPAN) == []


def test_an_override_or_an_exemption_is_another_version() -> None:
    db = store()
    versions = {
        loaded("deny_retry", db).version,
        loaded("deny_retry", db, **{"for": [{"match": "a", "denials": 4}]}).version,
        loaded("deny_retry", db, **{"for": [{"match": "b", "denials": 4}]}).version,
        loaded("deny_retry", db, exempt=[{"match": "a", "reason": "x"}]).version,
    }

    assert len(versions) == 4
    assert loaded("deny_retry", db, status="shadow").version in versions


MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"for": [{"match": "a", "denial": 4}]}, "for[0].denial: no such key. Did you mean 'denials'?"),
    ({"for": [{"match": "a", "denials": 99}]}, "for[0].denials: 99 is above the maximum, 7."),
    ({"for": [{"denials": 4}]}, "for[0]: `match` names agents, and a parameter is set for them."),
    ({"for": [{"match": "a"}]}, "for[0]: `match` names agents, and a parameter is set for them."),
    ({"for": 3}, "for: expected tables: write [[detectors.deny_retry.for]]."),
    ({"exempt": ["a"]}, "exempt: expected tables: write [[detectors.deny_retry.exempt]]."),
    ({"exempt": [{"match": "a"}]}, "exempt[0]: Object missing required field `reason`."),
    (
        {"exempt": [{"match": "a", "reason": "x", "til": 1}]},
        "exempt[0]: unknown key 'til'. Did you mean 'until'?",
    ),
    ({"status": "quiet"}, "status: 'quiet' is no choice. Known: shadow, stable."),
]


@pytest.mark.parametrize(("settings", "says"), MISTAKES)
def test_a_mistake_is_named_with_its_place(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded("deny_retry", store(), **settings)

    told = str(caught.value)
    place, joint = ("gatewatch.toml: detectors.deny_retry", ".")
    assert told == f"{place}{joint}{says}"


def test_an_alert_of_a_detector_in_shadow_is_kept_and_nobody_is_told(tmp_path: Path) -> None:
    world = World(tmp_path, settings={"deny_retry": {"status": "shadow"}})
    world.land([line(minute, event_id=str(minute)) for minute in (0, 1, 2)])
    tick = world.tick(after_nine(3))

    [alert] = world.rows("SELECT * FROM alerts WHERE detector = 'deny_retry'")

    assert (alert["status"], alert["quiet_reason"], alert["told_at"]) == ("open", "shadow", None)
    assert tick.told == 0
    world.close()
    stable = World(tmp_path)
    assert stable.tick(after_nine(4)).told == 1
    stable.close()
