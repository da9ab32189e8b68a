import random
from typing import Any

import pytest

from tests.kit import Event, at, events, executed, judge

ID = "call-0123456789abc"
C1, C2 = {"customer": "c-1"}, {"customer": "c-2"}


def columns(dice: random.Random) -> dict[str, Any]:
    return {
        "kind": dice.choice(["tool_executed", "approval_requested", "approval_decided"]),
        "decision": dice.choice([None, None, "allow", "deny"]),
        "params": dice.choice([None, {"v": 1}, {"v": 2}, {"v": 3}]),
    }


def asked(*clock: str, **more: Any) -> list[Event]:
    base = {"tool": "crm.export_contacts", "call_id": ID, "params": C1, "trace_id": "t-1"}
    return events("approval_requested", *clock, **base | more)


def answered(decision: str, *clock: str, **more: Any) -> list[Event]:
    base = {"tool": "crm.export_contacts", "decision": decision, "call_id": ID, "approver": "wang"}
    return events("approval_decided", *clock, **base | more)


def ran(*clock: str, **more: Any) -> list[Event]:
    return executed(*clock, **{"call_id": ID, "params": C1} | more)


def yes(clock: str = "08:00", **more: Any) -> list[Event]:
    """Some other call was approved: answers are in the log."""
    other = {"call_id": "another-call-0123456", "tool": "refund.create"}
    return answered("allow", clock, **other | more)


def test_an_execution_that_nobody_approved_fires() -> None:
    [found] = judge("unapproved_execution", asked("09:00") + ran("09:01") + yes())

    assert (found["subject"], found["how"]) == ("a1", "without an approval")
    assert (found["started_at"], found["ended_at"]) == (at("09:00"), at("09:01"))
    assert (found["event_ids"], found["severity"]) == (["e00000", "e00001"], "high")


@pytest.mark.parametrize(
    ("more", "fires"),
    [
        (yes(), True),
        (yes(agent="a2"), True),  # of the same source
        (yes(source="other"), True),  # for the same agent
        (yes(agent="a2", source="other"), False),
        (yes(tenant="acme"), False),
        (yes("2026-03-03T09:01:00"), True),
        (yes("2026-03-03T09:00:59"), False),
        (yes("09:01:01"), False),
        (answered("deny", "08:00", call_id="another-call-0123456"), False),
        ([], False),
    ],
)
def test_an_unanswered_request_fires_where_answers_are_logged_and_is_quiet_where_none_ever_is(
    more: list[Event], fires: bool
) -> None:
    call = asked("09:00") + ran("09:01")

    assert bool(judge("unapproved_execution", call + more)) is fires
    [found] = judge("unapproved_execution", call + more, unanswered="always")
    assert found["severity"] == ("high" if fires else "medium")


def test_an_approved_execution_is_quiet_and_one_that_came_before_the_yes_fires() -> None:
    call = asked("09:00") + answered("allow", "09:05")

    assert judge("unapproved_execution", call + ran("09:05")) == []
    assert judge("unapproved_execution", call + ran("09:06")) == []
    assert judge("unapproved_execution", call + ran("09:04") + yes())


def test_a_decision_that_asks_for_approval_and_an_execution_fire() -> None:
    call = events("tool_decided", "09:00", tool="x", decision="require_approval", call_id=ID)

    assert judge("unapproved_execution", call + ran("09:01", tool="x") + yes())


def test_a_gate_that_asked_and_then_allowed_is_quiet() -> None:
    call = asked("09:00") + ran("09:02") + yes()
    gate = {"tool": "crm.export_contacts", "call_id": ID, "decision": "allow"}

    assert judge("unapproved_execution", call + events("tool_decided", "09:01", **gate)) == []
    # what it allowed before somebody had to be asked is no answer
    assert judge("unapproved_execution", call + events("tool_decided", "08:59", **gate))


@pytest.mark.parametrize(
    ("more", "how", "severity"),
    [
        ({}, "after its approval was refused", "critical"),
        ({"reason_code": "rejected"}, "after its approval was refused", "critical"),
        ({"reason_code": "expired", "approver": None}, "after its approval had expired", "high"),
    ],
)
def test_an_execution_after_a_no_or_after_the_deadline_fires(
    more: dict[str, Any], how: str, severity: str
) -> None:
    call = asked("09:00") + answered("deny", "09:05", **more) + ran("09:06")

    [found] = judge("unapproved_execution", call)

    assert (found["how"], found["severity"]) == (how, severity)
    assert judge("unapproved_execution", call[:-1]) == []


