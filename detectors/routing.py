"""Who is told of what: `[receivers.NAME]` and `[routing]`, checked whole before a service starts.

Reads: gatewatch.toml. Writes: nothing. Next: detectors/outbox.py.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import ModuleType
from typing import Annotated, Any, Protocol

import msgspec

from detectors import hours, reach, receivers, tables, tree_load, ways
from detectors.addresses import refused_url
from detectors.controls.replay import controls
from detectors.hours import Moment
from detectors.receivers import Language
from detectors.tree import Facts, Step, Tree, steps_of, told_by
from detectors.tree import Severity as Severity
from ingest.config import Clock, ConfigError, Secret, nearest
from ingest.policy import Controls
from ingest.store import Db, one

AGENT = "agent "  # how alerts.about names one
SEVERITIES: tuple[Severity, ...] = ("low", "medium", "high", "critical")


class Common(msgspec.Struct, frozen=True):
    """The keys that every receiver has, whatever its type."""

    type: str
    min_severity: Severity = "low"
    detectors: tuple[str, ...] = ()  # none: all
    language: Language | None = None  # none: the language of the whole installation
    allow_http: bool = False
    allow_private: bool = False
    ca_file: str | None = None  # an authority of your own, beside the public ones
    client_cert: str | None = None  # who we are, for a service that asks; its key may be in it
    client_key: str | None = None
    proxy: Secret | None = None  # http://…, for this receiver alone
    timeout: Annotated[float, msgspec.Meta(ge=1, le=30)] | None = None  # seconds for one request
    daily: Clock | None = None  # when it is told how the day was; none: as [telling] says


@dataclass(frozen=True)
class Route:
    """One receiver and what it is told of. `module` is its code, `options` what it takes."""

    name: str
    type: str
    module: ModuleType
    options: Any
    min_severity: Severity = "low"
    detectors: tuple[str, ...] = ()
    language: Language = "en"
    allow_http: bool = False
    allow_private: bool = False
    ca_file: str | None = None
    client_cert: str | None = None
    client_key: str | None = None
    proxy: Secret | None = None
    timeout: float | None = None  # seconds; None: as its module says
    daily: Clock | None = None

    def wants(self, severity: str, detector: str) -> bool:
        """Is this receiver told of alerts of that severity, from that detector?"""
        enough = SEVERITIES.index(self.min_severity) <= _rank(severity)
        return enough and (not self.detectors or detector in self.detectors)


class Buttons(Protocol):
    """Whatever signs links by which people act from a chat: detectors.links.Links."""

    def buttons(
        self, alert_id: str, receiver: str, now: datetime
    ) -> tuple[tuple[str, str], ...]: ...


@dataclass(frozen=True)
class Desk:
    """Whom to tell of what, and where the links in messages lead.

    Without a `tree` each receiver's own filter decides alone; with one it has the last word.
    """

    routes: tuple[Route, ...] = ()
    public_url: str = ""
    links: Buttons | None = None
    tree: Tree | None = None
    policy: Controls = field(default_factory=Controls)  # says when nobody attends

    def chosen(self, alert: Mapping[str, Any], now: datetime) -> tuple[Route, ...]:
        """Those that are told of such an alert (a row of `alerts`) now."""
        return self.heard(self.facts(alert), hours.moment(self.policy, now))

    def heard(self, facts: Facts, moment: Moment) -> tuple[Route, ...]:
        """The same of any alert, at any time."""
        named = told_by(self.tree.chosen(facts, moment)) if self.tree else self.names
        return self.willing(named, facts)

    def willing(self, names: Iterable[str], facts: Facts) -> tuple[Route, ...]:
        """Those of these receivers whose own filter lets such an alert through."""
        routes = {route.name: route for route in self.routes}
        named = (routes[name] for name in names if name in routes)
        return tuple(each for each in named if each.wants(facts.severity, facts.detector))

    def steps(self, alert: Mapping[str, Any], since: datetime) -> tuple[Step, ...]:
        """Who hears of it later if nobody takes it, of an alert first told of at that time."""
        if self.tree is None:
            return ()
        chosen = self.tree.chosen(self.facts(alert), hours.moment(self.policy, since))
        return steps_of(chosen)

    def facts(self, alert: Mapping[str, Any]) -> Facts:
        """What routes ask of a row of `alerts`. Its agents are those that its evidence names."""
        about = alert.get("about") or ()
        agents = (each.removeprefix(AGENT) for each in about if each.startswith(AGENT))
        names = tuple(dict.fromkeys((*agents, alert["subject"])))
        tags = self.tree.tags.get(alert["detector"], ()) if self.tree else ()
        return Facts(alert["severity"], alert["detector"], names, alert["tenant"], tags)

    @property
    def fallback(self) -> Route | None:
        """Who is told of what reaches nobody."""
        name = self.tree.fallback if self.tree else None
        return next((route for route in self.routes if route.name == name), None)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(route.name for route in self.routes)

    def gaps(self, tags: Mapping[str, tuple[str, ...]]) -> list[str]:
        """Critical alerts of which nobody would be told, in words. `tags` of each detector."""
        if not self.routes:
            return []
        return reach.gaps(self.tree, self.routes, tags, self.policy, self.heard)


def load(
    table: Mapping[str, Any], where: str = "gatewatch.toml: receivers", language: Language = "en"
) -> tuple[Route, ...]:
    """The routes of a config's `[receivers]` table. Raises ConfigError on the first mistake."""
    return tuple(_route(name, each, f"{where}.{name}", language) for name, each in table.items())


def load_tree(
    table: Mapping[str, Any] | None,
    routes: Sequence[Route],
    tags: Mapping[str, tuple[str, ...]],
    where: str = "gatewatch.toml: routing",
) -> Tree | None:
    """The tree of a config's `[routing]` table, if it has one. `tags` of each detector. Raises
    ConfigError on the first mistake."""
    if table is None:
        return None
    return tree_load.load(table, where, [route.name for route in routes], tags)


def furnished(
    desk: Desk,
    db: Db,
    table: Mapping[str, Any] | None,
    tags: Mapping[str, tuple[str, ...]],
    where: str = "gatewatch.toml: routing",
) -> Desk:
    """The desk with the tree of `[routing]`, and with the policy that is in force."""
    doc = one(db, "SELECT policy_doc()")
    policy = controls(doc) if doc else Controls()
    return replace(desk, tree=load_tree(table, desk.routes, tags, where), policy=policy)


def check_detectors(
    routes: Sequence[Route], known: Iterable[str], where: str = "gatewatch.toml: receivers"
) -> None:
    """A route that waits for a detector that there is not would be silent for ever."""
    known = set(known)
    for route in routes:
        for name in route.detectors:
            if name not in known:
                place = f"{where}.{route.name}.detectors"
                raise ConfigError(f"{place}: no detector called {name!r}.{nearest(name, known)}")


def _route(name: str, table: Any, where: str, language: Language) -> Route:
    module, shared, options = tables.read(table, Common, receivers, "service", where)
    if why := refused_url(options.address, shared.allow_http, shared.allow_private):
        raise ConfigError(f"{where}: the address {why}.")
    ways.check(shared, options.address, where)
    values = msgspec.structs.asdict(shared) | {"language": shared.language or language}
    return Route(name=name, module=module, options=options, **values)


def _rank(severity: str) -> int:
    """An unknown severity counts as the highest: rather told than lost."""
    known = severity in SEVERITIES
    return [*SEVERITIES].index(severity) if known else len(SEVERITIES)  # type: ignore[arg-type]
