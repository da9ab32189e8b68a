"""What the tests of single adapters share: documents in, rows out."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ingest import adapter
from ingest.parse import parse
from ingest.store import fetch, memory_store

NOW = datetime(2026, 3, 11, tzinfo=UTC)  # when every line arrives
Row = dict[str, Any]


def read(name: str, docs: Sequence[Row], pos: str = "") -> list[Row]:
    """The events that an adapter makes of documents, in the order of the ledger and of their ids.

    `pos`: where they come from.
    """
    parsed = [parse(encoded(doc)).doc for doc in docs]
    numbered = [(at, doc) for at, doc in enumerate(parsed, start=1) if doc is not None]
    with memory_store().writing() as db:
        sql = adapter.load(name, db, "tests").events
        with adapter.lines(db, "gate", NOW, numbered, pos):
            found = fetch(db, sql, at=NOW)
    return sorted(found, key=lambda row: (row["ledger_seq"], row["event_id"]))


def encoded(doc: Row) -> bytes:
    """A document as a line."""
    return json.dumps(doc).encode()


def sample(name: str) -> list[Row]:
    """The documents of an adapter's sample."""
    path = Path(__file__).with_name(f"{name}.ndjson")
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def attrs(row: Row) -> Row:
    """What a row has beside its columns."""
    found: Row = json.loads(row["attrs"])
    return found
