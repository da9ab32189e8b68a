"""Four services at once and a process that is killed between alert and answer: each hears of each
alert, and what comes twice says so, under the same id."""

from pathlib import Path

import pytest

from tests.gatewatch.told import RECEIVERS, run

TRIALS = 24  # `python -m tests.gatewatch.told 200` runs more


@pytest.mark.slow
def test_each_service_hears_of_each_alert_and_what_comes_twice_says_so(tmp_path: Path) -> None:
    done = run(tmp_path / "told", TRIALS)

    assert (done.missed, done.unmarked, done.owed) == ([], [], 0)
    assert done.alerts == TRIALS
    assert done.killed >= TRIALS * 3 // 4  # or nothing was tried
    assert all(done.messages[name] for name in RECEIVERS)
    # people's services may hear of several alerts in one message, programs of each in its own
    assert all(done.messages[name] >= TRIALS for name in ("hook", "pager"))
    assert sum(done.repeats.values()) > 0  # and that is what is looked at
