import random
from typing import Any

import pytest

from tests.kit import Event, at, denied, events, executed, judge

HOURS = [{"start": "09:00", "end": "12:00"}, {"start": "13:00", "end": "18:00"}]
NIGHT = [{"start": "23:30", "end": "01:00"}]
RULES = {
    "global": {"timezone": "Asia/Kathmandu"},
    "tools": [
        {"name": "x", "action": "allow", "allowed_windows": HOURS},
        {"name": "late", "action": "allow", "allowed_windows": NIGHT},
    ],
}  # fmt: skip


def columns(dice: random.Random) -> dict[str, Any]:
    return {"tool": dice.choice(["x", "y", "rows.delete", None])}


def clocks(found: list[Event], zone: str = "UTC") -> list[str]:
    """Local times of what ran outside its hours."""
    rules = RULES | {"global": {"timezone": zone}}
    return [row["local"][-5:] for row in judge("window_violation", found, rules)]


def test_a_tool_that_ran_outside_its_hours_fires() -> None:
    [found] = judge("window_violation", executed("18:00", tool="x"), RULES | {"global": {}})

    assert found["subject"] == "a1 · x ran outside its hours"
    assert (found["severity"], found["gate"], found["event_ids"]) == (
        "high",
        "not decided",
        ["e00000"],
    )


def test_windows_are_half_open_and_what_runs_inside_is_quiet() -> None:
    times = ("08:59:59", "09:00", "11:59:59", "12:00", "12:59:59", "13:00", "17:59:59", "18:00")

    assert clocks(executed(*times, tool="x")) == ["08:59", "12:00", "12:59", "18:00"]


def test_a_window_may_run_over_midnight() -> None:
    times = ("23:29:59", "23:30", "2026-03-11T00:59:59", "2026-03-11T01:00")

    assert clocks(executed(*times, tool="late")) == ["23:29", "01:00"]


@pytest.mark.parametrize(
    ("clock", "zone", "local"),
    [
        ("2026-03-06T14:00", "America/New_York", []),  # 09:00 EST
        ("2026-03-09T13:00", "America/New_York", []),  # 09:00 EDT
        ("2026-03-09T12:59", "America/New_York", ["08:59"]),
        ("2026-03-06T13:59", "America/New_York", ["08:59"]),
        ("2026-03-10T03:15", "Asia/Kathmandu", []),
        ("2026-03-10T03:14", "Asia/Kathmandu", ["08:59"]),
    ],
)
def test_hours_are_those_of_the_policys_zone_whatever_the_clocks_do(
    clock: str, zone: str, local: list[str]
) -> None:
    assert clocks(executed(clock, tool="x"), zone) == local


def test_a_delete_in_the_unattended_hours_fires_even_if_it_was_approved() -> None:
    own = {"tool": "rows.delete", "call_id": "call-0123456789-1"}
    asked = denied("21:50", decision="require_approval", **own)
    yes = events("approval_decided", "22:05", decision="allow", approver="eva", **own)

    [found] = judge(
        "window_violation", asked + yes + executed("22:10", **own), RULES | {"global": {}}
    )

    assert found["subject"] == "a1 · rows.delete deleted while nobody attends"
    assert (found["severity"], found["gate"], found["approver"]) == ("critical", "approved", "eva")


@pytest.mark.parametrize(
    ("more", "fires"),
    [
        ({"tool": "db.run", "params": {"sql": "delete from orders"}}, True),
        ({"tool": "db.run", "params": {"operation": "DROP", "table": "orders"}}, True),
        ({"tool": "db.run", "params": {"query": "how to delete an order"}}, False),
        ({"tool": "db.run", "params": {"sql": "select 'delete from x' from orders"}}, False),
        ({"tool": "file.remove"}, True),
        ({"tool": "purgeQueue"}, True),
        ({"tool": "list_deleted"}, False),
        ({"tool": "rows.delete", "op": "lookup"}, False),
        ({"tool": None}, False),
    ],
)
def test_what_deletes_is_told_by_its_name_or_by_what_it_does(
    more: dict[str, Any], fires: bool
) -> None:
    found = executed("23:00", **{"op": "commit"} | more)

    assert bool(judge("window_violation", found, {})) is fires
    assert judge("window_violation", executed("12:00", **more), {}) == []


def test_what_was_denied_and_did_not_run_is_quiet() -> None:
    held = denied("23:00", tool="rows.delete", call_id="call-0123456789-1")
    never = executed("23:00:01", tool="rows.delete", call_id="call-0123456789-1", status="denied")

    assert judge("window_violation", held + never, RULES) == []


def test_without_a_policy_it_is_quiet() -> None:
    assert judge("window_violation", executed("23:00", tool="rows.delete")) == []


def test_a_nightly_job_fires_once_in_ten_minutes_and_agents_and_tenants_stay_apart() -> None:
    job = executed("23:00", "23:01", "23:09:59", "23:10", tool="rows.delete")
    others = executed("23:02", tool="rows.delete", agent="a2") + executed(
        "23:03", tool="rows.delete", tenant="acme"
    )

    found = judge("window_violation", job + others, {})

    assert [(row["ended_at"], row["agent"], row["tenant"]) for row in found] == [
        (at("23:00"), "a1", ""),
        (at("23:02"), "a2", ""),
        (at("23:03"), "a1", "acme"),
        (at("23:10"), "a1", ""),
    ]