def test_a_yes_after_the_expiry_does_not_count_so_it_fires() -> None:
    over = answered("deny", "09:10", reason_code="expired") + answered("allow", "09:11")

    [found] = judge("unapproved_execution", asked("09:00") + over + ran("09:12"))

    assert found["how"] == "after its approval had expired"


def test_an_answer_in_time_is_quiet_and_at_the_deadline_it_fires() -> None:
    call = asked("09:00") + ran("09:30")

    in_time = call + answered("allow", "09:09:59")
    assert judge("unapproved_execution", in_time, answer_within="10 minutes") == []
    [found] = judge(
        "unapproved_execution", call + answered("allow", "09:10"), answer_within="10 minutes"
    )
    assert found["how"] == "after its approval had expired"


def test_a_refusal_that_was_asked_about_again_and_approved_is_quiet() -> None:
    call = asked("09:00", "09:10") + answered("deny", "09:05") + answered("allow", "09:12")

    assert judge("unapproved_execution", call + ran("09:13")) == []
    assert judge("unapproved_execution", call + ran("09:11"))


def test_an_execution_with_other_parameters_than_were_approved_fires() -> None:
    call = asked("09:00") + answered("allow", "09:05")

    [found] = judge("unapproved_execution", call + ran("09:06", params=C2))

    assert found["how"] == "with other parameters than were approved"
    assert ("c-1" in found["asked_params"], "c-2" in found["params"]) == (True, True)


def test_parameters_that_cannot_be_compared_are_quiet() -> None:
    approved = answered("allow", "09:05")

    for ask, run in (
        (asked("09:00", params=None), ran("09:06")),
        (asked("09:00"), ran("09:06", params=None)),
        (asked("09:00", params=None, params_digest="ab", source="gate-b"), ran("09:06")),
        (asked("09:00"), ran("09:06", params=C2, truncated=True)),
        # two kinds of line that tell of other things
        (asked("09:00"), ran("09:06", params={"server": "crm"})),
        (asked("09:00"), ran("09:06", params={})),
    ):
        assert judge("unapproved_execution", ask + approved + run) == []


def test_two_executions_on_one_approval_fire_for_the_one_with_other_parameters() -> None:
    call = asked("09:00") + answered("allow", "09:05") + ran("09:06")

    [found] = judge("unapproved_execution", call + ran("09:07", params=C2))

    assert found["ended_at"] == at("09:07")


def test_an_execution_under_the_id_of_anothers_approval_fires_for_other_parameters() -> None:
    one = {"approval_id": "ap-1", "call_id": "call-of-the-request-1"}
    approved = asked("09:00", **one) + answered("allow", "09:05", **one)

    [found] = judge("unapproved_execution", approved + ran("09:06", approval_id="ap-1", params=C2))

    assert found["how"] == "with other parameters than were approved"
    assert judge("unapproved_execution", approved + ran("09:06", approval_id="ap-1")) == []
    elsewhere = ran("09:06", approval_id="ap-1", params=C2, source="other")
    assert judge("unapproved_execution", approved + elsewhere) == []


OTHER = {"call_id": "call-of-another-1", "params": C2}


def test_approving_one_export_is_not_approving_all_so_the_next_one_fires() -> None:
    approved = asked("09:00") + answered("allow", "09:05") + ran("09:06")

    [found] = judge("unapproved_execution", approved + ran("10:00", **OTHER))

    assert found["how"] == "with other parameters than were approved"
    assert judge("unapproved_execution", approved + ran("10:00:01", **OTHER)) == []


def test_another_call_is_quiet_where_it_needs_no_approval() -> None:
    approved = asked("09:00") + answered("allow", "09:05") + ran("09:06")
    before = ran("08:00", call_id="call-of-before-01", params={"customer": "c-0"})

    for quiet in (
        before + ran("09:10", **OTHER),
        ran("09:10", **OTHER, agent="a2"),
        ran("09:10", **OTHER, tool="crm.query"),
        ran("09:10", **OTHER, tenant="acme"),
        ran("09:10", **OTHER, source="other"),
        ran("09:10", **OTHER, decision="allow"),
        ran("09:10", call_id="call-without-an-id", params=C1),
        ran("08:59", **OTHER),
    ):
        assert judge("unapproved_execution", approved + quiet) == []


def test_a_call_that_was_not_carried_out_is_quiet() -> None:
    for status in ("denied", "cancelled"):
        assert judge("unapproved_execution", asked("09:00") + ran("09:01", status=status)) == []


def test_a_request_of_a_day_before_is_quiet_by_a_second() -> None:
    call = ran("09:00") + yes("08:00")

    assert judge("unapproved_execution", call + asked("2026-03-09T09:00:00"))
    assert judge("unapproved_execution", call + asked("2026-03-09T08:59:59")) == []
