"""Planned work: `[[maintenance]]`, stretches of time in which nobody is told of what it matches.

Alerts are recorded and shown all the same; what is still open when a window ends is told then.
Reads: gatewatch.toml. Writes: nothing. Next: detectors/telling.py.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from detectors import hours, silences
from detectors.hours import Moment
from detectors.silences import Matchers
from ingest.config import ConfigError, convert

WEEKLY = ("days", "from", "to", "zone")


class _Table(msgspec.Struct, frozen=True, rename={"begins": "from", "ends": "to"}):
    """`[[maintenance]]` as it is written: matchers as a silence has them, and when."""

    name: str
    detector: str | None = None
    subject: str | None = None
    agent: str | None = None
    tenant: str | None = None
    tag: str | None = None
    severity: str | None = None
    at_most: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    days: tuple[str, ...] | None = None
    begins: str | None = None
    ends: str | None = None
    zone: str | None = None


@dataclass(frozen=True)
class Window:
    """One of them: either once, `[since, until)`, or every week in `hours`."""

    name: str
    matchers: Matchers
    since: datetime | None = None
    until: datetime | None = None
    weekly: tuple[hours.Window, ...] = ()

    def holds(self, moment: Moment) -> bool:
        if self.since and self.until:
            return self.since <= moment.at < self.until
        return hours.holds(self.weekly, moment)


def load(
    tables: Sequence[Mapping[str, Any]], known: Iterable[str],
    where: str = "gatewatch.toml: maintenance",
) -> tuple[Window, ...]:  # fmt: skip
    """The windows of a config. `known`: the detectors there are. Raises ConfigError."""
    return tuple(
        _window(table, list(known), f"{where}[{number}]") for number, table in enumerate(tables)
    )


def covering(windows: Iterable[Window], now: datetime, zone: str) -> Iterator[dict[str, Any]]:
    """Those that hold now, as rows of silences.COVERING. `zone`: the policy's."""
    for each in windows:
        if each.holds(Moment(now, zone=zone)):
            yield each.matchers.covering(each.name, "maintenance")


def _window(table: Mapping[str, Any], known: list[str], where: str) -> Window:
    found = convert(table, _Table, where)
    given = {name: getattr(found, name) for name in Matchers.__struct_fields__}
    matchers = silences.matchers(given, known, where)
    weekly = {key: list(table[key]) if key == "days" else table[key]
              for key in WEEKLY if key in table}  # fmt: skip
    if weekly and (found.since or found.until):
        raise ConfigError(f"{where}: either once (since, until), or weekly (days, from, to, zone).")
    if weekly:
        return Window(found.name, matchers, weekly=hours.load(weekly, where))
    if found.since is None or found.until is None:
        raise ConfigError(
            f"{where}: when? Either since and until, or days, from and to."
            ' As in days = ["sun"], from = "02:00", to = "04:00", zone = "Europe/Berlin".'
        )
    for key, moment in (("since", found.since), ("until", found.until)):
        if moment.tzinfo is None:
            raise ConfigError(f"{where}.{key}: write a zone, as in 2026-12-01T08:00:00Z.")
    if found.until <= found.since:
        raise ConfigError(f"{where}: ends before it begins.")
    return Window(found.name, matchers, found.since, found.until)
