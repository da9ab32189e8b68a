"""What Prometheus sees of judging."""

import re
from pathlib import Path

import pytest

from detectors import metrics
from detectors.detector import Detector
from tests.world import World, at, denied

ONLY = ("deny_retry", "silent_source")


def lags(world: World, minute: float) -> dict[str, float]:
    page = metrics.page(world.store, world.engine.detectors, (), world.lander.head, at(minute))
    found = re.findall(r'judging_lag_seconds\{detector="(\w+)"\} (\S+)', page.decode())
    return {name: float(value) for name, value in found}


def test_the_lag_of_judging_rises_while_nobody_judges_and_returns(tmp_path: Path) -> None:
    world = World(tmp_path, only=ONLY)
    world.land([denied(m, event_id=str(m)) for m in (0, 1)])
    assert lags(world, 3) == {"deny_retry": 180.0, "silent_source": 180.0}
    world.tick(at(3))
    assert lags(world, 3) == dict.fromkeys(ONLY, 0.0)

    world.land([denied(m, event_id=str(m)) for m in (4, 5, 6)])
    assert lags(world, 10) == dict.fromkeys(ONLY, 420.0)
    nine_days = 9 * 24 * 60
    assert lags(world, 3 + nine_days) == dict.fromkeys(ONLY, nine_days * 60.0)
    world.tick(at(3 + nine_days))
    assert lags(world, 3 + nine_days) == dict.fromkeys(ONLY, 0.0)
    world.close()


def test_one_that_fails_is_behind_and_the_others_are_not(tmp_path: Path) -> None:
    def fail(*_: object, **more: object) -> list[dict[str, object]]:
        raise ValueError("no such thing")

    world = World(tmp_path, only=ONLY[:1])
    good = world.detectors["deny_retry"]
    world.engine.detectors = {
        **world.detectors, "own": Detector(**vars(good) | {"id": "own", "run": fail})
    }  # fmt: skip
    world.land([denied(0, event_id="0")])
    world.tick(at(1))

    assert lags(world, 2) == {"deny_retry": pytest.approx(60.0, abs=1e-5), "own": 120.0}
    world.close()


def test_what_cannot_change_a_row_is_not_waited_for(tmp_path: Path) -> None:
    world = World(tmp_path, only=ONLY[:1])
    world.land([denied(0, event_id="0")])
    world.tick(at(24 * 60))

    world.land([denied(1, event_id="1", kind="config_change", decision="allow")])

    assert lags(world, 24 * 60) == {"deny_retry": 0.0}
    world.close()
