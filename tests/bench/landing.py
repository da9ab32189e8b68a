"""Bulk landing beside plain DuckDB, on one file in one run; bytes a line; what parsing costs."""

import time
from pathlib import Path

import duckdb

from gatewatch.commands.data import BULK_BYTES, landings
from gatewatch.parts import utc_now
from ingest.files import read_file
from ingest.reading import read
from ingest.redact import Redactor
from tests.bench.measure import Figure, history, opened, size

LINE_BYTES = 1 << 20  # as in the default config


def measure(folder: Path, count: int) -> list[Figure]:
    lines = history(count, utc_now())
    path = folder / "fleet.jsonl"
    path.write_bytes(b"".join(each + b"\n" for each in lines))
    width = path.stat().st_size / len(lines)
    count = len(lines)
    plain, plain_busy = _plain(folder, path)
    ours, busy, figures = _ours(folder, path, count)
    rates = f"{plain / ours:.2f} x by the clock, {plain_busy / busy:.2f} x by processor time"
    return [
        Figure("landing", _rate(count, ours, busy), f"{count:,} native lines of {width:.0f} B"),
        Figure("plain read_json", _rate(count, plain, plain_busy), "same file, a table on disk"),
        Figure("ratio", rates, "landing : plain read_json"),
        *figures,
        *_singly(lines[:50_000]),
    ]


def _rate(count: int, seconds: float, busy: float) -> str:
    return f"{count / seconds:,.0f} events/s, {busy / count * 1e6:.1f} us of processor each"


def _plain(folder: Path, path: Path) -> tuple[float, float]:
    """Seconds, and seconds of processor time, that DuckDB alone takes."""
    began, used = time.perf_counter(), time.process_time()
    with duckdb.connect(str(folder / "plain.duckdb")) as db:
        db.execute(
            "CREATE TABLE lines AS FROM read_json(?, format = 'newline_delimited')", [str(path)]
        )
        db.execute("CHECKPOINT")
    return time.perf_counter() - began, time.process_time() - used


def _ours(folder: Path, path: Path, count: int) -> tuple[float, float, list[Figure]]:
    """Seconds and processor time that landing takes, and what lies on disk afterwards."""
    parts = opened(folder / "ours")
    began, used = time.perf_counter(), time.process_time()
    events = 0
    batches = read_file(path, "gate", "native", LINE_BYTES, BULK_BYTES)
    for _, landed in landings(parts, batches, whole=True):  # what `gatewatch ingest` does
        events += landed.events
    parts.store.checkpoint()
    seconds, busy = time.perf_counter() - began, time.process_time() - used
    assert events == count, f"{events} events of {count} lines"
    reached, _ = parts.lander.head
    parts.close()
    stored = size(folder / "ours", "*.duckdb*")
    figures = [Figure("database", f"{stored / count:.0f} B/event", "the file after a checkpoint")]
    return seconds, busy, figures + _ledger(parts.ledger.folder, reached)


def _ledger(folder: Path, reached: int) -> list[Figure]:
    """Bytes a line, sealed and not yet sealed."""
    found = [each for each in folder.rglob("*.ndjson") if each.name != "manifest.ndjson"]
    plain = b"".join(each.read_bytes() for each in found)
    waiting, figures = plain.count(b'"raw"'), list[Figure]()
    if packed := size(folder, "*.zst"):
        sealed = reached - waiting
        figures.append(
            Figure("sealed ledger", f"{packed / sealed:.0f} B/line", f"{sealed:,} lines")
        )
    if waiting:
        figures.append(
            Figure("open ledger segment", f"{len(plain) / waiting:.0f} B/line", "before sealing")
        )
    return figures


def _singly(lines: list[bytes]) -> list[Figure]:
    redactor = Redactor(b"k" * 32)
    began = time.process_time()
    redactor.suspects(lines)
    looked = time.process_time() - began
    began = time.process_time()
    read(lines, redactor, plain_text=False)
    whole = time.process_time() - began
    return [
        Figure("reading", f"{whole / len(lines) * 1e6:.1f} us/line", "redacted and parsed"),
        Figure("of it, secrets", f"{looked / len(lines) * 1e6:.1f} us/line", "no secret inside"),
    ]
