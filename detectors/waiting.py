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
WAITING = """
    WITH mine AS (
        SELECT delivery_id, alert_id, kind, severity, created_at, next_at, attempts, unsure, doubts,
            retried_at, starts_with(last_error, 'rateLimited') AS limited,
            list_position(['open', 'storm', 'worse', 'escalated', 'unsilenced', 'acknowledged',
                'reminder', 'flapping', 'resolved', 'withdrawn', 'calm'], kind) AS step
        FROM deliveries WHERE receiver = $receiver AND state = 'pending'
    ),
    placed AS (
        SELECT *, row_number() OVER each_one AS place, list(delivery_id) OVER all_of_it AS ids,
            last(kind) OVER all_of_it AS last_kind
        FROM mine
        WINDOW each_one AS (PARTITION BY alert_id ORDER BY created_at, step, delivery_id),
               all_of_it AS (PARTITION BY alert_id ORDER BY created_at, step, delivery_id
                             ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)
    )
    SELECT * EXCLUDE (step, place), coalesce((SELECT status IN ('resolved', 'withdrawn') FROM alerts a
        WHERE a.alert_id = placed.alert_id), false) AS over
    FROM placed WHERE place = 1
    ORDER BY next_at > $now::TIMESTAMPTZ,
             CASE WHEN next_at > $now::TIMESTAMPTZ THEN next_at END,
             list_position(['critical', 'high', 'medium', 'low'], severity), created_at, delivery_id
    LIMIT 1000
"""
MESSAGES = """
    SELECT delivery_id, message FROM deliveries
    WHERE receiver = $receiver AND state = 'pending' AND list_contains($ids, delivery_id)
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
    ids: tuple[str, ...]  # all that waits of the alert, in order: this one first
    last_kind: str  # of the last of them
    over: bool  # the alert is


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
    rows = reader.rows(WAITING, receiver=receiver, now=now)
    return [Owed(**row | {"ids": tuple(row["ids"])}) for row in rows]


def loaded(
    reader: Reader, receiver: str, chosen: Sequence[Owed], brief: bool = True
) -> list[Delivery]:
    """These, with their messages. `brief`: of an alert that ended before anybody was told, only
    one message is left. What has been settled since is left out."""
    ids = [one for each in chosen for one in (each.ids[0], each.ids[-1])]
    rows = reader.rows(MESSAGES, receiver=receiver, ids=ids)
    texts = {row["delivery_id"]: row["message"] for row in rows}
    alerts = [each.alert_id for each in chosen]
    handles = reader.rows(HANDLES, receiver=receiver, alerts=alerts)
    known = {row["alert_id"]: row["handle"] for row in handles}
    return [
        _delivery(each, texts, known.get(each.alert_id, ""), brief)
        for each in chosen
        if texts.keys() >= {each.ids[0], each.ids[-1]}
    ]


def _delivery(each: Owed, texts: Mapping[str, Any], handle: str, brief: bool) -> Delivery:
    first, last = each.ids[0], each.ids[-1]
    untold = each.kind == "open" and each.unsure == 0 and not handle
    if brief and untold and each.last_kind in OVER:
        message = replace(_read(texts[last]), brief=each.last_kind == "resolved")
        return Delivery(each, message, each.ids[1:])
    message = replace(_read(texts[first]), reply_to=handle)
    if each.over and each.retried_at and each.last_kind not in OVER:
        # told so late that it would wake people for what is over; and its end was told already
        message = replace(message, kind="resolved", brief=True)
    return Delivery(each, message)


def _read(text: str) -> Message:
    return msgspec.json.decode(text, type=Message)
