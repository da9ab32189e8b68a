"""Alerts for which another one speaks: recorded, not told while that one is open.

A detector's header names in `inhibited_by` whose alerts speak for its own: those that rest on the
same events; and, where the other's subjects are sources (`of_source`), those whose evidence is
that source's, or whose subject it is: of a source that is not heard nothing else can be said.
Reads: alerts, stretches, events. Writes: nothing. Next: detectors/telling.py.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from detectors.detector import Detector
from ingest.store import Db, fetch

AROUND = timedelta(days=1)  # a call's events may lie beside the alert's own times, not further
SAYABLE = """NOT backfill AND (status = 'open'
    OR (status = 'resolved' AND told_at IS NULL AND quiet_reason IS NULL))"""
SPEAKING = """
    SELECT DISTINCT detector FROM alerts WHERE status = 'open' AND list_contains($ids, detector)
"""
SAME_EVENTS = f"""
    WITH dumb AS (
        SELECT alert_id, detector, unnest(event_ids) AS event_id FROM alerts
        WHERE {SAYABLE} AND len(map($dumb::VARCHAR[], $by::VARCHAR[][])[detector]) > 0
    ),
    said AS (
        SELECT a.detector, unnest(s.event_ids) AS event_id
        FROM alerts a JOIN stretches s
            ON s.detector = a.detector AND s.tenant = a.tenant AND s.subject = a.subject
            AND s.ended_at BETWEEN a.started_at AND a.ended_at
        WHERE a.status = 'open' AND list_contains($speaking, a.detector)
    )
    SELECT DISTINCT d.alert_id FROM dumb d JOIN said s USING (event_id)
    WHERE list_contains(map($dumb::VARCHAR[], $by::VARCHAR[][])[d.detector], s.detector)
"""
SAME_SOURCE = f"""
    WITH unheard AS (
        SELECT detector, subject FROM alerts
        WHERE status = 'open' AND list_contains($sources, detector)
    ),
    dumb AS (
        SELECT alert_id, detector, subject, event_ids, started_at, ended_at FROM alerts
        WHERE {SAYABLE}
            AND list_has_any(map($dumb::VARCHAR[], $by::VARCHAR[][])[detector], $sources)
    ),
    rests AS (
        SELECT DISTINCT d.alert_id, d.detector, e.source
        FROM (SELECT alert_id, detector, unnest(event_ids) AS event_id FROM dumb) d
        JOIN events e USING (event_id)
        WHERE e.ts >= (SELECT min(started_at) FROM dumb) - $around::INTERVAL
            AND e.ts <= (SELECT max(ended_at) FROM dumb) + $around::INTERVAL
        UNION SELECT alert_id, detector, subject FROM dumb
    )
    SELECT DISTINCT r.alert_id FROM rests r JOIN unheard u ON u.subject = r.source
    WHERE list_contains(map($dumb::VARCHAR[], $by::VARCHAR[][])[r.detector], u.detector)
"""


def inhibited(db: Db, detectors: Mapping[str, Detector]) -> list[str]:
    """The ids of open alerts for which an open alert of another detector speaks."""
    by = {name: list(each.header.inhibited_by) for name, each in detectors.items()
          if each.header.inhibited_by}  # fmt: skip
    named = {name for names in by.values() for name in names}
    speakers = [  # what is told to nobody, or is not looked at any more, speaks for nothing
        name for name in sorted(named) if name in detectors and detectors[name].status != "shadow"
    ]
    speaking = [row["detector"] for row in fetch(db, SPEAKING, ids=speakers)]
    if not speaking:
        return []
    given: dict[str, Any] = {"dumb": list(by), "by": list(by.values())}
    sources = [name for name in speaking if detectors[name].header.of_source]
    found = {row["alert_id"] for row in fetch(db, SAME_EVENTS, **given, speaking=speaking)}
    if sources:
        rows = fetch(db, SAME_SOURCE, **given, sources=sources, around=AROUND)
        found |= {row["alert_id"] for row in rows}
    return sorted(found)
