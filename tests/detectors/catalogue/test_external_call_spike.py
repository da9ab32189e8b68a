import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from detectors import detector
from ingest.store import Db
from tests.kit import (
    CASES,
    INSTANT,
    Event,
    agreed,
    at,
    events,
    executed,
    expected,
    forget,
    judge,
    loaded,
    store,
    united,
)

LOW = {"min_calls": 1, "cap": 2, "min_baseline": 3, "factor": 2, "warm_up": "0 seconds"}

GAP = timedelta(minutes=15)
START = at("2026-03-08T00:00:00")
MINUTE = timedelta(minutes=1)
# The cases' words, and ours. They judge single minutes. The minute before the one that is judged
# is never in its reference, so ten minutes of history are nine minutes of reference.
CASE_SETTINGS = {"factor": 0, "min_calls": 0, "min_baseline": -1}
CASE_NAMES = {"baseline_min": "min_baseline"}


def counts(series: Mapping[str, Sequence[int | None]], tenant: str | None = None) -> list[Event]:
    """Rows of minute_counts: per agent, external calls from START on; None is silence."""
    return [
        {"minute": START + i * MINUTE, "tenant": tenant, "agent": agent, "subject": agent}
        | {"events": max(calls, 1), "denied": 0, "external": calls, "approvals": 0}
        for agent, numbers in series.items()
        for i, calls in enumerate(numbers)
        if calls is not None
    ]


def filled(rows: list[Event], zone: str = "UTC") -> Db:
    db = store(rules={"global": {"timezone": zone}})
    db.register("by_hand", pa.Table.from_pylist(rows))
    db.execute("INSERT INTO minute_counts BY NAME SELECT * FROM by_hand")
    db.unregister("by_hand")
    return db


def spikes(rows: list[Event], **settings: Any) -> list[Event]:
    """What one pass over these counts finds; slices, over rows in another order, must agree, and
    so must a store that has forgotten what is before the lookback."""
    db = filled(rows)
    each = loaded("external_call_spike", db, **settings)
    end = max(row["minute"] for row in rows) + timedelta(minutes=21)
    found = agreed(each, db, filled(rows[::-1]), START, end)
    if found:
        last = found[-1]["ended_at"]
        forget(db, last - each.lookback)
        assert found[-1] in detector.find(each, db, last, last + INSTANT)
    return found


def steady(calls: int, minutes: int) -> list[int]:
    return [calls] * minutes


DAY_BEFORE = steady(1, 24 * 60)  # ten calls in ten minutes


def test_more_than_five_times_the_usual_fires_and_exactly_five_times_is_quiet() -> None:
    [*_, found] = spikes(counts({"a1": [*DAY_BEFORE, 42]}))  # 42 and nine times one

    assert (found["subject"], found["calls"], found["usual"]) == ("a1", 51, 10.0)
    assert found["ended_at"] - found["started_at"] == timedelta(minutes=10)
    assert spikes(counts({"a1": [*DAY_BEFORE, 41]})) == []


def test_the_mean_on_request_fires_on_whole_numbers_too() -> None:
    assert spikes(counts({"a1": [*DAY_BEFORE, 42]}), statistic="mean")
    assert spikes(counts({"a1": [*DAY_BEFORE, 41]}), statistic="mean") == []


def test_too_few_calls_are_quiet_however_many_times_the_usual_they_are() -> None:
    quiet = steady(0, 24 * 60)

    assert spikes(counts({"a1": [*quiet, 19]})) == []
    [found] = spikes(counts({"a1": [*quiet, 20]}))
    assert (found["usual"], found["severity"]) == (0.0, "medium")


def test_a_new_agent_is_quiet_below_the_cap_and_fires_at_it_with_the_word_new() -> None:
    others = {"a2": DAY_BEFORE}

    assert spikes(counts(others) + counts({"a1": steady(19, 10)})) == []
    [found] = spikes(counts(others) + counts({"a1": steady(20, 10)}))
    assert (found["subject"], found["usual"], found["against"][:4]) == ("a1", None, "new:")


def test_a_busy_agent_does_not_hide_a_quiet_one_and_tenants_are_apart_so_one_fires() -> None:
    rows = counts({"a1": [*DAY_BEFORE, 60], "a2": steady(15, 24 * 60 + 1)})

    found = spikes(rows + counts({"a1": steady(6, 24 * 60 + 1)}, tenant="acme"))

    assert {(row["tenant"], row["subject"]) for row in found} == {("", "a1")}


def test_a_surge_does_not_become_usual_by_lasting_so_it_fires_for_all_its_hours() -> None:
    hours = 20
    found = spikes(counts({"a1": [*DAY_BEFORE, *steady(8, hours * 60), *steady(1, 60)]}))

    [(_, start, end)] = united(found, GAP)
    assert end - start >= timedelta(hours=hours)
    assert {row["usual"] for row in found} == {10.0}


def test_a_new_level_becomes_usual_after_two_days_and_is_quiet() -> None:
    found = spikes(counts({"a1": [*DAY_BEFORE, *steady(8, 3 * 24 * 60)]}), statistic="median")

    assert max(row["ended_at"] for row in found) < START + timedelta(days=3)


