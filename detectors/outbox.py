"""What is owed to whom: written with the alert's own change, settled when the service has answered.

An attempt is noted before it is made, so a process that dies between sending and noting leaves a
trace: the next one sends the same delivery id again, marked as a repeat. What a service answered
goes into the ledger before the database follows, like everything that happens only once.
Reads: deliveries, attempts, alerts. Writes: deliveries, attempts. Next: detectors/worker.py.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Protocol

import msgspec

from detectors import wording
from detectors.receivers import Delivered, Kind, Message, Outcome, Refused, Retry
from detectors.routing import Desk, Route
from ingest.store import Db, Reader, Store, fetch, one

LEASE = timedelta(seconds=60)  # a sent delivery that nobody settled is due again after this
AFTERWARDS = ("acknowledged", "resolved", "withdrawn")  # kinds that only those hear who were told
GIVE_UP, GIVE_UP_CRITICAL = timedelta(hours=6), timedelta(hours=24)
WAITING = """
    WITH mine AS (
        SELECT *,
               list_position(['open', 'worse', 'reminder', 'resolved', 'withdrawn'], kind) AS step
        FROM deliveries WHERE receiver = $receiver AND state = 'pending'
    ),
    placed AS (
        SELECT *, row_number() OVER each_one AS place, list(delivery_id) OVER all_of_it AS ids,
               last(kind) OVER all_of_it AS last_kind, last(message) OVER all_of_it AS last_message
        FROM mine
        WINDOW each_one AS (PARTITION BY alert_id ORDER BY created_at, step, delivery_id),
               all_of_it AS (PARTITION BY alert_id ORDER BY created_at, step, delivery_id
                             ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)
    ),
    unsure AS (  -- attempts that nobody knows the end of, under the delivery's own id or a digest's
        SELECT coalesce(m.delivery_id, a.delivery_id) AS delivery_id, count(*) AS unsure,
               count(*) FILTER (WHERE a.outcome = 'doubt') AS doubts
        FROM attempts a
        LEFT JOIN attempts m ON m.outcome = 'digest' AND m.reason = a.delivery_id AND m.ts = a.ts
        WHERE a.receiver = $receiver AND a.outcome IN ('started', 'doubt')
        GROUP BY ALL
    )
    SELECT p.*, coalesce(u.unsure, 0) AS unsure, coalesce(u.doubts, 0) AS doubts
    FROM placed p LEFT JOIN unsure u USING (delivery_id)
    WHERE place = 1
    ORDER BY next_at > $now::TIMESTAMPTZ,
             CASE WHEN next_at > $now::TIMESTAMPTZ THEN next_at END,
             list_position(['critical', 'high', 'medium', 'low'], severity), created_at, delivery_id
    LIMIT 1000
