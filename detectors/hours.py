"""When a route holds: the policy's unattended window, or hours of a week on a wall clock.

Wall clocks are asked, never computed with: an hour that a clock skips or repeats is what it shows.
Reads: nothing. Writes: nothing. Next: detectors/tree.py.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from typing import Any, Literal
from zoneinfo import ZoneInfo

import msgspec

from detectors.controls.policy import unattended
from ingest.config import ConfigError, convert, nearest
from ingest.policy import CLOCK, Controls

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
WINDOWS = ("unattended", "attended")
WEEKS = (date(2026, 1, 12), date(2026, 7, 13))  # Mondays, one on each side of summer time


@dataclass(frozen=True)
class Moment:
    """A time as routes see it. `night`: by the policy nobody attends; `zone` is the policy's."""

    at: datetime
    night: bool = False
    zone: str = "UTC"


class Hours(msgspec.Struct, frozen=True, rename={"since": "from", "until": "to"}):
    """Local wall time, start included, end not. An end before the start is past midnight, and then
    `days` are those on which it starts."""

    days: tuple[str, ...] = DAYS
    since: str = "00:00"
    until: str = "24:00"
    zone: str | None = None  # none: the policy's

    def holds(self, moment: Moment) -> bool:
        local = moment.at.astimezone(_zone(self.zone or moment.zone))
        minute, low, high = local.hour * 60 + local.minute, _minute(self.since), _minute(self.until)
        today = DAYS[local.weekday()] in self.days
        if low < high:
            return today and low <= minute < high
        yesterday = DAYS[local.weekday() - 1] in self.days
        return (today and minute >= low) or (yesterday and minute < high)

    def __str__(self) -> str:
        days = "every day" if self.days == DAYS else ", ".join(self.days)
        return f"{days} {self.since}-{self.until} {self.zone or '(the policy says where)'}"


Window = Literal["unattended", "attended"] | Hours


def moment(policy: Controls, at: datetime) -> Moment:
    """A time, seen with the policy that is in force."""
    return Moment(at, unattended(policy, at), policy.general.timezone)


def load(value: object, where: str) -> tuple[Window, ...]:
    """`when` of a route: a word, a table, or a list of either, any of which may hold."""
    given = value if isinstance(value, list | tuple) else [value]
    if not given:
        raise ConfigError(f"{where}: empty. Without `when` a route holds at any time.")
    return tuple(_window(each, where) for each in given)


def holds(windows: tuple[Window, ...], moment: Moment) -> bool:
    """Does one of them hold?"""
    return any(
        each.holds(moment) if isinstance(each, Hours) else moment.night == (each == "unattended")
        for each in windows
    )


def clock(moment: Moment, windows: tuple[Window, ...] = ()) -> str:
    """The time on the clocks that these windows go by, for people."""
    zones = [each.zone or moment.zone for each in windows if isinstance(each, Hours)]
    shown = []
    for zone in dict.fromkeys(zones or [moment.zone]):
        local = moment.at.astimezone(_zone(zone))
        shown.append(f"{DAYS[local.weekday()]} {local:%H:%M} {zone}")
    return f"{', '.join(shown)}, {'unattended' if moment.night else 'attended'}"


def edges(windows: tuple[Window, ...], policy: Controls) -> Iterator[Moment]:
    """Times between which nothing changes, over a week of winter and a week of summer."""
    zone = policy.general.timezone
    night = [Hours(DAYS, each.start, each.end) for each in policy.general.unattended_window]
    hours = [each for each in windows if isinstance(each, Hours)]
    found = {_at(monday, 0, 0, zone) for monday in WEEKS}
    for monday in WEEKS:
        for each in (*hours, *night):
            for day in range(8):
                for text in (each.since, each.until):
                    found.add(_at(monday, day, _minute(text), each.zone or zone))
    yield from (moment(policy, at) for at in sorted(found))


def _at(monday: date, day: int, minute: int, zone: str) -> datetime:
    midnight = datetime.combine(monday, time(), _zone(zone))
    return (midnight + timedelta(days=day, minutes=minute)).astimezone(UTC)


def _window(value: object, where: str) -> Window:
    if isinstance(value, str):
        if value not in WINDOWS:
            hint = nearest(value, WINDOWS)
            raise ConfigError(f"{where}: {value!r} is neither a window nor a table of hours.{hint}")
        return "unattended" if value == "unattended" else "attended"
    if not isinstance(value, dict):
        raise ConfigError(
            f'{where}: {value!r} says no time. Write "unattended", "attended" or'
            ' {days = ["sat", "sun"], from = "08:00", to = "20:00", zone = "Europe/Berlin"}.'
        )
    return _hours(value, where)


def _hours(table: dict[str, Any], where: str) -> Hours:
    found = convert(table, Hours, where)
    for key, text in (("from", found.since), ("to", found.until)):
        if not CLOCK.fullmatch(text) or (key == "from" and text == "24:00"):
            raise ConfigError(f"{where}.{key}: {text!r} is no time of day. Write it like '22:00'.")
    if found.since == found.until:
        raise ConfigError(f"{where}: starts when it ends. The whole day is 00:00 to 24:00.")
    if not found.days:
        raise ConfigError(f"{where}.days: empty. Without `days` it is every day.")
    for day in found.days:
        if day not in DAYS:
            raise ConfigError(f"{where}.days: no day {day!r}.{nearest(day, DAYS)}")
    if found.zone is not None:
        try:
            _zone(found.zone)
        except (KeyError, ValueError, OSError):  # unknown, a path that leads out, a folder
            raise ConfigError(
                f"{where}.zone: {found.zone!r} is no time zone. Write it like 'Europe/Berlin'."
            ) from None
    return found


@cache
def _zone(name: str) -> ZoneInfo:
    return ZoneInfo(name)


def _minute(text: str) -> int:
    hours, _, minutes = text.partition(":")
    return int(hours) * 60 + int(minutes)
