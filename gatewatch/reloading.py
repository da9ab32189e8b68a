"""Takes up changed detectors, protocols and a changed policy while the service runs.

What is on disk is loaded and checked aside. Good, it is in force at the next round; bad, what was
in force stays in force, and the mistake is shown until it is mended.
Reads: gatewatch.toml, the policy file, the folders of protocols and detectors.
Writes: through gatewatch/parts.py.
Next: gatewatch/service.py.
"""

import hashlib
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from detectors import detector, maintenance, metrics, routing
from detectors.controls import protocol_files
from detectors.detector import KINDS, Detector
from gatewatch.parts import DEFAULT, Parts, put_policy, put_protocols, utc_now
from ingest import policy, prune
from ingest.config import ConfigError, Settings, read_settings
from ingest.land import BehindError
from ingest.ledger import LedgerError
from ingest.store import memory_store

log = logging.getLogger("gatewatch")
RELOADED = (  # keys of gatewatch.toml
    "detectors", "detectors_folder", "policy", "protocols_folder", "routing", "telling",
    "maintenance",
)  # fmt: skip
PROTOCOLS = (".toml",)


@dataclass(frozen=True)
class Found:
    """What was loaded and is right."""

    settings: Settings
    detectors: dict[str, Detector]


class Reloader:
    """`look()` every few seconds in one thread, `adopt()` between two rounds of judging."""

    def __init__(self, parts: Parts, config: Path | None) -> None:
        self._parts, self._config = parts, config
        self._latest = parts.settings  # as they were last read, right or wrong in the rest
        self._seen = self._tried = self._print()
        self._ready: Found | None = None
        self._asked = False
        self.problem: str | None = None
        self._at = utc_now()

    def ask(self) -> None:
        """Load at the next look, changed or not: an operator has asked for it."""
        self._asked = True

    def look(self) -> bool:
        """Load what has changed, once it has stopped changing. True where something is to be
        taken up."""
        seen, before, asked = self._print(), self._seen, self._asked
        self._seen, self._asked = seen, False
        if not asked and (seen == self._tried or seen != before):
            return False  # half a file is not a mistake
        self._tried = seen
        try:
            self._ready = self._load()
        except ConfigError as error:
            if str(error) != self.problem:
                log.error("reload: %s What was in force stays in force.", error)
            self.problem = str(error)
            return False
        return True

    def adopt(self) -> None:
        """Put in force what was loaded. What cannot be noted in the ledger waits until it can."""
        if self._ready is None:
            return
        parts, found = self._parts, self._ready
        said = _differences(parts.detectors, found.detectors)
        try:
            if found.settings.policy:
                path = found.settings.path(found.settings.policy)
                if put_policy(parts.store, parts.lander, path):
                    log.info("reload: the policy of %s is in force.", path)
            if found.settings.protocols_folder:
                folder = found.settings.path(found.settings.protocols_folder)
                if put_protocols(parts.store, parts.lander, folder):
                    log.info("reload: the protocols of %s are in force.", folder)
            if said:
                name = str(self._config or DEFAULT)
                parts.lander.record("detectors", "gatewatch", name, said, utc_now())
                log.info("reload: detectors: %s", said)
        except ConfigError as error:  # a policy that has changed again since
            self._ready, self.problem = None, str(error)
            return
        except (BehindError, LedgerError, OSError) as error:
            self.problem = f"{error} What was in force stays in force."
            return
        parts.adopt(found.settings, found.detectors)
        for gap in parts.gaps():
            log.warning("reload: routing: %s.", gap)
        self._ready, self.problem, self._at = None, None, utc_now()

    def own(self) -> Mapping[str, float]:
        """For the page of metrics."""
        return {
            metrics.RELOADED: float(self.problem is None),
            metrics.RELOADED_AT: self._at.timestamp(),
        }

    def _load(self) -> Found:
        old = self._parts.settings
        if self._config:
            self._latest = read_settings(self._config)
        if others := _others(old, self._latest):
            log.warning("reload: %s: this takes a restart of the service.", ", ".join(others))
        new = {key: getattr(self._latest, key) for key in RELOADED}
        chosen = msgspec.structs.replace(old, **new)
        if chosen.policy:
            policy.load(chosen.path(chosen.policy))
        if chosen.protocols_folder:
            protocol_files.load(chosen.path(chosen.protocols_folder))
        where = str(self._config or DEFAULT)
        extra = [chosen.path(chosen.detectors_folder)] if chosen.detectors_folder else []
        with memory_store().writing() as db:
            loaded = detector.load_all(db, chosen.detectors, extra, where)
        routes, tags = self._parts.desk.routes, {each.id: each.tags for each in loaded.values()}
        routing.check_detectors(routes, list(loaded), f"{where}: receivers")
        routing.load_tree(chosen.routing, routes, tags, f"{where}: routing")
        maintenance.load(chosen.maintenance, loaded, f"{where}: maintenance")
        if chosen.retention is not None:
            reach = {each.id: each.lookback for each in loaded.values()}
            prune.limits(chosen.retention, reach, utc_now(), None)
        return Found(chosen, loaded)

    def _print(self) -> str:
        """Of all that is watched. By content: a clock that was set back hides no change."""
        text = hashlib.sha256()
        for path in self._paths():
            try:
                content = path.read_bytes()
            except OSError as error:
                content = type(error).__name__.encode()
            text.update(f"{path} {len(content)}\n".encode() + content)
        return text.hexdigest()

    def _paths(self) -> Iterator[Path]:
        """Of what is in force, and of what the file on disk names."""
        if self._config:
            yield self._config
        for each in (self._parts.settings, self._latest):
            if each.policy:
                yield each.path(each.policy)
            for name, kinds in ((each.detectors_folder, KINDS), (each.protocols_folder, PROTOCOLS)):
                if name:
                    yield from sorted(p for p in each.path(name).glob("*.*") if p.suffix in kinds)


def _differences(old: Mapping[str, Detector], new: Mapping[str, Detector]) -> dict[str, list[str]]:
    """Names of detectors by what became of them; nothing where all is as it was."""
    found = {
        "added": sorted(new.keys() - old.keys()),
        "removed": sorted(old.keys() - new.keys()),
        "changed": sorted(name for name in old.keys() & new.keys() if old[name] != new[name]),
    }
    return {key: names for key, names in found.items() if names}


def _others(old: Settings, new: Settings) -> list[str]:
    """Keys that differ and are not taken up."""
    names = [each.name for each in msgspec.structs.fields(Settings)]
    return [
        name for name in names if name not in RELOADED and getattr(old, name) != getattr(new, name)
    ]
