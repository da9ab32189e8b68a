"""The command that says which detectors the sources can feed, and how much of a day they judged.

Reads: the database, or the service that holds it; gatewatch.toml. Writes: nothing.
Next: gatewatch/commands/days.py.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from detectors import coverage as covering
from detectors import detector
from detectors.coverage import Feed, Need
from detectors.detector import Detector
from gatewatch.commands import days
from gatewatch.commands.terminal import Config, Database, Json, emit, reached, settings, table
from ingest import adapter
from ingest.config import ConfigError, Settings
from ingest.store import Db, memory_store

SHOWN = ("source", "detector", "feeds", "filled", "lacks")


def coverage(
    db: Database = None,
    config: Config = None,
    day: Annotated[
        str | None, typer.Option("--day", help="How much of this local day each has judged.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Which detectors your sources can feed, from what their events really hold."""
    chosen = settings(config, db)
    path = db or chosen.db
    if (db is not None or day is not None) and not path.exists():
        raise ConfigError(f"{path}: there is no database. `gatewatch ingest` makes one.")
    with memory_store().writing() as own:
        extra = [chosen.path(chosen.detectors_folder)] if chosen.detectors_folder else []
        loaded = detector.load_all(own, chosen.detectors, extra)
        if day is not None:
            _day(chosen, db, loaded, day, as_json)
            return
        headers = {name: each.header.needs for name, each in loaded.items()}
        wanted = covering.needs(headers, covering.columns_of(own))
        every = [need for those in wanted.values() for need in those]
        silent = _possible(chosen, own, every)
    known: dict[str, dict[str, float | None]] = {}
    if path.exists():
        with reached(chosen, db) as there:
            known = covering.measured(there, every)
    found = covering.feeds(silent | known, wanted)
    if as_json:
        emit([asdict(each) | {"events": each.source in known} for each in found])
    else:
        rows = [_row(each, each.source in known) for each in found]
        table(rows, SHOWN, "There is no source yet, in the data or in gatewatch.toml.")


def _day(
    chosen: Settings, db: Path | None, loaded: Mapping[str, Detector], text: str, as_json: bool
) -> None:
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise ConfigError(f"--day: {text!r} is no day: write 2026-03-10.") from None
    with reached(chosen, db) as there:
        found = days.covered(there, loaded, day)
    if as_json:
        emit([asdict(each) for each in found])
    else:
        shown = ("detector", *days.STATUSES, "judged_at", "reason")
        table([days.line(each) for each in found], shown, "No detector is switched on.")


def _possible(
    chosen: Settings, db: Db, every: Iterable[Need]
) -> dict[str, dict[str, float | None]]:
    """What the adapters of the configured sources could fill."""
    found = {}
    for name, source in chosen.sources.items():
        where = f"gatewatch.toml: sources.{name}.adapter"
        loaded = adapter.load(source.adapter, db, where, chosen.adapters)
        with adapter.lines(db, "", datetime.fromtimestamp(0, UTC), ()):  # for DESCRIBE to bind
            found[name] = covering.possible(loaded, db, every)
    return found


def _row(feed: Feed, has_events: bool) -> dict[str, Any]:
    filled = (
        f"{text} {share:.0%}" if share is not None else text for text, share in feed.filled.items()
    )
    lacks = [
        text + (f" (from {', '.join(feed.others[text])})" if feed.others.get(text) else "")
        for text in feed.lacks
    ]
    lacks += [f"{text}: counts for the session or source" for text in feed.coarse]
    return {
        "source": feed.source,
        "detector": feed.detector,
        "feeds": feed.feeds if has_events else f"could: {feed.feeds}",
        "filled": ", ".join(filled),
        "lacks": "; ".join(lacks),
    }
