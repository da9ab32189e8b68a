"""An adapter: a SELECT from lines to events, checked by DuckDB before it ever runs.

Reads: ingest/adapters/*.sql. Writes: nothing. Next: ingest/apply.py.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import msgspec
import pyarrow as pa

from ingest.config import ConfigError, convert, header, nearest
from ingest.store import Db, fetch

FOLDER = Path(__file__).with_name("adapters")
MUST = ("event_id", "kind", "source", "ledger_seq", "ts")
LINES = """
    CREATE OR REPLACE TEMP VIEW lines AS SELECT * REPLACE (doc::JSON AS doc) FROM incoming
"""
PIECE = 4_096  # lines; DuckDB reads a table that is in one piece on one core


class Header(msgspec.Struct, frozen=True):
    title: str
    format: str
    paths: tuple[str, ...] = ()
    time: str | None = None  # the key of a line that holds its time: says why a line gave no event


@dataclass(frozen=True)
class Adapter:
    id: str
    header: Header
    sql: str


def names(folder: Path = FOLDER) -> list[str]:
    """Every adapter there is: the names of the files."""
    return sorted(path.stem for path in folder.glob("*.sql"))


def load(name: str, db: Db, where: str) -> Adapter:
    """One adapter by name. Raises ConfigError; `where` is the key or option that asked for it."""
    if name not in names():
        raise ConfigError(f"{where}: no adapter called {name!r}.{nearest(name, names())}")
    path = FOLDER / f"{name}.sql"
    table, sql = header(path)
    declared = convert(table, Header, str(path))
    _promise(path, sql, db)
    return Adapter(name, declared, sql)


@contextmanager
def lines(
    db: Db, source: str, at: datetime, docs: Sequence[tuple[int, str | None]]
) -> Iterator[None]:
    """While it is open, the relation `lines` that adapters read holds these: position and JSON."""
    table = pa.table(
        {
            "ledger_seq": pa.array([each[0] for each in docs], pa.uint64()),
            "source": pa.repeat(pa.scalar(source), len(docs)),
            "received_at": pa.repeat(pa.scalar(at, pa.timestamp("us", "UTC")), len(docs)),
            "doc": pa.array([each[1] for each in docs], pa.string()),
        }
    )
    pieces = table.to_batches(max_chunksize=PIECE)
    db.register("incoming", pa.Table.from_batches(pieces, table.schema))
    try:
        db.execute(LINES)
        yield
    finally:
        db.unregister("incoming")


def _promise(path: Path, sql: str, db: Db) -> None:
    """The columns that it fills are columns of `events`, of the same types."""
    wanted: Mapping[str, str] = {
        row["column_name"]: row["column_type"] for row in fetch(db, "DESCRIBE events")
    }
    try:
        with lines(db, "", datetime.fromtimestamp(0, UTC), ()):
            rows = fetch(db, f"DESCRIBE {sql}")
        found = {row["column_name"]: row["column_type"] for row in rows}
    except duckdb.Error as error:
        raise ConfigError(f"{path}: {error}") from None
    for name, kind in found.items():
        if name not in wanted:
            raise ConfigError(f"{path}: events has no column {name!r}.{nearest(name, wanted)}")
        if kind not in (wanted[name], '"NULL"'):
            raise ConfigError(f"{path}: {name} must be {wanted[name]}, found {kind}.")
    for name in MUST:
        if name not in found:
            raise ConfigError(f"{path}: an adapter fills {name}, this one does not.")
