"""One worker per receiver: takes what is due, sends it, notes the answer. One cannot stop another.

Reads: deliveries, attempts. Writes: deliveries, attempts. Next: detectors/explain.py.
"""

import hashlib
import logging
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import httpx

from detectors import delivery, outbox, sample, settling, trouble, ways
from detectors.digest import digest
from detectors.masking import masked, unsaid
from detectors.outbox import Recorder
from detectors.receivers import Delivered, Manners, Message, Outcome, Refused, Retry
from detectors.routing import Buttons, Route
from detectors.waiting import Owed, Parcel, loaded, waiting
from ingest.store import Store

log = logging.getLogger("gatewatch")
FIRST, LONGEST = 5.0, 900.0  # seconds of back-off: doubled from the first to the longest
UNSURE = 60.0  # seconds before a message is repeated that may have arrived
TAKEN = 1.0  # seconds until the next look, where another worker has the message in hand
LATE = timedelta(minutes=30)
SOON = 10.0  # seconds that a message rather waits for its turn than loses itself in a digest
MARK = 1_800.0  # full and half hours, at which everybody's scheduled messages go out
BEFORE, AFTER = 5.0, 5.0  # seconds around such a mark in which nothing is sent


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
        links: Buttons | None = None,
    ) -> None:
        self.route, self._store, self._recorder = route, store, recorder
        self._others = [each for each in others if each.name != route.name]
        self._client, self._chance, self._links = client or client_for(route), chance, links
        self._manners: Manners = route.module.MANNERS
        self._answered: Answered | None = None  # not yet noted: the store refused
        self._alone: set[str] = set()  # deliveries whose digest was refused
        self._troubled = True  # others may know of a trouble of ours: perhaps from before a restart

    def step(self, now: datetime) -> float | None:
        """Send at most one message. Returns seconds until there may be more to do, None: nothing
        waits. Raises what store and ledger raise; the next step goes on where this one stopped."""
        if self._answered:  # before anything else is sent, or it would be sent twice
            self._settle(self._answered)
        owed = waiting(self._store, self.route.name, now)
        due = [each for each in owed if each.next_at <= now]
        if not owed:
            return None
        if not due:
            return (owed[0].next_at - now).total_seconds()
        if (closed := self._closed(now)) > 0:
            return closed
        holds = [held(each, self._manners.crowded, now) for each in due]
        due = [each for each, seconds in zip(due, holds, strict=True) if not seconds]
        if not due:
            return min(holds)
        free, soon, wait = self._room(now, due[0].severity == "critical")
        if free < 1:
            return wait
        return self._send(self._pack(due, free, soon, now), now)

    def _send(self, parcel: Parcel | None, now: datetime) -> float:
        if parcel is None or not settling.begin(self._store, self.route.name, parcel, now):
            return TAKEN
        start = time.monotonic()
        message = signed(parcel, self.route.name, self._links)
        flow = self.route.module.deliver(message, self.route.options, now)
        outcome = unsaid(delivery.attempt(flow, self._client), self.route.options)
        later = now + timedelta(seconds=time.monotonic() - start)
        if len(parcel.members) > 1 and isinstance(outcome, Refused):
            self._alone |= {each.owed.delivery_id for each in parcel.members}  # one is at fault?
            if outcome.label == "clientError":
                outcome = Retry(f"as a digest: {outcome.reason}", outcome.label, 0.0)
        self._answered = Answered(parcel, outcome, now, later, self._wait(parcel, outcome))
        self._settle(self._answered)
        return 0.0

    def _settle(self, it: Answered) -> None:
        given_up = settling.settle(
            self._store, self._recorder, self.route, it.parcel, it.outcome, it.began, it.ended,
            it.wait,
        )  # fmt: skip
        self._answered = None
        if isinstance(it.outcome, Delivered):
            if self._troubled:
                link = it.parcel.message.link
                trouble.over(self._store, self.route, self._others, link, it.ended)
                self._troubled = False
            return
        reason = masked(it.outcome.reason)
        if given_up:
            log.error("receiver %s: %d given up: %s", self.route.name, given_up, reason)
        self._tell_another(it, given_up, reason)

    def _pack(self, due: Sequence[Owed], free: int, soon: int, now: datetime) -> Parcel | None:
        """One message alone, as long as digests in the remaining slots could carry the rest, or all
        of it can go out soon; after a time in which the service wanted nothing, what has gathered
        meanwhile at once."""
        name, first, manners = self.route.name, due[0], self._manners
        together = [each for each in due if each.delivery_id not in self._alone]
        crowd = len(due) > soon and len(due) - 1 > (free - 1) * manners.bundle
        crowd = crowd or any(each.limited for each in together)
        if manners.digest and crowd and first in together and len(together) > 1:
            members = loaded(self._store, name, together[: manners.bundle], manners.digest)
            return digest(members, self.route.language, now) if members else None
        for one in loaded(self._store, name, [first], manners.digest):
            late = now - first.created_at > LATE
            message = replace(one.message, repeat=first.unsure > 0, late=late)
            return Parcel(message.delivery, message, (one,))
        return None

    def _room(self, now: datetime, critical: bool) -> tuple[int, int, float]:
        """Slots that are free, that are or become so soon, and the seconds until there is one. A
        quarter is kept for critical alerts.

        The sends of the last seconds are read from the store: a restart forgets none of them.
        """
        free, soon, wait = 1_000, 1_000, 0.0
        for count, window in self._manners.limits:
            allowed = count if critical else count - count // 4
            rows = self._store.rows(
                "SELECT ts FROM attempts WHERE receiver = $receiver AND outcome <> 'digest'"
                " AND ts > $since::TIMESTAMPTZ ORDER BY ts DESC LIMIT 1000",
                receiver=self.route.name, since=now - timedelta(seconds=window),
            )  # fmt: skip
            free = min(free, allowed - len(rows))
            soon = min(soon, max(allowed - len(rows), int(allowed * SOON / window)))
            if len(rows) >= allowed:
                over: timedelta = rows[allowed - 1]["ts"] + timedelta(seconds=window) - now
                wait = max(wait, over.total_seconds())
        return free, soon, wait

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
        tries = min(max(each.owed.attempts for each in parcel.members), 10)
        jitter = max(1.0, self._chance() * min(LONGEST, FIRST * 2.0**tries))
        return max(UNSURE, jitter) if outcome.doubt else jitter

    def _tell_another(self, it: Answered, given_up: int, reason: str) -> None:
        """Once per trouble: a message was given up, or nothing went through for minutes."""
        since = trouble.failing_since(self._store, self.route.name, it.ended)
        if given_up or (since and it.ended - since >= trouble.FAILING):
            link = it.parcel.message.link
            trouble.tell(self._store, self.route, self._others, reason, link, it.ended)
            self._troubled = True


