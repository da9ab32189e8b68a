import random
from datetime import timedelta
from typing import Any

from tests.kit import Event, allowed, at, denied, events, executed, judge

LOW = {"usual": 1, "share": 5, "late": "1 minute"}
LATE = timedelta(minutes=15)


def columns(dice: random.Random) -> dict[str, Any]:
    return {
        "kind": dice.choice(["tool_decided", "tool_executed", "tool_executed", "approval_decided"]),
        "decision": dice.choice(["allow", "deny", None, None, None]),
        "tool": "x",
        "call_id": dice.choice([f"call-0123456789-{i}" for i in range(60)]),
    }


def ran(clock: str, number: int = 0, **more: Any) -> list[Event]:
    return executed(clock, **{"call_id": f"call-0123456789-{number}", "op": "commit"} | more)


def usual(count: int = 5, hour: str = "07", **more: Any) -> list[Event]:
    """So many calls, each decided and executed."""
    found = []
    for number in range(count):
        call = {"call_id": f"usual-0123456789-{hour}-{number}", **more}
        found += allowed(f"{hour}:{number:02}", **call) + executed(f"{hour}:{number:02}:01", **call)
    return found


def test_an_execution_without_a_decision_fires_where_decisions_are_usual() -> None:
    [found] = judge("undecided_execution", usual() + ran("09:00"))

    assert (found["subject"], found["tool"], found["severity"]) == (
        "a1",
        "crm.export_contacts",
        "high",
    )
    assert (found["decided"], found["usual_of"]) == (5, 5)
    assert (found["started_at"], found["ended_at"]) == (at("09:00"), at("09:00") + LATE)
    assert found["event_ids"] == ["e00010"]


def test_a_log_without_decisions_or_with_too_few_of_them_is_quiet() -> None:
    assert judge("undecided_execution", [e for n in range(9) for e in ran(f"09:0{n}", n)]) == []
    assert judge("undecided_execution", usual(4) + ran("09:00")) == []


def test_decisions_of_another_agent_tool_or_tenant_are_quiet() -> None:
    for other in ({"agent": "a2"}, {"tool": "crm.query"}, {"tenant": "acme"}):
        assert judge("undecided_execution", usual(5, "07", **other) + ran("09:00")) == []


def test_decisions_of_a_day_before_are_quiet_by_a_second() -> None:
    def before(clock: str) -> list[Event]:
        call = {"call_id": "usual-0123456789-old"}
        return allowed(clock, **call) + executed(clock, **call) + usual(4)

    # a row ends with the allowance, and looks a day back from there
    assert judge("undecided_execution", before("2026-03-09T09:15:00") + ran("09:00"))
    assert judge("undecided_execution", before("2026-03-09T09:14:59") + ran("09:00")) == []


def test_a_decision_that_is_late_is_quiet_until_the_allowance_is_over_and_then_it_fires() -> None:
    call = usual() + ran("09:00")

    assert judge("undecided_execution", call + allowed("09:15", call_id="call-0123456789-0")) == []
    assert judge("undecided_execution", call + allowed("09:15:01", call_id="call-0123456789-0"))


def test_a_decision_before_and_another_much_later_is_quiet() -> None:
    more = allowed("08:59", "09:40", call_id="call-0123456789-0")

    assert judge("undecided_execution", usual() + ran("09:00") + more) == []


def test_an_execution_that_carries_its_decision_and_one_that_was_approved_are_quiet() -> None:
    yes = events("approval_decided", "08:59", decision="allow", call_id="call-0123456789-0")

    assert judge("undecided_execution", usual() + ran("09:00", decision="allow")) == []
    assert judge("undecided_execution", usual() + ran("09:00") + yes) == []


def test_a_gate_that_stays_down_fires_for_every_execution() -> None:
    found = usual() + [e for n in range(8) for e in ran(f"09:{n:02}", n)]

    assert len(judge("undecided_execution", found)) == 8


def test_a_tool_of_which_every_fifth_call_is_undecided_is_quiet_and_every_tenth_fires() -> None:
    every = usual(9) + ran("07:04:30", 1) + ran("09:00", 2)
    fifth = every + ran("07:03:30", 3)

    assert [row["usual_of"] for row in judge("undecided_execution", every)][-1] == 10
    assert [r for r in judge("undecided_execution", fifth) if r["started_at"] == at("09:00")] == []


def test_a_yes_that_lost_its_call_id_is_quiet_and_a_no_or_another_ones_yes_fires() -> None:
    call = usual() + ran("09:00", params={"id": 7})
    for other in ({"params": {"id": 7}}, {}):
        assert judge("undecided_execution", call + allowed("08:59", **other)) == []

    assert judge("undecided_execution", call + denied("08:59", params={"id": 7}))
    assert judge("undecided_execution", call + allowed("08:59", params={"id": 8}))
    assert judge("undecided_execution", call + allowed("08:44:59", params={"id": 7}))


def test_a_lookup_fires_as_less_grave_and_a_cancelled_call_is_quiet() -> None:
    [found] = judge("undecided_execution", usual() + ran("09:00", op="lookup"))

    assert found["severity"] == "medium"
    assert judge("undecided_execution", usual() + ran("09:00", status="denied")) == []


def test_the_allowance_can_be_nothing_and_then_it_fires_at_once() -> None:
    call = usual() + ran("09:00") + allowed("09:00:01", call_id="call-0123456789-0")

    [found] = judge("undecided_execution", call, late="0 seconds")

    assert found["ended_at"] == at("09:00")