def test_a_burst_over_the_edge_of_two_buckets_fires() -> None:
    assert spikes(counts({"a1": [*steady(1, 24 * 60 - 2), 13, 13, 13, 13]}))


def test_half_the_traffic_is_quiet() -> None:
    assert spikes(counts({"a1": [*steady(15, 24 * 60), *steady(7, 60)]})) == []


def test_the_evidence_of_a_spike_that_fires_is_its_last_twenty_events() -> None:
    calls: list[Event] = [
        event
        for i in range(24 * 6)
        for event in events("egress", START + i * timedelta(minutes=10), host="a.example")
    ]
    burst = [START + timedelta(days=1, seconds=i) for i in range(30)]
    burst_calls = executed(*burst, host="b.example") + executed(*burst[:5], host="b.example")
    denied = executed(*burst, host="b.example", decision="deny")

    found = judge("external_call_spike", calls + burst_calls + denied + executed(burst[0]))

    assert found[-1]["calls"] == 35
    assert found[-1]["event_ids"] == [f"e{144 + i:05}" for i in range(10, 30)]


@pytest.mark.parametrize("which", ["B073", "B074", "B078", "B081", "B088", "B090"])
def test_each_case_fires_or_is_quiet_as_it_says(which: str) -> None:
    [path] = (CASES / "fixtures").glob(f"{which}-*.json")
    case, expect = json.loads(path.read_text()), expected(which)
    settings = {CASE_NAMES.get(key, key): value for key, value in case["config"].items()}
    settings = {key: value + CASE_SETTINGS[key] for key, value in settings.items()}
    settings |= {"window": "1 minute", "warm_up": "0 seconds"}

    found = spikes(counts({"a1": case["counts"]}), **settings)
    incidents = united(found, GAP)

    assert len(incidents) == expect["incidents"]
    for _, start, end in incidents:
        if "first_at_minute" in expect:
            assert start == START + expect["first_at_minute"] * MINUTE
        assert end - start >= expect.get("open_minutes_min", 1) * MINUTE


# 2. The hours of a week. In Berlin, from a Monday on; on the fourth Sunday the clocks are set.

BERLIN = ZoneInfo("Europe/Berlin")
MONDAY = datetime(2026, 3, 9, tzinfo=BERLIN)


def weeks(number: int, night: int = 1, work: int = 30, **days: int) -> dict[datetime, int]:
    """Calls by the minute (UTC): at work from nine to six on five days. `days`: d7=10 is the
    eighth day at ten a minute all day long."""
    first = MONDAY.astimezone(UTC)
    found = {}
    for minute in (first + i * MINUTE for i in range(number * 7 * 24 * 60)):
        local = minute.astimezone(BERLIN)
        day = f"d{(local.date() - MONDAY.date()).days}"
        busy = local.weekday() < 5 and 9 <= local.hour < 18
        found[minute] = days.get(day, work if busy else night)
    return found


def local(days: int, clock: str) -> datetime:
    """A wall time in Berlin, so many days after the first Monday, in UTC."""
    hour, minute = map(int, clock.split(":"))
    wall = MONDAY.replace(tzinfo=None) + timedelta(days=days, hours=hour, minutes=minute)
    return wall.replace(tzinfo=BERLIN).astimezone(UTC)


def of_week(
    made: Mapping[datetime, int], since: datetime, until: datetime, **settings: Any
) -> list[Event]:
    """What is found in [since, until), in one pass and hour by hour over half the width."""
    rows = [
        {"minute": minute, "agent": "a1", "subject": "a1", "events": 1, "denied": 0}
        | {"external": calls, "approvals": 0}
        for minute, calls in made.items()
    ]
    db = filled(rows, "Europe/Berlin")
    each = loaded("external_call_spike", db, **settings)
    found = detector.find(each, db, since, until)
    half = since + (until - since) / 2
    parts = detector.find(each, db, since, half) + detector.find(each, db, half, until)
    assert sorted(map(repr, found)) == sorted(map(repr, parts))
    for row in found[:1]:
        forget(db, row["ended_at"] - each.lookback)
        assert row in detector.find(each, db, row["ended_at"], row["ended_at"] + INSTANT)
    return sorted(found, key=lambda row: row["ended_at"])


def test_monday_morning_is_quiet_and_ten_times_its_usual_fires_b080() -> None:
    made = weeks(5)
    burst = local(28, "10:00")
    fifth = made | {burst: 300}

    found = of_week(fifth, local(28, "00:00"), local(29, "00:00"), window="1 minute")

    assert len(united(found, GAP)) == expected("B080")["incidents"]
    assert found[0]["ended_at"] == burst + MINUTE
    assert (found[0]["usual"], found[0]["ratio"], found[0]["threshold"]) == (30.0, 10.0, 150.0)
    assert found[0]["baseline_used"] == "this time of the week"


def test_windows_over_the_edge_of_nine_o_clock_are_quiet_on_the_third_monday_d46() -> None:
    made = weeks(3)

    assert of_week(made, local(14, "08:30"), local(14, "10:30")) == []


