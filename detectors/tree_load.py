"""`[routing]` of gatewatch.toml as a tree: every name in it is checked before anybody relies on it.

Reads: gatewatch.toml. Writes: nothing. Next: detectors/tree.py.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from detectors import hours, reach
from detectors.tree import Asks, Node, Step, Tree
from ingest.config import ConfigError, convert, nearest

DEEP = 8  # routes within routes


class Top(msgspec.Struct, frozen=True):
    """The keys of `[routing]` itself. It takes every alert that no route takes.

    Where there are no routes and no `to`, everybody is told but those that only come later: the
    fallback, and those of `escalate`.
    """

    to: tuple[str, ...] | None = None
    fallback: str | None = None
    escalate: Any = None
    routes: Any = ()


class Branch(Asks, frozen=True, rename={"goes_on": "continue"}):
    """The keys of `[[routing.routes]]`."""

    name: str = ""
    to: tuple[str, ...] | None = None
    goes_on: bool = False
    escalate: Any = None
    routes: Any = ()


def load(
    table: Mapping[str, Any],
    where: str,
    receivers: Sequence[str],
    tags: Mapping[str, tuple[str, ...]],
) -> Tree:
    """The tree of a config's `[routing]` table (`where` names the file and the table). `tags` has
    every detector. Raises ConfigError on the first mistake; a route that can never match is one."""
    tree = read(table, where, receivers, tags)
    for problem in reach.unreachable(tree):
        raise ConfigError(f"{where.removesuffix(_key(where))}{problem}")
    return tree


def read(
    table: Mapping[str, Any],
    where: str,
    receivers: Sequence[str],
    tags: Mapping[str, tuple[str, ...]],
) -> Tree:
    """The same, whatever can match."""
    known = _Known(frozenset(receivers), tags)
    top = convert(table, Top, where)
    if top.fallback is not None:
        _receiver(top.fallback, f"{where}.fallback", known)
    escalate = _escalate(top.escalate, f"{where}.escalate", known, ())
    if top.to is None and top.routes:
        raise ConfigError(f"{where}: `to` is missing: who is told of what no route takes?")
    later = {top.fallback, *(name for step in escalate for name in step.to)}
    everybody = tuple(name for name in receivers if name not in later)
    to = _to(top.to, where, known, everybody)
    if not to:
        raise ConfigError(f"{where}: tells nobody: there is no receiver for its `to`.")
    routes = _routes(top.routes, where, known, to, escalate, 1)
    node = Node(_key(where), "", Asks(), (), to, escalate, False, routes)
    return Tree(node, top.fallback, dict(tags))


@dataclass(frozen=True)
class _Known:
    receivers: frozenset[str]
    tags: Mapping[str, tuple[str, ...]]


def _routes(
    tables: object, where: str, known: _Known, to: tuple[str, ...], escalate: tuple[Step, ...],
    depth: int,
) -> tuple[Node, ...]:  # fmt: skip
    where = f"{where}.routes"
    if not isinstance(tables, list | tuple) or not all(isinstance(each, dict) for each in tables):
        raise ConfigError(f"{where}: expected tables: write [[{_key(where)}]].")
    if tables and depth > DEEP:
        raise ConfigError(f"{where}: more than {DEEP} routes within each other.")
    return tuple(
        _node(each, f"{where}[{number}]", known, to, escalate, depth)
        for number, each in enumerate(tables)
    )


def _node(
    table: dict[str, Any], where: str, known: _Known, to: tuple[str, ...],
    escalate: tuple[Step, ...], depth: int,
) -> Node:  # fmt: skip
    own = convert(table, Branch, where)
    for key in ("severity", "detectors", "agents", "tenants", "tags"):
        if key in table and not getattr(own, key):
            raise ConfigError(f"{where}.{key}: empty. Without `{key}` a route takes any.")
    for glob in own.detectors:
        if not any(fnmatchcase(name, glob) for name in known.tags):
            hint = nearest(glob, known.tags)
            raise ConfigError(f"{where}.detectors: no detector is called {glob!r}.{hint}")
    every = {tag for tags in known.tags.values() for tag in tags}
    for tag in own.tags:
        if tag not in every:
            hint = nearest(tag, every)
            raise ConfigError(f"{where}.tags: no detector has the tag {tag!r}.{hint}")
    windows = () if own.when is None else hours.load(own.when, f"{where}.when")
    to = _to(own.to, where, known, to)
    escalate = _escalate(own.escalate, f"{where}.escalate", known, escalate)
    routes = _routes(own.routes, where, known, to, escalate, depth + 1)
    return Node(_key(where), own.name, own, windows, to, escalate, own.goes_on, routes)


def _to(
    names: tuple[str, ...] | None, where: str, known: _Known, inherited: tuple[str, ...]
) -> tuple[str, ...]:
    if names is None:
        return inherited
    if not names:
        raise ConfigError(
            f"{where}.to: empty: it would tell nobody. What people need not hear of is kept quiet"
            ' by `status = "shadow"` of its detector, or by a silence.'
        )
    for name in names:
        _receiver(name, f"{where}.to", known)
    return tuple(dict.fromkeys(names))


def _receiver(name: str, where: str, known: _Known) -> None:
    if name not in known.receivers:
        hint = nearest(name, known.receivers) if known.receivers else " There is none at all."
        raise ConfigError(f"{where}: no receiver called {name!r}.{hint}")


def _escalate(
    tables: object, where: str, known: _Known, inherited: tuple[Step, ...]
) -> tuple[Step, ...]:
    if tables is None:
        return inherited
    given = [tables] if isinstance(tables, dict) else tables
    if not isinstance(given, list | tuple) or not all(isinstance(each, dict) for each in given):
        raise ConfigError(f'{where}: expected {{after = "15 minutes", to = ["NAME"]}}.')
    found: list[Step] = []
    for number, table in enumerate(given):
        place = f"{where}[{number}]" if len(given) > 1 else where
        step = convert(table, Step, place)
        if step.after <= timedelta(0):
            raise ConfigError(f"{place}.after: no time at all: name it in `to` of the route.")
        if found and step.after <= found[-1].after:
            raise ConfigError(f"{place}.after: is not later than the step before it.")
        found.append(Step(step.after, _to(step.to, place, known, ())))
    return tuple(found)


def _key(where: str) -> str:
    """`routing.routes[0]`, without the file."""
    return where.split(": ")[-1]
