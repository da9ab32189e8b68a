"""kill -9 between any two steps of sealing, pruning and compacting: what must stay is there."""

import subprocess
import sys
from pathlib import Path

import pytest

from ingest.chain import verify
from ingest.contents import digests
from ingest.ledger import Ledger
from ingest.store import open_store

ROOT = Path(__file__).parents[2]


def run(folder: Path, what: str, step: str = "", count: int = 1) -> bool:
    """Whether it came to its end."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.ingest.mortal", str(folder), what, step, str(count)],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode in (0, -9), done.stderr
    return done.stdout == "done"


def contents(folder: Path) -> dict[str, str]:
    store = open_store(folder / "gatewatch.duckdb")
    with store.reading() as db:
        found = digests(db)
    store.close()
    return found


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """What the tables hold after each kind of work that nobody disturbed."""
    folder = tmp_path_factory.mktemp("whole")
    found = {}
    for what in ("seal", "prune", "compact"):
        assert run(folder, what)
        found[what] = contents(folder)
    return found


@pytest.mark.parametrize("step", ["packed", "listed", "removed"])
@pytest.mark.parametrize("count", [1, 3])
def test_a_segment_is_sealed_once_whenever_the_process_ends(
    step: str, count: int, tmp_path: Path, whole: dict[str, dict[str, str]]
) -> None:
    assert not run(tmp_path, "seal", step, count)
    assert verify(tmp_path / "ledger").problems == ()

    assert run(tmp_path, "seal")

    found = verify(tmp_path / "ledger")
    assert (found.problems, found.segments, found.seq) == ((), 3, 18)
    assert contents(tmp_path)["events"] == whole["seal"]["events"]
    assert list(tmp_path.rglob("*.tmp")) == []
    ledger = Ledger(tmp_path / "ledger")
    assert [batch.first for batch in ledger.read(0)] == list(range(1, 19, 2))
    ledger.close()


@pytest.mark.parametrize("step", ["ledger", "commit", "replaced", "unlinked"])
def test_a_pruning_that_is_killed_is_finished_by_the_next(
    step: str, tmp_path: Path, whole: dict[str, dict[str, str]]
) -> None:
    assert run(tmp_path, "seal")
    assert not run(tmp_path, "prune", step)
    assert verify(tmp_path / "ledger").problems == ()

    assert run(tmp_path, "prune")

    assert contents(tmp_path) == whole["prune"]
    found = verify(tmp_path / "ledger")
    assert (found.problems, found.pruned) == ((), 6)


@pytest.mark.parametrize("step", ["copied", "renamed"])
def test_a_database_is_whole_whenever_compacting_ends(
    step: str, tmp_path: Path, whole: dict[str, dict[str, str]]
) -> None:
    assert run(tmp_path, "seal")
    before = contents(tmp_path)
    assert not run(tmp_path, "compact", step)
    assert contents(tmp_path) == before

    assert run(tmp_path, "compact")

    assert contents(tmp_path) == before == whole["seal"]
    assert list(tmp_path.glob("*.compact*")) == []
