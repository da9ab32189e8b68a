from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.kit import Event, case, events, expected, judge, united

LOW = {"most": 1}

SHANGHAI = {"global": {"timezone": "Asia/Shanghai"}}
CASE_SETTINGS = {"min_changes": ("most", -1)}  # ours: more than `most`; the window is the local day


def written(*clock: str, to: str | None = None, **columns: Any) -> list[Event]:
    """One write each; the content differs each time, or is `to`."""
    base = {"config_object": "gate.yaml", **columns}
    return [
        event
        for i, at in enumerate(clock)
        for event in events("config_changed", at, config_after={"v": to or f"{at}-{i}"}, **base)
    ]


FOUR = ("09:00", "10:00", "11:00", "12:00")  # the first write has no known predecessor


def test_four_changes_in_a_day_fire_and_three_are_quiet() -> None:
    [found] = judge("config_churn", written(*FOUR, "13:00"))

    assert (found["subject"], found["changes"], len(found["event_ids"])) == ("gate.yaml", 4, 4)
    assert judge("config_churn", written(*FOUR)) == []


def test_each_further_change_of_the_day_fires_as_a_row_of_its_own() -> None:
    rows = judge("config_churn", written(*FOUR, "13:00", "14:00", "14:00"))

    assert sorted(row["changes"] for row in rows) == [4, 5, 6]


def test_writing_the_same_content_again_is_quiet() -> None:
    assert judge("config_churn", written(*FOUR, "13:00", "14:00", to="same")) == []


def test_going_back_and_forth_fires() -> None:
    writes = [e for i, at in enumerate((*FOUR, "13:00")) for e in written(at, to="ab"[i % 2])]

    [found] = judge("config_churn", writes)

    assert found["contents"] == ['{"v": "a"}', '{"v": "b"}']


def test_a_write_with_unknown_content_counts_each_time_so_it_fires() -> None:
    blind = written(*FOUR)
    for write in blind:
        write["config_after"] = None

    assert judge("config_churn", blind)


def test_a_first_write_that_states_what_was_there_before_counts_so_it_fires() -> None:
    first = written("08:00", config_before={"v": "old"})

    assert judge("config_churn", first + written("09:00", "10:00", "11:00"))
    same = written("08:00", to="old", config_before={"v": "old"})
    assert judge("config_churn", same + written("09:00", "10:00", "11:00")) == []


def test_a_predecessor_is_remembered_for_a_day_and_not_a_second_more() -> None:
    day = written("09:00", "10:00", "11:00", "12:00")

    assert judge("config_churn", written("2026-03-09T09:00:00") + day)
    assert judge("config_churn", written("2026-03-09T08:59:59") + day) == []


def test_changes_on_both_sides_of_midnight_are_two_days_so_they_are_quiet() -> None:
    before = written("2026-03-09T22:00:00", "2026-03-09T23:00:00", "2026-03-09T23:59:59")
    after = written("00:00", "01:00", "02:00")

    assert judge("config_churn", before + after) == []
    assert judge("config_churn", before + after, rules=SHANGHAI)


def test_four_in_an_hour_fire_over_midnight_and_a_second_more_is_quiet() -> None:
    first = written("2026-03-09T20:00:00", "2026-03-09T23:20:00", "2026-03-09T23:40:00")

    [found] = judge("config_churn", first + written("00:10", "00:20"))

    assert (found["changes"], found["span"], len(found["event_ids"])) == (4, "within an hour", 4)
    assert judge("config_churn", first + written("00:10", "00:20:01")) == []


def test_three_within_an_hour_fire_where_somebody_wants_to_know() -> None:
    assert judge("config_churn", written("09:00", "09:10", "09:20", "09:30"), hourly=3)


def test_a_day_of_25_hours_fires_on_its_last_hour() -> None:
    new_york = {"global": {"timezone": "America/New_York"}}
    before = written("2026-10-31T05:00:00")
    day = written("2026-11-01T04:00:00", "2026-11-01T10:00:00", "2026-11-01T20:00:00")

    [found] = judge("config_churn", before + day + written("2026-11-02T04:59:59"), rules=new_york)

    assert str(found["day"]) == "2026-11-01"


@pytest.mark.parametrize(
    "columns", [{"decision": "deny"}, {"status": "denied"}, {"status": "error"}]
)
def test_a_change_that_did_not_happen_is_quiet(columns: dict[str, str]) -> None:
    assert judge("config_churn", written(*FOUR, "13:00", **columns)) == []


def test_two_objects_and_two_tenants_do_not_add_up_so_they_are_quiet() -> None:
    half = written("09:00", "10:00", "11:00")

    assert judge("config_churn", half + written(*FOUR, config_object="b")) == []
    assert judge("config_churn", half + written(*FOUR, tenant="acme")) == []


def test_five_writes_within_a_second_fire_by_their_sequence_b085(tmp_path: Path) -> None:
    expect = expected("B085")
    name, shift = CASE_SETTINGS["min_changes"]

    rows = case("config_churn", tmp_path, "B085", **{name: expect["config"]["min_changes"] + shift})

    assert len(united(rows, timedelta(hours=12))) == expect["incidents"]
    assert rows[-1]["changes"] == expect["effective_changes"]
    assert len(rows[-1]["contents"]) == 2
