"""One row into one table, and the moment at which the pages' tests play."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
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
