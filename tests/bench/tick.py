"""A tick costs what is new, not what is stored: the same new lines over N and over 10 N events."""

import statistics
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from gatewatch.fleet import Fleet
from gatewatch.parts import Parts, utc_now
from ingest.batch import Batch
from tests.bench.measure import Figure, history, opened

ROUNDS = 12
PER_SECOND = 200.0  # new lines a second; a round is one second


def measure(folder: Path, stored: int) -> list[Figure]:
    until = utc_now()
    lines = history(stored * 10, until)
    small = _rounds(folder / "small", lines[-stored:], until)
    large = _rounds(folder / "large", lines, until)
    rows = []
    for name, place in (("landing of a round", 0), ("tick", 1)):
        one, ten = small[place], large[place]
        value = f"{one * 1000:.0f} ms, {ten * 1000:.0f} ms: {ten / one:.2f} x"
        how = (
            f"median of {ROUNDS}; {PER_SECOND:.0f} new lines, {stored:,} and {stored * 10:,} stored"
        )
        rows.append(Figure(name, value, how))
    return rows


def _rounds(folder: Path, past: list[bytes], until: datetime) -> tuple[float, float]:
    """Median seconds of landing one second's lines, and of the tick after it."""
    parts = opened(folder)
    try:
        for start in range(0, len(past), 20_000):
            parts.lander.land(Batch("gate", "native", past[start : start + 20_000]), until)
        parts.store.checkpoint()
        parts.tick(until, tell=False)
        landed, ticked = zip(*_live(parts, until), strict=True)
    finally:
        parts.close()
    return statistics.median(landed), statistics.median(ticked)


def _live(parts: Parts, until: datetime) -> list[tuple[float, float]]:
    fleet = Fleet(until, UTC, seed=8)
    fleet.quicken(PER_SECOND)
    found: list[tuple[float, float]] = []
    for number in range(ROUNDS):
        now = until + timedelta(seconds=number + 1)
        lines = [each.data.replace(b'"ev-', b'"live-') for each in fleet.until(now)]
        began = time.perf_counter()
        parts.lander.land(Batch("gate", "native", lines), now)
        middle = time.perf_counter()
        tick = parts.tick(now, tell=False)
        assert not tick.failed, tick.failed
        found.append((middle - began, time.perf_counter() - middle))
    return found
