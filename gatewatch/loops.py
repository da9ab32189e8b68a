"""Threads that work in turns, and jobs at intervals, on monotonic time; and how each of them is.

What one of them cannot do is shown, and the others go on.
Reads: nothing. Writes: nothing. Next: gatewatch/service.py.
"""

import logging
import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler

from gatewatch.disk import REFUSALS
from ingest.config import ConfigError
from ingest.land import BehindError
from ingest.ledger import LedgerError

log = logging.getLogger("gatewatch")
STALE = timedelta(seconds=120)  # a loop that has not come round for so long is not well


class Loops:
    """`over` ends them all; `end()` waits for that."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self.state: dict[str, str] = {}
        self._rounds: dict[str, float] = {}
        self._threads: list[threading.Thread] = []
        self.scheduler = BackgroundScheduler(
            timezone="UTC", executors={"default": ThreadPoolExecutor(2)}
        )

    def loop(self, name: str, turn: Callable[[], float]) -> None:
        """Run `turn` again and again; it returns how long to wait. Errors are shown, not fatal."""

        def run() -> None:
            wait = 0.0
            while not self.over.wait(wait):
                try:
                    wait = turn()
                    self.state[name] = "ok"
                except (BehindError, LedgerError, OSError) as error:
                    self.state[name], wait = str(error), 2.0
                    log.error("%s: %s", name, error)
                except Exception as error:
                    self.state[name], wait = f"{type(error).__name__}: {error}", 2.0
                    log.exception("%s", name)
                self._rounds[name] = time.monotonic()

        self.state[name], self._rounds[name] = "ok", time.monotonic()
        self.run(name, run)

    def run(self, name: str, target: Callable[[], None]) -> threading.Thread:
        """A thread that `end()` waits for."""
        thread = threading.Thread(target=target, name=name, daemon=True)
        thread.start()
        self._threads.append(thread)
        return thread

    def every(
        self, job: Callable[[], None], often: timedelta, first: datetime | None = None
    ) -> None:
        """At intervals, in UTC: no night has an hour too many or too few."""
        self.scheduler.add_job(
            job, "interval", seconds=often.total_seconds(), coalesce=True, max_instances=1,
            misfire_grace_time=None, **({"next_run_time": first} if first else {}),
        )  # fmt: skip

    def done(self, name: str, job: Callable[[], object]) -> None:
        """Run a job whose trouble is shown under its name."""
        try:
            job()
            self.state[name] = "ok"
        except (*REFUSALS, ConfigError, OSError) as error:
            self.state[name] = str(error)
            log.error("%s: %s", name, error)

    def health(self) -> dict[str, str]:
        """`ok` of each, or what is wrong."""
        found = dict(self.state)
        for name, at in list(self._rounds.items()):
            if time.monotonic() - at > STALE.total_seconds():
                found[name] = f"has not come round for {time.monotonic() - at:.0f} s"
        return found

    def end(self) -> None:
        self.over.set()
        if self.scheduler.running:
            self.scheduler.shutdown(wait=True)
        for thread in self._threads:
            thread.join(timeout=20)
