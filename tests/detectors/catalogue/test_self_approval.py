import random
from typing import Any

import pytest

from tests.kit import Event, events, executed, judge

ID = "call-0123456789abc"


def columns(dice: random.Random) -> dict[str, Any]:
    return {
        "approver": dice.choice([None, "a1", "A2", "wang", "CORP\\wang"]),
        "principal": dice.choice([None, "wang@corp.example", "li"]),
        "on_behalf_of": dice.choice([None, None, "Wang"]),
        "decision": dice.choice(["allow", "allow", "deny", None]),
    }


def asked(*clock: str, **more: Any) -> list[Event]:
    base = {"tool": "refund.create", "decision": "require_approval", "call_id": ID}
    return events("approval_requested", *clock, **base | more)


def approved(*clock: str, by: str, **more: Any) -> list[Event]:
    base = {"tool": "refund.create", "decision": "allow", "call_id": ID, "approver": by}
    return events("approval_decided", *clock, **base | more)


def test_an_agent_that_approves_its_own_call_fires_high() -> None:
    [found] = judge("self_approval", asked("09:00") + approved("09:05", by="a1"))

    assert (found["subject"], found["severity"]) == ("a1", "high")
    assert (found["whose"], found["tool"]) == ("the agent itself", "refund.create")
    assert found["event_ids"] == ["e00000", "e00001"]


def test_an_approval_by_somebody_else_is_quiet() -> None:
    call = asked("09:00", principal="svc-refunds", on_behalf_of="li")

    assert judge("self_approval", call + approved("09:05", by="wang"), people="always") == []


def test_an_agent_that_rejects_its_own_call_is_quiet() -> None:
    assert (
        judge("self_approval", asked("09:00") + approved("09:05", by="a1", decision="deny")) == []
    )


@pytest.mark.parametrize(
    ("asker", "approver", "fires"),
    [
        ("wang@corp.example", "Wang@Corp.Example", True),
        ("wang@corp.example", "wang", True),
        ("CORP\\wang", "wang@corp.example", True),
        ("user:wang", " WANG ", True),
        ("wang@corp.example", "Li Wang <wang@corp.example.>", True),
        ("wang@corp.example", "wang@partner.example", False),
        ("wang@corp.example", "wang@evilcorp.example", False),
        ("CORP\\wang", "wang@corporate.example", False),
        ("wang", "wangli", False),
        ("@", "@", False),
    ],
)
def test_the_spelling_of_a_name_fires_and_another_name_is_quiet(
    asker: str, approver: str, fires: bool
) -> None:
    call = asked("09:00", principal=asker) + approved("09:05", by=approver)

    assert bool(judge("self_approval", call, people="always")) is fires


@pytest.mark.parametrize("who", ["principal", "on_behalf_of", "requester", "requested_by"])
def test_whoever_stands_behind_the_call_fires(who: str) -> None:
    named = {who: "wang"} if who in ("principal", "on_behalf_of") else {"attrs": {who: "wang"}}
    call = asked("09:00", **named) + approved("09:05", by="wang")

    [found] = judge("self_approval", call, people="always")

    assert found["severity"] == "medium"
    assert judge("self_approval", call, people="never") == []


def test_a_person_fires_only_where_others_approve_too() -> None:
    own = asked("09:00", on_behalf_of="wang") + approved("09:05", by="wang")
    other = {"call_id": "call-of-somebody-else"}

    assert judge("self_approval", own) == []
    assert judge("self_approval", own + approved("08:00", by="li", **other))
    assert judge("self_approval", own + approved("08:00", by="li", agent="a2", **other)) == []
    assert judge("self_approval", own + approved("08:00", by="li", tenant="b", **other)) == []
    assert judge("self_approval", own + approved("09:05:01", by="li", **other)) == []


def test_other_people_count_for_a_day_and_quiet_a_second_later() -> None:
    own = asked("09:00", on_behalf_of="wang") + approved("09:05", by="wang")
    other = {"by": "li", "call_id": "call-of-somebody-else"}

    assert judge("self_approval", own + approved("2026-03-09T09:05:00", **other))
    assert judge("self_approval", own + approved("2026-03-09T09:04:59", **other)) == []


def test_the_account_on_the_answer_is_that_of_the_approver_so_it_is_quiet() -> None:
    call = asked("09:00") + approved("09:05", by="wang", principal="wang")

    assert judge("self_approval", call, people="always") == []


def test_what_is_said_of_the_call_after_the_approval_is_quiet() -> None:
    call = asked("09:00") + approved("09:05", by="wang")
    ran = executed("09:06", tool="refund.create", call_id=ID, principal="wang")

    assert judge("self_approval", call + ran, people="always") == []


def test_two_approvals_of_one_call_fire_for_the_one_that_was_its_own() -> None:
    call = asked("09:00") + approved("09:05", by="wang") + approved("09:06", by="a1")

    [found] = judge("self_approval", call)

    assert found["approver"] == "a1"


def test_another_agents_name_and_another_tenant_are_quiet() -> None:
    call = asked("09:00", agent="a1") + approved("09:05", by="a2")
    apart = asked("09:00", tenant="x", call_id="c-x-0123456789abcd") + approved(
        "09:05", by="a1", tenant="y", agent=None, call_id="c-y-0123456789abcd"
    )

    assert judge("self_approval", call + apart) == []
