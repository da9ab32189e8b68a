"""When a route holds: wall clocks, with the days on which they skip an hour or have one twice."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from detectors import hours
from detectors.hours import Moment
from ingest.config import ConfigError
from ingest.policy import Controls, General, Window

BERLIN = "Europe/Berlin"


def held(when: object, *times: str, zone: str = "UTC") -> list[bool]:
    windows = hours.load(when, "here")
    found = [datetime.fromisoformat(text) for text in times]
    return [hours.holds(windows, Moment(at, zone=zone)) for at in found]


def test_a_window_has_its_start_and_not_its_end() -> None:
    day = {"from": "08:00", "to": "18:00"}
    times = ("2026-03-10T07:59Z", "2026-03-10T08:00Z", "2026-03-10T17:59Z", "2026-03-10T18:00Z")

    assert held(day, *times) == [False, True, True, False]


def test_a_window_past_midnight_belongs_to_the_day_on_which_it_starts() -> None:
    friday = {"days": ["fri"], "from": "22:00", "to": "08:00"}
    times = ("2026-03-13T23:00Z", "2026-03-14T07:59Z", "2026-03-14T08:00Z", "2026-03-14T23:00Z",
             "2026-03-13T07:00Z")  # fmt: skip

    assert held(friday, *times) == [True, True, False, False, False]


def test_hours_are_those_of_their_zone_else_of_the_policy() -> None:
    named = {"from": "09:00", "to": "10:00", "zone": "Asia/Kathmandu"}

    assert held(named, "2026-03-10T03:15Z", "2026-03-10T09:15Z", zone=BERLIN) == [True, False]
    del named["zone"]
    assert held(named, "2026-03-10T08:15Z", "2026-03-10T09:15Z", zone=BERLIN) == [True, False]


def test_an_hour_that_a_clock_skips_never_holds_and_one_that_it_repeats_holds_twice() -> None:
    night = {"from": "02:00", "to": "03:00", "zone": BERLIN}
    spring = ("2026-03-29T00:59Z", "2026-03-29T01:00Z", "2026-03-29T01:30Z")
    autumn = ("2026-10-24T23:59Z", "2026-10-25T00:30Z", "2026-10-25T01:30Z", "2026-10-25T02:00Z")

    assert held(night, *spring) == [False, False, False]  # 01:59, then 03:00
    assert held(night, *autumn) == [False, True, True, False]  # 02:30 in summer, and in winter


@pytest.mark.parametrize("day", ["2026-03-28T12:00Z", "2026-10-24T12:00Z", "2026-06-01T12:00Z"])
def test_two_windows_that_share_a_day_leave_no_minute_out(day: str) -> None:
    night = hours.load({"from": "22:00", "to": "02:30", "zone": BERLIN}, "here")
    rest = hours.load({"from": "02:30", "to": "22:00", "zone": BERLIN}, "here")
    start = datetime.fromisoformat(day)

    for minute in range(24 * 60):
        moment = Moment(start + timedelta(minutes=minute))
        assert hours.holds(night, moment) is not hours.holds(rest, moment)


def test_the_unattended_window_is_the_policys() -> None:
    policy = Controls(General(timezone=BERLIN, unattended_window=(Window("20:00", "07:00"),)))
    night, day = hours.load("unattended", "here"), hours.load("attended", "here")

    def seen(text: str) -> tuple[bool, bool]:
        moment = hours.moment(policy, datetime.fromisoformat(text))
        return hours.holds(night, moment), hours.holds(day, moment)

    assert seen("2026-03-10T18:59Z") == (False, True)
    assert seen("2026-03-10T19:00Z") == (True, False)
    assert seen("2026-06-10T18:00Z") == (True, False)  # in summer an hour earlier


def test_a_time_is_shown_on_the_clocks_that_count() -> None:
    moment = Moment(datetime(2026, 3, 10, 12, tzinfo=UTC), night=True, zone=BERLIN)
    windows = hours.load([{"zone": "Asia/Tokyo"}, {"days": ["sat"]}, "attended"], "here")

    assert hours.clock(moment) == "tue 13:00 Europe/Berlin, unattended"
    assert hours.clock(moment, windows) == (
        "tue 21:00 Asia/Tokyo, tue 13:00 Europe/Berlin, unattended"
    )
    assert list(map(str, windows)) == [
        "every day 00:00-24:00 Asia/Tokyo",
        "sat 00:00-24:00 (the policy says where)",
        "attended",
    ]


@pytest.mark.parametrize(
    ("when", "text"),
    [
        ([], "here: empty"),
        ("nite", "here: 'nite' is neither a window nor a table of hours. Known: attended, unat"),
        ("atended", "Did you mean 'attended'?"),
        (7, "here: 7 says no time. Write"),
        ({"from": "8:00"}, "here.from: '8:00' is no time of day. Write it like '22:00'."),
        ({"from": "24:00"}, "here.from: '24:00' is no time of day."),
        ({"from": "08:00", "to": "08:00"}, "here: starts when it ends."),
        ({"days": []}, "here.days: empty"),
        ({"days": ["monday"]}, "here.days: no day 'monday'. Did you mean 'mon'?"),
        ({"day": ["mon"]}, "here: unknown key 'day'. Did you mean 'days'?"),
        ({"zone": "../etc/passwd"}, "here.zone: '../etc/passwd' is no time zone."),
    ],
)
def test_what_is_no_time_is_named_with_its_place(when: Any, text: str) -> None:
    with pytest.raises(ConfigError) as error:
        hours.load(when, "here")

    assert text in str(error.value)
