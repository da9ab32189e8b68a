"""What tests of telling are written with that need no log: alerts made by hand, and time."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from detectors import applying, detector, maintenance, outbox, settling, telling
from detectors.detector import Detector
from detectors.routing import Desk, load
from ingest.config import Telling
from ingest.land import Lander
from ingest.ledger import Ledger
from ingest.redact import Redactor
from ingest.store import Store, fetch, memory_store
from tests.kit_receivers import NOW

OPS = {"type": "slack", "webhook": "https://hooks.slack.com/services/FAKE"}
PAGER = {"type": "webhook", "webhook": "https://pager.example/FAKE"}
DETECTORS = ("deny_retry", "call_loop", "silent_source")


def minutes(count: float) -> timedelta:
    return timedelta(minutes=count)


@cache
def detectors() -> dict[str, Detector]:
    """Two of the catalogue, and one whose alerts speak for those of the second."""
    files = detector.files()
    with memory_store().writing() as db:
        return {
            name: detector.load(files[name], db, {}, f"gatewatch.toml: detectors.{name}")
            for name in DETECTORS
        }


class Desktop:
    """A store with alerts, people who act on them, and what receivers are owed."""

    def __init__(self, folder: Path, figures: Telling | None = None, **receivers: Any) -> None:
        self.store: Store = memory_store()
        self.folder, self.figures = folder, figures or Telling()
        self.ledger = Ledger(folder / "ledger")
        self.lander = Lander(self.store, self.ledger, Redactor(b"k" * 32))
        self.desk = Desk(load(receivers or {"ops": OPS}), "https://gatewatch.example")
        self.detectors = dict(detectors())
        self.windows: Sequence[maintenance.Window] = ()
        self.now = NOW
        self._seen: set[str] = set()

    def close(self) -> None:
        self.ledger.close()
        self.store.close()

    def header(self, name: str, **values: Any) -> None:
        """Change what a detector's header says."""
        each = self.detectors[name]
        told = msgspec.structs.replace(each.header, **values)
        self.detectors[name] = replace(each, header=told)

    def open(self, alert_id: str, subject: str = "a1", severity: str = "medium",
             name: str = "deny_retry", **columns: Any) -> None:  # fmt: skip
        """An alert whose trouble is of this moment."""
        values = {
            "alert_id": alert_id, "detector": name, "tenant": "", "subject": subject,
            "severity": severity, "status": "open", "started_at": self.now, "ended_at": self.now,
            "rows": 1, "title": f"{subject}: 3 denials", "title_zh": f"{subject}：被拒 3 次",
            "facts": '{"denials": 3}', "event_ids": [alert_id], "opened_at": self.now,
            "backfill": False, "tellings": 0, "about": [f"agent {subject}"],
        } | columns  # fmt: skip
        names, places = ", ".join(values), ", ".join(f"${each}" for each in values)
        self.run(f"INSERT INTO alerts ({names}) VALUES ({places})", **values)

    def change(self, alert_id: str, **columns: Any) -> None:
        sets = ", ".join(f"{name} = ${name}" for name in columns)
        self.run(f"UPDATE alerts SET {sets} WHERE alert_id = $alert_id", alert_id=alert_id,
                 **columns)  # fmt: skip

    def over(self, alert_id: str) -> None:
        """Its trouble ends at this moment."""
        self.change(alert_id, status="resolved", ended_at=self.now, resolved_at=self.now)

    def run(self, sql: str, **params: Any) -> None:
        with self.store.writing() as db:
            fetch(db, sql, **params)

    def wait(self, count: float) -> list[tuple[str, str]]:
        """So many minutes pass, then whoever is owed something is told."""
        self.now += minutes(count)
        return self.tell()

    def tell(self) -> list[tuple[str, str]]:
        """What is new in the outbox: kind and alert, without those of other receivers."""
        return [(row["kind"], row["alert_id"]) for row in self.queue()]

    def queue(self, receiver: str | None = None) -> list[dict[str, Any]]:
        """A round of telling: the messages that are new."""
        with self.store.writing() as db:
            applying.catch_up(db)
            telling.tell(db, self.detectors, self.desk, self.now, self.figures, self.windows)
        rows = self.store.rows("SELECT * FROM deliveries ORDER BY created_at, alert_id, kind")
        new = [row for row in rows if row["delivery_id"] not in self._seen]
        self._seen |= {row["delivery_id"] for row in new}
        chosen = receiver or self.desk.routes[0].name
        return [
            row | {"said": msgspec.json.decode(row["message"])}
            for row in new if row["receiver"] == chosen
        ]  # fmt: skip

    def alert(self, alert_id: str) -> dict[str, Any]:
        return self.store.rows("SELECT * FROM alerts WHERE alert_id = $id", id=alert_id)[0]

    def deliver(self) -> None:
        """Everything that is owed has arrived, and the ledger says so, as a worker does it."""
        rows = self.store.rows("SELECT * FROM deliveries WHERE state = 'pending'")
        for row in rows:
            detail = self._end(row)
            self.lander.record("delivery", "gatewatch", row["delivery_id"], detail, self.now)
        self.run("UPDATE deliveries SET state = 'delivered' WHERE state = 'pending'")

    def _end(self, row: dict[str, Any]) -> dict[str, Any]:
        about = settling._about(self.store, row)
        kept = {name: row[name] for name in ("receiver", "kind", "created_at")}
        return kept | about | {"state": "delivered", "attempts": 1, "error": None}

    def rebuild(self) -> "Desktop":
        """The same ledger with a new database, and the same alerts found anew."""
        found = self.store.rows("SELECT * FROM alerts")
        self.close()
        again = Desktop.__new__(Desktop)
        again.__dict__.update(self.__dict__)
        again.store = memory_store()
        again.ledger = Ledger(self.folder / "ledger")
        again.lander = Lander(again.store, again.ledger, Redactor(b"k" * 32))
        own = ("status", "ended_at", "rows", "title", "title_zh", "facts", "event_ids", "severity",
               "about", "resolved_at")  # fmt: skip
        with again.store.writing() as db:
            applying.seed(db)
            outbox.reset(db)
        for row in found:
            if again.store.rows("SELECT 1 FROM alerts WHERE alert_id = $id", id=row["alert_id"]):
                again.change(row["alert_id"], **{name: row[name] for name in own})
            else:
                keys = ("alert_id", "subject", "severity", "started_at", "opened_at", *own)
                values = {key: row[key] for key in keys}
                again.open(**values, name=row["detector"])
        return again
