"""Quick detectors wait for no slow one, and those that nothing concerns begin no turn."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from detectors.detector import Detector
from detectors.engine import SLOW
from tests.world import World, at, denied, native


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path, only=("deny_retry",), patience=4.0)
    yield made
    made.close()


class Acting:
    """Detectors of one's own, which note when they look."""

    def __init__(self, world: World, *names: str) -> None:
        self.looked: list[str] = []
        self.slow: dict[str, threading.Event] = {}
        good = world.detectors["deny_retry"]
        for name in names:
            made = Detector(**vars(good) | {
                "id": name, "header": replace(good.header, hot=""), "path": Path(f"{name}.py"),
                "run": lambda db, since, until, name=name, **more: self._look(name),
            })  # fmt: skip
            world.engine.detectors = {**world.engine.detectors, name: made}

    def _look(self, name: str) -> list[dict[str, Any]]:
        self.looked.append(name)
        if name in self.slow:
            until = time.thread_time() + SLOW * 1.5
            while time.thread_time() < until:  # what counts is the processor's time
                pass
            self.slow[name].wait(60)
        return []


def deny(world: World, minute: float) -> None:
    world.land([denied(minute, f"a{minute}", event_id=f"{minute}")], at(minute))


def test_one_that_took_long_looks_after_the_others_and_one_at_a_time(world: World) -> None:
    acting = Acting(world, "a_slow", "b_slow", "c_quick")
    acting.slow = {"a_slow": threading.Event(), "b_slow": threading.Event()}
    for event in acting.slow.values():
        event.set()
    deny(world, 1)
    world.tick(at(1.5))
    assert acting.looked == ["a_slow", "b_slow", "c_quick"]  # nobody knows yet who is slow

    acting.looked.clear()
    for event in acting.slow.values():
        event.clear()
    deny(world, 2)
    tick = world.tick(at(2.5))

    assert acting.looked == ["c_quick", "a_slow"]  # as many as may be waited for, the rest later
    assert tick.busy == {"a_slow", "b_slow"}
    for event in acting.slow.values():
        event.set()
    while tick.busy:
        for work in world.engine._works.values():
            assert work.turn.wait(20)
        tick = world.tick(at(2.5))
    assert acting.looked == ["c_quick", "a_slow", "b_slow"]  # the one that has waited longest


def test_what_cannot_find_anything_begins_no_turn_and_counts_as_judged(world: World) -> None:
    deny(world, 1)
    world.tick(at(1.5))
    begun = dict(world.engine._begun)
    world.land([native(2, tool="crm.get", decision="allow", event_id="2")], at(2))

    tick = world.tick(at(2.5))

    assert begun.keys() == {"deny_retry"}
    assert world.engine._begun == begun
    assert (tick.judged, tick.busy, tick.failed) == (1, set(), {})
    [row] = world.rows("SELECT max(until) AS until FROM judgements WHERE status = 'judged'")
    assert row["until"] == at(2.5)
