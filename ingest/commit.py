"""Batches that are in the ledger into the database: many in one transaction, or each in its own.

A batch that cannot be landed with others holds up nobody: then each is tried alone, and of that one
the lines that its adapter cannot read go to quarantine.
Reads: batches. Writes: every table of ingest/schema.sql sections 1 and 2. Next: ingest/apply.py.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import msgspec

from ingest import account, frozen, retention
from ingest.account import Landed
from ingest.adapter import Adapter
from ingest.apply import AdapterError, Written, apply, probe
from ingest.segment import Marker
from ingest.store import Db, Store

log = logging.getLogger("gatewatch")
TRIES = 4  # as it is; without what its adapter cannot read; in quarantine; once more
AdapterOf = Callable[[str, str], Adapter | None]  # of a name and a source; None: our own records


class BehindError(RuntimeError):
    """The database cannot take what the ledger holds. Nothing is lost; nothing more is taken."""


class Committer:
    """Takes batches in the order of the ledger. `step` is told what has just been done."""

    def __init__(
        self, store: Store, ledger: Path, adapter: AdapterOf, step: Callable[[str], None]
    ) -> None:
        self._store, self._ledger, self._adapter, self._step = store, ledger, adapter, step

    def all(self, written: Sequence[Written]) -> list[Landed | BehindError]:
        """What became of each. After one that the database refused, none is tried."""
        if len(written) > 1:
            try:
                return list(self._together(written))
            except Exception:  # noqa: BLE001, S110 - each alone will raise it again
                pass  # one of them: which, and whether it is one at all, will be seen
        done: list[Landed | BehindError] = []
        for each in written:
            try:
                done.append(self.one(each))
            except BehindError as error:
                return [*done, *[error] * (len(written) - len(done))]
        return done

    def one(self, written: Written) -> Landed:
        """Raises BehindError when the database refuses.

        What our own code does not survive is a fault of ours, and must not keep out all that comes
        after it: then the batch is in quarantine, until it is landed anew by a version without it.
        """
        poison: Mapping[int, str] = {}
        marker = written.batch.marker
        adapter = self._adapter(marker.adapter, marker.source)
        for tries in range(TRIES):
            try:
                with self._store.writing() as db:
                    landed = self.within(db, written, adapter, poison)
                    self._step("applied")
                return landed
            except AdapterError:
                poison = probe(self._store, written, adapter) if adapter else {}
            except duckdb.Error as error:
                if tries > 0:
                    text = str(error).splitlines()[0]
                    raise BehindError(f"{self._store.path}: cannot be written: {text}") from None
            except Exception as error:
                log.exception("a batch of %s is put into quarantine", marker.source)
                why = f"{type(error).__name__}: {error}"[:200]
                poison = {written.batch.place(n): why for n in range(len(written.lines.docs))}
        raise BehindError(f"{self._store.path}: a batch of {marker.source} cannot be landed.")

    def within(
        self, db: Db, written: Written, adapter: Adapter | None, poison: Mapping[int, str]
    ) -> Landed:
        """One batch in the caller's transaction. Raises AdapterError, and what DuckDB does."""
        if adapter is None:
            landed = _note(db, written, self._ledger)
        else:
            [landed] = apply(db, [written], adapter, poison)
        account.note_reached(db, written.batch)
        return landed

    def _together(self, written: Sequence[Written]) -> list[Landed]:
        landed: dict[int, Landed] = {}
        with self._store.writing() as db:
            for numbers in _alike([each.batch.marker for each in written]):
                group = [written[n] for n in numbers]
                marker = group[0].batch.marker
                adapter = self._adapter(marker.adapter, marker.source)
                done = (
                    apply(db, group, adapter)
                    if adapter
                    else [_note(db, each, self._ledger) for each in group]
                )
                landed |= dict(zip(numbers, done, strict=True))
            account.note_reached(db, written[-1].batch)
            self._step("applied")
        return [landed[n] for n in range(len(written))]


def _alike(markers: Sequence[Marker]) -> list[list[int]]:
    """Which batches one query lands together. Those of one source stay in their order: of two equal
    events it is the first that counts, and a database that is made anew lands one by one."""
    kinds = [(each.adapter, each.zone, each.agent) for each in markers]
    of_source: dict[str, set[Any]] = {}
    for each, kind in zip(markers, kinds, strict=True):
        of_source.setdefault(each.source, set()).add(kind)
    swapped = any(len(each) > 1 for each in of_source.values())
    found: list[list[int]] = []
    last: dict[Any, list[int]] = {}
    for number, kind in enumerate(kinds):
        if kind not in last or (swapped and kind != kinds[number - 1]):
            last[kind] = []
            found.append(last[kind])
        last[kind].append(number)
    return found


def _note(db: Db, written: Written, ledger: Path) -> Landed:
    """What the service recorded itself, back into `operator_log`, and where else it belongs."""
    batch = written.batch
    for number, line in enumerate(written.lines.docs):
        doc = msgspec.json.decode(line or "{}")
        detail = msgspec.json.encode(doc["detail"]).decode()
        row = [batch.place(number), batch.at, doc["actor"], doc["action"], doc["subject"], detail]
        if doc["action"] == "freeze":
            frozen.land(db, doc["detail"])
            row[-1] = "{}"  # they are in their own tables
        db.execute("INSERT INTO operator_log VALUES (?, ?, ?, ?, ?, ?, false)", row)
        if doc["action"] == "prune":
            retention.land(db, batch, number, doc["detail"], ledger)
        if doc["action"] == "protocols":
            found = doc["detail"]
            db.execute("INSERT INTO protocols VALUES (?, ?, ?, ?)",
                       [found["version"], batch.at, found["path"], found["doc"]])  # fmt: skip
        if doc["action"] == "policy":
            policy = doc["detail"]
            db.execute("INSERT INTO policies VALUES (?, ?, ?, ?)",
                       [policy["version"], batch.at, policy["path"], policy["doc"]])  # fmt: skip
            db.execute("DROP TABLE IF EXISTS temp.tools")  # it may say otherwise what they do
    return Landed(lines=len(batch.entries))
