"""One keeper per gate: asks what is owed, notes the answer, and says a standing pause once more to
a gate that would forget it.

An attempt is noted before it is made; a process that dies in between makes it again with the same
key. Reads: pauses. Writes: pauses, operator_log. Next: detectors/containing.py.
"""

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import httpx

from detectors import containment, pauses
from detectors.containment import Answer, Gate, Verb
from detectors.gates import Order
from detectors.outbox import Recorder
from detectors.receivers import Retry
from ingest.store import Store

# Seconds of back-off, doubled from the first to the longest. Somebody waits for a pause to hold.
FIRST = 1.0
LONGEST: dict[Verb, float] = {"pause": 30.0, "resume": 300.0}
OWED = """
    SELECT *, CASE WHEN owed IS NULL THEN next_at + to_seconds($again) ELSE next_at END AS due_at
    FROM pauses
    WHERE gate = $gate AND (owed = 'resume'
        OR (until > $now::TIMESTAMPTZ
            AND (owed = 'pause' OR (owed IS NULL AND state = 'confirmed' AND $again > 0))))
    ORDER BY due_at, owed IS NULL, asked_at, pause_id LIMIT 1
"""


@dataclass(frozen=True)
class Asked:
    """A request that has ended."""

    row: Mapping[str, Any]
    verb: Verb
    answer: Answer
    ended: datetime


class Keeper:
    """Serves one gate. `step` is called again and again, from one thread."""

    def __init__(
        self,
        gate: Gate,
        store: Store,
        recorder: Recorder,
        public_url: str = "",
        client: httpx.Client | None = None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.gate, self._store, self._recorder = gate, store, recorder
        self._public_url = public_url.rstrip("/")
        self._client, self._chance = client or containment.client_for(gate), chance
        self._asked: Asked | None = None  # not yet noted: the store refused

    def step(self, now: datetime) -> float | None:
        """Make at most one request. Returns seconds until there may be more to do, None: nothing is
        owed. Raises what store and ledger raise; the next step goes on where this one stopped."""
        if self._asked:
            self._note(self._asked)
        again = self.gate.module.AGAIN or 0.0
        rows = self._store.rows(OWED, gate=self.gate.name, now=now, again=again)
        if not rows:
            return None
        [row] = rows
        if row["due_at"] > now:
            return float((row["due_at"] - now).total_seconds())
        self._ask(row, now)
        return 0.0

    def _ask(self, row: Mapping[str, Any], now: datetime) -> None:
        verb: Verb = "resume" if row["owed"] == "resume" else "pause"
        self._put(row, now + pauses.LEASE, 1)
        start = time.monotonic()
        answer = containment.ask(self.gate, verb, self._order(row), self._client, now)
        ended = now + timedelta(seconds=time.monotonic() - start)
        self._asked = Asked(row, verb, answer, ended)
        self._note(self._asked)

    def _note(self, it: Asked) -> None:
        pauses.answered(self._recorder, it.row, it.verb, it.answer, it.ended)
        with self._store.writing() as db:
            pauses.catch_up(db)
        self._put(it.row, it.ended + timedelta(seconds=self._wait(it)))
        self._asked = None

    def _put(self, row: Mapping[str, Any], next_at: datetime, tries: int = 0) -> None:
        """When it is due next, unless somebody has wished otherwise meanwhile."""
        with self._store.writing() as db:
            db.execute(
                "UPDATE pauses SET attempts = attempts + $tries, next_at = $next::TIMESTAMPTZ"
                " WHERE pause_id = $id AND gate = $gate AND (owed IS NULL OR owed = $owed)",
                {"next": next_at, "tries": tries, "id": row["pause_id"], "gate": row["gate"],
                 "owed": row["owed"]},
            )  # fmt: skip

    def _wait(self, it: Asked) -> float:
        outcome = it.answer.outcome
        if not isinstance(outcome, Retry):
            return 0.0
        longest = LONGEST[it.verb]
        if outcome.after is not None:
            return min(outcome.after, longest)  # asked for an hour, half a minute
        tries = min(int(it.row["attempts"]), 10)
        return max(FIRST, self._chance() * min(longest, FIRST * 2.0**tries))

    def _order(self, row: Mapping[str, Any]) -> Order:
        alert = row["alert_id"]
        return Order(
            id=row["pause_id"],
            kind=row["kind"],
            name=row["name"],
            tenant=row["tenant"],
            until=row["until"],
            reason=row["ended_reason"] or row["reason"],
            actor=row["ended_by"] or row["actor"],
            alert=alert,
            automatic=row["automatic"],
            link=f"{self._public_url}/alert?alert={alert}" if alert else "",
        )
