"""What a routing tree can never do: routes that no alert reaches, hours at which nobody is told.

Both are found by trying: an alert of each kind that the tree tells apart, at each time that it
tells apart. A name that no pattern of the tree spells out stands for all the others.
Reads: nothing. Writes: nothing. Next: detectors/routing.py.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice, pairwise, product
from typing import Protocol

from detectors import hours
from detectors.hours import Moment
from detectors.stretch import SEVERITIES
from detectors.tree import Asks, Facts, Node, Tree
from ingest.policy import Controls

LETTER = "\ue000"  # that nobody writes in a name
OTHER = LETTER * 37  # a name of a length that nobody asks for, as in `????`
COMBINED = 200  # names of agents and tenants that are tried for one route
ANY = Moment(datetime.min.replace(tzinfo=UTC))
NAMED = 3  # detectors that a warning names; the rest is counted


class Receiver(Protocol):
    """A receiver, as far as its own filter goes: detectors.routing.Route."""

    @property
    def name(self) -> str: ...
    @property
    def detectors(self) -> tuple[str, ...]: ...
    def wants(self, severity: str, detector: str) -> bool: ...


@dataclass(frozen=True)
class Alike:
    """Detectors that the tree and the receivers do not tell apart. The first stands for all."""

    names: tuple[str, ...]
    tags: tuple[str, ...]


def unreachable(tree: Tree) -> Iterator[str]:
    """Each route that can never take an alert, and why."""
    alike, moments = _alike(tree, ()), _free(tree)
    for path in _paths(tree.top):
        if _undecided(path):
            continue
        blockers: set[str] = set()
        possible = False
        for facts, moment in _tried(path, alike, moments):
            possible = True
            blocker = _blocker(path, facts, moment)
            if blocker is None:
                break
            blockers.add(blocker.place)
        else:
            order = [each.place for each in tree.top.all() if each.place in blockers]
            yield _sentence(path[-1], order if possible else [])


def gaps(
    tree: Tree | None, receivers: Sequence[Receiver], tags: Mapping[str, tuple[str, ...]],
    policy: Controls, told: Callable[[Facts, Moment], Sequence[object]],
) -> list[str]:  # fmt: skip
    """Critical alerts of which nobody would be told, a sentence for each kind of them."""
    everybody = tuple(each.name for each in receivers)
    known = tree or Tree(Node("", "", Asks(), (), everybody, (), False, ()), tags=tags)
    moments = _moments(known, policy)
    found: dict[tuple[str, tuple[str, ...]], list[Moment]] = {}
    for each in _alike(known, receivers):
        willing = {to.name for to in receivers if to.wants("critical", each.names[0])}
        deaf = [path for path in ((known.top,), *_paths(known.top)) if not willing & {*path[-1].to}]
        for names, tenant in dict.fromkeys(pair for path in deaf for pair in _names(path)):
            facts = Facts("critical", each.names[0], names, tenant, each.tags)
            key = _shown(names, tenant), each.names
            if some := [moment for moment in moments if not told(facts, moment)]:
                found[key] = some
    general = {key[1] for key in found if not key[0]}
    return [
        _gap(who, detectors, some, len(moments))
        for (who, detectors), some in found.items()
        if not who or detectors not in general  # what holds for everybody holds for them, too
    ]


def _gap(who: str, detectors: tuple[str, ...], moments: Sequence[Moment], every: int) -> str:
    more = f" and {len(detectors) - NAMED} more detectors" if len(detectors) > NAMED else ""
    when = "at any time" if len(moments) == every else f"at some hours ({hours.clock(moments[0])})"
    return (
        f"nobody would be told of a critical alert of {', '.join(detectors[:NAMED])}{more}"
        f"{who} {when}"
    )


def _sentence(node: Node, blockers: Sequence[str]) -> str:
    if not blockers:
        return f"{node.place}: can never match: no alert is all that it and those around it ask."
    takers = " and ".join(blockers)
    verb = "take" if len(blockers) > 1 else "takes"
    return (
        f"{node.place}: can never match: {takers} before it {verb} everything that it would."
        " Put it first, or let the one before it `continue`."
    )


def _paths(top: Node) -> Iterator[tuple[Node, ...]]:
    """From the top to each route."""
    for each in top.routes:
        yield top, each
        for path in _paths(each):
            yield top, *path


def _blocker(path: Sequence[Node], facts: Facts, moment: Moment) -> Node | None:
    """The route before one of the path that such an alert goes into and does not come out of."""
    for parent, child in pairwise(path):
        for each in parent.routes:
            if each is child:
                break
            if not each.goes_on and not _bracketed(each) and each.takes(facts, moment):
                return each
    return None


def _undecided(path: Sequence[Node]) -> bool:
    """Can names be tried for it? Sets of letters, and tenants within tenants, can't."""
    return any(map(_bracketed, path)) or sum(bool(each.asks.tenants) for each in path) > 1


