"""What becomes of a message that is owed: an attempt, an answer, an end, and once more.

An attempt is noted before it is made, so a process that dies between sending and noting leaves a
trace: the next one sends the same delivery id again, marked as a repeat. What a service answered
goes into the ledger before the database follows, like everything that happens only once.
Reads: deliveries, alerts. Writes: deliveries, attempts. Next: detectors/worker.py.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from detectors import counting
from detectors.masking import masked
from detectors.outbox import Recorder
from detectors.receivers import Delivered, Outcome, Refused, Retry
from detectors.routing import Route
from detectors.waiting import Delivery, Parcel
from ingest.store import Db, Reader, Store, fetch, one

LEASE = timedelta(seconds=60)  # a sent delivery that nobody settled is due again after this
GIVE_UP, GIVE_UP_CRITICAL = timedelta(hours=6), timedelta(hours=24)
GONE = "other: no receiver of this name is configured any more (look at: receiver)"
ABOUT = """
    SELECT alert_id, detector, tenant, subject, started_at, ended_at, opened_at
    FROM alerts WHERE alert_id = $of
"""
MEMBERS = """
    SELECT a.alert_id, a.detector, a.tenant, a.subject, a.started_at, a.ended_at, a.opened_at,
        m.severity AS told_severity
    FROM storm_members m JOIN alerts a USING (alert_id)
    WHERE m.storm_id = $of AND m.told_at <= $at::TIMESTAMPTZ ORDER BY a.alert_id
"""
TAKE = """
    UPDATE deliveries SET attempts = attempts + 1, unsure = unsure + 1,
        next_at = $until::TIMESTAMPTZ, last_error = 'sending'
    WHERE receiver = $receiver AND state = 'pending' AND list_contains($ids, delivery_id)
"""
CLOSE = """
    UPDATE deliveries SET state = $state, last_error = $error, done_at = $done::TIMESTAMPTZ,
        next_at = $next::TIMESTAMPTZ, handle = coalesce($handle, handle),
        unsure = unsure - $sure, doubts = doubts + 1 - $sure
    WHERE receiver = $receiver AND list_contains($ids, delivery_id)
