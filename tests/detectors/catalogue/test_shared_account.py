import random
from typing import Any

import pytest

from tests.kit import Event, events, executed, judge

LOW = {"habit": "1 hour", "crowd": 19}


def columns(dice: random.Random) -> dict[str, Any]:
    return {"principal": dice.choice([None, "svc-a", "svc-a", "svc-b"])}


def used(agent: str, *clock: str, principal: str = "svc-crm", **columns: Any) -> list[Event]:
    return executed(*clock, agent=agent, principal=principal, **columns)


OWN = used("a1", "2026-03-08T09:00:00", "2026-03-09T09:00:00", "08:30")


def test_a_second_agent_on_an_account_fires() -> None:
    [found] = judge("shared_account", OWN + used("a2", "09:00", "09:01"))

    assert (found["subject"], found["agent"], found["others"]) == ("account svc-crm", "a2", ["a1"])
    assert (found["severity"], found["agents"]) == ("medium", 2)
    assert found["event_ids"] == ["e00002", "e00003"]


def test_an_account_that_is_itself_new_fires_low() -> None:
    [found] = judge("shared_account", used("a1", "08:30") + used("a2", "09:00"))

    assert found["severity"] == "low"


def test_the_other_use_exactly_within_fires_and_a_second_more_is_quiet() -> None:
    assert judge("shared_account", OWN + used("a2", "09:30"))
    assert judge("shared_account", OWN + used("a2", "09:30:01")) == []


def test_one_who_used_it_in_the_week_before_is_quiet_and_a_second_earlier_fires() -> None:
    habit = used("a2", "2026-03-03T09:00:00")
    gone = used("a2", "2026-03-03T08:59:59")

    assert judge("shared_account", habit + OWN + used("a2", "09:00")) == []
    assert len(judge("shared_account", gone + OWN + used("a2", "09:00"))) == 1


def test_a_crowd_on_a_gateways_account_fires_for_the_first_ones_and_is_then_quiet() -> None:
    crowd = [event for n in range(9) for event in used(f"a{n}", f"09:0{n}", f"09:1{n}")]

    rows = judge("shared_account", crowd)

    assert [row["agents"] for row in rows] == [2, 3, 4]
    assert {row["subject"] for row in rows} == {"account svc-crm"}


def test_accounts_that_are_shared_on_purpose_are_quiet() -> None:
    found = OWN + used("a2", "09:00")

    assert judge("shared_account", found, shared="svc-mail, SVC-c*") == []
    assert judge("shared_account", found, shared="svc-mail,, crm")


def test_two_accounts_and_two_tenants_do_not_add_up_so_they_are_quiet() -> None:
    assert judge("shared_account", OWN + used("a2", "09:00", principal="svc-mail")) == []
    assert judge("shared_account", OWN + used("a2", "09:00", tenant="acme")) == []
    assert judge("shared_account", OWN + used("a1", "09:00", "09:01")) == []


@pytest.mark.parametrize("kind", ["approval_decided", "message", "heartbeat"])
def test_what_is_no_act_of_an_agent_is_quiet(kind: str) -> None:
    other = events(kind, "09:00", agent="a2", principal="svc-crm")

    assert judge("shared_account", OWN + other) == []


def test_a_first_use_at_the_same_instant_fires_for_both() -> None:
    rows = judge("shared_account", used("a1", "09:00") + used("a2", "09:00"))

    assert [row["agent"] for row in rows] == ["a1", "a2"]
