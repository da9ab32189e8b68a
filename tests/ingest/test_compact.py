"""The space of deleted rows comes back, and nothing else changes."""

import subprocess
import sys
from pathlib import Path

import pytest

from ingest.compact import compact
from ingest.contents import digests
from ingest.store import StoreBusyError, open_store
from tests.world import World, denied

ROWS = 300_000


def test_the_file_shrinks_by_what_was_deleted(tmp_path: Path) -> None:
    world = World(tmp_path, policy=None)
    world.land([denied(n) for n in range(5)])
    with world.store.writing() as db:
        db.execute(
            "INSERT INTO quarantine SELECT range, 'gate', now(), 'parse', 'x', 'y',"
            f" sha256(range::VARCHAR) FROM range({ROWS})"
        )
    world.store.checkpoint()
    with world.store.writing() as db:
        db.execute("DELETE FROM quarantine WHERE ledger_seq > 10")
    world.store.checkpoint()
    with world.store.reading() as db:
        before = digests(db)
    world.close()

    was, now = compact(world.folder / "gatewatch.duckdb")

    assert now < was / 2
    again = World(tmp_path, policy=None)  # macros, keys and defaults have come along
    again.land([denied(n, agent="a2") for n in range(5)])
    assert again.rows("SELECT count(*) AS n FROM events") == [{"n": 10}]
    again.close()
    assert before["quarantine"].startswith("11 rows")


def test_a_database_that_is_held_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "x.duckdb"
    open_store(path).close()
    code = f"import duckdb, sys; c = duckdb.connect({str(path)!r}); print('held'); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(StoreBusyError):
            compact(path)
        holder.communicate("")
