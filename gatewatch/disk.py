"""Room for lines: they are taken while they can be kept, refused while not, and taken again.

Some room is left over on purpose, so that alerts and deliveries can still be written when lines no
longer can. Whatever else keeps lines out of ledger or database counts the same.
Reads: the disk. Writes: a small file that is gone at once. Next: gatewatch/direct.py.
"""

import logging
import os
import shutil
import threading
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import duckdb

from ingest.land import BehindError
from ingest.ledger import LedgerError

log = logging.getLogger("gatewatch")
TRIAL = 2**20  # bytes that are written to see whether the disk takes any
MORE = 1.25  # times the limit must be free again, or the state would flutter
EVERY = 1.0  # seconds between two looks
REFUSALS = (BehindError, LedgerError, duckdb.Error)  # lines could not be kept


class Disk:
    """Whether lines can be kept. `trial` raises while ledger or database refuse.

    `free_bytes`: what must stay free. `over`, when given, is told of each stretch when it is over:
    why lines were refused, and since when.
    """

    def __init__(
        self, folder: Path, free_bytes: int, trial: Callable[[], object],
        over: Callable[[str, datetime], object] | None = None,
    ) -> None:  # fmt: skip
        self.folder, self._limit = folder, free_bytes
        self._trial, self._over = trial, over
        self._turn = threading.Lock()
        self._why: str | None = None
        self._since: datetime | None = None

    @property
    def why(self) -> str | None:
        """Why no lines are taken; None while they are."""
        return self._why

    @property
    def free(self) -> int:
        """Bytes that are free for us; none where the folder cannot be looked at."""
        try:
            return shutil.disk_usage(self.folder).free
        except OSError:
            return 0

    def refuse(self) -> None:
        """Raises LedgerError while lines cannot be kept."""
        if self._why is None and self.free < self._limit:
            self._stop(self._short())
        if self._why is not None:
            raise LedgerError(self._why)

    def failed(self, error: Exception) -> None:
        """Lines could not be kept. None are taken until a trial goes well."""
        self._stop(str(error))

    def step(self, now: datetime) -> float:
        """Look again. Returns the seconds until the next look."""
        if self._why is None and self.free < self._limit:
            self._stop(self._short())
        if self._why is None:
            return EVERY
        self._since = self._since or now
        try:
            if self.free < self._limit * MORE:
                raise LedgerError(self._short())
            self._write()
            self._trial()
        except (*REFUSALS, OSError) as error:
            self._why = str(error)
            return EVERY
        why, since = self._why, self._since
        self._why = self._since = None
        log.warning("lines are taken again")
        if self._over:
            self._over(why, since)
        return EVERY

    def _stop(self, why: str) -> None:
        with self._turn:
            if self._why is None:
                log.error("no lines are taken: %s", why)
            self._why = why

    def _short(self) -> str:
        return f"{self.folder}: the disk is full: {self.free:,} bytes are free."

    def _write(self) -> None:
        """Write something and make it durable, as the ledger would."""
        path = self.folder / "room.tmp"
        try:
            with path.open("wb") as file:
                file.write(b"\0" * TRIAL)
                file.flush()
                os.fsync(file.fileno())
        finally:
            path.unlink(missing_ok=True)
