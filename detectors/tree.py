"""The routing tree: which receivers an alert is for, and who hears of it when nobody answers.

An alert enters at the top and goes down into the first route that takes it (and into later ones,
where that one says `continue`); the deepest that takes it says who is told. A route without `to`
or `escalate` has those of the route around it. Pure: no store, no clock.
Reads: nothing. Writes: nothing. Next: detectors/routing.py.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Literal

import msgspec

from detectors import hours
from detectors.hours import Moment, Window
from detectors.stretch import SEVERITIES
from ingest.config import Duration

Severity = Literal["low", "medium", "high", "critical"]


@dataclass(frozen=True)
class Facts:
    """What routes ask of an alert. `names`: its agents, and its subject."""

    severity: str
    detector: str
    names: tuple[str, ...]
    tenant: str = ""
    tags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Check:
    """One matcher of a route, held against one alert."""

    key: str
    wants: tuple[str, ...]
    found: tuple[str, ...]
    ok: bool

    def __str__(self) -> str:
        found = " and ".join(self.found) or "none"
        return f"{self.key} {found} {'is' if self.ok else 'is not'} {' or '.join(self.wants)}"


class Step(msgspec.Struct, frozen=True):
    """`escalate`: whom to tell when so long after the first telling nobody has it."""

    after: Duration
    to: tuple[str, ...]


class Asks(msgspec.Struct, frozen=True):
    """The matchers of a route. All that are given must hold; of each, one of its values."""

    severity: tuple[Severity, ...] = ()
    min_severity: Severity | None = None
    detectors: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    tenants: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    when: Any = None


@dataclass(frozen=True)
class Node:
    """A route as it holds: names checked, `to` and `escalate` inherited."""

    place: str  # routing.routes[0].routes[1]
    name: str
    asks: Asks
    windows: tuple[Window, ...]
    to: tuple[str, ...]
    escalate: tuple[Step, ...]
    goes_on: bool
    routes: tuple["Node", ...]

    def checks(self, facts: Facts, moment: Moment) -> Iterator[Check]:
        """Each matcher that this route has."""
        asks = self.asks
        if asks.severity:
            ok = facts.severity in asks.severity
            yield Check("severity", asks.severity, (facts.severity,), ok)
        if asks.min_severity:
            ok = _rank(facts.severity) >= _rank(asks.min_severity)
            yield Check("severity", (f"{asks.min_severity} or worse",), (facts.severity,), ok)
        if asks.detectors:
            yield _globs("detector", asks.detectors, (facts.detector,))
        if asks.agents:
            yield _globs("agent", asks.agents, facts.names)
        if asks.tenants:
            yield _globs("tenant", asks.tenants, (facts.tenant,))
        if asks.tags:
            yield Check("tag", asks.tags, facts.tags, bool({*asks.tags} & {*facts.tags}))
        if self.windows:
            ok = hours.holds(self.windows, moment)
            found = (hours.clock(moment, self.windows),)
            yield Check("time", tuple(map(str, self.windows)), found, ok)

    def takes(self, facts: Facts, moment: Moment) -> bool:
        return all(check.ok for check in self.checks(facts, moment))

    def all(self) -> Iterator["Node"]:
        """Itself, and every route within it."""
        yield self
        for each in self.routes:
            yield from each.all()


@dataclass(frozen=True)
class Tree:
    """`[routing]`. `tags` are those of each detector."""

    top: Node
    fallback: str | None = None
    tags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def chosen(self, facts: Facts, moment: Moment) -> tuple[Node, ...]:
        """The routes that say who is told of such an alert at that time."""
        return tuple(_walk(self.top, facts, moment))

    def explain(self, facts: Facts, moment: Moment) -> list[dict[str, Any]]:
        """Every route in the order of the file: what it asks, and whether it was asked at all."""
        chosen = {each.place for each in self.chosen(facts, moment)}
        return list(_explained(self.top, facts, moment, chosen, "", 0))


def told_by(chosen: Collection[Node]) -> tuple[str, ...]:
    """Names of receivers, each once, in the order of the file."""
    return tuple(dict.fromkeys(name for each in chosen for name in each.to))


def steps_of(chosen: Collection[Node]) -> tuple[Step, ...]:
    """The steps of all of these routes, each once, the earliest first."""
    every = dict.fromkeys(step for each in chosen for step in each.escalate)
    return tuple(sorted(every, key=lambda step: step.after))


def _walk(node: Node, facts: Facts, moment: Moment) -> Iterator[Node]:
    taken = False
    for each in node.routes:
        if each.takes(facts, moment):
            taken = True
            yield from _walk(each, facts, moment)
            if not each.goes_on:
                break
    if not taken:
        yield node


def _explained(
    node: Node, facts: Facts, moment: Moment, chosen: Collection[str], passed: str, depth: int
) -> Iterator[dict[str, Any]]:
    """`passed`: why it was not asked, "" where it was."""
    checks = list(node.checks(facts, moment))
    takes = all(check.ok for check in checks)
    state = "passed over" if passed else "takes it" if takes else "does not take it"
    why = [passed] if passed else [str(each) for each in checks if takes or not each.ok]
    yield {
        "route": node.place, "name": node.name, "depth": depth, "state": state, "why": why,
        "decides": node.place in chosen and state == "takes it", "continue": node.goes_on,
        "to": list(node.to),
    }  # fmt: skip
    if state != "takes it":
        passed = passed or f"{node.place} does not take it"
    for each in node.routes:
        yield from _explained(each, facts, moment, chosen, passed, depth + 1)
        if not passed and each.takes(facts, moment) and not each.goes_on:
            passed = f"{each.place} took it"


def _globs(key: str, globs: tuple[str, ...], found: tuple[str, ...]) -> Check:
    ok = any(fnmatchcase(name, glob) for name in found for glob in globs)
    return Check(key, globs, found, ok)


def _rank(severity: str) -> int:
    return SEVERITIES.index(severity) if severity in SEVERITIES else len(SEVERITIES)
