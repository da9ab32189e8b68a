import random
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.kit import Event, allowed, at, case, denied, events, expected, judge, united

LOW = {"denials": 2}


def columns(dice: random.Random) -> dict[str, Any]:
    return {
        "kind": "tool_decided",
        "decision": dice.choice(["deny", "deny", "allow", None]),
        "tool": dice.choice([None, "crm.export", "file.write"]),
        "call_id": None,
        "trace_id": dice.choice([None, "t-1", "t-2"]),
    }


GAP = timedelta(minutes=10)


def rotated(*clock: str, **columns: Any) -> list[Event]:
    """One denial each, of another tool each time."""
    return [
        event
        for i, when in enumerate(clock)
        for event in denied(when, **{"tool": f"tool-{i}", **columns})
    ]


def test_five_denials_of_one_trace_fire_whatever_the_tool_and_four_are_quiet() -> None:
    [found] = judge("deny_rotation", rotated("09:00", "09:01", "09:02", "09:03", "09:04"))

    assert (found["subject"], found["denials"]) == ("t-1", 5)
    assert found["tools"] == [f"tool-{i}" for i in range(5)]
    assert judge("deny_rotation", rotated("09:00", "09:01", "09:02", "09:03")) == []


def test_one_tool_of_one_agent_is_quiet_and_another_tool_agent_or_trace_fires() -> None:
    clock = ["09:00", "09:01", "09:02", "09:03"]
    same = denied(*clock)

    assert judge("deny_rotation", same + denied("09:04")) == []
    assert judge("deny_rotation", same + denied("09:04", tool="other"))
    assert judge("deny_rotation", same + denied("09:04", agent="a2"))
    assert judge("deny_rotation", same + denied("09:04", trace_id="t-2", parent_trace_id="t-1"))


def test_another_tool_that_was_denied_before_the_window_is_quiet() -> None:
    run = denied("09:05", "09:06", "09:07", "09:10:01", "09:10:02")

    assert judge("deny_rotation", denied("09:00", tool="other") + run) == []
    assert judge("deny_rotation", denied("09:00:01", tool="other") + run)


def test_exactly_within_fires_and_a_second_more_is_quiet() -> None:
    assert judge("deny_rotation", rotated("09:00", "09:01", "09:02", "09:03", "09:10"))
    assert judge("deny_rotation", rotated("09:00", "09:01", "09:02", "09:03", "09:10:01")) == []


def test_an_allowed_call_in_between_does_not_hide_it_so_it_fires() -> None:
    run = rotated("09:00", "09:01", "09:02", "09:03", "09:04")

    assert judge("deny_rotation", run + allowed("09:02", "09:03"))


def test_unanswered_approvals_are_quiet() -> None:
    run = rotated("09:00", "09:01", "09:02", "09:03", "09:04", reason_code="expired")

    assert judge("deny_rotation", run) == []


def test_two_traces_and_two_tenants_do_not_add_up_so_they_are_quiet() -> None:
    half = rotated("09:00", "09:01", "09:02")

    assert judge("deny_rotation", half + rotated("09:00", "09:01", trace_id="t-2")) == []
    assert judge("deny_rotation", half + rotated("09:00", "09:01", tenant="acme")) == []


def test_the_root_is_found_over_several_hops_so_it_fires_there() -> None:
    chain = [
        *events("tool_proposed", "08:30", trace_id="t-1", parent_trace_id="t-0"),
        *events("tool_proposed", "08:40", trace_id="t-2", parent_trace_id="t-1"),
    ]
    run = rotated("09:00", "09:01", trace_id="t-2") + rotated("09:02", "09:03", trace_id="t-1")

    [found] = judge("deny_rotation", chain + run + rotated("09:04", trace_id="t-0"))

    assert (found["subject"], found["denials"]) == ("t-0", 5)


