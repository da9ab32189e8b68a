"""One worker per receiver: takes what is due, sends it, notes the answer. One cannot stop another.

Reads: deliveries, attempts. Writes: deliveries, attempts. Next: detectors/explain.py.
"""

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import httpx

from detectors import delivery, outbox
from detectors.digest import BUNDLE, digest, trouble
from detectors.outbox import Delivery, Parcel, Recorder
from detectors.receivers import Delivered, Manners, Message, Outcome, Refused, Retry
from detectors.routing import SEVERITIES, Route
from detectors.wording import moment
from ingest.store import Store

FIRST, LONGEST = 5.0, 900.0  # seconds of back-off: doubled from the first to the longest
UNSURE = 60.0  # seconds before a message is repeated that may have arrived
LATE = timedelta(minutes=30)
FAILING = timedelta(minutes=5)  # after this long without a success another receiver is told
TRIED = ("retry", "doubt", "refused")


@dataclass(frozen=True)
class Answered:
    """An attempt that has ended. `wait`: seconds until the next, if there is one."""

    parcel: Parcel
    outcome: Retry | Refused | Delivered
    began: datetime
    ended: datetime
    wait: float


class Worker:
    """Serves one receiver. `step` is called again and again, from one thread."""

    def __init__(
        self,
        route: Route,
        store: Store,
        recorder: Recorder,
        others: Sequence[Route] = (),
        client: httpx.Client | None = None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.route, self._store, self._recorder = route, store, recorder
        self._others = [each for each in others if each.name != route.name]
        self._client, self._chance = client or client_for(route), chance
        self._manners: Manners = route.module.MANNERS
        self._answered: Answered | None = None  # not yet noted: the store refused
        self._alone: set[str] = set()  # deliveries whose digest was refused

    def step(self, now: datetime) -> float | None:
        """Send at most one message. Returns seconds until there may be more to do, None: nothing
        waits. Raises what store and ledger raise; the next step goes on where this one stopped."""
        if self._answered:  # before anything else is sent, or it would be sent twice
            self._settle(self._answered)
        waiting = outbox.waiting(self._store, self.route.name, now, self._manners.digest)
        due = [each for each in waiting if each.next_at <= now]
        if not waiting:
            return None
        if not due:
            return (waiting[0].next_at - now).total_seconds()
        if (closed := self._closed(now)) > 0:
            return closed
        free, wait = self._room(now, due[0].severity == "critical")
        if free < 1:
            return wait
        self._send(self._pack(due, free, now), now)
        return 0.0

    def _send(self, parcel: Parcel, now: datetime) -> None:
        outbox.begin(self._store, self.route.name, parcel, now)
        start = time.monotonic()
        flow = self.route.module.deliver(parcel.message, self.route.options, now)
        outcome = delivery.attempt(flow, self._client)
        later = now + timedelta(seconds=time.monotonic() - start)
        if len(parcel.members) > 1 and isinstance(outcome, Refused):
            self._alone |= {each.id for each in parcel.members}  # perhaps one of them is at fault
            if outcome.label == "clientError":
                outcome = Retry(f"as a digest: {outcome.reason}", outcome.label, 0.0)
        self._answered = Answered(parcel, outcome, now, later, self._wait(parcel, outcome))
        self._settle(self._answered)

    def _settle(self, it: Answered) -> None:
        given_up = outbox.settle(
            self._store, self._recorder, self.route, it.parcel, it.outcome, it.began, it.ended,
            it.wait,
        )  # fmt: skip
        self._answered = None
        if not isinstance(it.outcome, Delivered):
            self._tell_another(it, given_up)

    def _pack(self, due: Sequence[Delivery], free: int, now: datetime) -> Parcel:
        """One message alone, as long as digests in the remaining slots could carry the rest."""
        first = due[0]
        together = [each for each in due if each.id not in self._alone]
        if (
            self._manners.digest
            and first in together
            and len(together) > 1
            and len(due) - 1 > (free - 1) * BUNDLE
        ):
            return digest(together[:BUNDLE], self.route.language, now)
        message = replace(
            first.message, repeat=first.unsure > 0, late=now - first.created_at > LATE
        )
        return Parcel(message.delivery, message, (first,))

    def _room(self, now: datetime, critical: bool) -> tuple[int, float]:
        """Free slots, and the seconds until there is one. A quarter is kept for critical alerts.

        The sends of the last seconds are read from the store: a restart forgets none of them.
        """
        free, wait = 1_000, 0.0
        for count, window in self._manners.limits:
            allowed = count if critical else count - count // 4
            rows = self._store.rows(
                "SELECT ts FROM attempts WHERE receiver = $receiver AND outcome <> 'digest'"
                " AND ts > $since::TIMESTAMPTZ ORDER BY ts DESC LIMIT 1000",
                receiver=self.route.name, since=now - timedelta(seconds=window),
            )  # fmt: skip
            free = min(free, allowed - len(rows))
            if len(rows) >= allowed:
                over: timedelta = rows[allowed - 1]["ts"] + timedelta(seconds=window) - now
                wait = max(wait, over.total_seconds())
        return free, wait

    def _closed(self, now: datetime) -> float:
        """Seconds for which the service asked to be left alone: the limit is the receiver's."""
        [row] = self._store.rows(
            "SELECT max(next_at) AS until FROM deliveries WHERE receiver = $receiver"
            " AND state = 'pending' AND starts_with(last_error, 'rateLimited')",
            receiver=self.route.name,
        )
        until: datetime | None = row["until"]
        return (until - now).total_seconds() if until else 0.0

    def _wait(self, parcel: Parcel, outcome: Outcome) -> float:
        """Seconds until the next attempt: what the service named, else exponential, full jitter."""
        if not isinstance(outcome, Retry):
            return 0.0
        if outcome.after is not None:
            return outcome.after
        tries = min(max(each.attempts for each in parcel.members), 10)
        jitter = max(1.0, self._chance() * min(LONGEST, FIRST * 2.0**tries))
        return max(UNSURE, jitter) if outcome.doubt else jitter

    def _tell_another(self, it: Answered, given_up: int) -> None:
        """Once per trouble: a message was given up, or nothing went through for minutes."""
        now, outcome = it.ended, it.outcome
        since = self._failing_since(self.route.name)
        if not self._others or not (given_up or (since and now - since >= FAILING)):
            return
        healthy = [each for each in self._others if not self._failing_since(each.name)]
        to = (healthy or self._others)[0]
        [row] = self._store.rows(
            "SELECT max(ts) AS ts FROM attempts WHERE receiver = $receiver"
            " AND outcome = 'delivered'",
            receiver=self.route.name,
        )
        reason = "" if isinstance(outcome, Delivered) else outcome.reason
        name = outbox.delivery_id("receiver", self.route.name, row["ts"], to.name)
        link = it.parcel.message.link.partition("?")[0]
        note = trouble(self.route.name, reason, name, to.language, link, now)
        with self._store.writing() as db:
            outbox.put(db, to.name, note.severity, now, note)

    def _failing_since(self, receiver: str) -> datetime | None:
        """The first failure after the last success; being asked to wait is none."""
        [row] = self._store.rows(
            "SELECT min(ts) AS since FROM attempts WHERE receiver = $receiver"
            " AND list_contains($tried, outcome) AND reason <> 'rateLimited'"
            " AND ts > coalesce((SELECT max(ts) FROM attempts WHERE receiver = $receiver"
            " AND outcome = 'delivered'), '-infinity'::TIMESTAMPTZ)",
            receiver=receiver, tried=list(TRIED),
        )  # fmt: skip
        found: datetime | None = row["since"]
        return found


def client_for(route: Route) -> httpx.Client:
    """The one kind of client that speaks to a receiver, in earnest and for a test message."""
    manners: Manners = route.module.MANNERS
    return delivery.client(manners.total, route.allow_http, route.allow_private, route.ca_file)


def try_out(route: Route, public_url: str, now: datetime) -> Outcome:
    """Send one message that says it is a test, on the same road as a real one."""
    message = Message(
        kind="open",
        alert="al_test",
        delivery=outbox.delivery_id("test", route.name, now.isoformat()),
        at=moment(now),
        detector="test_send",
        severity=SEVERITIES[0],
        subject=route.name,
        title="测试消息" if route.language == "zh" else "This is a test message",
        facts=(),
        evidence=(),
        respond="",
        link=public_url,
        language=route.language,
    )
    with client_for(route) as client:
        return delivery.attempt(route.module.deliver(message, route.options, now), client)
