"""What a detector's file declares, and what a user may set: types, bounds, overrides.

Reads: nothing. Writes: nothing. Next: detectors/detector.py.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any, Literal

import duckdb
import msgspec

from ingest.config import ConfigError, convert, nearest

PYTHON: dict[str, type] = {"integer": int, "number": float, "text": str}
Status = Literal["stable", "shadow"]
Db = duckdb.DuckDBPyConnection
TAG = re.compile(r"[a-z0-9][a-z0-9_.-]{0,39}")


class Param(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    type: Literal["integer", "interval", "number", "text"]
    default: int | float | str
    min: int | float | str | None = None
    max: int | float | str | None = None
    choices: tuple[str, ...] = ()


class Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`clock`: due as time passes, with no event too. `inhibited_by`: whose alerts speak for it.

    `kinds`: only events of these kinds can change a row; none: any can. `hot`: a short SELECT over
    [$since, $until) without whose rows no row can end there; it runs before the query.
    `facts`: the columns of a Python detector's rows beside the promised ones, for its titles; of a
    query DuckDB tells.
    `of_source`: its subjects are sources that are not heard; see detectors/inhibition.py.
    `status`: of "shadow" the alerts are shown and nobody is told.
    `tags`: what it is about, for routes: see docs/routing.md.
    """

    title: str
    title_zh: str
    severity: Literal["low", "medium", "high", "critical"]
    why: str
    respond: str
    quiet: str
    lookback: str
    gap: str
    needs: tuple[str, ...]
    respond_zh: str = ""  # none: Chinese messages carry the English one
    inhibited_by: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    hot: str = ""
    facts: tuple[str, ...] = ()
    clock: bool = False
    of_source: bool = False
    status: Status = "stable"
    tags: tuple[str, ...] = ()
    params: dict[str, Param] = {}


@dataclass(frozen=True)
class Override:
    """`[[detectors.ID.for]]`: other values for whom `match` names, as in `billing-*`."""

    match: str
    values: Mapping[str, Any]


class Exempt(msgspec.Struct, frozen=True):
    """`[[detectors.ID.exempt]]`: of whom nothing is found, from `since` until `until`."""

    match: str
    reason: str
    since: datetime | None = None
    until: datetime | None = None

    def holds(self, who: tuple[str, ...], ts: datetime) -> bool:
        """For any of these names, at that time of events."""
        if (self.since and ts < self.since) or (self.until and ts >= self.until):
            return False
        return matches(self.match, who)


def matches(pattern: str, who: tuple[str, ...]) -> bool:
    """Does the pattern name one of them? `*` stands for anything, upper and lower case differ."""
    return any(fnmatchcase(each, pattern) for each in who)


def bounded(db: Db, value: object, spec: Param, where: str) -> Any:
    """One value in the type that the header declares, within the bounds that it sets."""
    try:
        found, low, high = (_typed(db, each, spec.type) for each in (value, spec.min, spec.max))
    except (duckdb.Error, msgspec.ValidationError):
        raise ConfigError(f"{where}: {value!r} is not of type {spec.type}.") from None
    if low is not None and found < low:
        raise ConfigError(f"{where}: {value!r} is below the minimum, {spec.min}.")
    if high is not None and found > high:
        raise ConfigError(f"{where}: {value!r} is above the maximum, {spec.max}.")
    if spec.choices and found not in spec.choices:
        raise ConfigError(f"{where}: {value!r} is no choice.{nearest(found, spec.choices)}")
    return found


def values(db: Db, declared: Header, settings: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The parameters' values: what the user sets (table `where`), else the defaults, as typed."""
    for key in sorted(settings.keys() - declared.params.keys()):
        raise ConfigError(f"{where}.{key}: no such key.{nearest(key, declared.params)}")
    return {
        key: bounded(db, settings.get(key, spec.default), spec, f"{where}.{key}")
        for key, spec in declared.params.items()
    }


def overrides(
    db: Db, declared: Header, settings: Mapping[str, Any], tables: object, where: str
) -> tuple[Override, ...]:
    """The tables `for`, over the values that hold for everybody else. The first match counts."""
    found = []
    for place, table in _tables(tables, f"{where}.for"):
        own = dict(table)
        match = own.pop("match", None)
        if not isinstance(match, str) or not match or not own:
            raise ConfigError(f"{place}: `match` names agents, and a parameter is set for them.")
        found.append(Override(match, values(db, declared, {**settings, **own}, place)))
    return tuple(found)


def exempts(tables: object, where: str) -> tuple[Exempt, ...]:
    """The tables `exempt`. A reason is demanded: somebody will ask in half a year."""
    found = []
    for place, table in _tables(tables, f"{where}.exempt"):
        each = convert(table, Exempt, place)
        for key in ("since", "until"):
            moment = getattr(each, key)
            if moment is not None and moment.tzinfo is None:
                raise ConfigError(f"{place}.{key}: write a zone, as in 2026-12-01T08:00:00Z.")
        found.append(each)
    return tuple(found)


def tagged(given: object, where: str) -> tuple[str, ...]:
    """Tags as people write them: one word each."""
    words = given if isinstance(given, list | tuple) else [None]
    for word in words:
        if not isinstance(word, str) or not TAG.fullmatch(word):
            raise ConfigError(f'{where}: {given!r}: expected short words: ["egress", "team-a"].')
    return tuple(dict.fromkeys(words))


def _tables(tables: object, where: str) -> list[tuple[str, dict[str, Any]]]:
    if not isinstance(tables, list | tuple) or not all(isinstance(each, dict) for each in tables):
        raise ConfigError(f"{where}: expected tables: write [[{where.split(': ')[-1]}]].")
    return [(f"{where}[{number}]", each) for number, each in enumerate(tables)]


def _typed(db: Db, value: object, kind: str) -> Any:
    if kind == "interval":  # DuckDB reads what people write: "10 minutes"
        return db.execute("SELECT CAST(? AS INTERVAL)", [value]).fetchall()[0][0]
    return None if value is None else msgspec.convert(value, PYTHON[kind])
