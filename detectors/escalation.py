"""Who hears of an alert later: where nobody takes it, and where nobody of those chosen is reached.

The clock of a route's steps starts when people are first told (again, when it is told of after a
silence, or was taken back), and the route is the one at that time: what a step waits for does not
move with the hour. It stops when somebody has the alert, or when it is over. What was told stands
in `deliveries` under ids that say which step it was, so nothing is told twice, after a restart or a
rebuild either; `escalations` only says when to look again.
Reads: alerts, deliveries, alert_events, attempts. Writes: deliveries, escalations, alert_events.
Next: detectors/outbox.py.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from detectors import outbox
from detectors.alerts import note
from detectors.carrying import carry
from detectors.detector import Detector
from detectors.receivers import OVER, Language
from detectors.routing import Desk, Route
from detectors.spelling import spelled
from detectors.tree import Step
from ingest.store import Db, fetch

LATER = timedelta(minutes=1)  # until one that is kept quiet is looked at again
HIDDEN = ("silence", "maintenance")  # quiet_reason while a step waits
AT_ONCE = 50  # alerts of one round, the worst first: the next round is half a second away
BEGIN = ("open", "unsilenced")  # kinds of which people learn that there is something to take
# Which alerts people know of and nobody has, and since when: asked only where a step may be due.
# What had stopped and goes on as another alert still stands: see alerts.continues.
STANDING = """
    told_at IS NOT NULL AND NOT closed_told AND NOT backfill AND acked_at IS NULL
    AND verdict IS NULL AND (status = 'open' OR (status = 'resolved' AND alerts.alert_id IN
        (SELECT continues FROM alerts WHERE status = 'open' AND continues IS NOT NULL)))
"""
SINCE = f"""
    known AS (
        SELECT d.alert_id, d.kind, d.created_at, max(d.created_at) FILTER (d.kind IN {OVER})
            OVER (PARTITION BY d.alert_id) AS over_at
        FROM deliveries d SEMI JOIN asked USING (alert_id) WHERE d.kind <> 'escalated'
    ),
    begun AS (
        SELECT alert_id, coalesce(max(created_at) FILTER (kind IN {BEGIN}), min(created_at)) AS at
        FROM known WHERE kind NOT IN {OVER} AND (over_at IS NULL OR created_at > over_at)
        GROUP BY alert_id
    ),
    taken AS (
        SELECT e.alert_id, max(e.ts) AS at FROM alert_events e SEMI JOIN asked USING (alert_id)
        WHERE e.what = 'retaken' GROUP BY e.alert_id
    )
"""
DUE = f"""
    WITH standing AS (  -- another telling, or another severity, is looked at anew
        SELECT alerts.alert_id, hash(severity, about, tellings, r.at, $version) AS key
        FROM alerts LEFT JOIN (SELECT alert_id, max(ts) AS at FROM alert_events
            WHERE what = 'retaken' GROUP BY ALL) r ON r.alert_id = alerts.alert_id
        WHERE {STANDING}
    ),
    asked AS MATERIALIZED (
        SELECT s.* FROM standing s LEFT JOIN escalations e
            ON e.alert_id = s.alert_id AND e.key = s.key
        WHERE e.alert_id IS NULL OR e.next_at <= $now::TIMESTAMPTZ
    ),
    {SINCE}
    SELECT a.*, q.key, greatest(b.at, t.at) AS since
    FROM alerts a JOIN asked q USING (alert_id) JOIN begun b USING (alert_id)
    LEFT JOIN taken t USING (alert_id)
    ORDER BY list_position(['critical', 'high', 'medium', 'low'], a.severity), since, a.alert_id
"""
ONE = f"""
    WITH asked AS (SELECT * FROM alerts WHERE alert_id = $id AND {STANDING}),
    {SINCE}
    SELECT greatest(b.at, t.at) AS since FROM begun b LEFT JOIN taken t USING (alert_id)
"""
GONE = f"""
    DELETE FROM escalations WHERE list_contains($ids, alert_id)
        OR alert_id NOT IN (SELECT alert_id FROM alerts WHERE {STANDING})
"""
# Storms that are told of and not calm, of which nobody has a single alert; the worst that nobody
# hides stands for all.
STORMS = """
    SELECT m.storm_id, min(d.at) AS since, arg_max(a, {
            'bad': list_position(['low', 'medium', 'high', 'critical'], a.severity),
            'id': a.alert_id}) FILTER (a.status = 'open' AND a.quiet_reason IS NULL) AS worst
    FROM storm_members m JOIN storms s USING (storm_id) JOIN alerts a USING (alert_id)
    JOIN (SELECT alert_id AS storm_id, min(created_at) AS at FROM deliveries
          WHERE kind = 'storm' GROUP BY ALL) d USING (storm_id)
    WHERE s.calm_at IS NULL AND m.told_at IS NOT NULL
    GROUP BY m.storm_id
    HAVING worst IS NOT NULL AND count(a.acked_at) = 0 AND count(a.verdict) = 0
    ORDER BY m.storm_id
