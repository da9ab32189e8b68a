"""What is owed to whom: written with the alert's own change, in its transaction.

Reads: deliveries, operator_log, events. Writes: deliveries. Next: detectors/settling.py.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, Protocol

import msgspec

from detectors import wording
from detectors.masking import cleaned
from detectors.receivers import OVER, Kind, Language, Message
from detectors.routing import Desk, Route
from ingest.store import Db, fetch, one

# kinds that only those hear who were told
AFTERWARDS = ("acknowledged", "flapping", "resolved", "withdrawn")


class Recorder(Protocol):
    """Whatever makes a line of the ledger: ingest.land.Lander."""

    def record(
        self, action: str, actor: str, subject: str, detail: Mapping[str, Any], now: datetime
    ) -> object: ...


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
    keys = [delivery_id(alert["alert_id"], kind, alert["tellings"], each.name) for each in chosen]
    return owe(db, alert, kind, now, desk, list(zip(chosen, keys, strict=True)), detector)


def owe(
    db: Db,
    alert: Mapping[str, Any],
    kind: Kind,
    now: datetime,
    desk: Desk,
    to: Sequence[tuple[Route, str]],
    detector: wording.Worded | None = None,
    why: Mapping[Language, tuple[str, str]] | None = None,
) -> int:
    """Owe one telling to these, each under this delivery id. `why` is a fact that says, before all
    others, why it comes to them. Returns how many are owed."""
    if not to:
        return 0
    events = wording.evidence(partial(fetch, db), alert)
    said = detector.header if detector else None
    respond = {"en": said.respond, "zh": said.respond_zh or said.respond} if said else {}
    zone = one(db, "SELECT local_zone()")
    held = wording.limits(detector, alert)
    owed = 0
    for route, key in to:
        buttons = _words(desk, alert["alert_id"], route.name, kind, now)
        message = wording.message(
            alert, events, respond.get(route.language, ""), kind, key, route.language,
            desk.public_url, now, zone, buttons, held,
        )  # fmt: skip
        if why:
            message = replace(message, facts=(why[route.language], *message.facts))
        owed += put(db, route.name, alert["severity"], now, message)
    return owed


def _words(
    desk: Desk, alert_id: str, receiver: str, kind: Kind, now: datetime
) -> tuple[tuple[str, str], ...]:
    """What people can do from a message while the alert stands. The links themselves are signed
    when it is sent: whoever may read this table must not be able to act by it."""
    if desk.links is None or kind in OVER:
        return ()
    words = (word for word, _ in desk.links.buttons(alert_id, receiver, now))
    return tuple((word, "") for word in words if (word, kind) != ("ack", "acknowledged"))


def concerned(
    db: Db, alert: Mapping[str, Any], kind: Kind, now: datetime, desk: Desk
) -> tuple[Route, ...]:
    """Those that a telling of this kind is for."""
    if kind not in AFTERWARDS:
        chosen = desk.chosen(alert, now)
        return (*chosen, *_later(db, alert, chosen, desk)) if kind == "worse" else chosen
    sql = "SELECT DISTINCT receiver FROM deliveries WHERE alert_id = $id AND state <> 'dead'"
    told = {row["receiver"] for row in fetch(db, sql, id=alert["alert_id"])}
    mirrors = kind == "acknowledged"
    return tuple(
        route for route in desk.routes
        if route.name in told and (route.module.MANNERS.mirrors or not mirrors)
    )  # fmt: skip


def _later(
    db: Db, alert: Mapping[str, Any], chosen: Sequence[Route], desk: Desk
) -> tuple[Route, ...]:
    """Those who were not chosen and know of it, because nobody else took it."""
    sql = "SELECT DISTINCT receiver FROM deliveries WHERE alert_id = $id AND kind = 'escalated'"
    names = {row["receiver"] for row in fetch(db, sql, id=alert["alert_id"])}
    willing = desk.willing(sorted(names), desk.facts(alert))
    return tuple(route for route in willing if route not in chosen)


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
    text = msgspec.json.encode(cleaned(message)).decode()
    row = [message.delivery, receiver, message.alert, message.kind, severity, now, text,
           "pending", 0, now]  # fmt: skip
    db.execute(
        "INSERT INTO deliveries (delivery_id, receiver, alert_id, kind, severity, created_at,"
        " message, state, attempts, next_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        row,
    )
    return True


def reset(db: Db) -> None:
    """At a start, when nobody sends: end what the ledger knows the end of, and make due at once
    what the last process was sending when it died."""
    db.execute(
        "UPDATE deliveries SET state = o.detail ->> 'state', done_at = o.ts, last_error = NULL,"
        " handle = coalesce(o.detail ->> 'handle', handle)"
        " FROM operator_log o WHERE o.subject = deliveries.delivery_id AND o.action = 'delivery'"
        " AND deliveries.state = 'pending'"
        " AND coalesce(o.ts > deliveries.retried_at, true)"  # its end before that was none
    )
    db.execute(
        "UPDATE deliveries SET next_at = created_at WHERE state = 'pending'"
        " AND last_error = 'sending'"
    )
