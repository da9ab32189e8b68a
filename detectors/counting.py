"""What is counted of alerts and of telling people, in the transaction in which it happens.

Reads: nothing. Writes: tallies. Next: detectors/metrics/telling.py.
"""

from collections.abc import Iterable
from datetime import datetime

from ingest import tally
from ingest.store import Db

QUIET = (  # why nobody is told of an alert, see detectors/telling.py
    "cooldown", "silence", "warmup", "shadow", "storm", "inhibited", "maintenance",
    "flapping", "judged", "other",
)  # fmt: skip
LATENCY = (1.0, 5.0, 10.0, 15.0, 20.0)  # seconds: the buckets of Alertmanager
STAMP = """
    INSERT INTO tallies VALUES ('succeeded_at', $receiver, '', $at)
    ON CONFLICT (name, whose, what) DO UPDATE SET n = greatest(n, excluded.n)
"""


def opened(db: Db, detector: str, severity: str) -> None:
    """An alert has been opened. History that was imported opens alerts too, and counts for none."""
    tally.add(db, "fired", {(detector, severity): 1.0})


def quiet(db: Db, reason: str, count: int = 1) -> None:
    """Of so many alerts nobody is told."""
    tally.add(db, "quiet", {("", reason if reason in QUIET else "other"): float(count)})


def attempt(db: Db, receiver: str, failed: str | None, now: datetime) -> None:
    """One attempt has ended; `failed`: the reason's label, None for a yes."""
    tally.add(db, "attempts", {(receiver, ""): 1.0})
    if failed is None:
        db.execute(STAMP, {"receiver": receiver, "at": now.timestamp()})
    else:
        tally.add(db, "failures", {(receiver, failed): 1.0})


def ended(db: Db, receiver: str, state: str, since: Iterable[datetime], now: datetime) -> None:
    """Messages that were owed since then have come to their end in one state."""
    waits = [max((now - each).total_seconds(), 0.0) for each in since]
    if state == "dead":
        tally.add(db, "dead", {(receiver, ""): float(len(waits))})
        return
    within = {(receiver, str(le)): float(sum(each <= le for each in waits)) for le in LATENCY}
    within[receiver, ""] = float(len(waits))
    tally.add_all(db, {"latency": within, "waited": {(receiver, ""): sum(waits)}})


def coalesced(db: Db, receiver: str, count: int) -> None:
    """So many messages go out as one."""
    tally.add(db, "coalesced", {(receiver, ""): float(count)})