def held(each: Owed, crowded: float, now: datetime) -> float:
    """Seconds that a message waits so that it does not go out when everybody's do.

    The same delivery is held for the same time: a restart does not draw again. What is critical
    is tried at once.
    """
    if not crowded or each.severity == "critical":
        return 0.0
    past = (now.timestamp()) % MARK  # every zone of today is off by whole half hours or quarters
    share = int(hashlib.sha256(each.delivery_id.encode()).hexdigest()[:8], 16) / 2**32
    turn = AFTER + share * (crowded - AFTER)
    if past > MARK - BEFORE:
        return MARK - past + turn
    return max(turn - past, 0.0)


def signed(parcel: Parcel, receiver: str, links: Buttons | None) -> Message:
    """What is sent: its buttons lead to links that are made now and kept nowhere. They count from
    when the message was owed, so every attempt says the same."""
    message, since = parcel.message, parcel.members[0].owed.created_at
    if all(url for _, url in message.buttons):
        return message
    made = dict(links.buttons(message.alert, receiver, since)) if links else {}
    buttons = ((word, url or made.get(word, "")) for word, url in message.buttons)
    return replace(message, buttons=tuple(each for each in buttons if each[1]))


def client_for(route: Route) -> httpx.Client:
    """The one kind of client that speaks to a receiver, in earnest and for a test message."""
    total = route.timeout or route.module.MANNERS.total
    return delivery.client(
        total, route.allow_http, route.allow_private, route.ca_file, ways.identity(route),
        route.proxy,
    )  # fmt: skip


def try_out(route: Route, public_url: str, now: datetime) -> Outcome:
    """Send one message that says it is a test, on the same road as a real one; and its end, where
    the service would otherwise keep it open."""
    name = outbox.delivery_id("test", route.name, now.isoformat())
    message = sample.trial(route.language, route.name, name, public_url, now)
    over = replace(message, kind="resolved", delivery=outbox.delivery_id(name, "resolved"))
    with client_for(route) as client:
        outcome = delivery.attempt(route.module.deliver(message, route.options, now), client)
        if isinstance(outcome, Delivered) and route.module.MANNERS.mirrors:
            outcome = delivery.attempt(route.module.deliver(over, route.options, now), client)
    return outcome
