import random
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.kit import Event, at, case, denied, events, executed, judge

LOW = {"times": 2}
CHARGE = {"order": "A-7", "cents": 5000}


def columns(dice: random.Random) -> dict[str, Any]:
    return {
        "kind": "tool_executed",
        "op": dice.choice(["commit", "commit", "lookup", None]),
        "status": dice.choice([None, "ok", "ok", "timeout", "error", "denied"]),
        "error": dice.choice([None, "connection reset", "404 not found"]),
    }


def charged(*clock: Any, **more: Any) -> list[Event]:
    return executed(*clock, **{"tool": "pay.charge", "op": "commit", "params": CHARGE} | more)


def test_a_charge_sent_again_after_a_time_out_fires() -> None:
    [found] = judge("repeated_commit", charged("09:00", status="timeout") + charged("09:01"))

    assert (found["subject"], found["tool"], found["times"]) == ("a1", "pay.charge", 2)
    assert (found["started_at"], found["ended_at"]) == (at("09:00"), at("09:01"))
    assert (found["severity"], found["after"]) == ("high", "again after a time-out")
    assert found["event_ids"] == ["e00000", "e00001"]


@pytest.mark.parametrize(
    "outcome",
    [
        {"status": "timeout"},
        {"status": None},
        {"status": "error"},
        {"status": "error", "error": "connection reset by peer"},
        {"status": "error", "error": "HTTP 502"},
        {"status": "error", "error": "HTTP 408 request timeout"},
    ],
)
def test_after_an_unclear_outcome_the_second_try_fires(outcome: dict[str, Any]) -> None:
    assert judge("repeated_commit", charged("09:00", **outcome) + charged("09:05"))


@pytest.mark.parametrize(
    "error",
    ["HTTP 422", "status 409: conflict", "card declined", "order not found", "余额不足"],
)
def test_after_a_clear_refusal_the_second_try_is_quiet(error: str) -> None:
    first = charged("09:00", status="error", error=error)

    assert judge("repeated_commit", first + charged("09:05")) == []


def test_three_charges_that_all_went_well_fire_and_two_are_quiet() -> None:
    [found] = judge("repeated_commit", charged("09:00", "09:05", "09:14:59"))

    assert (found["times"], found["after"]) == (3, "each time to the end")
    assert judge("repeated_commit", charged("09:00", "09:05")) == []


def test_four_messages_fire_twice_with_all_of_them_as_evidence() -> None:
    rows = judge("repeated_commit", charged("09:00", "09:01", "09:02", "09:03", tool="sms.send"))

    assert [row["times"] for row in rows] == [3, 4]
    assert len(rows[-1]["event_ids"]) == 4


def test_a_job_every_quarter_of_an_hour_is_quiet_and_a_second_sooner_fires() -> None:
    first = charged("09:00", status="timeout")

    assert judge("repeated_commit", first + charged("09:15")) == []
    assert judge("repeated_commit", first + charged("09:14:59"))


def test_a_batch_of_fifty_refunds_is_quiet_though_each_timed_out() -> None:
    batch = [
        event
        for i in range(50)
        for event in charged(f"09:00:{i:02}", status="timeout", params={"order": f"A-{i}"})
    ]

    assert judge("repeated_commit", batch) == []


def test_another_idempotency_key_is_another_charge_so_it_is_quiet() -> None:
    tries = [
        event
        for i in range(4)
        for event in charged(
            f"09:0{i}", status="timeout", params=CHARGE | {"idempotency_key": f"k-{i}"}
        )
    ]

    assert judge("repeated_commit", tries) == []


@pytest.mark.parametrize(
    "key", [{"idempotencyKey": "k"}, {"headers": {"Idempotency-Key": "k"}}, {"clientToken": "k"}]
)
def test_the_same_idempotency_key_fires_low_whatever_else_differs(key: dict[str, Any]) -> None:
    tries = charged("09:00", status="timeout", params=CHARGE | key | {"try": 1})

    [found] = judge("repeated_commit", tries + charged("09:01", params=CHARGE | key | {"try": 2}))

    assert (found["severity"], found["idempotency_key"]) == ("low", True)
    assert found["after"].endswith("under one idempotency key")


