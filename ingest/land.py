"""Landing: a batch is durable in the ledger, then in the database, then acknowledged.

The database follows the ledger. When a commit fails the batch is still in the ledger, and the next
landing first brings the database up to it. The same road serves recovery and `rebuild`.
Reads: batches, the ledger. Writes: the ledger, every table of ingest/schema.sql sections 1 and 2.
Next: detectors/engine.py.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import msgspec

from ingest import adapter, frozen, retention
from ingest.apply import AdapterError, Landed, apply, note_reached, probe
from ingest.batch import Batch, Oversized
from ingest.config import ConfigError
from ingest.ledger import Ledger
from ingest.parse import Parsed, parse, parse_text
from ingest.redact import Redactor
from ingest.segment import OWN, Batched, Entry, Marker
from ingest.store import Db, Store

Step = Callable[[str], None]


def _silent(_: str) -> None:
    """Nobody watches the steps."""


class BehindError(RuntimeError):
    """The database cannot take what the ledger holds. Nothing is lost; nothing more is taken."""


@dataclass(frozen=True)
class Ready:
    """A batch whose lines have been redacted and parsed."""

    batch: Batch
    entries: tuple[Entry, ...]
    parsed: tuple[Parsed, ...]


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
        self._adapters: dict[str, adapter.Adapter] = {}
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
        return Ready(batch, *self._read(batch))

    def land(self, batch: Batch | Ready, now: datetime) -> Landed:
        """Make one batch durable and land it. When this returns, the batch may be acknowledged.

        Raises ConfigError for an unknown adapter, LedgerError when the disk refuses, BehindError
        when the database does; after either the sender keeps the batch and may send it again.
        """
        ready = batch if isinstance(batch, Ready) else self.read(batch)
        batch = ready.batch
        with self._turn:
            self.recover()
            self.check(batch.adapter, batch.source)
            if batch.key and (answer := self._answered(batch)):
                return answer
            marker = Marker(
                batch.source, batch.adapter, pos=batch.pos, key=batch.key, offsets=batch.offsets,
                zone=batch.zone, agent=batch.agent,
            )  # fmt: skip
            return self._keep(ready.entries, ready.parsed, marker, now)

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
        with self._turn:
            self.recover()
            self._keep((Entry(line),), (parsed,), Marker(OWN, OWN), now)
            return self._ledger.seq

    def recover(self) -> int:
        """Bring the database up to the ledger. Returns how many batches were replayed."""
        with self._turn:
            if not self._behind:
                return 0
            position = reached(self._store)
            if position > self._ledger.seq:
                raise BehindError(
                    f"{self._ledger.folder}: the ledger ends at line {self._ledger.seq}, the"
                    f" database at {position}: the ledger was cut. Run `gatewatch verify`."
                )
            replayed = 0
            for batch in self._ledger.read(position):
                text = self._is_text(batch.marker.adapter, batch.marker.source)
                self._commit(batch, [_parsed(entry, text) for entry in batch.entries])
                replayed += 1
            self._behind = False
            return replayed

    def _keep(
        self, entries: tuple[Entry, ...], parsed: tuple[Parsed, ...], marker: Marker, now: datetime
    ) -> Landed:
        written = self._ledger.append(entries, marker, now)
        self._step("ledger")
        self._behind = True  # until the commit is through
        landed = self._commit(written, parsed)
        self._behind = False
        self._step("commit")
        with suppress(OSError):  # the batch is kept; the next one tries to seal again
            if self._ledger.seal_if_due(now):
                self._store.checkpoint()
        return landed

    def _commit(self, batch: Batched, parsed: Sequence[Parsed]) -> Landed:
        poison: Mapping[int, str] = {}
        found = self._adapter(batch.marker.adapter, batch.marker.source)
        for last_try in (False, True):
            try:
                with self._store.writing() as db:
                    if found is None:
                        return _note(db, batch, parsed, self._ledger.folder)
                    landed = apply(db, batch, parsed, found, poison)
                    self._step("applied")
                return landed
            except AdapterError:
                poison = probe(self._store, batch, parsed, found) if found else {}
            except duckdb.Error as error:
                if last_try:
                    text = str(error).splitlines()[0]
                    raise BehindError(f"{self._store.path}: cannot be written: {text}") from None
        raise AssertionError("a batch without its poison still raised")

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
            with self._store.writing() as db:
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

    def _read(self, batch: Batch) -> tuple[tuple[Entry, ...], tuple[Parsed, ...]]:
        """Redact, then parse. A blank line is nothing: it is neither kept nor counted."""
        plain = [line for line in batch.lines if isinstance(line, bytes)]
        redacted = iter(self._redactor.redact(plain))
        entries: list[Entry] = []
        parsed: list[Parsed] = []
        plain_text = self._is_text(batch.adapter, batch.source)
        for line in batch.lines:
            if isinstance(line, Oversized):
                head = self._redactor.redact([line.head])[0]
                kept = Entry(Oversized(head.raw, line.length, line.sha256), head.paths)
            else:
                kept = Entry(*next(redacted))
            found = _parsed(kept, plain_text)
            if found.doc is not None or found.reason is not None:
                entries.append(kept)
                parsed.append(found)
        return tuple(entries), tuple(parsed)


def reached(store: Store) -> int:
    """The ledger position that the database has reached."""
    rows = store.rows("SELECT seq FROM landed")
    return int(rows[0]["seq"]) if rows else 0


def _parsed(entry: Entry, plain_text: bool) -> Parsed:
    if isinstance(entry.line, Oversized):
        text = f"a line of {entry.line.length} bytes; sha256 {entry.line.sha256}"
        return Parsed(None, (), text, "too_large")
    return parse_text(entry.line) if plain_text else parse(entry.line)


def _note(db: Db, batch: Batched, parsed: Sequence[Parsed], ledger: Path) -> Landed:
    """What the service recorded itself, back into `operator_log`, and where else it belongs."""
    for number, each in enumerate(parsed):
        doc = msgspec.json.decode(each.doc or "{}")
        detail = msgspec.json.encode(doc["detail"]).decode()
        row = [batch.place(number), batch.at, doc["actor"], doc["action"], doc["subject"], detail]
        if doc["action"] == "freeze":
            frozen.land(db, doc["detail"])
            row[-1] = "{}"  # they are in their own tables
        db.execute("INSERT INTO operator_log VALUES (?, ?, ?, ?, ?, ?, false)", row)
        if doc["action"] == "prune":
            retention.land(db, batch, number, doc["detail"], ledger)
        if doc["action"] == "policy":
            policy = doc["detail"]
            db.execute("INSERT INTO policies VALUES (?, ?, ?, ?)",
                       [policy["version"], batch.at, policy["path"], policy["doc"]])  # fmt: skip
            db.execute("DROP TABLE IF EXISTS temp.tools")  # it may say otherwise what they do
    note_reached(db, batch)
    return Landed(lines=len(batch.entries))
