"""What the engine promises: every event is judged, once in effect, whatever the order."""

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from detectors.turn import MANY, few
from tests.world import World, at, denied, native

DENIALS = ("deny_retry", "deny_rotation", "denied_then_executed")
STORY = (*DENIALS, "config_churn", "external_call_spike", "unlisted_egress", "approval_surge")
LOOPS = "SELECT * FROM alerts WHERE detector = 'deny_retry' ORDER BY started_at"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    opened = World(tmp_path, only=DENIALS)
    yield opened
    opened.close()


def test_three_denials_become_one_alert(world: World) -> None:
    world.land([denied(0, event_id="1"), denied(1, event_id="2"), denied(2, event_id="3")])

    world.tick(at(3))

    [alert] = world.rows("SELECT * FROM alerts")
    assert (alert["detector"], alert["subject"], alert["status"]) == ("deny_retry", "a1", "open")
    assert alert["started_at"] == at(0)
    assert alert["ended_at"] == at(2)


def test_evidence_that_arrives_before_and_after_a_restart_is_one_run(tmp_path: Path) -> None:
    first = World(tmp_path, only=DENIALS)
    first.land([denied(0, event_id="1"), denied(1, event_id="2")])
    first.tick(at(1.5))
    first.close()

    second = World(tmp_path, only=DENIALS)
    second.land([denied(2, event_id="3")])
    second.tick(at(3))

    assert [row["ended_at"] for row in second.rows("SELECT * FROM alerts")] == [at(2)]
    second.close()


def test_a_late_denial_lengthens_an_alert_and_keeps_its_id(world: World) -> None:
    world.land([denied(m, event_id=str(m)) for m in (0, 1, 2)])
    world.tick(at(3))
    [before] = world.rows(LOOPS)

    world.land([denied(-5, event_id="late"), denied(4, event_id="next")])
    world.tick(at(5))

    [after] = world.rows(LOOPS)
    assert after["alert_id"] == before["alert_id"]
    assert (after["started_at"], after["ended_at"]) == (at(-5), at(4))


def test_a_late_denial_joins_two_alerts_under_the_older_id(world: World) -> None:
    world.land([denied(m, event_id=str(m)) for m in (0, 1, 2)])
    world.tick(at(3))
    world.land([denied(m, event_id=str(m)) for m in (18, 19, 20)])
    world.tick(at(21))
    older, newer = world.rows(LOOPS)

    world.land([denied(10, event_id="between")])
    world.tick(at(22))

    rows = {row["alert_id"]: row for row in world.rows("SELECT * FROM alerts")}
    assert rows[older["alert_id"]]["ended_at"] == at(20)
    assert rows[newer["alert_id"]]["status"] == "merged"
    assert rows[newer["alert_id"]]["merged_into"] == older["alert_id"]


def test_a_late_allow_splits_an_alert_and_the_earlier_part_keeps_the_id(world: World) -> None:
    minutes = (0, 4, 8, 20, 24, 28)
    world.land([denied(m, event_id=str(m)) for m in minutes] + [denied(14, event_id="14")])
    world.tick(at(29))
    [before] = world.rows(LOOPS)

    world.land(
        [
            native(13, tool="crm.export_contacts", decision="allow", status="ok", event_id="ok"),
            native(15, tool="crm.export_contacts", decision="allow", status="ok", event_id="ok2"),
        ]
    )
    world.tick(at(30))

    first, second = [row for row in world.rows(LOOPS) if row["status"] != "withdrawn"]
    assert first["alert_id"] == before["alert_id"]
    assert (first["started_at"], first["ended_at"]) == (at(0), at(8))
    assert (second["started_at"], second["ended_at"]) == (at(20), at(28))


def test_a_late_allow_withdraws_an_alert(world: World) -> None:
    world.land([denied(m, event_id=str(m)) for m in (0, 1, 2)])
    world.tick(at(3))

    world.land([native(1.5, tool="crm.export_contacts", decision="allow", event_id="ok")])
    world.tick(at(4))

    [alert] = world.rows("SELECT * FROM alerts")
    assert alert["status"] == "withdrawn"


def test_parts_of_a_call_that_arrive_apart_are_judged_when_the_last_one_comes(world: World) -> None:
    name = "call_0123456789abcdef"
    world.land([native(5, tool="pay", kind="tool_call", status="ok", call_id=name, event_id="x")])
    world.tick(at(6))
    assert world.rows("SELECT * FROM alerts") == []

    world.land([denied(1, tool="pay", call_id=name, event_id="d")])
    world.tick(at(7))

    [alert] = world.rows("SELECT * FROM alerts")
    assert alert["detector"] == "denied_then_executed"


def test_an_alert_is_told_once_and_resolved_once(world: World) -> None:
    world.land([denied(m, event_id=str(m)) for m in (0, 1, 2)])

    for minutes in range(3, 40):
        world.tick(at(minutes))

    told = [row["detail"] for row in world.rows(
        "SELECT detail FROM alert_events WHERE what = 'told' ORDER BY ts")]  # fmt: skip
    assert told == ["open", "resolved"]


