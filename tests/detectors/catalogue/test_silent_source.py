from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa

from detectors import detector
from tests.kit import INSTANT, agreed, at, forget, loaded, store, united

EVENTS = False  # it looks at arrivals alone

MINUTE = timedelta(minutes=1)
START = at("2026-03-09T00:00:00")


def every(minutes: int, until: str, source: str = "gate", since: datetime = START) -> list[Any]:
    """Arrivals of one source every so many minutes, up to and including `until`."""
    return [
        {"source": source, "minute": since + i * minutes * MINUTE, "lines": 3}
        | {"last_event_id": f"{source}-{i:04}"}
        for i in range((at(until) - since) // (minutes * MINUTE) + 1)
    ]


def heard(since: datetime, until: datetime) -> list[Any]:
    """What the service notes of itself, each minute in which it listens."""
    minutes = range((until - since) // MINUTE + 1)
    own = {"source": "gatewatch", "lines": 0, "last_event_id": None}
    return [own | {"minute": since + i * MINUTE} for i in minutes]


def silences(
    rows: list[Any], until: str, listened: list[Any] | None = None, **settings: Any
) -> list[dict[str, Any]]:
    """What one pass up to `until` finds; slices must agree, and the lookback must hold.

    The service listened all the time, unless the test says when.
    """
    first = min([START, *(row["minute"] for row in rows)])
    rows = [*rows, *(heard(first, at(until)) if listened is None else listened)]
    stores = []
    for order in (rows, rows[::-1]):
        db = store()
        db.register("by_hand", pa.Table.from_pylist(order))
        db.execute("INSERT INTO arrivals BY NAME SELECT * FROM by_hand")
        db.unregister("by_hand")
        stores.append(db)
    each = loaded("silent_source", stores[0], **settings)
    found = agreed(each, stores[0], stores[1], START, at(until))
    if found:
        last = found[-1]["ended_at"]
        forget(stores[0], last - each.lookback)
        assert found[-1] in detector.find(each, stores[0], last, last + INSTANT)
    return found


def test_a_source_that_stops_fires_each_minute_after_ten_quiet_ones() -> None:
    rows = silences(every(1, "2026-03-09T02:00:00"), "2026-03-09T02:13:00")

    assert [row["ended_at"] for row in rows] == [
        at("2026-03-09T02:11:00"),
        at("2026-03-09T02:12:00"),
    ]
    assert {row["subject"] for row in rows} == {"gate"}
    assert rows[0]["started_at"] == at("2026-03-09T02:00:00")
    assert rows[0]["event_ids"] == ["gate-0120"]
    assert rows[-1]["severity"] == "medium"


def test_ten_minutes_are_quiet() -> None:
    assert silences(every(1, "2026-03-09T02:00:00"), "2026-03-09T02:11:00") == []


def test_a_slow_source_fires_after_five_times_its_usual_gap_and_is_quiet_before() -> None:
    slow = every(7, "2026-03-09T07:00:00")

    assert silences(slow, "2026-03-09T07:36:00") == []
    [found] = silences(slow, "2026-03-09T07:37:00")
    assert (found["usual_minutes"], found["silent_minutes"]) == (7.0, 36)


def test_a_source_that_was_heard_in_fewer_than_twenty_minutes_is_quiet() -> None:
    end = "2026-03-09T03:00:00"

    assert silences(every(1, "2026-03-09T00:18:00"), end) == []
    assert silences(every(1, "2026-03-09T00:19:00"), end)


def test_a_source_that_comes_back_stops_firing_with_its_next_line() -> None:
    gone = every(1, "2026-03-09T02:00:00")
    back = every(1, "2026-03-09T03:00:00", since=at("2026-03-09T02:30:00"))

    rows = silences(gone + back, "2026-03-09T03:00:30")

    assert rows[-1]["ended_at"] == at("2026-03-09T02:30:00")


def test_a_silence_fires_for_a_day_and_then_it_is_a_fact() -> None:
    rows = silences(every(1, "2026-03-09T02:00:00"), "2026-03-11T00:00:00")

    [(_, start, end)] = united(rows, timedelta(minutes=15))
    assert (start, end) == (at("2026-03-09T02:00:00"), at("2026-03-10T02:00:00"))


def test_three_sources_silent_at_once_and_no_other_fire_high() -> None:
    three = [row for name in "abc" for row in every(1, "2026-03-09T02:00:00", name)]

    rows = silences(three, "2026-03-09T02:12:00")
    assert {(row["severity"], row["nothing_at_all"]) for row in rows} == {("high", True)}

    others = silences(three + every(1, "2026-03-09T03:00:00", "d"), "2026-03-09T02:12:00")
    assert {(row["severity"], row["silent_sources"]) for row in others} == {("medium", 3)}


def test_two_of_two_silent_sources_fire_as_medium() -> None:
    two = [row for name in "ab" for row in every(1, "2026-03-09T02:00:00", name)]

    assert {row["severity"] for row in silences(two, "2026-03-09T02:12:00")} == {"medium"}


def test_a_row_of_arrivals_for_each_batch_counts_its_minute_once_so_it_is_quiet() -> None:
    assert silences(every(1, "2026-03-09T00:18:00") * 3, "2026-03-09T01:00:00") == []


def test_what_the_service_missed_while_it_was_down_is_quiet() -> None:
    gate = every(1, "2026-03-09T02:00:00")
    down = heard(START, at("2026-03-09T02:00:00"))

    assert silences(gate, "2026-03-09T06:00:00", down) == []


def test_after_a_restart_a_source_has_its_usual_time_to_come_back_and_then_fires() -> None:
    gate = every(1, "2026-03-09T02:00:00")
    again = heard(at("2026-03-09T05:00:00"), at("2026-03-09T06:00:00"))
    listened = heard(START, at("2026-03-09T02:00:00")) + again

    rows = silences(gate, "2026-03-09T06:00:00", listened)

    assert rows[0]["ended_at"] == at("2026-03-09T05:10:00")
    assert rows[0]["started_at"] == at("2026-03-09T02:00:00")


def configured(source: str, until: str, since: datetime = START) -> list[Any]:
    """What the service notes of each source in gatewatch.toml."""
    own = {"source": source, "lines": 0, "last_event_id": None}
    return [own | {"minute": each["minute"]} for each in heard(since, at(until))]


def test_a_configured_source_that_never_sent_fires_after_an_hour_d27() -> None:
    noted = configured("gate", "2026-03-09T01:02:00")

    assert silences(noted, "2026-03-09T01:01:00") == []
    [found] = silences(noted, "2026-03-09T01:02:00")
    assert (found["subject"], found["silent_minutes"], found["event_ids"]) == ("gate", 61, [])
    assert found["usual"] == "it is configured and has sent nothing"


def test_a_configured_source_that_sends_is_quiet_and_one_that_was_taken_out_too() -> None:
    end = "2026-03-09T03:00:00"

    assert silences(configured("gate", end) + every(1, end)[:5], end) == []
    assert silences(configured("gate", "2026-03-09T00:30:00"), end) == []


def test_a_configured_source_fires_for_a_day_and_is_then_a_fact() -> None:
    rows = silences(configured("gate", "2026-03-10T04:00:00"), "2026-03-10T04:00:00")

    [(_, start, end)] = united(rows, timedelta(minutes=15))
    assert (start, end) == (START, at("2026-03-10T01:00:00"))


def test_a_night_as_both_nights_before_is_quiet_and_one_hour_longer_fires() -> None:
    days = [
        row
        for day in (9, 10, 11)
        for row in every(1, f"2026-03-{day:02}T20:00:00", since=at(f"2026-03-{day:02}T08:00:00"))
    ]
    first = silences(days, "2026-03-10T02:00:00")
    third = silences(days, "2026-03-12T08:00:00")

    assert first[0]["ended_at"] == at("2026-03-09T20:11:00")
    assert [row for row in third if row["ended_at"] > at("2026-03-11T12:00:00")] == []
    late = silences(days, "2026-03-12T09:02:00")
    assert late[-1]["ended_at"] == at("2026-03-12T09:01:00")


def test_the_service_itself_is_no_source_so_it_is_quiet_of_itself() -> None:
    assert silences([], "2026-03-09T06:00:00", heard(START, at("2026-03-09T02:00:00"))) == []


def in_bursts(until: str) -> list[Any]:
    """Four minutes with lines, then twenty without: a pause of 21 minutes again and again."""
    return [row for row in every(1, until) if (row["minute"] - START) // MINUTE % 25 < 5]


def test_a_source_that_sends_in_bursts_fires_after_four_times_its_third_longest_gap_only() -> None:
    rows = in_bursts("2026-03-09T12:04:00")  # the last burst is from 11:40 to 11:44

    assert (
        silences(
            [r for r in rows if r["minute"] < at("2026-03-09T11:45:00")], "2026-03-09T13:09:00"
        )
        == []
    )
    [found] = silences(
        [r for r in rows if r["minute"] < at("2026-03-09T11:45:00")], "2026-03-09T13:10:00"
    )
    assert (found["long_minutes"], found["silent_minutes"]) == (21, 85)


def test_two_failures_of_the_day_before_do_not_make_it_patient_so_the_third_fires() -> None:
    rows = [row for row in every(1, "2026-03-09T12:00:00") if row["minute"].hour not in (3, 5)]

    assert silences(rows, "2026-03-09T12:12:00")[-1]["silent_minutes"] == 11