def _bracketed(node: Node) -> bool:
    return any("[" in glob for glob in (*node.asks.agents, *node.asks.tenants))


def _tried(
    path: Sequence[Node], alike: Sequence[Alike], moments: Sequence[Moment]
) -> Iterator[tuple[Facts, Moment]]:
    """Alerts, and times, that the whole path takes."""

    def takes(facts: Facts, moment: Moment, only: Callable[[Node], Node]) -> bool:
        return all(only(each).takes(facts, moment) for each in path)

    alike = [e for e in alike if takes(Facts("", e.names[0], (), "", e.tags), ANY, _of_detector)]
    bad = [each for each in SEVERITIES if takes(Facts(each, "", ()), ANY, _of_severity)]
    moments = [m for m in moments if all(not e.windows or hours.holds(e.windows, m) for e in path)]
    for names, tenant in _names(path):
        for each, severity, moment in product(alike, bad, moments):
            facts = Facts(severity, each.names[0], names, tenant, each.tags)
            if all(node.takes(facts, moment) for node in path):
                yield facts, moment


def _names(path: Sequence[Node]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Names of agents and a tenant with which an alert can go down this path."""
    agents = [each.asks.agents for each in path if each.asks.agents]
    tenants = [glob for each in path for glob in each.asks.tenants] or ["*"]
    every = ((names, tenant) for names in product(*agents) for tenant in tenants)
    for names, tenant in islice(every, COMBINED):
        yield tuple(map(_spelled, names)) or (OTHER,), _spelled(tenant)


def _spelled(glob: str) -> str:
    return glob.replace("*", OTHER).replace("?", LETTER)


def _shown(names: tuple[str, ...], tenant: str) -> str:
    """The names of a gap, as patterns again."""
    said = [f"agent {each}" for each in names if each != OTHER]
    said += [f"tenant {tenant}"] if tenant != OTHER else []
    return f" ({', '.join(said).replace(OTHER, '*').replace(LETTER, '?')})" if said else ""


def _alike(tree: Tree, receivers: Sequence[Receiver]) -> list[Alike]:
    asked = [_of_detector(each) for each in tree.top.all()]
    groups: dict[tuple[bool, ...], list[str]] = {}
    for name, tags in tree.tags.items():
        facts = Facts("critical", name, (), "", tags)
        key = (
            *(each.takes(facts, ANY) for each in asked),
            *(not each.detectors or name in each.detectors for each in receivers),
        )
        groups.setdefault(key, []).append(name)
    return [Alike(tuple(names), tree.tags[names[0]]) for names in groups.values()]


def _of_detector(node: Node) -> Node:
    asks = Asks(detectors=node.asks.detectors, tags=node.asks.tags)
    return replace(node, asks=asks, windows=())


def _of_severity(node: Node) -> Node:
    asks = Asks(severity=node.asks.severity, min_severity=node.asks.min_severity)
    return replace(node, asks=asks, windows=())


def _free(tree: Tree) -> list[Moment]:
    """The same with every night, whatever the policy says of it now: it may say so tomorrow."""
    found = _moments(tree, Controls())
    return [replace(each, night=night) for night in (False, True) for each in found]


def _moments(tree: Tree, policy: Controls) -> list[Moment]:
    """A time of each kind that the tree tells apart."""
    windows = [each.windows for each in tree.top.all() if each.windows]
    found: dict[tuple[bool, ...], Moment] = {}
    for moment in hours.edges(tuple(w for some in windows for w in some), policy):
        found.setdefault(tuple(hours.holds(some, moment) for some in windows), moment)
    return list(found.values())
