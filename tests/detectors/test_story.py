"""Alerts of one trace or agent within an hour are one story; what had changed before is told."""

from datetime import timedelta
from pathlib import Path
from typing import Any

from detectors.explain import explain, render
from detectors.story import stories, story
from tests.world import World, at, denied, native


def denials(minutes: float, agent: str, **more: Any) -> list[bytes]:
    names = [f"{agent}-{minutes}-{n}" for n in range(3)]
    return [denied(minutes + n, agent, event_id=name, **more) for n, name in enumerate(names)]


def alerts(world: World) -> list[dict[str, Any]]:
    return world.rows("SELECT * FROM alerts WHERE detector = 'deny_retry' ORDER BY started_at")


def test_alerts_that_share_an_agent_or_a_trace_within_an_hour_are_one_story(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.land(denials(0, "a1", trace_id="t-1"))
    world.land(denials(62, "a1", tool="other", trace_id="t-2"))  # an hour after the last of them
    world.land(denials(63, "child", trace_id="t-2"))
    world.land(denials(30, "stranger", trace_id="t-9"))
    world.land(denials(190, "a1", trace_id="t-1"))
    world.tick(at(400))
    first, stranger, second, child, later = alerts(world)

    told = story(world.store, second)

    assert [(each["detector"], each["subject"], each["shares"]) for each in told["alerts"]] == [
        ("deny_retry", "a1", ["agent a1"]),
        ("deny_rotation", "t-2", ["agent a1", "trace t-2"]),
        ("deny_retry", "child", ["trace t-2"]),
    ]
    found = stories(alerts(world))
    assert set(found) == {first["alert_id"], second["alert_id"], child["alert_id"]}
    assert set(found.values()) == {first["alert_id"]}
    assert stranger["alert_id"] not in found
    assert later["alert_id"] not in found
    world.close()


def test_tenants_do_not_share_a_story(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.land(denials(0, "a1", tenant="acme") + denials(0, "a1", tenant="other", tool="y"))
    world.tick(at(60))
    rows = alerts(world)

    assert len(rows) == 2
    assert stories(rows) == {}
    assert story(world.store, rows[0])["alerts"] == []
    world.close()


def test_together_they_are_no_worse(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.land(denials(0, "a1") + denials(4, "a1", tool="other"))
    world.tick(at(60))

    assert {row["severity"] for row in alerts(world)} == {"high"}
    world.close()


def test_what_had_changed_in_the_hour_before_is_told_the_newest_first(tmp_path: Path) -> None:
    world = World(tmp_path)
    config = {"kind": "config_change", "config_object": "gate.yaml", "status": "ok"}
    world.land(
        [
            native(-61, "ops", event_id="c0", **config, config_after={"v": 0}),
            native(-59, "ops", event_id="c1", **config, config_after={"v": 1}),
            native(-300, tool="crm.get", decision="allow", event_id="old", agent_version="1"),
            native(-10, tool="crm.export_contacts", decision="allow", event_id="new"),
            native(-5, tool="crm.get", decision="allow", event_id="next", agent_version="2"),
            *denials(0, "a1"),
        ]
    )
    world.tick(at(60))
    [row] = alerts(world)

    told = story(world.store, row)["changes"]

    assert [(each["what"], each["says"]) for each in told] == [
        ("new version", "a1 is 2"),
        ("new tool", "a1 uses crm.export_contacts"),
        ("config", "gate.yaml by ops"),
    ]
    text = render(explain(world.store, row["alert_id"], world.detectors))
    assert "Changed in the hour before:" in text
    assert "config: gate.yaml by ops" in text
    world.close()


def test_an_agent_that_has_just_come_has_no_new_tools(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.land(denials(0, "a1"))
    world.tick(at(60))
    [row] = alerts(world)

    assert [each for each in story(world.store, row)["changes"] if each["what"] != "policy"] == []
    world.close()


def test_evidence_that_comes_late_is_looked_up_anew(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.land(denials(0, "a1", trace_id="t-1"))
    world.tick(at(10))
    [before] = alerts(world)
    world.land([denied(4, trace_id="t-2", event_id="late")])
    world.tick(at(11))
    [after] = alerts(world)

    assert before["about"] == ["agent a1", "trace t-1"]
    assert after["about"] == ["agent a1", "trace t-1", "trace t-2"]
    assert after["ended_at"] - before["ended_at"] == timedelta(minutes=2)
    world.close()
