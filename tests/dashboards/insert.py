"""One row into one table, and the moment at which the pages' tests play."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from ingest.store import Store

NOW = datetime(2026, 3, 10, 9, 30, tzinfo=UTC)


def put(store: Store, table: str, **values: Any) -> None:
    """One row; what is not named is NULL."""
    ready = {
        name: json.dumps(value) if isinstance(value, Mapping) else value
        for name, value in values.items()
    }
    names, slots = ", ".join(ready), ", ".join(f"${name}" for name in ready)
    with store.writing() as db:
        db.execute(f"INSERT INTO {table} ({names}) VALUES ({slots})", ready)


def pauses(store: Store, *each: tuple[str, float]) -> None:
    """Pauses of one gate, each in a state and over in so many hours."""
    common = {
        "gate": "till", "kind": "agent", "tenant": "", "reason": "", "actor": "mei",
        "alert_id": "", "automatic": False, "asked_at": NOW, "next_at": NOW, "attempts": 1,
    }  # fmt: skip
    for number, (state, hours) in enumerate(each):
        until = NOW + timedelta(hours=hours)
        put(store, "pauses", pause_id=f"pa_{number}", name=f"a{number}", state=state,
            until=until, **common)  # fmt: skip