def test_trouble_that_was_long_over_when_it_landed_is_shown_and_not_told(world: World) -> None:
    world.land([denied(m, event_id=str(m)) for m in (0, 1, 2)])

    world.tick(at(24 * 60))

    [alert] = world.rows("SELECT * FROM alerts")
    assert (alert["status"], alert["backfill"], alert["told_at"]) == ("resolved", True, None)


def test_a_detector_that_raises_delays_itself_and_no_other(world: World) -> None:
    good = world.engine.detectors["deny_rotation"]
    broken = type(good)(
        **{
            **vars(good),
            "id": "broken",
            "values": {},
            "sql": "SELECT error('no' || $since || $until || $lookback)",
        }
    )
    world.engine.detectors["broken"] = broken  # type: ignore[index]
    world.land([denied(m, event_id=str(m)) for m in (0, 1, 2)])

    tick = world.tick(at(3))

    assert list(tick.failed) == ["broken"]
    assert [row["detector"] for row in world.rows("SELECT detector FROM alerts")] == ["deny_retry"]
    [row] = world.rows("SELECT failures, last_error FROM judged WHERE detector = 'broken'")
    assert row["failures"] == 1
    assert "no" in row["last_error"]


MINUTES = st.integers(0, 150) | st.floats(0, 150).map(lambda m: round(m, 2))
TOOLS = st.sampled_from(["crm.export_contacts", "file.write", "shell.run"])
AGENTS = st.sampled_from(["a1", "a2"])
TRACES = st.sampled_from(["t-1", "t-2", None])


@st.composite
def story(draw: Any) -> list[bytes]:
    """Lines of a morning: denials, allows, calls in parts, egress, config, approvals."""
    lines = []
    for number in range(draw(st.integers(1, 30))):
        kind = draw(st.sampled_from(["deny", "deny", "deny", "allow", "parts", "egress", "config"]))
        minutes, agent, trace = draw(MINUTES), draw(AGENTS), draw(TRACES)
        more: dict[str, Any] = {"event_id": f"e{number}", "trace_id": trace}
        match kind:
            case "deny":
                parent = draw(st.sampled_from([None, "t-1", "t-0"]))
                lines.append(
                    denied(minutes, agent, tool=draw(TOOLS), parent_trace_id=parent, **more)
                )
            case "allow":
                lines.append(native(minutes, agent, tool=draw(TOOLS), decision="allow", **more))
            case "parts":
                call = {
                    "call_id": f"call-number-{draw(st.integers(0, 3)):08d}",
                    "tool": draw(TOOLS),
                }
                decision = draw(st.sampled_from(["deny", "allow", "require_approval"]))
                lines.append(native(minutes, agent, decision=decision, **call, **more))
                more["event_id"] += "x"
                lines.append(native(draw(MINUTES), agent, status="ok", **call, **more))
            case "egress":
                host = draw(
                    st.sampled_from(["api.crm.example", "evil.example", "a.billing.example"])
                )
                lines.append(native(minutes, agent, "egress", host=host, decision="allow", **more))
            case "config":
                content = draw(st.sampled_from(["on", "off"]))
                lines.append(native(
                    minutes, agent, "config_change", config_object="gate.yaml",
                    params={"content": content}, **more,
                ))  # fmt: skip
    return lines


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(lines=story(), data=st.data())
def test_any_split_and_order_gives_the_alerts_of_one_backtest(
    lines: list[bytes], data: Any
) -> None:
    with tempfile.TemporaryDirectory() as folder, ExitStack() as opened:
        whole, live = (World(Path(folder, name), only=STORY) for name in ("whole", "live"))
        opened.callback(whole.close)  # drawing may end an example anywhere
        opened.callback(live.close)
        whole.land(lines)
        now = at(0)
        left = data.draw(st.permutations(lines))
        while left:
            size = data.draw(st.integers(1, max(1, len(left))))
            live.land(left[:size])
            left = left[size:]
            now += timedelta(minutes=data.draw(st.integers(0, 60)))
            if data.draw(st.booleans()):
                live.tick(now)
        live.tick(max(now, at(150)))
        live.tick(at(6 * 60))
        live.tick(at(4 * 24 * 60))
        whole.tick(at(4 * 24 * 60))

        assert live.alerts() == whole.alerts() == whole.backtest() == live.backtest()


def test_many_due_ranges_are_joined_and_none_is_left_out() -> None:
    parts = [(at(day * 24 * 60), at(day * 24 * 60 + 1)) for day in range(0, 3 * MANY, 3)]

    joined = few([*parts, (at(-99_999), at(-99_998))])

    assert few(parts) == parts
    assert len(joined) <= MANY
    assert all(any(low <= a and b <= high for low, high in joined) for a, b in parts)