"""


class Recorder(Protocol):
    """Whatever makes a line of the ledger: ingest.land.Lander."""

    def record(
        self, action: str, actor: str, subject: str, detail: Mapping[str, Any], now: datetime
    ) -> object: ...


@dataclass(frozen=True)
class Delivery:
    """One message owed to one receiver: the first that waits of its alert."""

    id: str
    alert: str
    kind: str
    severity: str
    created_at: datetime
    next_at: datetime
    message: Message
    attempts: int
    doubts: int  # time-outs after sending
    unsure: int  # those, and attempts that died with their process
    also: tuple[str, ...] = ()  # later ones of the same alert that this message makes needless


@dataclass(frozen=True)
class Parcel:
    """What is sent in one message: one delivery, or several in a digest with an id of its own."""

    id: str
    message: Message
    members: tuple[Delivery, ...]


def enqueue(
    db: Db,
    alert: Mapping[str, Any],
    kind: Kind,
    now: datetime,
    desk: Desk,
    detector: wording.Worded | None = None,
) -> int:
    """Owe one telling of an alert to those it concerns, inside the caller's transaction.

    `alert` is a row of `alerts` whose `tellings` counts this one. What becomes of an alert is told
    to those that were told, or are still to be told, of its beginning. Returns how many are owed.
    """
    chosen = concerned(db, alert, kind, now, desk)
    if not chosen:
        return 0
    events = wording.evidence(partial(fetch, db), alert)
    said = detector.header if detector else None
    respond = {"en": said.respond, "zh": said.respond_zh or said.respond} if said else {}
    zone = one(db, "SELECT local_zone()")
    owed = 0
    for route in chosen:
        key = delivery_id(alert["alert_id"], kind, alert["tellings"], route.name)
        buttons = desk.links.buttons(alert["alert_id"], route.name, now) if desk.links else ()
        message = wording.message(
            alert, events, respond.get(route.language, ""), kind, key, route.language,
            desk.public_url, now, zone, buttons,
        )  # fmt: skip
        owed += put(db, route.name, alert["severity"], now, message)
    return owed


def concerned(
    db: Db, alert: Mapping[str, Any], kind: Kind, now: datetime, desk: Desk
) -> tuple[Route, ...]:
    """Those that a telling of this kind is for."""
    if kind not in AFTERWARDS:
        return desk.chosen(alert, now)
    sql = "SELECT DISTINCT receiver FROM deliveries WHERE alert_id = $id AND state <> 'dead'"
    told = {row["receiver"] for row in fetch(db, sql, id=alert["alert_id"])}
    mirrors = kind == "acknowledged"
    return tuple(
        route for route in desk.routes
        if route.name in told and (route.module.MANNERS.mirrors or not mirrors)
    )  # fmt: skip


def delivery_id(*parts: object) -> str:
    """The same telling to the same receiver always has the same id. Holds no "."."""
    return "dl_" + hashlib.sha256("|".join(map(str, parts)).encode()).hexdigest()[:24]


def put(db: Db, receiver: str, severity: str, now: datetime, message: Message) -> bool:
    """Owe one message to one receiver. False: that very one was owed, or told, already.

    After a rebuild the table is empty, and what was told stands in the operator log alone.
    """
    if fetch(
        db,
        "SELECT 1 FROM deliveries WHERE delivery_id = $id UNION ALL"
        " SELECT 1 FROM operator_log WHERE subject = $id AND action = 'delivery'",
        id=message.delivery,
    ):
        return False
    row = [message.delivery, receiver, message.alert, message.kind, severity, now,
           msgspec.json.encode(message).decode(), "pending", 0, now]  # fmt: skip
    db.execute(
        "INSERT INTO deliveries (delivery_id, receiver, alert_id, kind, severity, created_at,"
        " message, state, attempts, next_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        row,
    )
    return True


def waiting(reader: Reader, receiver: str, now: datetime, brief: bool = True) -> list[Delivery]:
    """What may be sent next, per alert the oldest: those that are due first, the worst of them
    first. `brief`: of an alert that ended before anybody was told, only one message is left."""
    rows = reader.rows(WAITING, receiver=receiver, now=now)
    return [_delivery(row, brief) for row in rows]


def due(reader: Reader, receiver: str, now: datetime, brief: bool = True) -> list[Delivery]:
    """What may be sent now, in the order in which it should be."""
    return [each for each in waiting(reader, receiver, now, brief) if each.next_at <= now]


def begin(store: Store, receiver: str, parcel: Parcel, now: datetime) -> None:
    """Note that an attempt is being made, before it is: nothing sent is ever unknown."""
    with store.writing() as db:
        db.execute(
            "UPDATE deliveries SET attempts = attempts + 1, next_at = $until::TIMESTAMPTZ,"
            " last_error = 'sending' WHERE list_contains($ids, delivery_id)",
            {"until": now + LEASE, "ids": ids(parcel)},
        )
        rows = [[parcel.id, receiver, now, "started", None]]
        if len(parcel.members) > 1:
            rows += [[each, receiver, now, "digest", parcel.id] for each in ids(parcel)]
        for row in rows:
            db.execute("INSERT INTO attempts VALUES (?, ?, ?, ?, ?, NULL)", row)


def settle(
    store: Store,
    recorder: Recorder,
    route: Route,
    parcel: Parcel,
    outcome: Outcome,
    began: datetime,
    now: datetime,
    wait: float,
) -> int:
    """Note how an attempt ended. `wait`: seconds until the next, if there is one.

    What has come to its end goes to the ledger first. Returns how many deliveries were given up.
    """
    states = {each: _state(each, route, outcome, now, wait) for each in parcel.members}
    for each, state in states.items():
        if state != "pending":
            for one in (each.id, *each.also):
                detail = _detail(store, each, route.name, state, outcome)
                recorder.record("delivery", "gatewatch", one, detail, now)
    word, label, error = _words(outcome)
    with store.writing() as db:
        db.execute(
            "UPDATE attempts SET outcome = ?, reason = ?, seconds = ? WHERE delivery_id = ?"
            " AND receiver = ? AND ts = ? AND outcome = 'started'",
            [word, label, (now - began).total_seconds(), parcel.id, route.name, began],
        )
        for each, state in states.items():
            _close(db, (each.id, *each.also), state, error, now, now + timedelta(seconds=wait))
    return sum(state == "dead" for state in states.values())


def reset(db: Db) -> None:
    """At a start, when nobody sends: end what the ledger knows the end of, and make due at once
    what the last process was sending when it died."""
    db.execute(
        "UPDATE deliveries SET state = o.detail ->> 'state', done_at = o.ts, last_error = NULL"
        " FROM operator_log o WHERE o.subject = deliveries.delivery_id AND o.action = 'delivery'"
        " AND deliveries.state = 'pending'"
    )
    db.execute(
        "UPDATE deliveries SET next_at = created_at WHERE state = 'pending'"
        " AND last_error = 'sending'"
    )


def ids(parcel: Parcel) -> list[str]:
    """Every delivery that a parcel settles."""
    return [one for each in parcel.members for one in (each.id, *each.also)]


def _delivery(row: Mapping[str, Any], brief: bool) -> Delivery:
    message, also = msgspec.json.decode(row["message"], type=Message), ()
    untold = row["kind"] == "open" and row["attempts"] == 0
    if brief and untold and row["last_kind"] in ("resolved", "withdrawn"):
        message = msgspec.json.decode(row["last_message"], type=Message)
        message = replace(message, brief=row["last_kind"] == "resolved")
        also = tuple(row["ids"][1:])
    values = {key: row[key] for key in ("kind", "severity", "created_at", "next_at", "attempts")}
    doubts = {key: row[key] for key in ("doubts", "unsure")}
    return Delivery(
        row["delivery_id"], row["alert_id"], message=message, also=also, **values, **doubts
    )


def _state(each: Delivery, route: Route, outcome: Outcome, now: datetime, wait: float) -> str:
    if isinstance(outcome, Delivered):
        return "delivered"
    if isinstance(outcome, Refused):
        return "dead"
    if outcome.doubt and each.doubts and not route.module.MANNERS.keyed:
        return "dead"  # it has been repeated once; people may have it twice by now
    limit = GIVE_UP_CRITICAL if each.severity == "critical" else GIVE_UP
    late = now + timedelta(seconds=wait) > each.created_at + limit
    return "dead" if late else "pending"


def _words(outcome: Outcome) -> tuple[str, str | None, str | None]:
    """The outcome's word, the label that metrics count, and the text for the delivery."""
    match outcome:
        case Delivered(hint):
            return "delivered", None, hint or None
        case Retry(reason, label, doubt=doubt):
            return "doubt" if doubt else "retry", label, f"{label}: {reason}"
        case Refused(reason, label, hint):
            return "refused", label, f"{label}: {reason}{f' (look at: {hint})' if hint else ''}"


def _close(
    db: Db, one: Sequence[str], state: str, error: str | None, now: datetime, next_at: datetime
) -> None:
    done = None if state == "pending" else now
    db.execute(
        "UPDATE deliveries SET state = ?, last_error = ?, done_at = ?, next_at = ?"
        " WHERE list_contains(?, delivery_id)",
        [state, error, done, next_at, list(one)],
    )


def _detail(
    reader: Reader, each: Delivery, receiver: str, state: str, outcome: Outcome
) -> dict[str, Any]:
    """What the ledger keeps of a delivery that has come to its end: enough for a rebuild."""
    found = reader.rows(
        "SELECT alert_id, detector, tenant, subject, started_at, ended_at, opened_at"
        " FROM alerts WHERE alert_id = $id",
        id=each.alert,
    )
    alert = found[0] | {"told_severity": each.severity} if found else None
    _, label, error = _words(outcome)
    return {
        "receiver": receiver, "kind": each.kind, "state": state, "reason": label, "error": error,
        "created_at": each.created_at, "attempts": each.attempts + 1, "alert": alert,
    }  # fmt: skip
