"""What tests of the outbox are written with: a store with one alert, and a service of one's own."""

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

import httpx

from detectors import outbox
from detectors.receivers import Kind
from detectors.routing import Desk, Route, load
from detectors.worker import Worker
from ingest.land import Lander
from ingest.ledger import Ledger
from ingest.redact import Redactor
from ingest.store import Store, fetch, memory_store
from tests.kit_receivers import NOW, Answer

SLACK = {"type": "slack", "webhook": "https://hooks.slack.com/services/FAKE"}
DING = {"type": "dingtalk", "webhook": "https://oapi.dingtalk.com/robot/send?access_token=FAKE"}
HOOK = {"type": "webhook", "webhook": "https://soc.example/FAKE"}
URL = "https://gatewatch.example"
START = datetime.fromisoformat("2026-03-10T09:00:00Z")


class Build(Protocol):
    """The fixture that makes a House."""

    def __call__(self, **receivers: dict[str, Any]) -> "House": ...


class House:
    """A store, its ledger, and workers for the receivers of a config."""

    def __init__(self, folder: Path, **receivers: dict[str, Any]) -> None:
        self.store: Store = memory_store()
        self.step: Callable[[str], None] = lambda done: None  # told how far landing has come
        self.ledger = Ledger(folder / "ledger")
        redactor = Redactor(b"k" * 32)
        self.lander = Lander(self.store, self.ledger, redactor, lambda done: self.step(done))
        self.routes: tuple[Route, ...] = load(receivers or {"ops": SLACK})
        self.sent: list[tuple[datetime, httpx.Request]] = []
        self.now = NOW
        self.answer: Callable[[httpx.Request], Answer] = lambda _: httpx.Response(200, text="ok")
        self.workers = {route.name: self.worker(route) for route in self.routes}

    def worker(self, route: Route) -> Worker:
        """A worker as the next process would make it."""
        client = httpx.Client(transport=httpx.MockTransport(self._reply))
        return Worker(route, self.store, self.lander, self.routes, client, chance=lambda: 1.0)

    def _reply(self, request: httpx.Request) -> httpx.Response:
        self.sent.append((self.now, request))
        answer = self.answer(request)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def event(self, event_id: str, ts: datetime, **columns: Any) -> None:
        values = {"event_id": event_id, "kind": "tool_decided", "source": "gate", "ledger_seq": 1,
                  "ts": ts, "agent": "a1", "tool": "crm.export_contacts", "decision": "deny",
                  "trace_id": "t-1", "params": '{"export_all": true, "limit": 5000}',
                  "rule_ids": ["rule-17"], "reason": "not on the list"} | columns  # fmt: skip
        self._insert("events", values)

    def alert(self, alert_id: str = "al_7f3a", **columns: Any) -> dict[str, Any]:
        """Write an alert over the events e1, e2, e3; returns its row."""
        values = {
            "alert_id": alert_id, "detector": "deny_retry", "tenant": "", "subject": "a1",
            "severity": "high", "status": "open", "started_at": START,
            "ended_at": START + timedelta(minutes=3), "rows": 1,
            "title": "a1: 3 denials in a row for crm.export_contacts",
            "title_zh": "a1：crm.export_contacts 连续被拒 3 次",
            "facts": '{"denials": 3, "tool": "crm.export_contacts"}',
            "event_ids": ["e1", "e2", "e3"], "opened_at": NOW, "backfill": False, "tellings": 1,
        } | columns  # fmt: skip
        self._insert("alerts", values)
        return self.store.rows("SELECT * FROM alerts WHERE alert_id = $id", id=alert_id)[0]

    def owe(self, alert: dict[str, Any], kind: Kind = "open") -> int:
        with self.store.writing() as db:
            return outbox.enqueue(db, alert, kind, self.now, Desk(self.routes, URL))

    def close(self) -> None:
        self.ledger.close()
        self.store.close()

    def restart(self) -> None:
        """What a new process does with the store that an old one left."""
        with self.store.writing() as db:
            outbox.reset(db)
        self.workers = {route.name: self.worker(route) for route in self.routes}

    def run(self, until: timedelta = timedelta(0), name: str = "ops") -> float | None:
        """Let a worker work, the clock jumping to whatever is due, until nothing is or time is
        over. Returns what its last step returned."""
        end = self.now + until
        for _ in range(2_000):
            wait = self.workers[name].step(self.now)
            if wait is None or self.now + timedelta(seconds=wait) > end:
                return wait
            self.now += timedelta(seconds=wait)
        raise AssertionError("a worker that never rests")

    def states(self) -> list[str]:
        rows = self.store.rows("SELECT state FROM deliveries ORDER BY created_at, delivery_id")
        return [row["state"] for row in rows]

    def rows(self, sql: str, **params: Any) -> list[dict[str, Any]]:
        return self.store.rows(sql, **params)

    def _insert(self, table: str, values: dict[str, Any]) -> None:
        names, places = ", ".join(values), ", ".join(f"${name}" for name in values)
        with self.store.writing() as db:
            fetch(db, f"INSERT INTO {table} ({names}) VALUES ({places})", **values)
