import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

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

LOW = {"min_calls": 1, "cap": 2, "min_baseline": 3, "factor": 2}

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
        {"minute": START + i * MINUTE, "tenant": tenant, "agent": agent, "events": max(calls, 1)}
        | {"denied": 0, "external": calls, "approvals": 0}
        for agent, numbers in series.items()
        for i, calls in enumerate(numbers)
        if calls is not None
    ]


def filled(rows: list[Event]) -> Db:
    db = store()
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

    found = spikes(counts({"a1": case["counts"]}), window="1 minute", **settings)
    incidents = united(found, GAP)

    assert len(incidents) == expect["incidents"]
    for _, start, end in incidents:
        if "first_at_minute" in expect:
            assert start == START + expect["first_at_minute"] * MINUTE
        assert end - start >= expect.get("open_minutes_min", 1) * MINUTE
