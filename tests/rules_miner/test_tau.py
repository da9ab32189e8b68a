"""Real runs: converted, landed, and what the miner says where signals are weak."""

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ingest.batch import Batch
from ingest.land import Lander
from ingest.ledger import Ledger
from ingest.redact import Redactor
from ingest.store import Store, memory_store
from rules_miner.mine import Mined, mine
from rules_miner.points import points
from rules_miner.settings import Settings
from rules_miner.traces import Run, runs
from tests import tau
from tests.rules_miner.kit import insert


@pytest.fixture(scope="module")
def landed(tmp_path_factory: pytest.TempPathFactory) -> Store:
    store, now = memory_store(), datetime(2026, 3, 20, tzinfo=UTC)
    folder: Path = tmp_path_factory.mktemp("tau")
    ledger = Ledger(folder / "ledger")
    lander = Lander(store, ledger, Redactor(b"k" * 32))
    lines = list(tau.lines())
    for at in range(0, len(lines), 1_000):
        lander.land(Batch(tau.SOURCE, "native", lines[at : at + 1_000]), now)
    ledger.close()
    insert(store, "incidents", tau.incidents())
    return store


@pytest.fixture(scope="module")
def stored(landed: Store) -> list[Run]:
    return runs(landed)


def test_all_runs_and_all_calls_arrive(landed: Store, stored: list[Run]) -> None:
    [counts] = landed.rows(
        "SELECT count(DISTINCT trace_id) AS runs, count(tool) AS calls FROM events"
    )

    assert counts == {"runs": 200, "calls": 1164}
    assert landed.rows("SELECT count(*) AS calls FROM calls") == [{"calls": 1164}]
    assert sum(len(points(run)) for run in stored) == 1164
    assert len(stored) == 182  # the other 18 made no call, so nothing could have stopped them


def test_labels_and_families_are_those_of_the_data(stored: list[Run]) -> None:
    assert Counter(run.label for run in stored) == {"misaction": 21, "good": 81, None: 80}
    assert len({run.family for run in stored}) == 50
    assert {run.domain for run in stored} == {"airline"}
    wrong = [run.events[run.commit] for run in stored if run.commit is not None]
    assert len(wrong) == 21
    assert {event.tool for event in wrong} <= tau.WRITES


@pytest.mark.parametrize("floor", [0.6, 0.8])
@pytest.mark.parametrize("depth", [2, 3])
def test_on_weak_signals_nothing_is_proposed(stored: list[Run], floor: float, depth: int) -> None:
    found = mine(stored, [], Settings(
        depth=depth, floor_abstain=floor, floor_clarify=floor, min_families=3))  # fmt: skip

    assert found.proposals == ()
    assert all(each.reason for each in found.refused)


@pytest.mark.parametrize("left_out", range(5))
def test_nor_on_any_training_part_of_a_split_by_task(stored: list[Run], left_out: int) -> None:
    tasks = sorted({run.family for run in stored})
    part = [run for run in stored if tasks.index(run.family) % 5 != left_out]
    found: Mined = mine(part, [], Settings(min_families=3))

    assert found.proposals == ()
