import random
from datetime import timedelta
from typing import Any

import pytest

from tests.kit import Event, at, events, judge

LOW = {"approvals": 2, "seconds": 60, "min_baseline": 1}


def columns(dice: random.Random) -> dict[str, Any]:
    number, kind = dice.randrange(60), dice.choice(["approval_requested", "approval_decided"])
    wait = 0 if kind == "approval_requested" else dice.choice([-1, 1, 1, 2, 200])
    return {
        "kind": kind,
        "ts": at("2026-03-08T16:00:00") + timedelta(minutes=5 * number, seconds=wait),
        "decision": dice.choice(["allow", "allow", "allow", "allow", "allow", "deny"]),
        "approver": None if kind == "approval_requested" else dice.choice(["user-1", "user-2"]),
        "call_id": f"call-0123456789-{number}",
        "approval_id": None,
        "tenant": None,
        "agent": "a1",
        "risk": dice.choice([None, None, "low", "high"]),
    }


def answered(
    count: int,
    wait: float | None = 1,
    start: str = "09:00",
    every: float = 60,
    name: str = "call",
    **more: Any,
) -> list[Event]:
    """Requests and their answers after so many seconds; None: the log has no requests."""
    found: list[Event] = []
    for i in range(count):
        own = {"tool": "crm.export", "call_id": f"{name}-{start}-{i:05}-0123456789"}
        when = at(start) + timedelta(seconds=i * every)
        if wait is not None:
            asked = when - timedelta(seconds=wait)
            own_asked = {key: value for key, value in more.items() if key != "approver"}
            found += events("approval_requested", asked, **own | own_asked)
        found += events(
            "approval_decided", when, **own | {"decision": "allow", "approver": "user-1"} | more
        )
    return found


def test_ten_approvals_within_a_second_each_fire_and_nine_are_quiet() -> None:
    [found] = judge("rubber_stamp", answered(10))

    assert (found["subject"], found["approvals"], found["wait_seconds"]) == ("user-1", 10, 1.0)
    assert (found["severity"], found["tools"]) == ("medium", ["crm.export"])
    assert found["against"].startswith("new")
    assert judge("rubber_stamp", answered(9)) == []


def test_three_seconds_are_quiet_and_a_little_less_fires() -> None:
    assert judge("rubber_stamp", answered(10, wait=3)) == []
    assert judge("rubber_stamp", answered(10, wait=2.999))


def test_exactly_within_fires_and_a_second_more_is_quiet() -> None:
    assert judge("rubber_stamp", answered(9) + answered(1, start="09:30"))
    assert judge("rubber_stamp", answered(9) + answered(1, start="09:30:01")) == []


def test_one_refusal_among_them_is_quiet_and_an_unanswered_one_is_none_so_it_fires() -> None:
    no = answered(1, start="09:04:30", decision="deny")
    nobody = answered(1, start="09:04:30", decision="deny", reason_code="expired")

    assert judge("rubber_stamp", answered(10) + no) == []
    assert judge("rubber_stamp", answered(10) + nobody)


def test_half_of_them_read_is_quiet() -> None:
    assert judge("rubber_stamp", answered(6, wait=40) + answered(6, start="09:10")) == []


@pytest.mark.parametrize("more", [{"risk": "high"}, {"risk": "critical"}, {"principal": "User-1"}])
def test_high_risk_or_an_own_request_among_them_fires_high(more: dict[str, Any]) -> None:
    rows = judge("rubber_stamp", answered(9) + answered(1, start="09:10", **more))

    assert [row["severity"] for row in rows] == ["high"]


def test_two_approvers_and_two_tenants_do_not_add_up_so_they_are_quiet() -> None:
    six = answered(6)

    assert judge("rubber_stamp", six + answered(6, start="09:10", approver="user-2")) == []
    assert judge("rubber_stamp", six + answered(6, start="09:10", tenant="acme")) == []


def test_one_approver_of_two_agents_adds_up_so_it_fires() -> None:
    assert judge("rubber_stamp", answered(5) + answered(5, start="09:10", agent="a2"))


def test_a_wait_that_nobody_knows_is_not_zero_so_it_is_quiet_and_its_share_is_told() -> None:
    assert judge("rubber_stamp", answered(30, wait=None)) == []

    rows = judge("rubber_stamp", answered(10) + answered(10, wait=None, start="09:10"))
    assert (rows[-1]["approvals"], rows[-1]["wait_unknown_share"]) == (20, 0.5)


def test_answers_before_their_request_are_quiet_and_counted() -> None:
    assert judge("rubber_stamp", answered(30, wait=-5)) == []

    rows = judge("rubber_stamp", answered(10) + answered(2, wait=-5, start="09:10:30"))
    assert rows[-1]["answered_before_asked"] == 2


def test_a_list_that_is_approved_at_once_is_one_act_so_it_is_quiet() -> None:
    assert judge("rubber_stamp", answered(50, every=0)) == []
    assert judge("rubber_stamp", answered(50, every=1, approval_id="ap-1")) == []
    assert judge("rubber_stamp", answered(50, every=1))


def test_decisions_by_nobody_are_quiet() -> None:
    assert judge("rubber_stamp", answered(30, approver=None)) == []


def day_before(wait: float, count: int = 20, **more: Any) -> list[Event]:
    return answered(count, wait, start="2026-03-09T10:00:00", every=600, **more)


def test_far_below_the_own_usual_wait_fires_though_slower_than_three_seconds() -> None:
    [found] = judge("rubber_stamp", day_before(120) + answered(10, wait=10))

    assert (found["own_usual_seconds"], found["own_usual_rate"]) == (120.0, 1.0)
    assert found["against"] == "usually 120 seconds"
    assert judge("rubber_stamp", day_before(100) + answered(10, wait=10)) == []
    assert judge("rubber_stamp", day_before(120, count=19) + answered(10, wait=10)) == []
    assert judge("rubber_stamp", day_before(900) + answered(10, wait=15)) == []


def test_a_new_approver_is_held_against_the_team_and_fires() -> None:
    team = day_before(120, approver="user-2")

    [found] = judge("rubber_stamp", team + answered(10, wait=10))

    assert (found["own_usual_seconds"], found["team_usual_seconds"]) == (None, 120.0)
    assert found["against"] == "others take 120 seconds"


def test_whoever_always_approved_so_fast_fires_still() -> None:
    found = judge("rubber_stamp", day_before(1) + answered(10))

    assert found[-1]["against"] == "usually 1 seconds"


def test_a_hundred_approvals_fire_with_the_last_twenty_as_evidence_d10() -> None:
    rows = judge("rubber_stamp", answered(100, every=10))

    assert (rows[-1]["approvals"], len(rows[-1]["event_ids"])) == (100, 20)
