"""Puts the parts together: store, ledger, lander, detectors, routes. Holds no logic of its own.

Reads: gatewatch.toml, the policy file. Writes: what its parts write. Next: gatewatch/service.py.
"""

import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from detectors import (
    applying,
    containing,
    containment,
    daily,
    detector,
    links,
    maintenance,
    outbox,
    routing,
    telling,
)
from detectors.containment import Gate
from detectors.controls import protocol_files
from detectors.detector import Detector
from detectors.engine import Engine, Tick
from detectors.routing import Desk
from ingest import policy
from ingest.config import Settings, read_settings
from ingest.land import Lander
from ingest.ledger import Ledger
from ingest.redact import Redactor, load_key
from ingest.signing import signer
from ingest.store import Db, Store, open_store

DEFAULT = Path("gatewatch.toml")
PATIENCE = 2.0  # seconds that a round of judging waits for one detector before it goes on


def utc_now() -> datetime:
    """The one clock of the product."""
    return datetime.now(UTC)


def settings_of(config: Path | None) -> Settings:
    """The settings that a command works with: the file named, else ./gatewatch.toml, else defaults.

    Raises ConfigError for a file that is named and missing, or is wrong.
    """
    if config is not None:
        return read_settings(config)
    return read_settings(DEFAULT) if DEFAULT.exists() else Settings()


def ledger_of(db: Path) -> Path:
    """The ledger lies beside its database, under its name."""
    return db.with_suffix(".ledger")


def key_of(settings: Settings) -> Path:
    """Where the key of redacted digests lives: never in the data folder."""
    if settings.redact_key:
        return settings.path(settings.redact_key)
    base = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(base).expanduser() / "gatewatch" / "redact.key"


@dataclass
class Parts:
    """One opened database with all that works on it. `close()` when done."""

    settings: Settings
    store: Store
    lander: Lander
    ledger: Ledger
    detectors: dict[str, Detector]
    engine: Engine
    desk: Desk
    gates: tuple[Gate, ...] = ()  # that can be asked to pause an agent
    windows: tuple[maintenance.Window, ...] = ()  # of planned work

    def tick(self, now: datetime, tell: bool = True) -> Tick:
        """Judge what is due, then queue what people must be told. Without `tell` nobody waits: then
        all of history is judged at once."""
        tick = self.engine.judge(now, whole=not tell)
        with self.store.writing() as db:
            applying.catch_up(db)
            if tell:
                tick.told = telling.tell(
                    db, self.detectors, self.desk, now, self.settings.telling, self.windows
                )
                tick.told += daily.owe(
                    db, self.detectors, self.desk, self.settings.telling, self.lander.head, now
                )
        if tell:
            tick.told += containing.turn(
                self.store, self.lander, self.gates, self.desk, self.detectors, now
            )
        return tick

    def adopt(self, settings: Settings, detectors: Mapping[str, Detector]) -> None:
        """Judge with these from the next round on. One that is as it was goes on as it is."""
        own = self.detectors
        self.detectors = {
            name: own[name] if own.get(name) == each else each for name, each in detectors.items()
        }
        self.settings, self.engine.detectors = settings, self.detectors
        self.windows = maintenance.load(settings.maintenance, self.detectors)
        with self.store.reading() as db:
            self.desk = _furnished(self.desk, db, settings, self.detectors)

    def gaps(self) -> list[str]:
        """Critical alerts of which nobody would be told, a sentence each."""
        return self.desk.gaps({name: each.tags for name, each in self.detectors.items()})

    def rows(self, sql: str, **params: Any) -> list[dict[str, Any]]:
        """One read, see Store.rows."""
        return self.store.rows(sql, **params)

    def close(self) -> None:
        self.engine.close()
        self.ledger.close()
        self.store.close()


def open_parts(
    settings: Settings, db: Path | None = None, step: Callable[[str], None] | None = None
) -> Parts:
    """Open the database, replay what it has not got from the ledger, load policy and detectors.

    Raises ConfigError, StoreBusyError, StoreBrokenError, LedgerError.
    """
    path = db or settings.db
    where = f"{Path(settings.folder) / DEFAULT}"
    routes = routing.load(settings.receivers, f"{where}: receivers", settings.language)
    gates = containment.load(settings.containment, f"{where}: containment")
    signed = links.load(settings.links, bool(gates), f"{where}: links")
    desk = Desk(routes, settings.public_url, signed)
    redactor = Redactor(load_key(key_of(settings)))
    with ExitStack() as on_failure:
        store = open_store(path, settings.service.memory_limit)
        on_failure.callback(store.close)
        sign = signer(settings.ledger.sign_key, path.parent)
        ledger = Ledger(ledger_of(path), seal_after=settings.ledger.seal_after, signer=sign)
        on_failure.callback(ledger.close)
        watched = {"step": step} if step else {}
        lander = Lander(store, ledger, redactor, own_adapters=settings.adapters, **watched)
        for name, source in settings.sources.items():
            lander.check(source.adapter, name)
        if settings.policy:
            put_policy(store, lander, settings.path(settings.policy))
        if settings.protocols_folder:
            put_protocols(store, lander, settings.path(settings.protocols_folder))
        with store.writing() as cursor:
            detectors = _loaded(cursor, settings, where)
            routing.check_detectors(routes, list(detectors), f"{where}: receivers")
            containment.check_detectors(gates, list(detectors), f"{where}: containment")
            desk = _furnished(desk, cursor, settings, detectors)
            windows = maintenance.load(settings.maintenance, detectors, f"{where}: maintenance")
            applying.seed(cursor)
            outbox.reset(cursor)
        on_failure.pop_all()
    engine = Engine(store, detectors, patience=PATIENCE)
    return Parts(settings, store, lander, ledger, detectors, engine, desk, gates, windows)


def _loaded(db: Db, settings: Settings, where: str) -> dict[str, Detector]:
    """The catalogue and the user's own detectors, as these settings want them."""
    folder = settings.detectors_folder
    extra = [settings.path(folder)] if folder else []
    return detector.load_all(db, settings.detectors, extra, where)


def _furnished(desk: Desk, db: Db, settings: Settings, detectors: Mapping[str, Detector]) -> Desk:
    """The desk with the tree of these settings."""
    tags = {name: each.tags for name, each in detectors.items()}
    where = f"{Path(settings.folder) / DEFAULT}: routing"
    return routing.furnished(desk, db, settings.routing, tags, where)


def put_policy(store: Store, lander: Lander, path: Path) -> bool:
    """Put a policy file in force, unless it already is. True if it was new."""
    loaded = policy.load(path)
    newest = store.rows("SELECT version FROM policies ORDER BY loaded_at DESC LIMIT 1")
    if newest and newest[0]["version"] == loaded.version:
        return False
    detail = {"version": loaded.version, "path": str(path), "doc": loaded.doc}
    lander.record("policy", "gatewatch", loaded.version, detail, utc_now())
    return True


def put_protocols(store: Store, lander: Lander, folder: Path) -> bool:
    """Put the protocols of a folder in force, unless they are. True if something was new."""
    loaded = protocol_files.load(folder)
    newest = store.rows("SELECT version FROM protocols ORDER BY loaded_at DESC LIMIT 1")
    if newest and newest[0]["version"] == loaded.version:
        return False
    detail = {"version": loaded.version, "path": str(folder), "doc": loaded.doc}
    lander.record("protocols", "gatewatch", loaded.version, detail, utc_now())
    return True
