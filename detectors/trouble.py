"""A receiver that fails is told of through another: once when it begins, once when it is over.

Reads: deliveries, attempts. Writes: deliveries. Next: detectors/worker.py.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from detectors import outbox
from detectors.digest import listed
from detectors.receivers import Kind, Language, Message
from detectors.routing import Route
from detectors.shorten import cut
from detectors.wording import moment
from ingest.store import Reader, Store

FAILING = timedelta(minutes=5)  # after this long without a success another receiver is told
AGAIN = timedelta(hours=1)  # what comes back sooner is the same trouble, and not told again
LOOKED_BACK = timedelta(days=1)  # for the last success: who fails longer has long been told of
DETECTOR, SEVERITY = "receiver", "high"
SINCE = """
    SELECT min(ts) AS since FROM attempts
    WHERE receiver = $receiver AND ts > $from::TIMESTAMPTZ
        AND outcome IN ('retry', 'doubt', 'refused') AND reason <> 'rateLimited'
        AND ts > coalesce((SELECT max(ts) FROM attempts WHERE receiver = $receiver
            AND ts > $from::TIMESTAMPTZ AND outcome = 'delivered'), '-infinity'::TIMESTAMPTZ)
"""
NOTES = """
    SELECT receiver, kind, created_at FROM deliveries
    WHERE alert_id = $alert AND state <> 'dead'  -- of what was given up nobody knows
    ORDER BY created_at DESC, kind DESC LIMIT 20
"""
WORDS: dict[Language, dict[str, tuple[str, str]]] = {
    "en": {
        "open": (
            "Receiver {name} does not deliver: {reason}",
            "Its alerts wait in the outbox or were given up: `gatewatch deliveries --receiver"
            " {name}`. Run `gatewatch test-send {name}`.",
        ),
        "resolved": (
            "Receiver {name} delivers again",
            "What was given up is sent after all by `gatewatch deliveries retry --receiver"
            " {name}`.",
        ),
    },
    "zh": {
        "open": (
            "通知渠道 {name} 发送失败：{reason}",
            "其告警仍在待发队列中，或已放弃发送：`gatewatch deliveries --receiver {name}`。"
            "请运行 `gatewatch test-send {name}`。",
        ),
        "resolved": (
            "通知渠道 {name} 已恢复发送",
            "已放弃的消息可用 `gatewatch deliveries retry --receiver {name}` 重新发送。",
        ),
    },
}


def failing_since(reader: Reader, receiver: str, now: datetime) -> datetime | None:
    """The first failure after the last success; being asked to wait is none."""
    [row] = reader.rows(SINCE, receiver=receiver, **{"from": now - LOOKED_BACK})
    found: datetime | None = row["since"]
    return found


def tell(
    store: Store, route: Route, others: Sequence[Route], reason: str, link: str, now: datetime
) -> None:
    """Owe one of the others a note that `route` fails, unless that is known.

    `reason` holds no secret.
    """
    notes = store.rows(NOTES, alert=_name(route))
    told = notes and (notes[0]["kind"] == "open" or now - notes[0]["created_at"] < AGAIN)
    if others and not told:
        to = min(others, key=lambda each: _rank(store, each, now))
        _put(store, route, to, "open", reason, link, now)


def over(store: Store, route: Route, others: Sequence[Route], link: str, now: datetime) -> None:
    """Tell those who know of a trouble that `route` delivers again."""
    notes = store.rows(NOTES, alert=_name(route))
    if not notes or notes[0]["kind"] != "open":
        return
    began = {each["receiver"] for each in notes if each["created_at"] == notes[0]["created_at"]}
    for to in others:
        if to.name in began:
            _put(store, route, to, "resolved", "", link, now)


def _rank(reader: Reader, route: Route, now: datetime) -> tuple[bool, bool]:
    """Whom to tell first: who delivers, and of those who wants to hear of it."""
    fails = failing_since(reader, route.name, now) is not None
    return fails, not route.wants(SEVERITY, DETECTOR)


def _put(
    store: Store, route: Route, to: Route, kind: Kind, reason: str, link: str, now: datetime
) -> None:
    title, respond = WORDS[to.language]["open" if kind == "open" else "resolved"]
    note = Message(
        kind=kind,
        alert=_name(route),
        delivery=outbox.delivery_id("receiver", route.name, kind, now.isoformat(), to.name),
        at=moment(now),
        detector=DETECTOR,
        severity=SEVERITY,
        subject=route.name,
        title=cut(title.format(name=route.name, reason=reason), 200),
        facts=(),
        evidence=(),
        respond=respond.format(name=route.name),
        link=listed(link),
        language=to.language,
    )
    with store.writing() as db:
        outbox.put(db, to.name, SEVERITY, now, note)


def _name(route: Route) -> str:
    """Under which the trouble stands in the outbox, as an alert does under its id."""
    return f"receiver:{route.name}"
