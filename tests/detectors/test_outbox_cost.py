"""What a worker reads at each step costs what waits, not what ever was."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from detectors import trouble
from detectors.routing import load
from detectors.waiting import loaded, waiting
from detectors.worker import Worker
from ingest.store import Store, open_store
from tests.kit_receivers import NOW
from tests.kit_telling import SLACK, Build

PAST = """
    INSERT INTO deliveries (delivery_id, receiver, alert_id, kind, severity, created_at, message,
        state, attempts, next_at, done_at)
    SELECT 'dl_' || i, 'r' || i % 4, 'al_' || i, 'open', 'high', t_at, '{"text": "' ||
        repeat('x', 2000) || '"}', 'delivered', 1, t_at, t_at
    FROM (SELECT i, $now::TIMESTAMPTZ - INTERVAL (i) MINUTE AS t_at FROM range($past) t(i))
"""
TRIED = """
    INSERT INTO attempts
    SELECT 'dl_' || i // 10, 'r' || i // 10 % 4, $now::TIMESTAMPTZ - INTERVAL ($tried - i) SECOND,
        CASE WHEN i % 10 = 9 THEN 'delivered' ELSE 'retry' END, 'serverError', 0.1
    FROM range($tried) t(i)
"""
OWED = """
    INSERT INTO deliveries (delivery_id, receiver, alert_id, kind, severity, created_at, message,
        state, attempts, next_at)
    SELECT 'dl_o' || i, 'r1', 'al_o' || i, 'open', 'high', $now::TIMESTAMPTZ, $message,
        'pending', 0, $now::TIMESTAMPTZ FROM range($owed) t(i)
"""


def fastest(work: Callable[[], object], times: int = 9) -> float:
    """Seconds of the fastest of several: what else the machine does only adds."""
    found = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return min(found)


def filled(folder: Path, message: str, past: int, tried: int, owed: int) -> Store:
    store = open_store(folder / f"{past}-{owed}.duckdb")
    with store.writing() as db:
        db.execute(PAST, {"now": NOW, "past": past})
        db.execute(TRIED, {"now": NOW, "tried": tried})
        db.execute(OWED, {"now": NOW, "owed": owed, "message": message})
    store.checkpoint()
    return store


def look(store: Store) -> Callable[[], object]:
    """All that a step reads before it sends, and after it failed."""
    [route] = load({"r1": SLACK})
    worker = Worker(route, store, _Silent())

    def read() -> None:
        owed = waiting(store, "r1", NOW)
        assert len(loaded(store, "r1", owed[:20])) == min(20, len(owed))
        worker._closed(NOW)
        worker._room(NOW, critical=False)
        trouble.failing_since(store, "r1", NOW)

    return read


class _Silent:
    def record(self, *_: object) -> object:
        return None


@pytest.fixture
def message(build: Build) -> str:
    house = build()
    house.owe(house.alert())
    [row] = house.rows("SELECT message FROM deliveries")
    return str(row["message"])


@pytest.mark.slow
def test_a_step_costs_what_waits_not_what_ever_was(tmp_path: Path, message: str) -> None:
    few = filled(tmp_path, message, 100, 100, 20)
    many = filled(tmp_path, message, 100_000, 1_000_000, 20)
    a_lot = filled(tmp_path, message, 100_000, 1_000_000, 10_000)

    base, past, owed = (fastest(look(each)) for each in (few, many, a_lot))
    for each in (few, many, a_lot):
        each.close()

    assert past < 3 * base  # with 1 000 and 10 000 times as much behind
    assert owed < 8 * base  # with 500 times as much before
