"""A process that seals, prunes or compacts, and dies where it is told to.

Run as: mortal.py FOLDER seal|prune|compact STEP COUNT. It sends itself SIGKILL when it has come to
that step for the COUNTth time; otherwise it says `done`.
"""

import os
import signal
import sys
from datetime import datetime
from pathlib import Path

from ingest.batch import Batch
from ingest.compact import compact
from ingest.config import Duration, Retention
from ingest.land import Lander
from ingest.ledger import Ledger
from ingest.prune import prune
from ingest.redact import Redactor
from ingest.store import open_store
from tests.world import KEY, at, denied, native

FOLDER, WHAT, STEP, COUNT = Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
DAY = 24 * 60  # minutes
seen = {"n": 0}


def came_to(step: str) -> None:
    seen["n"] += step == STEP
    if seen["n"] == COUNT:
        os.kill(os.getpid(), signal.SIGKILL)


def land(lander: Lander, day: int, number: int) -> None:
    lines = (denied(day * DAY + number), native(day * DAY + number, kind="message"))
    lander.land(Batch("gate", "native", lines), at(day * DAY + number))


def main() -> None:
    path = FOLDER / "gatewatch.duckdb"
    if WHAT == "compact":
        compact(path, step=came_to)
        return
    store = open_store(path)
    ledger = Ledger(FOLDER / "ledger", step=came_to)
    lander = Lander(store, ledger, Redactor(KEY), came_to)
    now: datetime = at(30 * DAY)
    if WHAT == "prune":
        prune(store, lander, Retention(Duration("14 days")), {}, now)
        return
    every = [(day, number) for day in (0, 1, 20) for number in range(3)]
    for day, number in every[ledger.seq // 2 :]:  # what is landed is not sent again
        land(lander, day, number)
    lander.seal(now)


main()
sys.stdout.write("done")
