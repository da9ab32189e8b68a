"""Commands about lines and tables: ingest, sql.

Reads: files. Writes: through ingest/land.py. Next: gatewatch/commands/ledger.py.
"""

import sys
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Annotated, cast

import duckdb
import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from gatewatch import asking, piped
from gatewatch.client import Remote
from gatewatch.commands.terminal import (
    Adapters,
    Config,
    Database,
    Json,
    emit,
    err,
    out,
    reached,
    settings,
    table,
)
from gatewatch.parts import Parts, utc_now
from ingest import adapter as adapters
from ingest.apply import Landed
from ingest.batch import Batch, Oversized
from ingest.config import ConfigError, Settings, Source
from ingest.cut import how
from ingest.files import ReadError, read_file
from ingest.land import Lander, Ready
from ingest.store import memory_store

# Of a file that is landed once. What is read ahead, and what DuckDB holds, is bounded by these.
BULK_BYTES, BULK_MEMORY = 8 * 2**20, 128 * 2**20
LINES_HELD = 64  # the longest lines that DuckDB must be able to hold several times over


def ingest(
    paths: Annotated[list[str], typer.Argument(help="Files, also .gz and .zst; `-` for stdin.")],
    adapter: Annotated[str, typer.Option("--adapter", help="Which format they are in.")] = "native",
    source: Annotated[str | None, typer.Option("--source", help="Default: the adapter.")] = None,
    own: Adapters = None,
    db: Database = None,
    config: Config = None,
    policy: Annotated[Path | None, typer.Option("--policy")] = None,
    as_json: Json = False,
) -> None:
    """Land files: every line is kept, and becomes an event or a line in quarantine."""
    chosen = settings(config, db, policy, own)
    adapters.find(adapter, "--adapter", chosen.adapters)
    for path in paths:
        _readable(path)
    name, began = source or adapter, time.monotonic()
    total = Landed()
    with reached(chosen, db) as there, _progress(paths) as bar:
        task = bar.add_task("", total=_size(paths) or None)
        every = (batch for path in paths for batch in _batches(path, name, adapter, chosen, there))
        whole = all(Path(path).is_file() for path in paths)  # no pipe, where lines are awaited
        for size, landed in landings(there, every, whole):
            total += landed
            bar.update(task, advance=size)
    seconds = time.monotonic() - began
    counts = {key: asdict(total)[key] for key in ("lines", "events", "duplicates", "quarantined")}
    if as_json:
        emit(counts | {"id_conflicts": total.id_conflicts, "seconds": round(seconds, 3)})
        return
    out.print(
        ", ".join(f"{value} {key}" for key, value in counts.items()) + f" in {seconds:.1f} s."
    )
    if total.quarantined:
        err.print("See them: gatewatch sql 'SELECT reason, detail, raw FROM quarantine'")


def sql(
    query: Annotated[str, typer.Argument(help="One SELECT.")],
    db: Database = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Ask the tables: one SELECT, read-only."""
    chosen = settings(config, db)
    _existing(db or chosen.db)
    try:
        with reached(chosen, db) as there:
            if isinstance(there, Parts):  # a service looks for itself
                with there.store.reading() as cursor:
                    asking.check(cursor, query)
            rows = there.rows(query)
    except duckdb.Error as error:
        raise ConfigError(f"sql: {str(error).splitlines()[0]}") from None
    if as_json:
        emit(rows)
    else:
        table(rows, rows[0] if rows else (), "No rows.")


def _existing(path: Path) -> None:
    if not path.exists():
        raise ConfigError(f"{path}: there is no database. `gatewatch ingest` makes one.")


def landings(
    there: Parts | Remote, batches: Iterator[Batch], whole: bool
) -> Iterator[tuple[int, Landed]]:
    """The size of each batch in bytes, and what became of it. `whole`: none is to be waited for."""
    if isinstance(there, Remote):
        for batch in batches:
            lines = [line for line in batch.lines if isinstance(line, bytes)]
            if len(lines) < len(batch.lines):
                raise ConfigError(
                    f"{batch.pos}: a line after this is over limits.line_bytes; only its head could"
                    " be sent. Stop the service to ingest this file; what was landed stays."
                )
            answer = there.ingest(batch.source, lines)
            yield _bytes(batch), Landed(**{key: answer[key] for key in asdict(Landed())})
        return
    sizes = deque[int]()

    def ready() -> Iterator[tuple[Ready, datetime]]:
        for each in _ahead(batches, there.lander):
            sizes.append(_bytes(each.batch))
            yield each, utc_now()

    if whole:
        longest = there.settings.limits.line_bytes
        with there.store.within(max(BULK_MEMORY, LINES_HELD * longest)):
            for landed in there.lander.land_all(ready()):
                yield sizes.popleft(), landed
            there.store.checkpoint()  # closing would do it, and take what memory it likes
    else:
        for each, now in ready():
            yield sizes.popleft(), there.lander.land(each, now)


def _ahead(batches: Iterator[Batch], lander: Lander) -> Iterator[Ready]:
    """While one batch lands, the next is read and parsed."""

    def following() -> Ready | None:
        batch = next(batches, None)
        return None if batch is None else lander.read(batch)

    with ThreadPoolExecutor(1) as reader:
        coming = reader.submit(following)
        while (ready := coming.result()) is not None:
            coming = reader.submit(following)
            yield ready


def _batches(
    path: str, source: str, adapter: str, chosen: Settings, there: Parts | Remote
) -> Iterator[Batch]:
    limits = chosen.limits
    size = limits.batch_bytes  # a service takes no more than limits.body_bytes at once
    if isinstance(there, Parts):
        size = max(size, BULK_BYTES)
        header = there.lander.check(adapter, source)
    else:
        with memory_store().writing() as db:
            header = adapters.load(adapter, db, "--adapter", chosen.adapters).header
    cut = how(header, chosen.sources.get(source, Source()))
    try:
        if path == "-":
            given = cast("piped.Pipe", sys.stdin.buffer)
            yield from piped.batches(given, source, adapter, limits.line_bytes, size, cut)
        else:
            yield from read_file(Path(path), source, adapter, limits.line_bytes, size, how=cut)
    except ReadError as error:
        raise ConfigError(f"{path}: {error}. Every line before that was landed.") from None


def _readable(path: str) -> None:
    if path == "-":
        return
    try:
        with Path(path).open("rb"):
            pass
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}.") from None


def _size(paths: list[str]) -> int:
    return sum(Path(path).stat().st_size for path in paths if path != "-")


def _bytes(batch: Batch) -> int:
    return sum(
        1 + (line.length if isinstance(line, Oversized) else len(line)) for line in batch.lines
    )


def _progress(paths: list[str]) -> Progress:
    """A bar on a terminal, nothing in a pipe."""
    return Progress(
        BarColumn(), TransferSpeedColumn(), TimeRemainingColumn(), TextColumn(""),
        console=err, transient=True, disable=not sys.stderr.isatty(),
    )  # fmt: skip
