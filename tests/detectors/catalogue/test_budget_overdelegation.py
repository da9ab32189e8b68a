import random
from datetime import timedelta
from typing import Any

from tests.kit import Event, at, events, judge

NAME = "budget_overdelegation"


def columns(dice: random.Random) -> dict[str, Any]:
    return {
        "trace_id": dice.choice([f"t-{number}" for number in range(1, 9)]),
        "budget_kind": dice.choice(["usd", "usd", "tokens", None]),
        "budget_limit": dice.choice([None, 1.0, 5.0, 10.0]),
        "budget_spent": dice.choice([None, 0.0, 2.5]),
    }


def parent(clock: str, limit: float, spent: float | None = 0.0, **more: Any) -> list[Event]:
    base = {"trace_id": "p-1", "budget_kind": "usd", "budget_limit": limit, "budget_spent": spent}
    return events("agent_run", clock, **base | more)


def child(clock: str, limit: float, name: str = "c-1", **more: Any) -> list[Event]:
    base = {"trace_id": name, "parent_trace_id": "p-1", "agent": name}
    return parent(clock, limit, None, **base | more)


def test_a_child_that_got_more_than_its_parent_had_left_fires() -> None:
    [found] = judge(NAME, parent("09:00", 10, 4) + child("09:05", 6.000001))

    assert (found["subject"], found["kind"]) == ("c-1", "usd")
    assert (found["given"], found["left"], found["limit"], found["spent"]) == (6.000001, 6, 10, 4)
    assert (found["started_at"], found["ended_at"]) == (at("09:00"), at("09:05"))
    assert found["event_ids"] == ["e00000", "e00001"]


def test_a_child_that_got_all_that_was_left_is_quiet() -> None:
    assert judge(NAME, parent("09:00", 10, 4) + child("09:05", 6)) == []
    # 0.1 + 0.2 is 0.3, to the millionth
    tenths = parent("09:00", 0.3, 0.1) + child("09:05", 0.2)
    assert judge(NAME, tenths) == []


def test_what_one_child_has_another_cannot_get_so_it_fires() -> None:
    two = parent("09:00", 10) + child("09:05", 6, "c-1") + child("09:06", 6, "c-2")

    [found] = judge(NAME, two)

    assert (found["subject"], found["left"], found["siblings"]) == ("c-2", 4, 1)
    assert judge(NAME, parent("09:00", 10) + child("09:05", 6) + child("09:06", 4, "c-2")) == []


def test_a_parent_that_counts_what_it_gave_as_spent_is_quiet() -> None:
    given = parent("09:00", 10) + child("09:05", 6, "c-1") + parent("09:05:30", 10, 6)

    assert judge(NAME, given + child("09:06", 4, "c-2")) == []
    assert judge(NAME, given + child("09:06", 5, "c-2"))


def test_the_parents_last_word_before_it_counts() -> None:
    raised = parent("09:00", 10) + parent("09:04", 50)

    assert judge(NAME, raised + child("09:05", 20)) == []
    assert judge(NAME, raised + child("09:03", 20)), "it fires: nothing had been raised yet"


def test_a_child_that_tells_of_its_budget_again_is_quiet() -> None:
    again = child("09:05", 6) + child("09:10", 6, budget_spent=3.0) + child("09:20", 9)

    assert judge(NAME, parent("09:00", 10) + again) == []


def test_one_budget_of_an_account_in_two_runs_is_quiet() -> None:
    own = parent("09:00", 10, 4)

    assert judge(NAME, own + child("09:05", 10, budget_spent=4.5)) == []
    assert judge(NAME, own + child("09:05", 10, budget_spent=3.5)), "it fires: it began with less"
    assert judge(NAME, own + child("09:05", 9, budget_spent=4.5)), "it fires: another limit"


def test_other_kinds_parents_and_tenants_do_not_add_up() -> None:
    """Quiet: of each of them the parent's budget is another one."""
    others: list[dict[str, Any]] = [{"budget_kind": "tokens"}, {"trace_id": "p-2"}, {"tenant": "x"}]
    for other in others:
        assert judge(NAME, parent("09:00", 1, **other) + child("09:05", 6)) == []


def test_a_child_without_a_limit_or_a_parent_without_one_is_quiet() -> None:
    assert judge(NAME, parent("09:00", 10) + child("09:05", 6, budget_limit=None)) == []
    assert judge(NAME, parent("09:00", 10, budget_limit=None) + child("09:05", 6)) == []
    assert judge(NAME, parent("09:00", 10) + child("09:05", 99, parent_trace_id="c-1")) == []


def test_a_parents_word_of_a_day_before_is_quiet_by_a_second() -> None:
    assert judge(NAME, parent("2026-03-09T09:05:00", 1) + child("09:05", 6))
    assert judge(NAME, parent("2026-03-09T09:04:59", 1) + child("09:05", 6)) == []


def test_a_hundred_children_fire_from_the_first_that_is_too_much() -> None:
    start = at("09:00")
    given = parent("08:59", 10)
    for number in range(100):
        moment = start + timedelta(seconds=number)
        given += events("agent_run", moment, trace_id=f"c-{number}", parent_trace_id="p-1",
                        agent="worker", budget_kind="usd", budget_limit=0.2)  # fmt: skip

    rows = judge(NAME, given)

    assert (len(rows), rows[0]["siblings"]) == (50, 50)
