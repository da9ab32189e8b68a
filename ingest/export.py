"""Tables as Parquet files, a file a day: `FOLDER/TABLE/day=YYYY-MM-DD/part-0.parquet`, zstd.

Each file is written whole or not at all and holds as many rows as the database has of that day, or
the export fails. Doing it again writes the same files. A day that has been pruned since it was
exported is left alone: its file has more than the database.
Reads: every table. Writes: Parquet files. Next: gatewatch/commands/ledger.py.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from ingest.config import ConfigError, nearest
from ingest.manifest import sync
from ingest.store import Db, Reader, Store, one

TIMES = {  # what can be exported, and the column that says the day
    "events": "ts", "calls": "ts", "minute_counts": "minute", "sightings": "day",
    "quarantine": "received_at", "stretches": "ended_at", "alerts": "started_at",
    "deliveries": "created_at",
    "incidents": "labelled_at", "policies": "loaded_at", "protocols": "loaded_at",
    "operator_log": "ts",
}  # fmt: skip
ROWS_AT_ONCE = 50_000  # of a wide table some 50 MB
FILE = "part-0.parquet"


class ExportError(RuntimeError):
    """The export is not whole. Says which day of which table."""


@dataclass(frozen=True)
class Day:
    """The rows of one table and day, as of one moment."""

    count: int
    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]


class Days(Reader, Protocol):
    """Whatever gives the rows of a day: a store, or a client that asks the service."""

    def day(self, table: str, day: date) -> AbstractContextManager[Day]: ...


class StoreDays:
    """The days of an opened database."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def rows(self, sql: str, **params: Any) -> list[dict[str, Any]]:
        return self._store.rows(sql, **params)

    @contextmanager
    def day(self, table: str, day: date) -> Iterator[Day]:
        with self._store.reading() as db:
            yield day_of(db, table, day)


@dataclass(frozen=True)
class Exported:
    """What became of one table."""

    table: str
    days: int
    rows: int
    bytes: int
    left: int  # days whose older file was left, because they have been pruned since


def tables_of(text: str | None) -> list[str]:
    """Tables by name, comma between them; all of them by default. Raises ConfigError."""
    names = list(TIMES) if text is None else [each.strip() for each in text.split(",")]
    for name in names:
        if name not in TIMES:
            raise ConfigError(f"--tables: {name!r} cannot be exported.{nearest(name, TIMES)}")
    return names


def day_of(db: Db, table: str, day: date) -> Day:
    """The rows of a day inside the caller's transaction."""
    time = TIMES[table]
    span = {"since": f"{day}T00:00:00Z", "until": f"{day + timedelta(days=1)}T00:00:00Z"}
    where = f"{time} >= $since::TIMESTAMPTZ AND {time} < $until::TIMESTAMPTZ"
    sql = f"FROM {table} WHERE {where}"
    count = int(one(db, f"SELECT count(*) {sql}", dict(span)))
    reader = db.sql(f"SELECT * {sql}", params=span).to_arrow_reader(ROWS_AT_ONCE)
    return Day(count, reader.schema, iter(reader))


def export(
    source: Days,
    folder: Path,
    tables: Sequence[str],
    since: datetime | None = None,
    until: datetime | None = None,
) -> Iterator[Exported]:
    """Write every whole day that [since, until) touches, table by table.

    Raises ExportError where the rows do not add up, OSError where they cannot be written.
    """
    pruned = source.rows("SELECT max(greatest(floor, before)) AS at FROM prunes")[0]["at"]
    for table in tables:
        yield _table(source, folder / table, table, (since, until), pruned)


def _table(
    source: Days,
    folder: Path,
    table: str,
    span: tuple[datetime | None, datetime | None],
    pruned: datetime | None,
) -> Exported:
    time = TIMES[table]
    found = source.rows(
        f"SELECT DISTINCT {time}::DATE AS day FROM {table} ORDER BY day"  # noqa: S608 - two of TIMES
    )
    if any(row["day"] is None for row in found):
        raise ExportError(f"{table}: rows without a time, which no day has: nothing was written.")
    days, rows, size, left = 0, 0, 0, 0
    for day in [row["day"] for row in found if _inside(row["day"], span)]:
        path = folder / f"day={day}" / FILE
        if pruned is not None and day <= pruned.date() and path.exists():
            left += 1
            continue
        with source.day(table, day) as given:
            rows += _write(path, given)
        days += 1
        size += path.stat().st_size
    _clear(folder, {row["day"] for row in found}, span, pruned)
    return Exported(table, days, rows, size, left)


def _inside(day: date, span: tuple[datetime | None, datetime | None]) -> bool:
    since, until = span
    return (since is None or day >= since.date()) and (
        until is None or day <= (until - timedelta(microseconds=1)).date()
    )


def _write(path: Path, day: Day) -> int:
    """One file, whole or not there. Returns its rows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch, written = path.with_name(f".{path.name}.tmp"), 0
    with pq.ParquetWriter(scratch, day.schema, compression="zstd") as writer:
        for batch in day.batches:
            writer.write_batch(batch)
            written += batch.num_rows
    kept = pq.read_metadata(scratch).num_rows
    if not kept == written == day.count:
        scratch.unlink()
        raise ExportError(f"{path}: the database has {day.count} rows, {written} came.")
    with scratch.open("rb") as file:
        os.fsync(file.fileno())
    scratch.rename(path)
    sync(path.parent)
    return written


def _clear(
    folder: Path,
    there: set[date],
    span: tuple[datetime | None, datetime | None],
    pruned: datetime | None,
) -> None:
    """Drop the file of a day that has no row any more because its rows belong to another day now:
    a call begins when it was first heard of. A pruned day's stays."""
    for path in folder.glob(f"day=*/{FILE}"):
        day = date.fromisoformat(path.parent.name.partition("=")[2])
        if day not in there and _inside(day, span) and not (pruned and day <= pruned.date()):
            path.unlink()
