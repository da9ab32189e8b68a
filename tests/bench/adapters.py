"""What each adapter makes of its own sample, over and over: rows a second, without landing them."""

import resource
import time
from datetime import UTC, datetime
from pathlib import Path

from ingest import adapter
from ingest.apply import Written, table_of
from ingest.reading import read
from ingest.redact import Redactor
from ingest.segment import Batched, Marker
from ingest.store import Db, memory_store
from tests.bench.measure import Figure

SAMPLES = Path(__file__).parents[1] / "ingest" / "adapters"
NOW = datetime(2026, 7, 1, tzinfo=UTC)


def measure(count: int) -> list[Figure]:
    """`count` lines of each adapter that has a sample."""
    with memory_store().writing() as db:
        return [
            _one(db, name, SAMPLES / f"{name}.ndjson", count)
            for name in adapter.names()
            if (SAMPLES / f"{name}.ndjson").exists()
        ]


def _one(db: Db, name: str, sample: Path, count: int) -> Figure:
    its = adapter.load(name, db, "bench")
    lines = sample.read_bytes().splitlines()
    lines = (lines * (count // len(lines) + 1))[:count]
    found = read(lines, Redactor(b"k" * 32), its.header.format == "text")
    marker = Marker("gate", name, last=len(found.docs), count=len(found.docs))
    written = Written(Batched(1, NOW, marker, found.entries, ""), found)
    db.execute("SET VARIABLE zone = 'UTC'")
    db.register("incoming", table_of([written], {}))
    db.execute(adapter.LINES)
    began, used = time.perf_counter(), _used()
    [(rows,)] = db.execute(
        f"CREATE OR REPLACE TEMP TABLE made AS {its.events}", {"at": NOW}
    ).fetchall()
    seconds, busy = time.perf_counter() - began, _used() - used
    db.unregister("incoming")
    rate = f"{rows / seconds:,.0f} rows/s, {busy / count * 1e6:.1f} us of processor a line"
    return Figure(name, rate, f"{count:,} lines, {rows:,} rows")


def _used() -> float:
    its = resource.getrusage(resource.RUSAGE_SELF)
    return its.ru_utime + its.ru_stime
