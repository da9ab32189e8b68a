from datetime import timedelta
from typing import Any

import pytest

from tests.kit import Event, at, executed, judge

LOW = {
    "min_rows": 1, "min_bytes": 1, "cap_rows": 2, "cap_bytes": 2, "min_baseline": 3, "factor": 2,
    "warm_up": "0 seconds",
}  # fmt: skip
START = at("2026-03-09T00:00:00")
STEP = timedelta(minutes=10)


def columns(dice: Any) -> Event:
    return {
        "kind": "tool_executed",
        "response_rows": dice.choice([None, 1, 500, -3, 9_000_000_000_000_000_000]),
        "response_bytes": dice.choice([None, 70, 4_000]),
    }


def day_before(**each: Any) -> list[Event]:
    """A read every ten minutes of 25 hours, and no more."""
    return executed(*(START + n * STEP for n in range(25 * 6)), **each)


def after(**each: Any) -> list[Event]:
    """Three minutes after the last of them."""
    return executed(START + timedelta(days=1, minutes=53), **each)


def test_ten_times_the_usual_rows_are_quiet_and_one_more_fires() -> None:
    past = day_before(response_rows=200)

    assert judge("bulk_read", past + after(response_rows=1800)) == []
    [found, *_] = judge("bulk_read", past + after(response_rows=1801, tool="crm.list"))

    assert (found["subject"], found["total"], found["unit"]) == ("a1", 2001, "rows")
    assert (found["usual"], found["severity"], found["tool"]) == (200.0, "high", "crm.list")
    assert "e00150" in found["event_ids"]


def test_fewer_rows_than_the_floor_are_quiet_however_unusual_and_at_it_they_fire() -> None:
    past = day_before(response_rows=1)

    assert judge("bulk_read", past + after(response_rows=998)) == []
    assert judge("bulk_read", past + after(response_rows=999))


def test_bytes_alone_fire_where_a_log_counts_no_rows() -> None:
    past = day_before(response_bytes=2_000_000)

    [found, *_] = judge("bulk_read", past + after(response_bytes=50_000_000))

    assert (found["unit"], found["total"]) == ("bytes", 52_000_000)


def test_a_new_agent_is_quiet_below_the_cap_and_fires_at_it() -> None:
    assert judge("bulk_read", after(response_rows=19_999)) == []
    [found] = judge("bulk_read", after(response_rows=20_000))
    assert (found["baseline_used"], found["usual"]) == ("none", None)


def test_agents_do_not_add_up_and_what_one_reads_is_no_reference_for_another_so_quiet() -> None:
    busy = day_before(response_rows=5000, agent="a2")
    halves = after(response_rows=10_000) + after(response_rows=10_000, agent="a3")

    assert judge("bulk_read", busy + halves) == []


def jobs(*rows: int) -> list[Event]:
    """One job a day, and between them reads of nothing."""
    days = [START + n * timedelta(days=1) for n in range(len(rows))]
    idle = [START + n * STEP for n in range(len(rows) * 144)]
    runs = [executed(day + timedelta(hours=9 + n), response_rows=rows[n])
            for n, day in enumerate(days)]  # fmt: skip
    return [*executed(*idle, response_rows=0), *(event for run in runs for event in run)]


def test_a_job_of_three_times_its_second_largest_day_is_quiet_and_one_row_more_fires() -> None:
    assert judge("bulk_read", jobs(700, 650, 1950)) == []
    [found] = [row for row in judge("bulk_read", jobs(700, 650, 1951)) if row["total"] == 1951]
    assert (found["severity"], found["usual"]) == ("medium", 0)


def test_one_theft_does_not_make_the_next_one_usual_so_it_fires() -> None:
    rows = judge("bulk_read", jobs(300, 250, 90_000, 90_000))

    assert {row["started_at"].day for row in rows} == {11, 12}


def test_a_job_of_an_agent_with_one_day_before_it_fires() -> None:
    assert judge("bulk_read", jobs(900, 1900))


@pytest.mark.parametrize("number", [None, -5])
def test_an_answer_that_counts_nothing_is_quiet(number: int | None) -> None:
    assert judge("bulk_read", after(response_rows=number)) == []


def test_a_number_that_no_table_has_fires_and_breaks_nothing() -> None:
    many = [event for _ in range(3) for event in after(response_rows=2**63 - 1)]

    [found] = judge("bulk_read", many)

    assert found["total"] == 3 * 10**12