"""


def begin(store: Store, receiver: str, parcel: Parcel, now: datetime) -> bool:
    """Note that an attempt is being made, before it is: nothing sent is ever unknown.

    False: another worker has one of them in hand, or it is settled. Then nothing may be sent.
    """
    firsts = [each.owed.delivery_id for each in parcel.members]
    with store.writing() as db:
        free = one(
            db,
            "SELECT count(*) FROM deliveries WHERE receiver = $receiver AND state = 'pending'"
            " AND next_at <= $now::TIMESTAMPTZ AND list_contains($ids, delivery_id)",
            {"receiver": receiver, "now": now, "ids": firsts},
        )
        if free < len(firsts):
            return False
        db.execute(TAKE, {"until": now + LEASE, "receiver": receiver, "ids": list(parcel.ids)})
        rows = [[parcel.id, receiver, now, "started", None]]
        if len(parcel.members) > 1:
            rows += [[each, receiver, now, "digest", parcel.id] for each in parcel.ids]
            counting.coalesced(db, receiver, len(parcel.ids))
        for row in rows:
            db.execute("INSERT INTO attempts VALUES (?, ?, ?, ?, ?, NULL)", row)
    return True


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
    word, label, error = _words(outcome)
    handle = outcome.handle or None if isinstance(outcome, Delivered) else None
    states = [(each, _state(each, route, outcome, now, wait)) for each in parcel.members]
    for each, state in states:
        if state != "pending":
            end = {"state": state, "reason": label, "error": error, "handle": handle}
            _record(store, recorder, each, route.name, end, now)
    with store.writing() as db:
        db.execute(
            "UPDATE attempts SET outcome = ?, reason = ?, seconds = ? WHERE delivery_id = ?"
            " AND receiver = ? AND ts = ? AND outcome = 'started'",
            [word, label, (now - began).total_seconds(), parcel.id, route.name, began],
        )
        counting.attempt(db, route.name, label, now)
        given = {
            "receiver": route.name, "error": error, "handle": handle,
            "sure": 0 if word == "doubt" else 1, "next": now + timedelta(seconds=wait),
        }  # fmt: skip
        for state in {state for _, state in states}:
            ended = [each for each, its in states if its == state]
            _close(db, given | {"state": state}, ended, now)
    return sum(state == "dead" for _, state in states)


def bury(store: Store, recorder: Recorder, receivers: Iterable[str], now: datetime) -> int:
    """Give up what is owed to receivers that are none of these any more: it would wait for ever.
    Returns how many messages that were."""
    rows = store.rows(
        "SELECT delivery_id, receiver, alert_id, kind, severity, created_at, attempts, message"
        " FROM deliveries WHERE state = 'pending' AND NOT list_contains($names, receiver)",
        names=list(receivers),
    )
    end = {"state": "dead", "reason": "other", "error": GONE, "handle": None}
    for row in rows:
        detail = end | {key: row[key] for key in ("receiver", "kind", "created_at", "attempts")}
        detail |= _about(store, row)
        detail["message"] = msgspec.json.decode(row["message"])
        recorder.record("delivery", "gatewatch", row["delivery_id"], detail, now)
    with store.writing() as db:
        for row in rows:
            db.execute(
                "UPDATE deliveries SET state = 'dead', done_at = $now::TIMESTAMPTZ,"
                " last_error = $why WHERE state = 'pending' AND delivery_id = $id",
                {"now": now, "why": end["error"], "id": row["delivery_id"]},
            )
            counting.ended(db, row["receiver"], "dead", [row["created_at"]], now)
    return len(rows)


def again(db: Db, ids: Sequence[str], now: datetime) -> None:
    """Owe dead letters once more, as a person asked at `now`. Asked for twice it is done once."""
    fetch(
        db,
        "UPDATE deliveries SET state = 'pending', next_at = $now::TIMESTAMPTZ, done_at = NULL,"
        " doubts = 0, retried_at = $now::TIMESTAMPTZ WHERE state = 'dead'"
        " AND list_contains($ids, delivery_id)"
        " AND coalesce(retried_at < $now::TIMESTAMPTZ, true)",
        ids=list(ids), now=now,
    )  # fmt: skip


def ended_again(db: Db, delivery_id: str, detail: Mapping[str, Any], at: datetime) -> None:
    """After a rebuild: what a person had sent once more came to an end then."""
    fetch(
        db,
        "UPDATE deliveries SET state = $state, done_at = $at::TIMESTAMPTZ, last_error = $error,"
        " handle = coalesce($handle, handle) WHERE delivery_id = $id AND state = 'pending'"
        " AND retried_at < $at::TIMESTAMPTZ",
        id=delivery_id, at=at, state=detail["state"], error=detail.get("error"),
        handle=detail.get("handle"),
    )  # fmt: skip


def _state(each: Delivery, route: Route, outcome: Outcome, now: datetime, wait: float) -> str:
    owed = each.owed
    if isinstance(outcome, Delivered):
        return "accepted" if outcome.accepted else "delivered"
    if isinstance(outcome, Refused):
        return "dead"
    if outcome.doubt and owed.doubts and not route.module.MANNERS.keyed:
        return "dead"  # it has been repeated once; people may have it twice by now
    limit = GIVE_UP_CRITICAL if owed.severity == "critical" else GIVE_UP
    late = now + timedelta(seconds=wait) > (owed.retried_at or owed.created_at) + limit
    return "dead" if late else "pending"


def _close(db: Db, given: Mapping[str, Any], ended: Sequence[Delivery], now: datetime) -> None:
    """Deliveries that this attempt has left in one state."""
    over = given["state"] != "pending"
    ids = [one_of_them for each in ended for one_of_them in each.ids]
    db.execute(CLOSE, {**given, "done": now if over else None, "ids": ids})
    if over:
        since = [each.owed.created_at for each in ended for _ in each.ids]
        counting.ended(db, given["receiver"], given["state"], since, now)


def _words(outcome: Outcome) -> tuple[str, str | None, str | None]:
    """The outcome's word, the label that metrics count, and the text for the delivery."""
    match outcome:
        case Delivered(hint):
            return "delivered", None, masked(hint) or None
        case Retry(reason, label, doubt=doubt):
            return "doubt" if doubt else "retry", label, f"{label}: {masked(reason)}"
        case Refused(reason, label, hint):
            more = f" (look at: {hint})" if hint else ""
            return "refused", label, f"{label}: {masked(reason)}{more}"


def _record(
    store: Store,
    recorder: Recorder,
    each: Delivery,
    receiver: str,
    end: Mapping[str, Any],
    now: datetime,
) -> None:
    """What the ledger keeps of a delivery that has come to its end: enough for a rebuild, and of
    one that was given up enough to send it after all."""
    owed = each.owed
    detail = {
        "receiver": receiver, "kind": owed.kind, "created_at": owed.created_at,
        "attempts": owed.attempts + 1, **end,
        **_about(store, vars(owed)),
    }  # fmt: skip
    if end["state"] == "dead":
        detail["message"] = msgspec.to_builtins(each.message)
    for one_of_them in each.ids:
        recorder.record("delivery", "gatewatch", one_of_them, detail, now)


def _about(reader: Reader, row: Mapping[str, Any]) -> dict[str, Any]:
    """Which alert it told of, whole, so that a rebuilt database gives it its id again; of a storm
    the members that it named."""
    of, severity = row["alert_id"], row["severity"]
    about: dict[str, Any] = {"of": of, "severity": severity}
    if row["kind"] in ("storm", "calm"):
        return about | {"members": reader.rows(MEMBERS, of=of, at=row["created_at"])}
    found = reader.rows(ABOUT, of=of)
    return about | {"alert": found[0] | {"told_severity": severity} if found else None}
