from itertools import permutations

from detectors import detector
from tests.kit import INSTANT, allowed, at, denied, events, executed, in_order, judge, loaded, store

ID = "call-0123456789abc"
PARAMS = {"contact": 7}


def test_a_denied_call_that_was_executed_fires() -> None:
    call = denied("09:00", call_id=ID, reason="no exports") + executed("09:01", call_id=ID)

    [found] = judge("denied_then_executed", call)

    assert (found["subject"], found["tool"]) == ("a1", "crm.export_contacts")
    assert (found["started_at"], found["ended_at"]) == (at("09:00"), at("09:01"))
    assert (found["reason"], found["event_ids"]) == ("no exports", ["e00000", "e00001"])


def test_a_denied_call_that_stayed_undone_is_quiet() -> None:
    call = denied("09:00", call_id=ID)

    for status in ("denied", "cancelled"):
        refused = executed("09:01", call_id=ID, status=status)
        assert judge("denied_then_executed", call + refused) == []


def test_an_execution_that_carries_its_own_denial_fires() -> None:
    assert judge("denied_then_executed", executed("09:00", decision="deny", call_id=ID))


def test_a_failed_execution_was_one_too_so_it_fires() -> None:
    call = denied("09:00", call_id=ID) + executed("09:01", call_id=ID, status="timeout")

    assert judge("denied_then_executed", call)


def test_an_allowance_before_the_execution_is_quiet_and_one_after_it_fires() -> None:
    call = denied("09:00", call_id=ID) + executed("09:02", call_id=ID)

    assert judge("denied_then_executed", call + allowed("09:01", call_id=ID)) == []
    assert judge("denied_then_executed", call + allowed("09:03", call_id=ID))


def test_each_execution_is_held_against_the_last_word_before_it_so_one_of_two_fires() -> None:
    call = denied("09:00", call_id=ID) + allowed("09:02", call_id=ID)

    rows = judge("denied_then_executed", call + executed("09:01", "09:03", call_id=ID))

    assert [row["ended_at"] for row in rows] == [at("09:01")]


def test_a_call_whose_parts_arrive_in_any_order_fires_as_the_same_row() -> None:
    parts = events("tool_proposed", "08:59", tool="crm.export_contacts", call_id=ID, event_id="p")
    parts += denied("09:00", call_id=ID, event_id="d") + executed("09:01", call_id=ID, event_id="x")
    parts = [{"source": "gate", "ledger_seq": 1, **part} for part in parts]

    rows = set()
    for order in permutations(parts):
        db = store(order, batch=1)
        each = loaded("denied_then_executed", db)
        rows |= {tuple(in_order(detector.find(each, db, at("09:01"), at("09:01") + INSTANT)))}

    assert len(rows) == 1
    assert rows != {()}


def test_a_denial_from_a_day_before_is_quiet_by_a_second() -> None:
    call = executed("09:00", call_id=ID)

    assert judge("denied_then_executed", call + denied("2026-03-09T09:00:00", call_id=ID))
    assert judge("denied_then_executed", call + denied("2026-03-09T08:59:59", call_id=ID)) == []


def test_the_same_thing_done_without_asking_fires_within_a_quarter_of_an_hour() -> None:
    refused = denied("09:00", params=PARAMS)

    [found] = judge("denied_then_executed", refused + executed("09:15", params=PARAMS))

    assert found["joined_by"] == "the same agent, tool and parameters"
    assert judge("denied_then_executed", refused + executed("09:15:01", params=PARAMS)) == []


def test_something_else_done_without_asking_is_quiet() -> None:
    refused = denied("09:00", params=PARAMS)

    for other in (
        executed("09:01", params={"contact": 8}),
        executed("09:01", params=PARAMS, agent="a2"),
        executed("09:01", params=PARAMS, tool="crm.query"),
        executed("09:01", params=PARAMS, tenant="acme"),
        executed("08:59", params=PARAMS),
        executed("09:01", params=PARAMS, decision="allow"),
    ):
        assert judge("denied_then_executed", refused + other) == []


def test_an_allowance_in_between_or_at_the_same_time_is_quiet() -> None:
    refused = denied("09:00", params=PARAMS) + executed("09:02", params=PARAMS)

    for at_time in ("09:00", "09:01", "09:02"):
        assert judge("denied_then_executed", refused + allowed(at_time, params=PARAMS)) == []
