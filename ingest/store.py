"""The DuckDB file and its one owner. Nobody else opens it.

DuckDB lets one process hold a file. Within it, one writer at a time works under a lock; readers
take a cursor of their own inside a read-only transaction and see a consistent snapshot.
A database that DuckDB gave up (a write failed half way, as on a full disk) is opened again by
itself, at the next use for which there is room.
Reads: ingest/schema.sql, macros.sql, words.sql, outcomes.sql, limits.sql, baseline.sql. Writes:
the database file. Next: ingest/ledger.py.
"""

import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import duckdb
import pyarrow as pa

Db = duckdb.DuckDBPyConnection
CHECKPOINT_AT = (
    "256MB"  # of DuckDB's own log; at its default of 16 MB every batch rewrites the file
)
FULL = "No space left on device"
GIVEN_UP = (duckdb.FatalException, duckdb.InternalException)
READERS_END = 5.0  # seconds that readers of a database that was given up may take to notice it
TABLES, *MACROS = (
    Path(__file__).with_name(f"{name}.sql")
    for name in ("schema", "macros", "words", "outcomes", "limits", "baseline")
)


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
    """One database. `path` is None for one that lives in memory; `again` opens it once more."""

    def __init__(self, db: Db, path: Path | None, again: Callable[[], Db] | None = None) -> None:
        self.path = path
        self._again = again
        self._turn = threading.RLock()
        self._readers, self._left = 0, threading.Condition()
        self._given_up = False
        self._take(db)

    def _take(self, db: Db) -> None:
        self._db = db
        self._writer = db.cursor()
        self._writer.execute("SET preserve_insertion_order = true")

    @contextmanager
    def writing(self) -> Iterator[Db]:
        """The writer's cursor, inside a transaction that commits at the end or leaves no trace."""
        with self._turn:
            self._revive()
            try:
                self._writer.execute("PRAGMA enable_optimizer; BEGIN TRANSACTION")
                yield self._writer
                self._writer.execute("COMMIT")
            except BaseException as error:
                self._note(error)
                with suppress(duckdb.Error):  # a failed COMMIT has rolled back by itself
                    self._writer.execute("ROLLBACK")
                raise

    @contextmanager
    def alone(self) -> Iterator[None]:
        """While it is open nobody else writes: what its holder reads stays as it is."""
        with self._turn:
            yield

    @contextmanager
    def reading(self) -> Iterator[Db]:
        """A cursor that can only read, and sees one moment."""
        self._revive()
        with self._left:
            cursor = self._db.cursor()
            self._readers += 1
        try:
            cursor.execute("BEGIN TRANSACTION READ ONLY")
            yield cursor
        except duckdb.Error as error:
            self._note(error)
            raise
        finally:
            cursor.close()
            with self._left:
                self._readers -= 1
                self._left.notify_all()

    def _note(self, error: BaseException) -> None:
        self._given_up = self._given_up or isinstance(error, GIVEN_UP)

    def _revive(self) -> None:
        """Open a database again that DuckDB has given up. Raises duckdb.Error while it cannot be.

        It is opened anew only when its last cursor is closed: until then DuckDB has it at hand.
        """
        if not self._given_up or self._again is None:
            return
        with self._turn, self._left:
            if not self._given_up:
                return
            if not self._left.wait_for(lambda: self._readers == 0, READERS_END):
                raise duckdb.OperationalError(f"{self.path}: readers hold on to it.")
            with suppress(duckdb.Error):
                self._writer.close()
                self._db.close()
            self._take(self._again())
            self._given_up = False

    def rows(self, sql: str, **params: Any) -> list[dict[str, Any]]:
        """The rows of one SELECT, bound to `$name` parameters."""
        with self.reading() as db:
            return fetch(db, sql, **params)

    @contextmanager
    def within(self, memory: int) -> Iterator[None]:
        """While it is open DuckDB holds no more than `memory` bytes, and spills what is more."""
        with self._turn:
            was = one(self._writer, "SELECT current_setting('memory_limit')")
            self._writer.execute("SET memory_limit = ?", [f"{memory} bytes"])
        try:
            yield
        finally:
            with self._turn:
                self._writer.execute("SET memory_limit = ?", [was])

    def copy_to(self, target: Path) -> None:
        """Write everything into a new database file in the same folder, without free space.

        Raises StoreBrokenError where a table has not come over whole.
        """
        with self._turn:
            name = one(self._writer, "SELECT current_database()")
            self._writer.execute("CHECKPOINT")
            quoted = str(target).replace("'", "''")
            self._writer.execute(f"ATTACH '{quoted}' AS compacted")
            try:
                self._writer.execute(f'COPY FROM DATABASE "{name}" TO compacted')
                self._writer.execute("CHECKPOINT compacted")
                tables = fetch(self._writer, "SELECT table_name FROM duckdb_tables()"
                               " WHERE database_name = current_database()")  # fmt: skip
                for row in tables:
                    table = row["table_name"]
                    sql = f'SELECT count(*) FROM {{}}."{table}"'  # noqa: S608 - the schema's own
                    if one(self._writer, sql.format(f'"{name}"')) != one(
                        self._writer, sql.format("compacted")
                    ):
                        raise StoreBrokenError(f"{target}: {table} has not come over whole.")
            finally:
                self._writer.execute("DETACH compacted")

    def checkpoint(self) -> None:
        """Write DuckDB's own log into the file, so that the next start is quick."""
        with self._turn:
            try:
                self._writer.execute("CHECKPOINT")
            except duckdb.Error as error:  # a reader may be busy: then the next one does it
                self._note(error)

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


