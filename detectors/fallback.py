"""The last resort: an alert of which none of those chosen can be reached goes to the fallback.

Reached is who was sent it. Not to be reached is whose message was given up, or waits while its
receiver fails for minutes. The fallback is told the alert itself, once, and again when it gets
worse; that a receiver fails is told besides, by detectors/trouble.py.
Reads: deliveries, attempts, alerts, storms. Writes: deliveries, alert_events.
Next: detectors/outbox.py.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from detectors import outbox
from detectors.alerts import note
from detectors.carrying import carry
from detectors.detector import Detector
from detectors.escalation import owe
from detectors.masking import masked
from detectors.receivers import Language
from detectors.routing import Desk, Route
from detectors.shorten import cut, visible
from detectors.trouble import FAILING
from ingest.store import Db, fetch

TELLS = ("open", "worse", "unsilenced", "escalated", "storm")  # kinds that must reach somebody
LOOKED_BACK = timedelta(days=2)  # whatever is owed is given up before
ERROR = 200  # code points of what a receiver answered
# Who fails: with messages that wait, no success, and a failure of more than FAILING ago since the
# last one. Being asked to wait is no failure.
SILENT = """
    SELECT r.receiver FROM (SELECT DISTINCT receiver FROM deliveries WHERE state = 'pending') r
    JOIN attempts a ON a.receiver = r.receiver AND a.ts > $now::TIMESTAMPTZ - INTERVAL 1 DAY
    GROUP BY r.receiver
    HAVING min(a.ts) FILTER (a.outcome IN ('retry', 'doubt', 'refused')
            AND a.reason IS DISTINCT FROM 'rateLimited' AND a.ts > coalesce((
                SELECT max(ts) FROM attempts s
                WHERE s.receiver = r.receiver AND s.outcome = 'delivered'
            ), '-infinity'::TIMESTAMPTZ)) <= $now::TIMESTAMPTZ - $failing::INTERVAL
"""
LOST = f"""
    WITH silent AS ({SILENT}),
    tellings AS (
        SELECT alert_id, kind, created_at, any_value(severity) AS severity,
            bool_and(state = 'dead' OR (state = 'pending' AND receiver IN (FROM silent))) AS lost,
            list_sort(list(receiver)) AS receivers, bool_or(receiver = $fallback) AS told,
            max_by(last_error, coalesce(done_at, next_at)) FILTER (last_error <> 'sending') AS error
        FROM deliveries
        WHERE kind IN {TELLS} AND created_at > $now::TIMESTAMPTZ - $back::INTERVAL
        GROUP BY alert_id, kind, created_at
    ),
    newest AS (
        SELECT *, max(created_at) FILTER (told OR NOT lost) OVER (PARTITION BY alert_id) AS reached
        FROM tellings
    )
    SELECT * EXCLUDE (told, lost, reached) FROM newest
    WHERE lost AND NOT told AND (reached IS NULL OR reached < created_at)
    QUALIFY row_number() OVER (PARTITION BY alert_id ORDER BY created_at DESC) = 1
    ORDER BY created_at, alert_id
"""
STILL = """
    SELECT * FROM alerts WHERE list_contains($ids, alert_id) AND status = 'open'
        AND acked_at IS NULL AND verdict IS NULL
        AND (quiet_reason IS NULL OR quiet_reason NOT IN ('silence', 'maintenance'))
"""
STORMING = "SELECT storm_id FROM storms WHERE list_contains($ids, storm_id) AND calm_at IS NULL"
WHY: dict[Language, tuple[str, str]] = {
    "en": ("comes to you because", "nobody of {names} can be reached: {error}"),
    "zh": ("转给您的原因", "{names} 均无法送达：{error}"),
}
NO_ANSWER = "no success for minutes"


def reach(db: Db, detectors: Mapping[str, Detector], desk: Desk, now: datetime) -> int:
    """Owe the fallback what reached nobody, inside the caller's transaction. Returns how many."""
    route = desk.fallback
    if route is None or not _wanting(db):
        return 0
    rows = fetch(db, LOST, now=now, failing=FAILING, back=LOOKED_BACK, fallback=route.name)
    lost = {row["alert_id"]: row for row in rows}
    if not lost:
        return 0
    done = 0
    for alert in fetch(db, STILL, ids=list(lost)):
        if route.wants(alert["severity"], alert["detector"]):
            done += _alert(db, alert, lost[alert["alert_id"]], route, desk, detectors, now)
    for storm in fetch(db, STORMING, ids=list(lost)):
        row = lost[storm["storm_id"]]
        done += carry(db, row["alert_id"], [(route, _key(row, route))], _why(row), now)
    return done


def _alert(
    db: Db, alert: Mapping[str, Any], row: Mapping[str, Any], route: Route, desk: Desk,
    detectors: Mapping[str, Detector], now: datetime,
) -> int:  # fmt: skip
    why = _why(row)
    owed = owe(db, alert, now, desk, [(route, _key(row, route))], detectors, why)
    if owed:
        note(db, alert["alert_id"], now, "fallback", f"{route.name}: {why['en'][1]}")
    return owed


def _wanting(db: Db) -> bool:
    """Does anything wait, or was anything given up? Mostly nothing, and this costs next to
    nothing."""
    return bool(fetch(db, "SELECT 1 FROM deliveries WHERE state IN ('pending', 'dead') LIMIT 1"))


def _key(row: Mapping[str, Any], route: Route) -> str:
    """One for each telling that reached nobody: the same after a restart, and after a rebuild."""
    at = row["created_at"].isoformat()
    return outbox.delivery_id(row["alert_id"], "fallback", row["kind"], at, route.name)


def _why(row: Mapping[str, Any]) -> dict[Language, tuple[str, str]]:
    error = cut(visible(masked(row["error"] or NO_ANSWER)), ERROR)
    names = ", ".join(row["receivers"])
    return {
        language: (name, text.format(names=names, error=error))
        for language, (name, text) in WHY.items()
    }
