"""A whole small installation in a folder: lines go in, time passes, alerts come out."""

import json
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from detectors import applying, detector, engine, telling
from detectors.detector import Detector
from detectors.engine import Engine, Tick
from detectors.routing import Desk, Route, furnished
from gatewatch.parts import put_policy
from ingest.apply import Landed
from ingest.batch import Batch, Line
from ingest.config import Telling
from ingest.land import Lander
from ingest.ledger import Ledger
from ingest.redact import Redactor
from ingest.store import Db, open_store

START = datetime(2026, 3, 10, 9, 0, tzinfo=UTC)
KEY = b"a key for tests: 32 bytes long.."
POLICY = {
    "global": {
        "default_action": "deny",
        "timezone": "UTC",
        "unattended_window": [{"start": "22:00", "end": "08:00"}],
    },
    "egress": {"allowed_hosts": ["api.crm.example", "*.billing.example"]},
}
SAID = ("detector", "subject", "severity", "started_at", "ended_at", "rows", "title", "facts")


def at(minutes: float) -> datetime:
    """So many minutes after nine o'clock."""
    return START + timedelta(minutes=minutes)


def native(minutes: float, agent: str = "a1", kind: str = "tool_call", **more: Any) -> bytes:
    """A native line at so many minutes after nine o'clock."""
    doc = {"ts": at(minutes).isoformat(), "kind": kind, "agent": agent, **more}
    return json.dumps(doc, separators=(",", ":")).encode()


def denied(minutes: float, agent: str = "a1", **more: Any) -> bytes:
    return native(minutes, agent, **({"tool": "crm.export_contacts", "decision": "deny"} | more))


_known: dict[str, dict[str, Detector]] = {}


def _loaded(
    db: Db, settings: dict[str, dict[str, Any]], only: Sequence[str] | None
) -> dict[str, Detector]:
    """Checking the whole catalogue takes seconds: once per settings is enough."""
    key = repr((settings, only))
    if key not in _known:
        files, where = detector.files(), "gatewatch.toml: detectors"
        _known[key] = (
            detector.load_all(db, settings)
            if only is None
            else {
                name: detector.load(files[name], db, settings.get(name, {}), f"{where}.{name}")
                for name in only
            }
        )
    return dict(_known[key])


class World:
    """Opened on a folder; opening it again is a restart."""

    def __init__(
        self,
        folder: Path,
        routes: tuple[Route, ...] = (),
        settings: dict[str, dict[str, Any]] | None = None,
        policy: dict[str, Any] | None = POLICY,
        step: Callable[[str], None] | None = None,
        only: Sequence[str] | None = None,
        adapters: Path | None = None,
        tree: dict[str, Any] | None = None,
        figures: Telling | None = None,
        **engine: Any,
    ) -> None:
        """`only`: with these detectors, not with all. `tree`: the table [routing], `figures` the
        table [telling]. `engine`: how it judges, see Engine."""
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.routes, self.tree, self.figures = folder, routes, tree, figures
        self.store = open_store(folder / "gatewatch.duckdb")
        self.ledger = Ledger(folder / "gatewatch.ledger")
        steps: dict[str, Any] = {"own_adapters": adapters} | ({"step": step} if step else {})
        self.lander = Lander(self.store, self.ledger, Redactor(KEY), **steps)
        if policy is not None:
            path = folder / "policy.json"
            path.write_text(json.dumps(policy))
            put_policy(self.store, self.lander, path)
        with self.store.writing() as db:
            self.detectors = _loaded(db, settings or {}, only)
            applying.seed(db)
        self.engine = Engine(self.store, self.detectors, **engine)

    def land(self, lines: Iterable[Line], now: datetime | None = None, **more: Any) -> Landed:
        batch = Batch(
            more.pop("source", "gate"), more.pop("adapter", "native"), tuple(lines), **more
        )
        return self.lander.land(batch, now or at(24 * 60))

    def tick(self, now: datetime) -> Tick:
        tick = self.engine.judge(now)
        with self.store.writing() as db:
            applying.catch_up(db)
            tags = {name: each.tags for name, each in self.detectors.items()}
            desk = furnished(Desk(self.routes, "http://here"), db, self.tree, tags)
            tick.told = telling.tell(db, self.detectors, desk, now, self.figures)
        return tick

    def rows(self, sql: str, **params: Any) -> list[dict[str, Any]]:
        return self.store.rows(sql, **params)

    def alerts(self, without: Sequence[str] = ("silent_source",)) -> list[tuple[Any, ...]]:
        """What stands, without ids and without what only arrival decides."""
        rows = self.rows("SELECT * FROM alerts WHERE status IN ('open', 'resolved')")
        said = [row | {"facts": msgspec.json.decode(row["facts"])} for row in rows]
        return sorted(
            (*(repr(row[key]) for key in SAID), tuple(row["event_ids"]))
            for row in said
            if row["detector"] not in without
        )

    def backtest(self, without: Sequence[str] = ("silent_source",)) -> list[tuple[Any, ...]]:
        """The same from one pass over everything that is stored."""
        with self.store.reading() as db:
            span = engine.history(db)
            if span is None:
                return []
            until = span[1] + timedelta(days=3)  # windows close after the last event
            found = engine.backtest(db, self.detectors.values(), span[0], until)
        return sorted(
            (*(repr(getattr(each, key)) for key in SAID), each.event_ids)
            for each in found
            if each.detector not in without
        )

    def close(self) -> None:
        self.engine.close()
        self.ledger.close()
        self.store.close()
