"""Messages for people to look at: what waits, what was given up and why; and to send after all.

Reads: deliveries, alerts. Writes: through detectors/applying.py. Next: gatewatch/delivering.py.
"""

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Literal

from detectors import applying
from ingest.config import ConfigError, nearest
from ingest.land import Lander
from ingest.store import Reader, Store

State = Literal["pending", "dead", "delivered", "accepted"]
STATES: tuple[State, ...] = ("pending", "dead", "delivered", "accepted")
LISTED = """
    SELECT d.delivery_id, d.receiver, d.alert_id, a.title, d.kind, d.severity, d.state,
        d.attempts::BIGINT AS attempts, d.created_at, d.next_at, d.done_at, d.retried_at,
        d.last_error
    FROM deliveries d LEFT JOIN alerts a USING (alert_id)
    WHERE list_contains($states, d.state) AND coalesce(d.receiver = $receiver, true)
        AND coalesce(d.alert_id = $alert, true)
    ORDER BY list_position(['dead', 'pending', 'accepted', 'delivered'], d.state),
        d.created_at DESC, d.delivery_id
    LIMIT $limit
"""
DEAD = """
    SELECT delivery_id, receiver, message = '{}' AS lost FROM deliveries
    WHERE state = 'dead' AND coalesce(receiver = $receiver, true)
        AND ($every OR list_contains($ids, delivery_id))
    ORDER BY created_at, delivery_id
"""
LOST = "its text was lost when the database was made anew"
UNKNOWN = "no receiver of that name is configured"
SAID = re.compile(r"(?:(\w+): )?(.*?)(?: \(look at: (\w+)\))?", re.DOTALL)  # settling's words
ADVICE = {  # by what a receiver's module tells people to look at, or by the label that is counted
    "keyword": "Set `keyword` of the receiver to the one that the robot asks for.",
    "ip": "Put this machine's address on the robot's list, or sign instead.",
    "sign": "`sign_key` is not the robot's: copy it once more.",
    "chat": "The bot is not in that chat, or may not write there: see `chat_id`.",
    "too_long": "The service takes less than its vendor says: please report it.",
    "clock_skew": "The clock of this machine or of theirs is wrong: check NTP here first.",
    "token": "The address or the token is not known there any more: make a new one.",
    "tls": "If the certificate is your own authority's, name that in `ca_file`.",
    "address": "See `allow_private` and `allow_http`, and what the name resolves to.",
    "password": "The mail server does not take `username` and `password`: try them by hand.",
    "gone": "The service wants no more: take the receiver out, or ask those who run it.",
    "proxy": "Check the address and the password of `proxy`.",
    "authError": "The service does not let us in: check token, address and rights.",
    "rateLimited": "The service takes no more for now: nothing to do, it goes out when it may.",
    "serverError": "The service itself is in trouble: see its status page.",
    "clientError": "The service refuses this message; `gatewatch test-send` shows if it does all.",
    "contextDeadlineExceeded": "No answer in time: perhaps it is there. A repeat is marked so.",
    "receiver": "Put [receivers.NAME] back into gatewatch.toml and retry, or leave it.",
    "other": "It cannot be reached from here: name, firewall, proxy, certificate.",
}


def listed(
    reader: Reader,
    states: Sequence[str] = ("pending", "dead"),
    receiver: str | None = None,
    alert: str | None = None,
    limit: int = 200,
) -> list[dict[str, Any]]:
    """Messages in these states, the given-up first, then the newest; each with its trouble taken
    apart into label, reason and hint. The messages themselves are not shown."""
    rows = reader.rows(LISTED, states=list(states), receiver=receiver, alert=alert, limit=limit)
    return [{**row, **_said(row.pop("last_error"))} for row in rows]


def retry(
    store: Store, lander: Lander, receivers: Iterable[str], actor: str, now: datetime,
    ids: Sequence[str] = (), receiver: str | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Owe dead letters once more: those named, or all of a receiver, or all.

    Asked for twice, the second does nothing. Returns `{"retried": [id], "left": [{"delivery_id",
    "why"}]}`. Raises ConfigError for an id that is no dead letter's.
    """
    given = {"ids": list(ids), "receiver": receiver, "every": not ids}
    rows, known = store.rows(DEAD, **given), set(receivers)
    _check(store, ids, {row["delivery_id"] for row in rows})
    left = [
        {"delivery_id": row["delivery_id"], "why": LOST if row["lost"] else UNKNOWN}
        for row in rows
        if row["lost"] or row["receiver"] not in known
    ]
    out = {each["delivery_id"] for each in left}
    chosen = [row["delivery_id"] for row in rows if row["delivery_id"] not in out]
    if chosen:
        subject = receiver or (chosen[0] if len(chosen) == 1 else f"{len(chosen)} deliveries")
        applying.noted(store, lander, "retry", actor, subject, {"deliveries": chosen}, now)
    return {"retried": chosen, "left": left}


def advice(label: str | None, hint: str | None) -> str:
    """What a person can do about it, in one sentence."""
    return ADVICE.get(hint or "") or ADVICE.get(label or "") or ""


def _check(reader: Reader, ids: Sequence[str], dead: set[str]) -> None:
    for each in ids:
        if each in dead:
            continue
        found = reader.rows("SELECT state FROM deliveries WHERE delivery_id = $id", id=each)
        if not found:
            known = [row["delivery_id"] for row in listed(reader, ("dead",))]
            raise ConfigError(f"no delivery {each!r}.{nearest(each, known[:10]) if known else ''}")
        if found[0]["state"] != "pending":  # else it waits already, perhaps since the same request
            raise ConfigError(f"{each} is {found[0]['state']}: only what was given up is retried.")


def _said(error: str | None) -> dict[str, str | None]:
    """The words of a delivery's trouble: see detectors.settling."""
    if not error or (found := SAID.fullmatch(error)) is None:
        return {"label": None, "reason": None, "hint": None}
    label, reason, hint = found.groups()
    return {"label": label, "reason": reason, "hint": advice(label, hint) or None}
