import random
from typing import Any

import pytest

from tests.kit import Event, events, executed, judge

LOW = {"sponsors": 1, "pause": "1 minute"}


def columns(dice: random.Random) -> dict[str, Any]:
    people = ["jane.doe@corp.example", "ann@corp.example", "svc-crm"]
    return {
        "principal": dice.choice([None, *people]),
        "on_behalf_of": dice.choice([None, None, *people]),
        "approver": dice.choice([None, *people]),
        "kind": dice.choice(["tool_executed", "approval_decided", "message", "heartbeat"]),
        "role": "user",
    }


def acts(*clock: str, principal: str = "ann@corp.example", **columns: Any) -> list[Event]:
    return executed(*clock, principal=principal, session="s-1", **columns)


def approved(clock: str, approver: str = "ann@corp.example", **columns: Any) -> list[Event]:
    base = {"agent": "a9", "decision": "allow", "approval_id": f"ap-{clock}"}
    return events("approval_decided", clock, **base | {"approver": approver} | columns)


@pytest.mark.parametrize(
    "account",
    ["jane.doe@corp.example", "CORP\\jane.doe", "arn:aws:iam::123456789012:user/jane.doe"],
)
def test_a_first_and_a_last_name_fire(account: str) -> None:
    [found] = judge("personal_account", acts("09:00", principal=account))

    assert (found["subject"], found["principal"]) == ("a1", account)
    assert (found["severity"], found["looks"]) == ("medium", ["a first and a last name"])


@pytest.mark.parametrize(
    "account",
    [
        "svc-crm", "billing.bot@corp.example", "data-agent-2@corp.example", "orders@corp.example",
        "jane.doe@project.iam.gserviceaccount.com", "system:serviceaccount:prod:crm", "a1",
        "arn:aws:sts::123456789012:assumed-role/crm/jane.doe", "spiffe://corp/jane.doe", "7f3a",
    ],
)  # fmt: skip
def test_accounts_made_for_programs_are_quiet(account: str) -> None:
    by = approved("08:00", approver=account) if account in ("svc-crm", "a1") else []

    assert judge("personal_account", by + acts("09:00", principal=account)) == []


def test_an_account_that_approves_fires_high_and_one_that_nobody_knows_is_quiet() -> None:
    [found] = judge("personal_account", approved("08:00") + acts("09:00"))

    assert (found["severity"], found["looks"]) == ("high", ["it approves calls"])
    assert found["event_ids"] == ["e00000", "e00001"]
    assert judge("personal_account", acts("09:00")) == []


def test_what_the_account_does_later_is_not_known_yet_so_it_is_quiet() -> None:
    assert judge("personal_account", acts("09:00") + approved("09:01")) == []


@pytest.mark.parametrize("code", ["expired", "cancelled", "bypass"])
def test_an_approval_that_no_person_gave_is_quiet(code: str) -> None:
    found = approved("08:00", reason_code=code) + acts("09:00")

    assert judge("personal_account", found) == []


def test_an_account_for_which_two_agents_work_fires_and_for_one_is_quiet() -> None:
    one = executed("08:00", agent="a2", on_behalf_of="Ann@corp.example", principal="svc-x")
    two = executed("08:10", agent="a3", on_behalf_of="ann@corp.example", principal="svc-y")

    [found] = judge("personal_account", one + two + acts("09:00"))

    assert found["looks"] == ["several agents work for it"]
    assert judge("personal_account", one + acts("09:00")) == []


def test_a_user_at_the_keyboard_of_the_same_session_is_quiet_and_of_another_fires() -> None:
    words = {"principal": "jane.doe@corp.example", "role": "user", "text": "go on"}
    here = events("message", "08:59", session="s-1", **words)
    there = events("message", "08:59", session="s-2", **words)

    assert judge("personal_account", here + acts("09:00", principal=words["principal"])) == []
    assert judge("personal_account", there + acts("09:00", principal=words["principal"]))


def test_going_on_is_quiet_and_beginning_again_after_the_pause_fires() -> None:
    jane = "jane.doe@corp.example"

    assert len(judge("personal_account", acts("09:00", "10:00", principal=jane))) == 1
    assert len(judge("personal_account", acts("09:00", "10:00:01", principal=jane))) == 2


def test_an_account_that_was_named_as_a_machines_is_quiet() -> None:
    found = approved("08:00") + acts("09:00")

    assert judge("personal_account", found, machines="ann@*") == []


def test_another_tenants_approver_is_another_person_so_it_is_quiet() -> None:
    assert judge("personal_account", approved("08:00", tenant="acme") + acts("09:00")) == []
