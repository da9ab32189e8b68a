"""Work on a moment of the store, in a thread of its own that can be left behind.

DuckDB heeds an interrupt, Python need not: work that goes on all the same keeps its thread, and
everybody else goes on.
Reads: what the work reads. Writes: nothing. Next: detectors/engine.py.
"""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar, cast

import duckdb

from ingest.store import Db, Store

Result = TypeVar("Result")
STEP = 0.02  # seconds between two interrupts: one that comes between two queries ends none


class Apart(Generic[Result]):
    """Starts at once. `wait()`, then `result()` when it is over."""

    def __init__(self, store: Store, name: str, work: Callable[[Db], Result]) -> None:
        self._store, self._work = store, work
        self._db: Db | None = None
        self._over = threading.Event()
        self._found: Result | None = None
        self._error: BaseException | None = None
        self._began = time.monotonic()
        threading.Thread(target=self._run, name=f"detector {name}", daemon=True).start()

    def _run(self) -> None:
        try:
            with self._store.reading() as db:
                self._db = db
                self._found = self._work(db)
        except BaseException as error:  # noqa: BLE001 - it is raised where the result is asked for
            self._error = error
        finally:
            self._over.set()

    def wait(self, seconds: float) -> bool:
        """Whether it is over, within so many seconds."""
        return self._over.wait(max(seconds, 0.0))

    @property
    def seconds(self) -> float:
        """How long ago it began."""
        return time.monotonic() - self._began

    def end(self, seconds: float) -> bool:
        """Have DuckDB end each query that runs within so many seconds. Whether it is over then."""
        until = time.monotonic() + seconds
        while not self._over.is_set():
            if self._db is not None:
                with suppress(duckdb.Error):  # it has closed its cursor at this moment
                    self._db.interrupt()
            if not self._over.wait(STEP) and time.monotonic() >= until:
                return False
        return True

    def leave(self) -> None:
        """Let go of the moment it looks at, which the store would keep for it for ever."""
        threading.Thread(target=self._leave, name="leaving", daemon=True).start()

    def _leave(self) -> None:
        """DuckDB closes no cursor that is busy: interrupt until it is not."""
        while not self._over.wait(STEP):
            if self._db is not None:
                with suppress(duckdb.Error):
                    self._db.interrupt()
                    self._db.close()
                    return

    def result(self) -> Result:
        """What it found. Raises what it raised."""
        if self._error is not None:
            raise self._error
        return cast(Result, self._found)
