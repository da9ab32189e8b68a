"""What may be sent next to one receiver, in which order, and as what.

Of each alert only the oldest message that waits: so the order within an alert is kept. What costs
something, the messages themselves, is read for those alone that are sent.
Reads: deliveries, alerts. Writes: nothing. Next: detectors/worker.py.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import msgspec

from detectors.receivers import Message
from ingest.store import Reader

OVER = ("resolved", "withdrawn")
ORDER = (  # of what was owed of one alert at one moment
    "open", "storm", "worse", "escalated", "unsilenced", "acknowledged", "reminder", "flapping",
    "resolved", "withdrawn", "calm",
)  # fmt: skip
WAITING = """
    SELECT delivery_id, alert_id, kind, severity, created_at, next_at, attempts, unsure, doubts,
        retried_at, coalesce(starts_with(last_error, 'rateLimited'), false) AS limited
    FROM deliveries WHERE receiver = $receiver AND state = 'pending'
    QUALIFY row_number() OVER
        (PARTITION BY alert_id ORDER BY created_at, list_position($order, kind), delivery_id) = 1
    ORDER BY next_at > $now::TIMESTAMPTZ,
             CASE WHEN next_at > $now::TIMESTAMPTZ THEN next_at END,
             list_position(['critical', 'high', 'medium', 'low'], severity), created_at, delivery_id
    LIMIT 1000
"""
MESSAGES = """
    SELECT alert_id, delivery_id, kind, message FROM deliveries
    WHERE receiver = $receiver AND state = 'pending' AND list_contains($alerts, alert_id)
    ORDER BY created_at, list_position($order, kind), delivery_id
"""
ENDED = """
    SELECT alert_id FROM alerts
    WHERE list_contains($alerts, alert_id) AND status IN ('resolved', 'withdrawn')
"""
HANDLES = """
    SELECT alert_id, arg_min(handle, done_at) AS handle FROM deliveries
    WHERE receiver = $receiver AND handle IS NOT NULL AND list_contains($alerts, alert_id)
    GROUP BY alert_id
"""


@dataclass(frozen=True)
class Owed:
    """One message owed to one receiver: the first that waits of its alert."""

    delivery_id: str
    alert_id: str
    kind: str
    severity: str
    created_at: datetime
    next_at: datetime
    attempts: int
    unsure: int  # attempts of which nobody knows whether they arrived
    doubts: int  # of those, the time-outs; the others died with their process
    limited: bool  # the service asked to be left alone
    retried_at: datetime | None  # when a person asked for it once more


@dataclass(frozen=True)
class Delivery:
    """What is owed, with what will be said."""

    owed: Owed
    message: Message
    also: tuple[str, ...] = ()  # later ones of the same alert that this message makes needless

    @property
    def ids(self) -> tuple[str, ...]:
        """Every row that this message settles."""
        return (self.owed.delivery_id, *self.also)


@dataclass(frozen=True)
class Parcel:
    """What is sent in one message: one delivery, or several in a digest with an id of its own."""

    id: str
    message: Message
    members: tuple[Delivery, ...]

    @property
    def ids(self) -> tuple[str, ...]:
        """Every row that this parcel settles."""
        return tuple(one for each in self.members for one in each.ids)


def waiting(reader: Reader, receiver: str, now: datetime) -> list[Owed]:
    """What may be sent next, per alert the oldest: those that are due first, the worst of them
    first."""
    rows = reader.rows(WAITING, receiver=receiver, now=now, order=list(ORDER))
    return [Owed(**row) for row in rows]


def loaded(
    reader: Reader, receiver: str, chosen: Sequence[Owed], brief: bool = True
) -> list[Delivery]:
    """These, with their messages. `brief`: of an alert that ended before anybody was told, only
    one message is left. What has been settled since is left out."""
    asked: dict[str, Any] = {"alerts": [each.alert_id for each in chosen]}
    ended = {row["alert_id"] for row in reader.rows(ENDED, **asked)}
    asked["receiver"] = receiver
    handles = {row["alert_id"]: row["handle"] for row in reader.rows(HANDLES, **asked)}
    rows: dict[str, list[dict[str, Any]]] = {}
    for row in reader.rows(MESSAGES, **asked, order=list(ORDER)):
        rows.setdefault(row["alert_id"], []).append(row)
    return [
        _delivery(each, mine, handles.get(each.alert_id, ""), each.alert_id in ended, brief)
        for each in chosen
        if (mine := rows.get(each.alert_id)) and mine[0]["delivery_id"] == each.delivery_id
    ]


def _delivery(
    each: Owed, rows: Sequence[Mapping[str, Any]], handle: str, ended: bool, brief: bool
) -> Delivery:
    """`rows`: all that waits of the alert, in order; `each` is the first."""
    last = rows[-1]
    untold = each.kind == "open" and each.unsure == 0 and not handle
    if brief and untold and last["kind"] in OVER:
        message = replace(_read(last["message"]), brief=last["kind"] == "resolved")
        return Delivery(each, message, tuple(row["delivery_id"] for row in rows[1:]))
    message = replace(_read(rows[0]["message"]), reply_to=handle)
    if ended and each.retried_at and last["kind"] not in OVER:
        # told so late that it would wake people for what is over; and its end was told already
        message = replace(message, kind="resolved", brief=True)
    return Delivery(each, message)


def _read(text: str) -> Message:
    return msgspec.json.decode(text, type=Message)
