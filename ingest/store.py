"""The DuckDB file and its one owner. Nobody else opens it.

DuckDB lets one process hold a file. Within it, one writer at a time works under a lock; readers
take a cursor of their own inside a read-only transaction and see a consistent snapshot.
Reads: ingest/schema.sql. Writes: the database file. Next: ingest/ledger.py.
"""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

import duckdb

Db = duckdb.DuckDBPyConnection
CHECKPOINT_AT = (
    "256MB"  # of DuckDB's own log; at its default of 16 MB every batch rewrites the file
)
SCHEMA = Path(__file__).with_name("schema.sql")


class StoreBusyError(RuntimeError):
    """Another process holds the database file. `pid` is that process, where DuckDB named it."""

    def __init__(self, path: Path, pid: int | None) -> None:
        super().__init__(f"{path}: held by another process{f' (PID {pid})' if pid else ''}.")
        self.path, self.pid = path, pid


class StoreBrokenError(RuntimeError):
    """The file is there and DuckDB cannot open it. Says what to do."""


class Reader(Protocol):
    """Whatever answers a SELECT: the store itself, or a client that asks the service."""

    def rows(self, sql: str, **params: Any) -> list[dict[str, Any]]: ...


class Store:
    """One database. `path` is None for one that lives in memory."""

    def __init__(self, db: Db, path: Path | None) -> None:
        self.path = path
        self._db = db
        self._turn = threading.RLock()
        self._writer = db.cursor()
        self._writer.execute("SET preserve_insertion_order = true")

    @contextmanager
    def writing(self) -> Iterator[Db]:
        """The writer's cursor, inside a transaction that commits at the end or leaves no trace."""
        with self._turn:
            self._writer.execute("PRAGMA enable_optimizer; BEGIN TRANSACTION")
            try:
                yield self._writer
                self._writer.execute("COMMIT")
            except BaseException:
                with suppress(duckdb.Error):  # a failed COMMIT has rolled back by itself
                    self._writer.execute("ROLLBACK")
                raise

    @contextmanager
    def reading(self) -> Iterator[Db]:
        """A cursor that can only read, and sees one moment."""
        cursor = self._db.cursor()
        try:
            cursor.execute("BEGIN TRANSACTION READ ONLY")
            yield cursor
        finally:
            cursor.close()

    def rows(self, sql: str, **params: Any) -> list[dict[str, Any]]:
        """The rows of one SELECT, bound to `$name` parameters."""
        with self.reading() as db:
            return fetch(db, sql, **params)

    def checkpoint(self) -> None:
        """Write DuckDB's own log into the file, so that the next start is quick."""
        with self._turn, suppress(duckdb.Error):  # a reader may be busy: then the next one does it
            self._writer.execute("CHECKPOINT")

    def close(self) -> None:
        with self._turn:
            self._writer.close()
            self._db.close()


def fetch(db: Db, sql: str, **params: Any) -> list[dict[str, Any]]:
    """The rows of one statement as dictionaries. Reads the result whole (an unread one blocks)."""
    cursor = db.execute(sql, params or None)
    names = [column[0] for column in cursor.description or ()]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def one(db: Db, sql: str, params: list[Any] | dict[str, Any] | None = None) -> Any:
    """The only value of a one-row result, or None without a row."""
    found = db.execute(sql, params).fetchall()
    return found[0][0] if found else None


def open_store(path: Path, memory_limit: str | None = None) -> Store:
    """Open or create a database file.

    From then on DuckDB may touch no file outside the folder of the database.
    Raises StoreBusyError when another process holds it, StoreBrokenError when it cannot be opened.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        db = duckdb.connect(str(path))
    except duckdb.Error as error:
        text = str(error)
        if "lock" in text.lower():
            pid = re.search(r"PID (\d+)", text)
            raise StoreBusyError(path, int(pid[1]) if pid else None) from None
        raise StoreBrokenError(
            f"{path}: DuckDB cannot open it: {text.splitlines()[0]}"
            " Move it away and run `gatewatch rebuild`: the ledger holds every line."
        ) from None
    folder = str(path.parent.resolve()).replace("'", "''")
    db.execute(f"SET allowed_directories = ['{folder}']")
    db.execute("SET enable_external_access = false")
    db.execute(f"SET checkpoint_threshold = '{CHECKPOINT_AT}'")
    if memory_limit:
        db.execute("SET memory_limit = ?", [memory_limit])
    return _prepared(db, path)


def memory_store() -> Store:
    """A database in memory, for tests and dry runs."""
    return _prepared(duckdb.connect(), None)


def _prepared(db: Db, path: Path | None) -> Store:
    db.execute("SET GLOBAL TimeZone = 'UTC'")  # naive casts and dates follow the session's zone
    db.execute("SET python_enable_replacements = false")  # a query names tables, not our variables
    db.execute(SCHEMA.read_text(encoding="utf-8"))
    return Store(db, path)