@contextmanager
def beside(db: Db, name: str, table: pa.Table) -> Iterator[None]:
    """While it is open, a table of Arrow's can be asked under `name`."""
    db.register(name, table)
    try:
        yield
    finally:
        with suppress(duckdb.Error):  # in a transaction that failed: what it failed of is told
            db.unregister(name)


def insert(db: Db, table: str, row: Mapping[str, Any]) -> None:
    """Put one row in, by the names of its columns, which are our own."""
    names, places = ", ".join(row), ", ".join(f"${name}" for name in row)
    db.execute(f"INSERT INTO {table} ({names}) VALUES ({places})", dict(row))  # noqa: S608


def open_store(path: Path, memory_limit: str | None = None) -> Store:
    """Open or create a database file.

    From then on DuckDB may touch no file outside the folder of the database.
    Raises StoreBusyError when another process holds it, StoreBrokenError when it cannot be opened.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        db = _opened(path, memory_limit)
    except duckdb.Error as error:
        text = str(error)
        if "lock" in text.lower():
            pid = re.search(r"PID (\d+)", text)
            raise StoreBusyError(path, int(pid[1]) if pid else None) from None
        if FULL in text:
            raise StoreBrokenError(f"{path}: there is no room on the disk to open it.") from None
        raise StoreBrokenError(
            f"{path}: DuckDB cannot open it: {text.splitlines()[0]}"
            " Move it away and run `gatewatch rebuild`: the ledger holds every line."
        ) from None
    return Store(db, path, partial(_opened, path, memory_limit))


def _opened(path: Path, memory_limit: str | None) -> Db:
    db = duckdb.connect(str(path))
    try:
        folder = str(path.parent.resolve()).replace("'", "''")
        db.execute(f"SET allowed_directories = ['{folder}']")
        db.execute("SET enable_external_access = false")
        db.execute(f"SET checkpoint_threshold = '{CHECKPOINT_AT}'")
        if memory_limit:
            db.execute("SET memory_limit = ?", [memory_limit])
        return _prepared(db)
    except BaseException:
        db.close()  # or the next try would be given this very one
        raise


def memory_store() -> Store:
    """A database in memory, for tests and dry runs."""
    return Store(_prepared(duckdb.connect()), None)


def _prepared(db: Db) -> Db:
    db.execute("SET GLOBAL TimeZone = 'UTC'")  # naive casts and dates follow the session's zone
    db.execute("SET python_enable_replacements = false")  # a query names tables, not our variables
    for part in (TABLES, *MACROS):
        db.execute(part.read_text(encoding="utf-8"))
    return db
