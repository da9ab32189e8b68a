"""Landing: a batch is durable in the ledger, then in the database, then acknowledged.

The database follows the ledger. When a commit fails the batch is still in the ledger, and the next
landing first brings the database up to it. The same road serves recovery and `rebuild`.
Reads: batches, the ledger. Writes: the ledger, every table of ingest/schema.sql sections 1 and 2.
Next: ingest/commit.py, detectors/engine.py.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from ingest import adapter, reading
from ingest.account import Landed
from ingest.apply import Written
from ingest.batch import Batch
from ingest.commit import BehindError, Committer
from ingest.config import ConfigError
from ingest.ledger import Ledger, LedgerError
from ingest.parse import parse
from ingest.reading import Lines
from ingest.redact import Redactor
from ingest.segment import OWN, Entry, Marker
from ingest.store import Store
from ingest.waiting import Queue, Ready, Waiting, once

__all__ = ["OWN", "BehindError", "Lander", "Ready", "reached"]

MANY = 150_000  # lines of a transaction that lands a file: more than a row group of DuckDB's
Step = Callable[[str], None]


def _silent(_: str) -> None:
    """Nobody watches the steps."""


class Lander:
    """The one writer of ledger and database. Opening it replays what the database has not got."""

    def __init__(
        self,
        store: Store,
        ledger: Ledger,
        redactor: Redactor,
        step: Step = _silent,
        own_adapters: Path | None = None,
    ) -> None:
        self._store, self._ledger, self._redactor = store, ledger, redactor
        self._own_adapters = own_adapters  # the folder of the user's own
        self._step = step  # told what has just been done; a test kills the process there
        self._turn = threading.RLock()
        self._queue = Queue()
        self._adapters: dict[str, adapter.Adapter] = {}
        self._commit = Committer(store, ledger.folder, self._adapter, step)
        self._behind = True
        self.recover()

    @property
    def head(self) -> tuple[int, str]:
        """Lines in the ledger, and its chain hash."""
        return self._ledger.seq, self._ledger.head

    @property
    def ledger(self) -> Ledger:
        return self._ledger

    @contextmanager
    def alone(self) -> Iterator[None]:
        """While it is open nobody else lands, judges or tells; the database is up to the ledger."""
        with self._turn, self._store.alone():
            self.recover()
            yield

    def seal(self, now: datetime) -> bool:
        """Seal a segment that is old, though no line comes that would. True if it was."""
        with self._turn:
            return self._ledger.seal_if_due(now)

    def read(self, batch: Batch) -> Ready:
        """Redact and parse a batch: the part of landing that needs no turn at the writer."""
        text = self._is_text(batch.adapter, batch.source)
        return Ready(batch, reading.read(batch.lines, self._redactor, text))

    def land(self, batch: Batch | Ready, now: datetime) -> Landed:
        """Make one batch durable and land it. When this returns, the batch may be acknowledged.

        Threads that wait for their turn are served together: whoever gets it lands the batches of
        all, with one fsync and one commit. Each is answered for its own.
        Raises ConfigError for an unknown adapter, LedgerError when the disk refuses, BehindError
        when the database does; after either the sender keeps the batch and may send it again.
        """
        mine = Waiting(batch if isinstance(batch, Ready) else self.read(batch), now)
        self._queue.put(mine)
        with self._turn:
            while not mine.over:
                self._serve(self._queue.take())
        return mine.answer

    def land_all(self, batches: Iterable[tuple[Ready, datetime]]) -> Iterator[Landed]:
        """Land many batches one after the other, several in each transaction. Raises as land().

        What DuckDB gets at once it writes straight into its file, what comes bit by bit twice.
        When `batches` raises, those before that are landed first.
        """
        todo = iter(batches)
        for first in todo:
            landed, error = self._land_some(first, todo)
            yield from landed
            if error is not None:
                raise error

    def record(
        self, action: str, actor: str, subject: str, detail: Mapping[str, Any], now: datetime
    ) -> int:
        """Note what a person did, or what the service did outside itself, as a line of the ledger.

        Returns the line's position. Raises ConfigError for what could not be read back.
        """
        doc = {"action": action, "actor": actor, "subject": subject, "detail": detail}
        line = msgspec.json.encode(doc, enc_hook=str)
        parsed = parse(line)
        if parsed.doc is None:  # in the ledger it would stop every landing after it
            raise ConfigError(f"{action}: {parsed.error}")
        lines = reading.again((Entry(line),), plain_text=False)
        with self._turn:
            self.recover()
            [landed] = self._keep([(lines, Marker(OWN, OWN))], now)
            if isinstance(landed, BehindError):
                raise landed
            return self._ledger.seq

    def recover(self) -> int:
        """Bring the database up to the ledger. Returns how many batches were replayed."""
        with self._turn:
            return len(self._replay()) if self._behind else 0

    def _replay(self) -> dict[int, Landed]:
        """What became of each batch that the database had not got, by its last position."""
        position = reached(self._store)
        if position > self._ledger.seq:
            raise BehindError(
                f"{self._ledger.folder}: the ledger ends at line {self._ledger.seq}, the"
                f" database at {position}: the ledger was cut. Run `gatewatch verify`."
            )
        replayed: dict[int, Landed] = {}
        for batch in self._ledger.read(position):
            text = self._is_text(batch.marker.adapter, batch.marker.source)
            written = Written(batch, reading.again(batch.entries, text))
            replayed[batch.marker.last] = self._commit.one(written)
        self._behind = False
        return replayed

    def _serve(self, group: Sequence[Waiting]) -> None:
        """Land the batches of those that wait. None of them is left without an answer."""
        try:
            self.recover()
            todo, again = once([each for each in group if self._is_new(each)])
            if todo:
                now = max(each.now for each in todo)
                kept = self._keep([(each.ready.lines, each.ready.marker) for each in todo], now)
                for each, landed in zip(todo, kept, strict=True):
                    if isinstance(landed, Landed):
                        each.landed = landed
                    else:
                        each.error = landed
            for each in again:
                each.landed = self._answered(each.ready.batch)
        except Exception as error:  # noqa: BLE001 - each of them raises it to its own caller
            for each in group:
                each.error = each.error or error
        finally:
            for each in group:
                if not each.over:
                    each.error = BehindError("the batch was not landed: send it again.")

    def _is_new(self, one: Waiting) -> bool:
        """Whether a batch is to be landed. If not, it has its answer."""
        batch = one.ready.batch
        try:
            self.check(batch.adapter, batch.source)
        except ConfigError as error:
            one.error = error
            return False
        one.landed = self._answered(batch) if batch.key else None
        return one.landed is None

    def _keep(
        self, batches: Sequence[tuple[Lines, Marker]], now: datetime
    ) -> list[Landed | BehindError]:
        """Batches into the ledger, then into the database: what became of each."""
        found = self._ledger.append_all([(lines.entries, its) for lines, its in batches], now)
        self._step("ledger")
        self._behind = True  # until the commit is through
        written = [Written(batch, lines) for batch, (lines, _) in zip(found, batches, strict=True)]
        landed = self._commit.all(written)
        self._behind = any(isinstance(each, BehindError) for each in landed)
        self._step("commit")
        self._seal(now)
        return landed

    def _seal(self, now: datetime) -> None:
        with suppress(OSError):  # the batch is kept; the next one tries to seal again
            if self._ledger.seal_if_due(now):
                self._store.checkpoint()

    def _land_some(
        self, first: tuple[Ready, datetime], rest: Iterator[tuple[Ready, datetime]]
    ) -> tuple[list[Landed], Exception | None]:
        """As many batches as one transaction takes. Should it fail, the ledger has them.

        While one is brought into the tables, the next is written to the ledger.
        """
        done: list[tuple[int, Landed]] = []  # with the position of the last line
        error: Exception | None = None
        with self._turn, ThreadPoolExecutor(1) as writer:
            self.recover()
            self.check(first[0].batch.adapter, first[0].batch.source)
            coming: Future[Written] | None = writer.submit(self._append, *first)
            try:
                with self._store.writing() as db:
                    while coming is not None:
                        written, coming = coming.result(), None
                        marker = written.batch.marker
                        done.append((marker.last, Landed()))
                        if marker.last - done[0][0] < MANY:
                            try:
                                if (following := next(rest, None)) is not None:
                                    coming = writer.submit(self._append, *following)
                            except Exception as found:  # noqa: BLE001 - raised when these are landed
                                error = found
                        its = self._adapter(marker.adapter, marker.source)
                        done[-1] = (marker.last, self._commit.within(db, written, its, {}))
                self._behind = False
            except (LedgerError, ConfigError, OSError):
                raise
            except Exception:  # noqa: BLE001 - in the ledger they are: each alone will be tried
                if coming is not None:
                    done.append((coming.result().batch.marker.last, Landed()))
                replayed = self._replay()
                done = [(last, replayed.get(last, landed)) for last, landed in done]
            self._seal(written.batch.at)
        return [landed for _, landed in done], error

    def _append(self, ready: Ready, now: datetime) -> Written:
        written = self._ledger.append(ready.lines.entries, ready.marker, now)
        self._step("ledger")
        self._behind = True
        return Written(written, ready.lines)

    def check(self, name: str, source: str) -> adapter.Header:
        """The header of a source's adapter. Raises ConfigError when it is none, or is our own."""
        found = self._adapter(name, source)
        if found is None:
            raise ConfigError(f"sources.{source}.adapter: {OWN!r} is what the service records.")
        return found.header

    def _adapter(self, name: str, source: str) -> adapter.Adapter | None:
        """The adapter by name; None for what the service records itself."""
        if name == OWN:
            return None
        if name not in self._adapters:
            with self._store.reading() as db:
                where = f"sources.{source}.adapter"
                self._adapters[name] = adapter.load(name, db, where, self._own_adapters)
        return self._adapters[name]

    def _is_text(self, name: str, source: str) -> bool:
        found = self._adapter(name, source)
        return found is not None and found.header.format == "text"

    def _answered(self, batch: Batch) -> Landed | None:
        """What was answered to this very batch, when it was landed in the last day."""
        sql = "SELECT answer FROM batch_keys WHERE key = $key AND source = $source"
        for row in self._store.rows(sql, key=batch.key, source=batch.source):
            landed = msgspec.json.decode(row["answer"], type=Landed)
            return Landed(landed.lines, 0, landed.lines, landed.quarantined, 0, repeated=True)
        return None


def reached(store: Store) -> int:
    """The ledger position that the database has reached."""
    rows = store.rows("SELECT seq FROM landed")
    return int(rows[0]["seq"]) if rows else 0
