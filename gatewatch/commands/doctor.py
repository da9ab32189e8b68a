"""`gatewatch doctor`: is all there that the service will need?

Reads: gatewatch.toml and what it names. Writes: nothing. Next: gatewatch/parts.py.
"""

from collections.abc import Iterable
from functools import partial
from glob import glob
from typing import Any

import typer

from detectors import (
    alertmanager,
    containment,
    detector,
    links,
    maintenance,
    routing,
)
from detectors.spelling import many
from gatewatch import pushing
from gatewatch.commands import route
from gatewatch.commands.terminal import Config, Json, emit, opened, reached, settings, table
from gatewatch.parts import DEFAULT, key_of
from ingest import adapter, policy
from ingest.config import ConfigError, Settings
from ingest.redact import load_key
from ingest.store import StoreBusyError, memory_store


def doctor(config: Config = None, as_json: Json = False) -> None:
    """Check the set-up: everything that `serve` will need, each with one sentence."""
    checks: list[dict[str, Any]] = []

    def check(name: str, question: Any) -> None:
        try:
            checks.append({"check": name, "ok": True, "says": str(question())})
        except (ConfigError, StoreBusyError, OSError) as error:
            checks.append({"check": name, "ok": False, "says": str(error)})

    chosen = Settings()
    check("config", lambda: many(len(settings(config).sources), "source"))
    if checks[0]["ok"]:
        chosen = settings(config)
    check("redact key", lambda: f"{len(load_key(key_of(chosen)))} bytes in {key_of(chosen)}")
    for name, source in chosen.sources.items():
        if source.paths:
            check(f"source {name}", partial(_files, chosen, source.paths))
    check("policy", lambda: _policy(chosen))
    check(
        "receivers",
        lambda: many(len(routing.load(chosen.receivers, f"{DEFAULT}: receivers")), "receiver"),
    )
    check("alertmanager", lambda: _peers(alertmanager.read(chosen, f"{DEFAULT}: alertmanager")))
    check("pushgateway", lambda: "configured" if pushing.read(chosen) else "none")
    loaded: dict[str, Any] = {}
    check("detectors", lambda: _loaded(chosen, loaded))
    if loaded:
        check("routing", lambda: route.checked(chosen, loaded))
        check("maintenance", lambda: _windows(chosen, loaded))
        check("containment", lambda: _gates(chosen, loaded))
    check("links", lambda: _links(chosen))
    check("adapters", lambda: _adapters(chosen))
    check("database", lambda: _database(chosen))
    if as_json:
        emit(checks)
    else:
        table(checks, ("ok", "check", "says"), "")
    if not all(each["ok"] for each in checks):
        raise typer.Exit(2)


def _files(chosen: Settings, patterns: tuple[str, ...]) -> str:
    wanted = [str(chosen.path(each)) for each in patterns]
    found = {path for each in wanted for path in glob(each, recursive=True)}  # noqa: PTH207 - absolute
    hint = "" if found else ": does the folder exist, and may this account read it?"
    return f"{many(len(found), 'file')} there now{hint}"


def _peers(told: alertmanager.Alertmanager | None) -> str:
    return f"{many(len(told.urls), 'Alertmanager')} told" if told else "none"


def _windows(chosen: Settings, known: Iterable[str]) -> str:
    windows = maintenance.load(chosen.maintenance, known, f"{DEFAULT}: maintenance")
    return many(len(windows), "window")


def _gates(chosen: Settings, known: Iterable[str]) -> str:
    gates = containment.load(chosen.containment, f"{DEFAULT}: containment")
    containment.check_detectors(gates, known, f"{DEFAULT}: containment")
    return f"{many(len(gates), 'gate')} can pause" if gates else "none: nobody can be paused"


def _links(chosen: Settings) -> str:
    signed = links.load(chosen.links, bool(chosen.containment), f"{DEFAULT}: links")
    return "signed" if signed else "none: messages have no buttons to act by"


def _policy(chosen: Settings) -> str:
    if chosen.policy is None:
        return "none: nights are 22:00-08:00 UTC, no hosts are listed"
    return f"version {policy.load(chosen.path(chosen.policy)).version}"


def _detectors(chosen: Settings) -> dict[str, Any]:
    store = memory_store()
    extra = [chosen.path(chosen.detectors_folder)] if chosen.detectors_folder else []
    with store.writing() as db:
        return dict(detector.load_all(db, chosen.detectors, extra, str(DEFAULT)))


def _loaded(chosen: Settings, into: dict[str, Any]) -> str:
    into |= _detectors(chosen)
    return f"{len(into)} detectors"


def _adapters(chosen: Settings) -> str:
    store = memory_store()
    with store.writing() as db:
        for name, source in chosen.sources.items():
            where = f"{DEFAULT}: sources.{name}.adapter"
            adapter.load(source.adapter, db, where, chosen.adapters)
    return ", ".join(adapter.names(chosen.adapters))


def _database(chosen: Settings) -> str:
    if not chosen.db.exists():
        return f"{chosen.db}: will be made"
    try:
        with opened(chosen, None, "check it") as parts:
            seq, head = parts.lander.head
            return f"{seq} lines, chain head {head[:12]}"
    except ConfigError:
        with reached(chosen, None) as there:
            lines = there.rows("SELECT seq FROM landed")
            return f"held by a running service, {lines[0]['seq'] if lines else 0} lines"
