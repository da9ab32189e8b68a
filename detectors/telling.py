"""Who must be told what, decided in the transaction that writes the outbox.

Told once when it opens; again when it gets worse, or when it is still growing after its cool-down
(60 minutes, doubling to 8 hours); once when it is over or withdrawn, if it was told at all.
Reads: alerts, silences. Writes: alerts, deliveries, alert_events. Next: detectors/outbox.py.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, cast

from detectors import outbox
from detectors.alerts import note
from detectors.detector import Detector
from detectors.receivers import Kind
from detectors.routing import Desk
from detectors.stretch import SEVERITIES
from ingest.store import Db, fetch, one

COOL_DOWN = timedelta(minutes=60)
LONGEST = timedelta(hours=8)


# Open ones; those that were over before anybody could be told; and those of which people think
# that they still stand. One that was over while it was kept quiet is never told.
OWED = """
    SELECT * FROM alerts
    WHERE NOT backfill AND (
        status = 'open'
        OR (status = 'resolved' AND told_at IS NULL AND quiet_reason IS NULL)
        OR (status IN ('resolved', 'withdrawn') AND told_at IS NOT NULL AND NOT closed_told))
    ORDER BY opened_at, alert_id
"""


def tell(db: Db, detectors: Mapping[str, Detector], desk: Desk, now: datetime) -> int:
    """Queue what is owed. Returns how many alerts were told of."""
    told = 0
    for row in fetch(db, OWED):
        kind = _kind(row, now)
        if kind is None or row["detector"] not in detectors:
            continue
        each = detectors[row["detector"]]
        if kind in ("open", "reminder") and (reason := _quiet(db, each, row, now)):
            _keep_quiet(db, row, reason, now)
            continue
        counted = row | {"tellings": row["tellings"] + 1}
        try:
            outbox.enqueue(db, counted, kind, now, desk, each)
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            # one alert that cannot be worded must not keep the others from being told
            _keep_quiet(db, row, f"cannot be worded: {type(error).__name__}: {error}", now)
            continue
        over = kind in ("resolved", "withdrawn")
        db.execute(
            "UPDATE alerts SET told_at = coalesce(?, told_at), told_severity = severity,"
            " tellings = tellings + 1, quiet_reason = NULL, closed_told = ? WHERE alert_id = ?",
            [None if over else now, over, row["alert_id"]],
        )
        note(db, row["alert_id"], now, "told", kind)
        told += 1
    return told


def _keep_quiet(db: Db, row: Mapping[str, Any], reason: str, now: datetime) -> None:
    """Say why nobody is told, once."""
    if row["quiet_reason"] != reason:
        where = [reason, row["alert_id"]]
        db.execute("UPDATE alerts SET quiet_reason = ? WHERE alert_id = ?", where)
        note(db, row["alert_id"], now, "quiet", reason)


def _kind(row: Mapping[str, Any], now: datetime) -> Kind | None:
    """What there is to say of this alert now, if anything."""
    if row["status"] in ("resolved", "withdrawn") and row["told_at"] is not None:
        return None if row["closed_told"] else cast(Kind, row["status"])
    if row["told_at"] is None:
        return None if row["status"] == "withdrawn" else "open"
    if SEVERITIES.index(row["severity"]) > SEVERITIES.index(row["told_severity"]):
        return "worse"
    wait = min(COOL_DOWN * 2 ** (int(row["tellings"]) - 1), LONGEST)
    if (
        now - row["told_at"] >= wait
        and row["ended_at"] > row["told_at"]
        and row["acked_at"] is None
    ):
        return "reminder"
    return None


def _quiet(db: Db, each: Detector, row: Mapping[str, Any], now: datetime) -> str | None:
    """Why nobody is told: a detector in shadow, a silence, an alert that says it already, or the
    same subject was told of just before."""
    if each.status == "shadow":
        return "shadow"
    if fetch(
        db,
        "SELECT 1 FROM silences WHERE expires_at > $now::TIMESTAMPTZ"
        " AND coalesce(detector, $detector) = $detector AND coalesce(subject, $subject) = $subject",
        now=now, detector=row["detector"], subject=row["subject"],
    ):  # fmt: skip
        return "silence"
    if _inhibited(db, each, row):
        return "inhibited"
    before = one(
        db,
        "SELECT max(told_at) FROM alerts WHERE detector = $detector AND tenant = $tenant"
        " AND subject = $subject AND alert_id <> $alert_id AND status <> 'withdrawn'"
        " AND list_contains($as_bad, told_severity)",
        {key: row[key] for key in ("detector", "tenant", "subject", "alert_id")}
        | {"as_bad": list(SEVERITIES[SEVERITIES.index(row["severity"]) :])},
    )  # fmt: skip
    if before is not None and now - before < COOL_DOWN:
        return "cooldown"
    return None


def _inhibited(db: Db, each: Detector, row: Mapping[str, Any]) -> bool:
    """Does an open alert of a detector that goes before this one rest on the same events?"""
    return bool(each.header.inhibited_by) and bool(
        one(
            db,
            """
            SELECT count(*) FROM alerts a JOIN stretches s
                ON s.detector = a.detector AND s.tenant = a.tenant AND s.subject = a.subject
                AND s.ended_at BETWEEN a.started_at AND a.ended_at
            WHERE a.status = 'open' AND list_contains($ids, a.detector)
                AND list_has_any(s.event_ids, $events)
            """,
            {"ids": list(each.header.inhibited_by), "events": row["event_ids"]},
        )
    )
