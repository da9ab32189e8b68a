"""A real service, killed at random over files, rotation and HTTP: no line lost, none twice."""

from pathlib import Path

import pytest

from ingest.chain import verify
from tests.gatewatch.trials import run

TRIALS = 24  # `python -m tests.gatewatch.trials 200` runs more


@pytest.mark.slow
def test_a_service_that_is_killed_at_random_loses_and_doubles_nothing(tmp_path: Path) -> None:
    done = run(tmp_path / "all", TRIALS)

    assert (done.lost, done.doubled) == (0, 0)
    assert done.killed == TRIALS
    assert done.written > TRIALS
    assert done.acknowledged > TRIALS
    assert done.rotations > 0
    assert done.resent > 0
    assert verify(tmp_path / "all" / "data" / "gatewatch.ledger").problems == ()
