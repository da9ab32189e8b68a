from datetime import timedelta
from typing import Any

import pyarrow as pa

from detectors import detector
from tests.kit import INSTANT, agreed, at, loaded, store

EVENTS = False  # it looks at what the service notes of itself

MINUTE = timedelta(minutes=1)
START = at("2026-03-09T00:00:00")


def noted(name: str, states: str, start: Any = START, error: str | None = None) -> list[Any]:
    """A note a minute: `.` good rounds, `!` rounds that failed, `-` none at all, ` ` no note."""
    return [
        {"detector": name, "noted_at": start + n * MINUTE, "ok": 90 * (each == "."),
         "failed": 3 * (each == "!"), "seconds": 1.0, "error": None if each == "." else error}
        for n, each in enumerate(states) if each != " "
    ]  # fmt: skip


def stale(rows: list[Any], minutes: int, **settings: Any) -> list[dict[str, Any]]:
    """What one pass over so many minutes finds; slices must agree, and the lookback must hold."""
    stores = []
    for order in (rows, rows[::-1]):
        db = store()
        db.register("by_hand", pa.Table.from_pylist(order))
        db.execute("INSERT INTO rounds BY NAME SELECT * FROM by_hand")
        db.unregister("by_hand")
        stores.append(db)
    each = loaded("stale_detector", stores[0], **settings)
    found = agreed(each, stores[0], stores[1], START, START + minutes * MINUTE)
    for row in found[-1:]:
        stores[0].execute(
            "DELETE FROM rounds WHERE noted_at < ?", [row["ended_at"] - each.lookback]
        )
        ended = row["ended_at"]
        assert row in detector.find(each, stores[0], ended, ended + INSTANT)
    return found


def test_a_detector_that_fails_for_three_minutes_fires_and_says_why() -> None:
    rows = stale(noted("mine", "..!!!!", error="no such column"), 6)

    [found] = rows
    assert found["subject"] == "mine"
    assert (found["started_at"], found["ended_at"]) == (START + 2 * MINUTE, START + 5 * MINUTE)
    each = loaded("stale_detector", store())
    assert detector.word(each, found)[0] == (
        "mine: this detector has judged nothing for 3 minutes: no such column"
    )


def test_one_that_works_again_in_time_is_quiet() -> None:
    assert stale(noted("mine", "..!!!.!!!.."), 11) == []


def test_one_that_hangs_and_has_no_round_at_all_fires() -> None:
    assert [row["minutes"] for row in stale(noted("mine", "..-----"), 7)] == [3, 4]


def test_one_that_never_had_a_good_round_fires() -> None:
    assert [row["started_at"] for row in stale(noted("mine", "!!!!"), 4)] == [START]


def test_time_in_which_the_service_did_not_run_is_quiet() -> None:
    assert stale(noted("mine", ".." + 90 * " " + "..!!!.."), 100) == []


def test_it_fires_for_as_long_as_it_lasts_and_only_for_the_one_that_fails() -> None:
    rows = stale(noted("mine", "." + "!" * 2000) + noted("yours", "." * 2001), 2001)

    assert {row["subject"] for row in rows} == {"mine"}
    assert len(rows) == 1997
    assert rows[-1]["minutes"] == 24 * 60  # as far as it looks back


def test_the_limit_is_a_setting_to_the_second() -> None:
    notes = [each | {"noted_at": START + n * timedelta(seconds=1)}
             for n, each in enumerate(noted("mine", ".!!!!"))]  # fmt: skip

    assert [row["ended_at"] for row in stale(notes, 1, silence="3 seconds")] == [
        START + timedelta(seconds=4)
    ]