"""
WHY: dict[Language, tuple[str, str]] = {
    "en": ("comes to you because", "nobody has acknowledged it within {after}"),
    "zh": ("转给您的原因", "{after}内无人确认"),
}


@dataclass(frozen=True)
class Planned:
    """A step of one alert's routes, and when it is due."""

    step: Step
    at: datetime

    def key(self, alert_id: str, since: datetime, receiver: str) -> str:
        """The delivery id of this step: the same after a restart, and after a rebuild."""
        after = int(self.step.after.total_seconds())
        return outbox.delivery_id(alert_id, "escalated", since.isoformat(), after, receiver)


def escalate(db: Db, detectors: Mapping[str, Detector], desk: Desk, now: datetime) -> int:
    """Owe what is due, inside the caller's transaction. Returns how many alerts were told of."""
    if desk.tree is None or not any(each.escalate for each in desk.tree.top.all()):
        return 0
    version = _version(desk)
    done = 0
    looked: list[tuple[str, int, datetime | None]] = []
    for row in fetch(db, DUE, version=version, now=now):
        steps = plan(desk, row, row["since"])
        due = [each for each in steps if each.at <= now]
        later = min((each.at for each in steps if each.at > now), default=None)
        if due and row["quiet_reason"] in HIDDEN:
            later = now + LATER
        elif due and done >= AT_ONCE:
            continue
        elif due:
            done += _told(db, row, due, desk, detectors, now)
        looked.append((row["alert_id"], row["key"], later))
    if looked:
        _keep(db, looked)
    return done + _storms(db, desk, now)


def plan(desk: Desk, alert: Mapping[str, Any], since: datetime) -> tuple[Planned, ...]:
    """The steps of an alert that people have known of since then, in order of time."""
    return tuple(Planned(step, since + step.after) for step in desk.steps(alert, since))


def since(rows: Any, alert_id: str) -> datetime | None:
    """Since when the steps of an alert count; None while they don't. `rows`: of a reader."""
    found = rows(ONE, id=alert_id)
    at: datetime | None = found[0]["since"] if found else None
    return at


def _told(
    db: Db, row: Mapping[str, Any], due: Sequence[Planned], desk: Desk,
    detectors: Mapping[str, Detector], now: datetime,
) -> bool:  # fmt: skip
    told = False
    for each in due:
        keys = _keys(desk, each, row, row["alert_id"], row["since"])
        why = _why(each)
        if owe(db, row, now, desk, keys, detectors, why):
            names = ", ".join(route.name for route, _ in keys)
            note(db, row["alert_id"], now, "escalated", f"{names}: {why['en'][1]}")
            told = True
    return told


def owe(
    db: Db, row: Mapping[str, Any], now: datetime, desk: Desk, to: Sequence[tuple[Route, str]],
    detectors: Mapping[str, Detector], why: Mapping[Language, tuple[str, str]],
) -> int:  # fmt: skip
    """Owe an alert to those who were not chosen for it. Returns how many messages are owed."""
    try:
        each = detectors.get(row["detector"])
        return outbox.owe(db, row, "escalated", now, desk, to, each, why)
    except (ValueError, TypeError, LookupError, AttributeError):
        return 0  # one that cannot be worded: its alert says so already, see detectors/telling.py


def _storms(db: Db, desk: Desk, now: datetime) -> int:
    """The same of storms: their alerts were told of together, and are escalated together."""
    if not fetch(db, "SELECT 1 FROM storms WHERE calm_at IS NULL LIMIT 1"):
        return 0
    done = 0
    for row in fetch(db, STORMS):
        for each in plan(desk, row["worst"], row["since"]):
            if each.at <= now:
                keys = _keys(desk, each, row["worst"], row["storm_id"], row["since"])
                done += carry(db, row["storm_id"], keys, _why(each), now)
    return done


def _keys(
    desk: Desk, each: Planned, alert: Mapping[str, Any], of: str, since: datetime
) -> list[tuple[Route, str]]:
    willing = desk.willing(each.step.to, desk.facts(alert))
    return [(route, each.key(of, since, route.name)) for route in willing]


def _why(each: Planned) -> dict[Language, tuple[str, str]]:
    return {
        language: (name, text.format(after=spelled(each.step.after, language == "zh")))
        for language, (name, text) in WHY.items()
    }


def _keep(db: Db, looked: Sequence[tuple[str, int, datetime | None]]) -> None:
    """Note when to look at these again; forget those that are over."""
    ids, keys, at = (list(each) for each in zip(*looked, strict=True))
    fetch(db, GONE, ids=ids)
    fetch(
        db,
        "INSERT INTO escalations SELECT unnest($ids::VARCHAR[]), unnest($keys::UBIGINT[]),"
        " unnest($at::TIMESTAMPTZ[])",
        ids=ids, keys=keys, at=at,
    )  # fmt: skip


def _version(desk: Desk) -> str:
    """Of all that steps depend on beside the alert."""
    tree, policy = desk.tree, desk.policy.general
    return hashlib.sha256(f"{tree and tree.top}{policy}".encode()).hexdigest()[:16]
