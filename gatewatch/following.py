"""Follows the files of one source: woken at once when one changes, else by looking every so often.

Notification tells when to look, never what to read: where it does not work (network file systems,
no inotify watches left, a folder that is not there yet) looking alone finds everything, later.
Reads: files and topics, through their readers. Writes: nothing itself. Next: ingest/tail.py.
"""

import glob
import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from fnmatch import fnmatch
from pathlib import Path

from watchfiles import Change, watch

from gatewatch.parts import utc_now
from ingest.apply import Landed
from ingest.batch import Batch
from ingest.kafka import Stream
from ingest.tail import Tail

log = logging.getLogger("gatewatch")
STEP = 20  # ms that a change is waited with, for more of them
AGAIN = 10.0  # seconds between two tries to be told, and between looks for new folders
SHARE = 20  # looking at many files that did not change takes no more of the time than one in 20
LONG = 0.5  # seconds that a topic is waited for, so that a stop is not
Land = Callable[[Batch, datetime], Landed]


def drained(stream: Stream, land: Land) -> float:
    """One round of a loop that reads topics: it is told of what comes, so it need not look."""
    for batch in stream.poll(LONG):
        land(batch, utc_now())
        stream.done(batch)
    return 0.0


class Follower:
    """`turn()` is one round of the service's loop, `watch()` runs beside it until `over`."""

    def __init__(
        self, tail: Tail, patterns: Sequence[str], land: Land, every: float, over: threading.Event
    ) -> None:
        self.tail, self._patterns = tail, patterns
        self._land, self._every, self._over = land, every, over
        self._bell = threading.Event()
        self._waited_at = 0.0
        self._said = ""
        self.told = threading.Event()  # notification works now

    def turn(self) -> float:
        """Land what is new, then wait for more. Returns how many seconds to rest after that."""
        self._bell.clear()
        began = time.monotonic()
        waited = began - self._waited_at >= self._every
        self._waited_at = began if waited else self._waited_at
        landed = False
        for batch in self.tail.poll(waited=waited):
            self._land(batch, utc_now())
            self.tail.done(batch)
            landed = True
        if self.tail.behind:
            return 0.0
        took = time.monotonic() - began
        self._bell.wait(self._every if landed else max(self._every, took * SHARE))
        return took  # lines come all the time: half of the time at most goes into small batches

    def ring(self) -> None:
        """Look now."""
        self._bell.set()

    def watch(self) -> None:
        """Ring when a file changes. Ends with the service."""
        while not self._over.is_set():
            folders = self._folders()
            try:
                self._listen(folders)
            except (OSError, RuntimeError) as error:
                if str(error) != self._said:
                    log.warning("tail %s: %s: nobody tells when a file changes, so it is looked at"
                                " every %s s", self.tail.source, error, self._every)  # fmt: skip
                self._said = str(error)
                self.told.clear()
            self._over.wait(0.0 if self.told.is_set() else AGAIN)

    def _listen(self, folders: list[str]) -> None:
        """Until other folders are to be watched. Raises when the system will not tell."""
        if not folders:
            self.told.clear()
            return
        deep = any("*" in os.path.dirname(each) for each in self._patterns)  # noqa: PTH120
        changes = watch(
            *folders, watch_filter=self._concerns, debounce=10 * STEP, step=STEP,
            stop_event=self._over, rust_timeout=int(AGAIN * 1000), yield_on_timeout=True,
            raise_interrupt=False, recursive=deep, force_polling=False,
            ignore_permission_denied=True,
        )  # fmt: skip
        self.told.set()
        self.ring()  # what came before we were told
        for found in changes:
            if found:
                self.ring()
            elif self._folders() != folders:
                return

    def _concerns(self, change: Change, path: str) -> bool:
        if change is Change.added and Path(path).is_dir():
            return True  # files may have come into it before it was watched
        name = Path(path).name
        return any(fnmatch(name, f"{Path(each).name}*") for each in self._patterns)

    def _folders(self) -> list[str]:
        """The folders above the first wildcard of each pattern, those that are there."""
        found = set[str]()
        for pattern in self._patterns:
            folder = Path(pattern).parent
            while glob.has_magic(str(folder)):
                folder = folder.parent
            if folder.is_dir():
                found.add(str(folder))
        return sorted(found)
