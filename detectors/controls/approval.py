"""What became of one approval, and whether it covers an execution. Pure: events in, answer out.

pending -> approved | rejected | expired. The first answer by the events' own time is the answer:
one that comes after the deadline, or after another answer, changes nothing. So replays, duplicates
and the order of arrival don't matter, and the state after a crash is that of the events.
Reads: nothing. Writes: nothing. Next: detectors/catalogue/unapproved_execution.py.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

State = Literal["pending", "approved", "rejected", "expired"]
# Of two answers of one instant the more careful one counts.
ORDER: dict[State, int] = {"pending": 0, "rejected": 1, "expired": 2, "approved": 3}


@dataclass(frozen=True)
class Event:
    """One line about the approval: it is asked for (pending), or answered. `digest` is of the exact
    parameters, where the line has them."""

    ts: datetime
    what: State
    by: str | None = None
    digest: str | None = None
    event_id: str = ""


@dataclass(frozen=True)
class Approval:
    """`since`: when it came into this state. `digest`: of what was asked for, and so approved."""

    state: State
    since: datetime | None = None
    by: str | None = None
    digest: str | None = None
    event_id: str = ""


def state(events: Iterable[Event], at: datetime, ttl: timedelta | None = None) -> Approval:
    """How it stood at that moment. `ttl`: how long after it was first asked for an answer counts.

    The parameters are those of the first request; without one, those of the answer itself.
    """
    known = sorted({each for each in events if each.ts <= at}, key=_order)
    asked = [each for each in known if each.what == "pending"]
    answers = [each for each in known if each.what != "pending"]
    digest = next((each.digest for each in asked if each.digest), None)
    if asked and ttl is not None:
        deadline = asked[0].ts + ttl
        if at >= deadline and not (answers and answers[0].ts < deadline):
            return Approval("expired", deadline, None, digest, asked[0].event_id)
    for first in (answers or asked)[:1]:
        return Approval(first.what, first.ts, first.by, digest or first.digest, first.event_id)
    return Approval("pending")


def latest(events: Iterable[Event], at: datetime, ttl: timedelta | None = None) -> Approval:
    """Of a call that was asked about more than once, the last approval that has an answer.

    A request that follows an answer begins a new approval.
    """
    rounds: list[list[Event]] = []
    for each in sorted(set(events), key=_order):
        if not rounds or (each.what == "pending" and rounds[-1][-1].what != "pending"):
            rounds.append([])
        rounds[-1].append(each)
    found = [state(each, at, ttl) for each in rounds]
    answered = [each for each in found if each.state != "pending"]
    return (answered or found or [Approval("pending")])[-1]


def covers(approval: Approval, digest: str | None) -> bool:
    """Is the execution of a call with these parameters what was approved?

    One call with its exact parameters was. Parameters that nobody logged can't be held against it.
    """
    same = None in (approval.digest, digest) or approval.digest == digest
    return approval.state == "approved" and same


def _order(event: Event) -> tuple[datetime, int, str, str, str]:
    return event.ts, ORDER[event.what], event.event_id, event.by or "", event.digest or ""
