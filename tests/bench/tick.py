"""A tick costs what is new, not what is stored: the same new lines over N and over many more.

What is stored is made by DuckDB (tests/bench/history.py); the new lines come by the whole road.
"""

import shutil
import statistics
import time
from datetime import UTC, timedelta
from pathlib import Path

from gatewatch.fleet import Fleet
from gatewatch.parts import Parts, utc_now
from ingest.batch import Batch
from tests.bench import history
from tests.bench.measure import Figure, opened, size

ROUNDS = 12
WARM = 3  # rounds before those, which read what every round reads
PER_SECOND = 200.0  # new lines a second; a round is one second
A_DAY = 33_333  # events: a million is a month, so that every detector's lookback is full in both


def measure(folder: Path, stored: int, times: int) -> list[Figure]:
    """Over `stored` events, and over so many times as many of as many times the days."""
    found = []
    for name, count in (("small", stored), ("large", stored * times)):
        place = folder / name
        found.append(_rounds(place, count))
        held = size(place, "*.duckdb*") / count
        shutil.rmtree(place)
    rows = []
    for name, index in (("landing of a round", 0), ("tick", 1)):
        one, many = found[0][index], found[1][index]
        value = f"{one * 1000:.0f} ms, {many * 1000:.0f} ms: {many / one:.2f} x"
        how = f"median of {ROUNDS}; {PER_SECOND:.0f} new lines, {stored:,} stored, and x {times}"
        rows.append(Figure(name, value, how))
    return [*rows, Figure("stored by it", f"{held:.0f} B/event", "database alone, the larger one")]


def _rounds(folder: Path, stored: int) -> tuple[float, float]:
    """Median seconds of landing one second's lines, and of the tick after it."""
    parts = opened(folder)
    try:
        until = utc_now()
        parts.tick(until, tell=False)  # of what is made now nothing is due: only what lands is
        history.fill(parts.store, until - timedelta(days=stored / A_DAY), until, stored)
        landed, ticked = zip(*_live(parts)[WARM:], strict=True)
    finally:
        parts.close()
    return statistics.median(landed), statistics.median(ticked)


def _live(parts: Parts) -> list[tuple[float, float]]:
    until = utc_now()
    fleet = Fleet(until, UTC, seed=8)
    fleet.quicken(PER_SECOND)
    found: list[tuple[float, float]] = []
    for number in range(WARM + ROUNDS):
        now = until + timedelta(seconds=number + 1)
        lines = [each.data.replace(b'"ev-', b'"live-') for each in fleet.until(now)]
        began = time.perf_counter()
        parts.lander.land(Batch("gate", "native", lines), now)
        middle = time.perf_counter()
        tick = parts.tick(now, tell=False)
        assert not tick.failed, tick.failed
        found.append((middle - began, time.perf_counter() - middle))
    return found
