"""Who is told of what: the `[receivers.NAME]` tables, checked whole before the service starts.

Reads: gatewatch.toml. Writes: nothing. Next: detectors/outbox.py.
"""

import ssl
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, Protocol

import msgspec

from detectors import receivers
from detectors.addresses import refused_url
from detectors.receivers import Language
from ingest.config import ConfigError, convert, nearest

Severity = Literal["low", "medium", "high", "critical"]
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
    """Whom to tell of what, and where the links in messages lead."""

    routes: tuple[Route, ...] = ()
    public_url: str = ""
    links: Buttons | None = None

    def chosen(self, alert: Mapping[str, Any], now: datetime) -> tuple[Route, ...]:
        """Those that are told of such an alert (a row of `alerts`) now."""
        return tuple(
            route for route in self.routes if route.wants(alert["severity"], alert["detector"])
        )


def load(
    table: Mapping[str, Any], where: str = "gatewatch.toml: receivers", language: Language = "en"
) -> tuple[Route, ...]:
    """The routes of a config's `[receivers]` table. Raises ConfigError on the first mistake."""
    return tuple(_route(name, each, f"{where}.{name}", language) for name, each in table.items())


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
    if not isinstance(table, Mapping):
        raise ConfigError(f"{where}: expected a table, found {table!r}.")
    if not isinstance(table.get("type"), str):
        raise ConfigError(f"{where}: `type` says which service: {', '.join(receivers.names())}.")
    module = receivers.load(table["type"], f"{where}.type")
    common = {field.name for field in msgspec.structs.fields(Common)}
    own = {field.name for field in msgspec.structs.fields(module.Options)}
    for key in sorted(table.keys() - common - own):
        raise ConfigError(f"{where}: unknown key {key!r}.{nearest(key, common | own)}")
    shared = convert({key: table[key] for key in table.keys() & common}, Common, where)
    options = convert({key: table[key] for key in table.keys() & own}, module.Options, where)
    if why := refused_url(options.address, shared.allow_http, shared.allow_private):
        raise ConfigError(f"{where}: the address {why}.")
    _authority(shared.ca_file, f"{where}.ca_file")
    values = msgspec.structs.asdict(shared) | {"language": shared.language or language}
    return Route(name=name, module=module, options=options, **values)


def _authority(path: str | None, where: str) -> None:
    if path is None:
        return
    if not Path(path).is_file():
        raise ConfigError(f"{where}: {path}: no such file.")
    try:
        ssl.create_default_context(cafile=path)
    except ssl.SSLError:
        raise ConfigError(f"{where}: {path}: holds no certificate in PEM.") from None


def _rank(severity: str) -> int:
    """An unknown severity counts as the highest: rather told than lost."""
    known = severity in SEVERITIES
    return [*SEVERITIES].index(severity) if known else len(SEVERITIES)  # type: ignore[arg-type]