def test_a_key_quoted_in_a_text_is_none_so_the_charge_fires_high() -> None:
    params = CHARGE | {"note": '"idempotency_key": "k-1"'}
    tries = charged("09:00", status="timeout", params=params) + charged("09:01", params=params)

    assert [row["severity"] for row in judge("repeated_commit", tries)] == ["high"]


def test_a_retry_under_the_same_call_id_is_one_call_so_it_is_quiet() -> None:
    call = "call-0123456789abc"
    tries = charged("09:00", status="timeout", call_id=call) + charged("09:01", call_id=call)

    assert judge("repeated_commit", tries) == []


def test_one_call_in_two_logs_is_quiet() -> None:
    logs = charged("09:00", status=None) + charged("09:00:01", source="transcript")

    assert judge("repeated_commit", logs) == []


def test_two_agents_two_tenants_and_two_tools_do_not_add_up_so_they_are_quiet() -> None:
    first = charged("09:00", status="timeout")

    for other in ({"agent": "a2"}, {"tenant": "acme"}, {"tool": "pay.refund"}):
        assert judge("repeated_commit", first + charged("09:01", "09:02", **other)) == []


def test_lookups_and_what_never_ran_are_quiet() -> None:
    first = charged("09:00", status="timeout")

    assert judge("repeated_commit", charged("09:00", "09:01", "09:02", op="lookup")) == []
    assert judge("repeated_commit", first + charged("09:01", "09:02", status="denied")) == []
    assert judge("repeated_commit", first + denied("09:01", params=CHARGE, op="commit")) == []


def test_a_shell_command_is_quiet_until_somebody_says_that_it_commits_and_then_it_fires() -> None:
    tests = {"tool": "bash", "params": {"command": "make test"}}
    rerun = charged("09:00", "09:01", "09:02", **tests, op_basis="inferred")

    assert judge("repeated_commit", rerun) == []
    assert judge("repeated_commit", charged("09:00", "09:01", "09:02", **tests, op_basis="policy"))


def test_a_job_that_did_so_the_day_before_is_quiet_and_a_new_one_fires_for_a_day() -> None:
    first = at("2026-03-08T00:00:00")
    job = charged(*[first + i * timedelta(minutes=5) for i in range(12 * 30)])

    rows = judge("repeated_commit", job)

    assert rows[0]["ended_at"] == first + timedelta(minutes=10)
    assert max(row["ended_at"] for row in rows) < first + timedelta(hours=30)


def test_calls_of_one_instant_fire_as_one_row() -> None:
    [found] = judge("repeated_commit", charged("09:00", "09:00", "09:00"))

    assert found["times"] == 3


def test_one_event_with_many_values_counts_once_so_it_is_quiet_d12() -> None:
    many = {"recipients": [f"+49151{i:07}" for i in range(50)]}

    assert judge("repeated_commit", charged("09:00", params=many)) == []


def test_the_parts_of_a_call_may_be_told_apart_and_the_repetition_fires() -> None:
    parts = [
        event
        for i, status in enumerate(("timeout", "ok"))
        for event in (
            *events("tool_proposed", f"09:0{i}", tool="pay.charge", op="commit", params=CHARGE,
                    call_id=f"call-0123456789-{i}", trace_id="t-1"),
            *executed(f"09:0{i}:30", tool="pay.charge", status=status,
                      call_id=f"call-0123456789-{i}"),
        )
    ]  # fmt: skip

    [found] = judge("repeated_commit", parts)

    assert found["ended_at"] == at("09:01:30")


@pytest.mark.parametrize("which", ["B053", "B066", "B069", "B083"])
def test_denials_polls_and_replays_are_quiet(tmp_path: Path, which: str) -> None:
    assert case("repeated_commit", tmp_path, which) == []