def test_a_link_counts_for_fifty_minutes_and_not_a_second_more() -> None:
    run = rotated("09:00", "09:00:01", "09:00:02", "09:00:03", "09:00:04", trace_id="t-2")
    known = events("tool_proposed", "08:10:04", trace_id="t-2", parent_trace_id="t-1")
    old = events("tool_proposed", "08:09:59", trace_id="t-2", parent_trace_id="t-1")

    assert judge("deny_rotation", run + known, denials=2)[-1]["subject"] == "t-1"
    assert {row["subject"] for row in judge("deny_rotation", run + old)} == {"t-2"}


def test_a_later_link_does_not_change_what_was_known_at_the_time() -> None:
    run = rotated("09:00", "09:01", "09:02", "09:03", "09:04", trace_id="t-2")
    late = events("tool_proposed", "09:30", trace_id="t-2", parent_trace_id="t-1")

    assert [row["subject"] for row in judge("deny_rotation", run + late)] == ["t-2"]


def test_a_circle_of_traces_fires_and_comes_to_an_end() -> None:
    circle = rotated("09:00", "09:01", "09:02", "09:03", "09:04", parent_trace_id="t-2")
    back = events("tool_proposed", "08:50", trace_id="t-2", parent_trace_id="t-1")

    assert [row["subject"] for row in judge("deny_rotation", circle + back)] == ["t-2"]


@pytest.mark.parametrize(
    ("columns", "subject"),
    [
        ({"session": "s-1"}, "session s-1"),
        ({}, "agent a1"),
        ({"agent": None}, "source gate"),
    ],
)
def test_denials_without_a_trace_fire_for_what_is_known(
    columns: dict[str, Any], subject: str
) -> None:
    run = rotated("09:00", "09:01", "09:02", "09:03", "09:04", **{"trace_id": None, **columns})

    assert [row["subject"] for row in judge("deny_rotation", run)] == [subject]


def every(seconds: int, count: int, **columns: Any) -> list[Event]:
    clock = [at("09:00") + i * timedelta(seconds=seconds) for i in range(count)]
    return [e for i, when in enumerate(clock) for e in denied(when, tool=f"tool-{i}", **columns)]


def test_denials_slower_than_any_slice_fire_with_the_first_window_that_holds_ten_d01() -> None:
    rows = judge("deny_rotation", every(15, 41), denials=10, within="5 minutes")

    assert rows[0]["ended_at"] == at("09:02:15")
    assert len(united(rows, GAP)) == 1


def test_two_tasks_a_second_apart_fire_as_two_d09() -> None:
    other = [e | {"ts": e["ts"] + timedelta(seconds=1)} for e in every(15, 5, trace_id="t-2")]

    rows = judge("deny_rotation", every(15, 5) + other)

    assert [row["subject"] for row in rows] == ["t-1", "t-2"]


def test_every_denial_counts_and_twenty_are_shown_whatever_the_count_it_fires_as_one_d10_d39() -> (
    None
):
    rows = judge("deny_rotation", every(1, 500))

    assert (rows[-1]["denials"], len(rows[-1]["event_ids"])) == (500, 20)
    assert len(rows) == 496
    assert {row["subject"] for row in rows} == {"t-1"}


def test_one_tool_in_turn_with_others_fires_with_all_as_evidence_b064(tmp_path: Path) -> None:
    rows = case("deny_rotation", tmp_path, "B064", denials=5, within="300 seconds")

    [(subject, _, _)] = united(rows, GAP)
    assert subject == "t-1"
    assert len(rows[-1]["event_ids"]) == expected("B064")["evidence"]


def test_denials_spread_over_child_agents_fire_on_the_root_b068(tmp_path: Path) -> None:
    rows = case("deny_rotation", tmp_path, "B068", denials=5, within="300 seconds")

    [(subject, _, _)] = united(rows, GAP)
    assert (subject, rows[-1]["denials"]) == (expected("B068")["root"], 6)
    assert rows[-1]["agents"] == ["agent-a/sub0", "agent-a/sub1", "agent-a/sub2"]


def test_denials_of_three_hosts_with_other_clocks_do_not_add_up_b063(tmp_path: Path) -> None:
    rows = case("deny_rotation", tmp_path, "B063")

    assert all(len(row["agents"]) == 1 for row in rows)