def test_with_one_monday_known_the_second_is_held_against_the_day_before_and_fires() -> None:
    made = weeks(2)

    found = of_week(made, local(7, "08:30"), local(7, "10:30"))

    assert {row["baseline_used"] for row in found} == {"last 24 hours"}


def test_one_quiet_week_of_four_makes_no_alarm_so_the_next_monday_is_quiet() -> None:
    made = weeks(5, d21=1)

    assert of_week(made, local(28, "08:30"), local(28, "11:00")) == []


def test_the_clocks_that_are_set_make_no_alarm_so_the_monday_after_is_quiet() -> None:
    made = weeks(4)  # the clocks go forward on the 29th of March, the day before the fourth Monday

    assert of_week(made, local(21, "07:30"), local(21, "10:30")) == []


def test_trouble_of_two_weeks_is_not_usual_and_fires_and_a_level_of_three_weeks_is_quiet() -> None:
    two, three = weeks(5, d14=300, d21=300, d28=300), weeks(5, d7=300, d14=300, d21=300, d28=300)

    found = of_week(two, local(28, "10:00"), local(28, "10:30"))

    assert {row["usual"] for row in found} == {300.0}
    assert of_week(three, local(28, "10:00"), local(28, "10:30")) == []


def test_the_mean_of_weeks_leaves_one_spiky_week_out_so_it_fires_all_the_same() -> None:
    made = weeks(5, d21=300, d28=200)

    [found, *_] = of_week(made, local(28, "12:00"), local(28, "12:05"), statistic="mean")

    assert found["usual"] == 300.0


def test_growth_by_half_each_week_becomes_usual_and_is_quiet() -> None:
    drift = {f"d{7 * week}": round(10 * 1.5**week) for week in range(5)}

    assert of_week(weeks(5, **drift), local(28, "10:00"), local(28, "12:00")) == []


@pytest.mark.parametrize(("times", "hours", "fires"), [(6, 48, False), (20, 24, True)])
def test_slow_growth_is_quiet_and_fast_growth_fires_for_the_lowest_level_bounds_it(
    times: int, hours: int, fires: bool
) -> None:
    rise = [round(3 * times ** (i / (hours * 60))) for i in range(hours * 60)]

    assert bool(spikes(counts({"a1": [*steady(3, 26 * 60), *rise]}))) is fires


@pytest.mark.parametrize(("burst", "severity"), [(191, "high"), (192, "critical")])
def test_more_than_twenty_times_fires_as_critical(burst: int, severity: str) -> None:
    found = spikes(counts({"a1": [*DAY_BEFORE, burst]}))  # and nine times one

    assert found[-1]["severity"] == severity


def test_a_reference_that_varies_by_itself_needs_more_than_five_times_to_fire() -> None:
    restless = [n for _ in range(24) for n in ([0] * 20 + [4] * 40)]

    assert spikes(counts({"a1": [*restless, *steady(6, 10)]})) == []


def test_a_window_that_is_still_open_is_quiet_d19() -> None:
    db = filled(counts({"a1": [*DAY_BEFORE, 60]}))
    each = loaded("external_call_spike", db)
    opened = START + timedelta(days=1)

    assert detector.find(each, db, opened, opened + timedelta(seconds=5)) == []
    assert detector.find(each, db, opened, opened + MINUTE + INSTANT)


@pytest.mark.parametrize("known", range(30, 60, 7))
def test_whatever_is_stored_of_a_window_is_not_in_its_own_reference_so_it_fires_d15(
    known: int,
) -> None:
    rows = counts({"a1": [*steady(10, known), 1000]})

    [found] = spikes(rows, window="1 minute", warm_up="0 seconds")

    assert (found["calls"], found["usual"]) == (1000, 10.0)


def test_a_busy_agent_lends_no_reference_to_a_new_one_so_one_call_is_quiet_d16() -> None:
    rows = counts({"a1": steady(100, 25 * 60)})
    rows += counts({"a2": [None] * (25 * 60 - 1) + [1]})

    assert [row for row in spikes(rows) if row["subject"] == "a2"] == []


def test_idle_is_zero_and_a_dead_pipeline_is_absent_d20() -> None:
    alive = {"a2": steady(1, 26 * 60 + 50)}
    a1 = [*steady(3, 25 * 60), *steady(0, 50), *steady(9, 20)]

    idle = spikes(counts(alive | {"a1": a1}), baseline="1 hour", min_baseline=4)
    dead = [n if i < 25 * 60 or i >= 25 * 60 + 50 else None for i, n in enumerate(a1)]
    without = spikes(counts({"a1": dead}), baseline="1 hour", min_baseline=4)

    assert {row["usual"] for row in idle} == {0.0}
    assert without == []


def test_a_principal_of_a_log_that_names_no_agent_fires_by_itself() -> None:
    calls = [START + timedelta(seconds=i) for i in range(20)]
    one = events("egress", *calls, agent=None, principal="ann", host="a.example")
    two = events("egress", *calls, agent=None, principal="bob", host="a.example")

    found = judge("external_call_spike", one + two[:19], cap=20)

    assert [(row["subject"], row["agent"]) for row in found] == [("principal ann", None)]
