"""What the miner's tests are written with: events by hand, and runs put into a store."""

import json
import random
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from ingest.store import Store, memory_store
from rules_miner.rule import Doc, build
from rules_miner.subsumption import Standing
from rules_miner.traces import Call, Event, Run

NOW = datetime(2026, 11, 30, 9, 0, tzinfo=UTC)


def done(tool: str, op: str = "lookup", response: Any = None, **more: Any) -> Event:
    """A call that was carried out. Its answer is fine unless told otherwise."""
    answer = {"text": "fine"} if response is None else response
    return Event("tool_executed", tool=tool, op=op, response=answer, **{"status": "ok", **more})


def failed(tool: str, error: str = "time-out", **more: Any) -> Event:
    return done(tool, status="error", error=error, response="", **more)


def refused(tool: str, **more: Any) -> Event:
    return Event("tool_decided", tool=tool, decision="deny", **more)


def said(role: str, text: str) -> Event:
    return Event("message", role=role, text=text)


def pending(tool: str, op: str = "commit", **params: Any) -> Call:
    return Call(tool, op, params, "shop")


def numbered(events: Sequence[Event]) -> tuple[Event, ...]:
    """Each event its own call."""
    return tuple(
        Event(**{**_fields(event), "event_id": f"e{at}", "call_key": f"c{at}"})
        for at, event in enumerate(events)
    )


def run_of(*events: Event, **more: Any) -> Run:
    return Run(**{"trace_id": "t-1", "family": "f", "domain": "shop", **more,
                  "events": numbered(events)})  # fmt: skip


def standing(state: str, then: str = "abstain", rule: str = "old-v1", **when: Any) -> Standing:
    doc: Doc = {"id": rule, "then": then, "when": when}
    return Standing(build(doc, rule), state)


def stored(runs: Iterable[Run], seed: int | None = None, source: str = "shop") -> Store:
    """The runs as rows of events and incidents; with a seed, in any order."""
    store = memory_store()
    rows = [(run, at, event) for run in runs for at, event in enumerate(run.events)]
    labels = list({run.key: run for run, _, _ in rows if run.label}.values())
    if seed is not None:
        random.Random(seed).shuffle(rows)  # noqa: S311 - a seeded order, no secret
        random.Random(seed).shuffle(labels)  # noqa: S311
    incidents = [
        {
            "incident_id": run.trace_id,
            "label": run.label,
            "trace_id": run.trace_id,
            "event_id": None if run.commit is None else run.events[run.commit].event_id,
            "author": "test",
            "labelled_at": NOW,
        }
        for run in labels
    ]
    insert(store, "events", [_row(run, at, event, source) for run, at, event in rows])
    insert(store, "incidents", incidents)
    return store


def insert(store: Store, table: str, rows: list[dict[str, Any]]) -> None:
    """Rows into a table, by the names of their columns."""
    if rows:
        with store.writing() as db:
            db.register("given", pa.Table.from_pylist(rows))
            db.execute(f"INSERT INTO {table} BY NAME SELECT * FROM given")
            db.unregister("given")


def _row(run: Run, at: int, event: Event, source: str) -> dict[str, Any]:
    row = {
        **_fields(event),
        "source": source,
        "ledger_seq": at,
        "ts": event.ts or NOW,
        "trace_id": run.trace_id,
        "task": run.family,
        "call_id": event.call_key or None,
        "params": None if event.params is None else json.dumps(event.params),
        "response": None if event.response is None else json.dumps(event.response),
        "signals": list(event.signals),
    }
    del row["call_key"]
    return row


def _fields(event: Event) -> dict[str, Any]:
    return {name: getattr(event, name) for name in event.__dataclass_fields__}
