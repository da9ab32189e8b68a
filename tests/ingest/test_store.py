"""One writer, many readers, one moment each."""

import subprocess
import sys
import threading
from pathlib import Path

import duckdb
import pytest

from ingest.store import StoreBrokenError, StoreBusyError, memory_store, open_store


def test_two_threads_that_touch_one_row_lose_nothing() -> None:
    """B048: 2 threads, 200 updates each, the same row."""
    store = memory_store()
    with store.writing() as db:
        db.execute("CREATE TABLE counts AS SELECT 0 AS n")

    def work() -> None:
        for _ in range(200):
            with store.writing() as db:
                db.execute("UPDATE counts SET n = n + 1")

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert store.rows("SELECT n FROM counts") == [{"n": 400}]


def test_what_raises_leaves_no_trace_and_the_next_writer_works() -> None:
    store = memory_store()

    def fail() -> None:
        with store.writing() as db:
            db.execute("INSERT INTO landed VALUES (1, '')")
            db.execute("SELECT nonsense")

    with pytest.raises(duckdb.Error):
        fail()
    with store.writing() as db:
        db.execute("INSERT INTO landed VALUES (2, '')")

    assert store.rows("SELECT seq FROM landed") == [{"seq": 2}]


@pytest.mark.parametrize(
    "sql",
    [
        "WITH x AS (INSERT INTO landed VALUES (1, '') RETURNING seq) FROM x",
        "DELETE FROM changes",
        "CREATE TABLE mine (i INT)",
    ],
)
def test_a_reader_cannot_write(sql: str) -> None:
    store = memory_store()

    with pytest.raises(duckdb.Error):
        store.rows(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM glob('/etc/*')",
        "SELECT * FROM '/etc/passwd'",
    ],
)
def test_a_reader_sees_no_file_of_the_machine(sql: str, tmp_path: Path) -> None:
    store = open_store(tmp_path / "x.duckdb")

    with pytest.raises(duckdb.Error):
        store.rows(sql)
    store.close()


def test_a_reader_sees_one_moment() -> None:
    store = memory_store()

    with store.reading() as reader:
        assert reader.execute("SELECT count(*) FROM changes").fetchall() == [(0,)]
        with store.writing() as db:
            db.execute("INSERT INTO landed VALUES (1, '')")
        assert reader.execute("SELECT count(*) FROM changes").fetchall() == [(0,)]


def test_a_file_held_by_another_process_is_said_to_be(tmp_path: Path) -> None:
    path = tmp_path / "x.duckdb"
    store = open_store(path)
    code = (
        "import sys, pathlib; from ingest.store import open_store;"
        "open_store(pathlib.Path(sys.argv[1]))"
    )

    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False
    )

    assert "StoreBusyError" in done.stderr
    assert "PID" in done.stderr
    store.close()
    assert issubclass(StoreBusyError, RuntimeError)


def test_a_damaged_file_is_said_to_be_with_the_way_out(tmp_path: Path) -> None:
    path = tmp_path / "x.duckdb"
    path.write_bytes(b"this is no database" * 1000)

    with pytest.raises(StoreBrokenError, match="gatewatch rebuild"):
        open_store(path)


def test_times_are_utc_on_every_cursor() -> None:
    store = memory_store()

    assert store.rows("SELECT current_setting('TimeZone') AS zone") == [{"zone": "UTC"}]
    with store.writing() as db:
        assert db.execute("SELECT current_setting('TimeZone')").fetchall() == [("UTC",)]
