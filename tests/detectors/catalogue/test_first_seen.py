import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.kit import CASES, Event, allowed, at, denied, events, executed, expected, judge
from tests.world import World, native
from tests.world import at as minutes_after

DAY = timedelta(days=1)
LOW = {"learning": "0 seconds", "forget_days": 1}
SETTLED = at("2026-03-01T09:00:00")  # nine days before the examples


def columns(dice: Any) -> Event:
    return {"status": "ok", "decision": "allow", "host": dice.choice(["a.example", "b.example"])}


def usual(since: datetime = SETTLED, days: int = 9, **more: Any) -> list[Event]:
    """One and the same call each day, up to the day before the examples."""
    base = {"tool": "crm.read", "host": "crm.example", "principal": "svc-a1"}
    return executed(*(since + n * DAY for n in range(days)), **base | more)


def found(*calls: list[Event], **settings: Any) -> list[tuple[str, str]]:
    rows = judge("first_seen", [event for each in calls for event in each], **settings)
    return [(row["subject"], row["severity"]) for row in rows]


@pytest.mark.parametrize(
    ("column", "value", "what"),
    [("tool", "vault.read", "tool"), ("host", "evil.example", "host"),
     ("principal", "root", "account")],
)  # fmt: skip
def test_what_an_agent_never_used_fires_once(column: str, value: str, what: str) -> None:
    new = executed("09:00", "09:05", "11:00", **{"tool": "crm.read", column: value})

    assert found(usual(), new) == [(f"a1 -> {what} {value}", "low")]


def test_what_it_uses_every_day_is_quiet() -> None:
    assert found(usual(days=10)) == []


def test_an_agent_in_its_first_seven_days_is_quiet_and_after_them_it_fires() -> None:
    new = executed("09:00", tool="vault.read")

    assert found(usual(SETTLED + 2 * DAY + timedelta(seconds=1), 7), new) == []
    assert found(usual(SETTLED + 2 * DAY, 7), new) == [("a1 -> tool vault.read", "low")]


def test_what_was_not_seen_for_four_weeks_fires_again_and_a_day_less_is_quiet() -> None:
    for back, count in ((28, 0), (29, 1)):
        old = executed(at("09:00") - back * DAY, tool="vault.read")
        rows = found(old, usual(), executed("09:00", tool="vault.read"))
        assert rows.count(("a1 -> tool vault.read", "low")) == count


def test_what_was_refused_teaches_nothing_so_the_first_that_passes_fires() -> None:
    tries = denied("08:00", tool="vault.read") + executed("08:01", tool="x", status="denied")
    waits = denied("08:02", tool="vault.read", decision="require_approval")
    asked = events("tool_proposed", "08:03", tool="vault.read")

    assert found(usual(), tries, waits, asked) == []
    passed = allowed("09:00", tool="vault.read")
    assert found(usual(), tries, waits, asked, passed) == [("a1 -> tool vault.read", "low")]


def test_what_another_agent_or_tenant_uses_is_new_to_this_one_so_it_fires() -> None:
    theirs = executed("08:00", tool="vault.read", agent="a2")
    other = executed("08:00", tool="vault.read", tenant="acme")

    rows = found(usual(), theirs, other, executed("09:00", tool="vault.read"))

    assert rows == [("a1 -> tool vault.read", "low")]


@pytest.mark.parametrize(("hosts", "severity"), [(7, {"low"}), (8, {"low", "high"})])
def test_eight_new_hosts_within_an_hour_fire_as_high(hosts: int, severity: set[str]) -> None:
    calls = [
        event
        for n in range(hosts)
        for event in events("egress", at("09:00") + n * timedelta(minutes=8), host=f"h{n}.example")
    ]

    rows = found(usual(), calls)

    assert {each for _, each in rows} == severity
    assert rows[-1][1] == ("high" if hosts == 8 else "low")


def test_ten_agents_that_find_one_host_within_a_day_fire_each_d18() -> None:
    agents = [f"a{n}" for n in range(10)]
    past = [event for name in agents for event in usual(agent=name)]
    same = [
        event
        for n, name in enumerate(agents)
        for event in executed(at("00:00") + n * timedelta(hours=2.6), agent=name, tool="crm.read",
                              host="new.example")
    ]  # fmt: skip

    rows = found(past, same)

    assert [subject for subject, _ in rows] == [f"{name} -> host new.example" for name in agents]


def test_a_full_history_one_new_host_and_a_restart_fire_once_b076(tmp_path: Path) -> None:
    [path] = (CASES / "fixtures").glob("B076-*.json")
    case = json.loads(path.read_text(encoding="utf-8"))
    hosts, days, day = case["backfill_hosts"], case["days"], 24 * 60
    past = [
        native(n * day + 10 * h, kind="egress", host=f"h{h}.example", event_id=f"b{n}-{h}")
        for n in range(days)
        for h in range(hosts)
    ]
    now = minutes_after(days * day + 5)

    def incidents(world: World) -> list[str]:
        sql = "SELECT facts ->> 'value' AS value FROM alerts WHERE detector = 'first_seen'"
        return [row["value"] for row in world.rows(sql)]

    world = World(tmp_path, policy=None)
    world.land(past, now)
    world.tick(now)
    assert incidents(world) == []
    line = native(days * day + 6, kind="egress", host="new.example.net", event_id="new")
    world.land([line], now + timedelta(minutes=1))
    world.tick(now + timedelta(minutes=2))
    world.close()
    world = World(tmp_path, policy=None)
    again = [native(days * day + 9, kind="egress", host=host, event_id=host)
             for host in ("new.example.net", "h1.example")]  # fmt: skip
    world.land(again, now + timedelta(minutes=5))
    world.tick(now + timedelta(minutes=6))

    assert incidents(world) == expected("B076")["new_host_incidents"]
    world.close()
