"""Whole days as Parquet: every row, once, in a file that is whole or not there."""

from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.config import ConfigError, Duration, Retention
from ingest.export import TIMES, Day, Exported, ExportError, StoreDays, export, tables_of
from ingest.prune import prune
from tests.world import World, at, denied, native

DAY = 24 * 60  # minutes
KEEP = Retention(Duration("14 days"), Duration("60 days"))


@pytest.fixture
def world(tmp_path: Path) -> Any:
    opened = World(tmp_path / "one", policy=None)
    for day in (0, 1, 20):
        lines = [native(day * DAY + n, event_id=f"{day}-{n}", tool="t", decision="allow")
                 for n in range(10)]  # fmt: skip
        opened.land([*lines, denied(day * DAY), b"broken"], now=at(day * DAY + 30))
    opened.tick(at(20 * DAY + 60))
    yield opened
    opened.close()


def exported(world: World, folder: Path, *names: str, **span: Any) -> dict[str, Exported]:
    done = export(StoreDays(world.store), folder, names or list(TIMES), **span)
    return {each.table: each for each in done}


def read(folder: Path, table: str) -> list[tuple[Any, ...]]:
    """What any other program sees of it."""
    sql = f"SELECT * EXCLUDE (day) FROM read_parquet('{folder}/{table}/*/*.parquet') ORDER BY ALL"
    with duckdb.connect() as db:
        db.execute("SET TimeZone = 'UTC'")
        return db.execute(sql).fetchall()


def test_every_row_of_every_table_is_in_the_files(world: World, tmp_path: Path) -> None:
    done = exported(world, tmp_path / "out")

    assert {table: each.rows for table, each in done.items()} == {
        table: world.rows(f"SELECT count(*) AS n FROM {table}")[0]["n"] for table in TIMES
    }
    for table in ("events", "calls", "quarantine"):
        with world.store.reading() as db:
            stored = db.execute(f"SELECT * FROM {table} ORDER BY ALL").fetchall()
        assert read(tmp_path / "out", table) == stored
    days = sorted(path.name for path in (tmp_path / "out" / "events").iterdir())
    assert days == ["day=2026-03-10", "day=2026-03-11", "day=2026-03-30"]
    [one] = (tmp_path / "out" / "events" / "day=2026-03-10").iterdir()
    assert pq.read_metadata(one).row_group(0).column(0).compression == "ZSTD"


def test_doing_it_again_writes_the_same(world: World, tmp_path: Path) -> None:
    first = exported(world, tmp_path / "out")
    before = {path: path.read_bytes() for path in (tmp_path / "out").rglob("*.parquet")}

    assert exported(world, tmp_path / "out") == first
    assert {path: path.read_bytes() for path in (tmp_path / "out").rglob("*.parquet")} == before
    assert list((tmp_path / "out").rglob("*.tmp")) == []


def test_a_span_takes_whole_days(world: World, tmp_path: Path) -> None:
    done = exported(world, tmp_path / "out", "events", since=at(DAY + 5), until=at(DAY + 6))

    assert (done["events"].days, done["events"].rows) == (1, 11)


def test_a_day_that_was_pruned_keeps_its_older_file(world: World, tmp_path: Path) -> None:
    exported(world, tmp_path / "out", "events")
    before = read(tmp_path / "out", "events")
    assert prune(world.store, world.lander, KEEP, {}, at(20 * DAY + 60))

    done = exported(world, tmp_path / "out", "events")
    fresh = exported(world, tmp_path / "other", "events")

    assert (done["events"].left, done["events"].rows) == (2, 11)
    assert read(tmp_path / "out", "events") == before
    assert fresh["events"].rows == 13  # what pruning has left


class Short(StoreDays):
    """A source that loses its last rows on the way."""

    def day(self, table: str, day: date) -> Any:
        return _shortened(super().day(table, day))


class _shortened:  # noqa: N801 - a context manager, used like a function
    def __init__(self, whole: Any) -> None:
        self._whole = whole

    def __enter__(self) -> Day:
        day: Day = self._whole.__enter__()
        return Day(day.count, day.schema, (_less(batch) for batch in day.batches))

    def __exit__(self, *raised: Any) -> None:
        self._whole.__exit__(*raised)


def _less(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.slice(0, batch.num_rows - 1)


def test_an_export_that_is_not_whole_leaves_no_file(world: World, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="11 rows, 10 came"):
        list(export(Short(world.store), tmp_path / "out", ["events"]))

    assert list((tmp_path / "out").rglob("*.parquet*")) == []


def test_an_unknown_table_is_named_with_the_nearest_known() -> None:
    with pytest.raises(ConfigError, match=r"'event' cannot be exported. Did you mean 'events'"):
        tables_of("event")
