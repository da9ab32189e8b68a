"""An adapter: a SELECT from lines to events, checked by DuckDB before it ever runs.

Reads: ingest/adapters/*.sql and the user's own folder (*.sql, and *.toml through
ingest/mapping.py). Writes: nothing. Next: ingest/apply.py.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import duckdb
import msgspec
import pyarrow as pa

from ingest import mapping
from ingest.config import ConfigError, convert, header, nearest
from ingest.store import Db, beside, fetch

FOLDER = Path(__file__).with_name("adapters")
MUST = ("event_id", "kind", "source", "ledger_seq", "ts")
LINES = """
    CREATE OR REPLACE TEMP VIEW lines AS SELECT * REPLACE (doc::JSON AS doc) FROM incoming
"""
TIMED = """
    SELECT * EXCLUDE (claimed, early, undated) REPLACE (
        CASE WHEN undated THEN $at::TIMESTAMPTZ ELSE claimed END AS ts,
        CASE WHEN undated THEN 'receiver' ELSE coalesce(ts_quality, 'source') END AS ts_quality,
        CASE WHEN early THEN list_append(coalesce(signals, []), 'clock_skew') ELSE signals END
            AS signals,
        CASE WHEN undated AND claimed IS NOT NULL THEN json_merge_patch(
            coalesce(attrs, '{{}}'), json_object('ts_claimed', claimed::VARCHAR)) ELSE attrs END
            AS attrs)
    FROM (
        SELECT *, ts AS claimed, coalesce(ts > $at::TIMESTAMPTZ + INTERVAL 1 HOUR, false) AS early,
            early OR ts IS NULL OR ts < TIMESTAMPTZ '2000-01-01 00:00:00+00' AS undated
        FROM (SELECT * FROM ({adapter})
              UNION ALL BY NAME SELECT * FROM (SELECT * FROM events LIMIT 0)))
"""
PIECE = 4_096  # lines; DuckDB reads a table that is in one piece on one core


class Header(msgspec.Struct, frozen=True):
    """The TOML that opens an adapter's file.

    `format`: ndjson is an object a line; json is a file that may hold one document over many
    lines (an array gives a line an element); text is any line, one that is no object reaching the
    adapter as {"text": line}. `envelope` is the key of an array in an object that only carries
    it, {"Records": [...]}: each element comes as a line of its own, {"Records": [element]}.
    """

    title: str
    format: Literal["ndjson", "json", "text"] = "ndjson"
    paths: tuple[str, ...] = ()  # where a sender of this format may push it
    time: str | None = None  # the key of a line that holds its time: says why a line gave no event
    envelope: str | None = None


@dataclass(frozen=True)
class Adapter:
    id: str
    header: Header
    sql: str

    @property
    def events(self) -> str:
        """What it makes of `lines`, every column of `events` there, and every time usable.

        An adapter gives the time that the line claims, or NULL. What claims none, or one before
        2000 or more than an hour after it came ($at), takes $at, says so, and keeps the claim.
        """
        return TIMED.format(adapter=self.sql)


def names(folder: Path | None = None) -> list[str]:
    """Every adapter there is: the names of the files, those of the user's folder too."""
    return sorted(_files(folder))


def find(name: str, where: str, folder: Path | None = None) -> Path:
    """The file of one adapter. Raises ConfigError; `where` is the key or option that asks."""
    files = _files(folder)
    if name not in files:
        looked = "" if folder else " One of your own: name its folder as adapters_folder."
        raise ConfigError(f"{where}: no adapter called {name!r}.{nearest(name, files)}{looked}")
    return files[name]


def load(name: str, db: Db, where: str, folder: Path | None = None) -> Adapter:
    """One adapter by name. Raises ConfigError; `where` is the key or option that asked for it."""
    path = find(name, where, folder)
    if path.suffix == ".toml":
        table, sql = mapping.read(path, _columns(db))
    else:
        table, sql = header(path)
    declared = convert(table, Header, str(path))
    _promise(path, sql, db)
    return Adapter(name, declared, sql)


@contextmanager
def lines(
    db: Db, source: str, at: datetime, docs: Sequence[tuple[int, str | None]], pos: str = ""
) -> Iterator[None]:
    """While it is open, the relation `lines` that adapters read holds these: position and JSON.

    `pos`: where they come from, for people.
    """
    table = pa.table(
        {
            "ledger_seq": pa.array([each[0] for each in docs], pa.uint64()),
            "source": pa.repeat(pa.scalar(source), len(docs)),
            "received_at": pa.repeat(pa.scalar(at, pa.timestamp("us", "UTC")), len(docs)),
            "pos": pa.repeat(pa.scalar(pos), len(docs)),
            "doc": pa.array([each[1] for each in docs], pa.string()),
        }
    )
    with seen(db, table):
        yield


@contextmanager
def seen(db: Db, table: pa.Table) -> Iterator[None]:
    """While it is open, adapters see this table as `lines`."""
    pieces = table.to_batches(max_chunksize=PIECE)
    with beside(db, "incoming", pa.Table.from_batches(pieces, table.schema)):
        db.execute(LINES)
        yield


def _files(folder: Path | None) -> dict[str, Path]:
    """Name to file. An adapter of the user's may not take the name of one of ours."""
    files = {path.stem: path for path in FOLDER.glob("*.sql")}
    if folder is None:
        return files
    if not folder.is_dir():
        raise ConfigError(f"adapters_folder: {folder} is no folder.")
    for path in sorted([*folder.glob("*.sql"), *folder.glob("*.toml")]):
        if path.stem in files:
            raise ConfigError(f"{path}: there is an adapter {path.stem!r} already.")
        files[path.stem] = path
    return files


def _columns(db: Db) -> dict[str, str]:
    """The columns of `events`, with their types."""
    return {row["column_name"]: row["column_type"] for row in fetch(db, "DESCRIBE events")}


def _promise(path: Path, sql: str, db: Db) -> None:
    """It is one SELECT; the columns that it fills are columns of `events`, of the same types."""
    wanted = _columns(db)
    try:
        if [each.type for each in duckdb.extract_statements(sql)] != [duckdb.StatementType.SELECT]:
            raise ConfigError(f"{path}: an adapter is one SELECT, nothing else.")
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
