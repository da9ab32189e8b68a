"""What there is to say of which alert now, and why nobody is told: one query over all alerts.

Rules, each in one place here; what they mean to people is in docs/alerts.md.
Reads: alerts, deliveries, storm_members. Writes: nothing. Next: detectors/telling.py.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from detectors.detector import Detector
from detectors.inhibition import SAYABLE, inhibited
from detectors.silences import COVERING, MATCHES, tags
from detectors.stretch import SEVERITIES
from ingest.config import Telling
from ingest.store import Db, fetch

IN_FORCE = "SELECT * FROM silences WHERE expires_at > $now::TIMESTAMPTZ"
FLAPS = 2  # times that trouble came back before it was over, after which that is said
MARK, CLEAR, CLOSE = "mark", "clear", "close"  # nothing to say: only the row of the alert changes


def rank(severity: str) -> str:
    """SQL: how bad a severity is, from 1."""
    return f"list_position({list(SEVERITIES)}, {severity})"


OWED = f"""
    WITH covered AS (
        SELECT a.alert_id, min(s.what) AS what, bool_or(s.at_most IS NOT NULL) AS firm
        FROM (SELECT * FROM alerts WHERE {SAYABLE}) a JOIN ({COVERING}) s ON {MATCHES}
        GROUP BY a.alert_id
    ),
    chains AS (  -- alerts of which people think that they still stand, with what goes on in them
        SELECT h.alert_id AS head, any_value(h.detector) AS detector,
            any_value(h.tenant) AS tenant, any_value(h.subject) AS subject,
            any_value({rank("h.told_severity")}) AS as_bad, any_value(h.opened_at) AS opened_at,
            bool_or(o.status = 'open') AS still, max(o.ended_at) AS ended_at,
            count(*) - 1 AS flaps
        FROM alerts h JOIN alerts o ON coalesce(o.continues, o.alert_id) = h.alert_id
            AND (o.continues IS NULL OR o.status IN ('open', 'resolved'))
        WHERE h.told_at IS NOT NULL AND NOT h.closed_told
            AND h.status IN ('open', 'resolved', 'withdrawn')
        GROUP BY h.alert_id
    ),
    continued AS (  -- trouble that stopped, and came back before it was said to be over
        SELECT a.alert_id, arg_max(c.head, c.opened_at) AS head, any_value(a.status) AS status,
            any_value(a.ended_at) AS ended_at
        FROM alerts a JOIN chains c USING (detector, tenant, subject)
        WHERE a.told_at IS NULL AND a.alert_id <> c.head AND a.status IN ('open', 'resolved')
            AND {rank("a.severity")} <= c.as_bad
            AND a.started_at <= c.ended_at + $hold::INTERVAL AND a.ended_at >= c.opened_at
        GROUP BY a.alert_id
    ),
    heads AS (
        SELECT c.head, any_value(c.flaps) AS flaps, greatest(any_value(c.ended_at),
            max(k.ended_at)) AS ended_at,
            any_value(c.still) OR coalesce(bool_or(k.status = 'open'), false) AS still
        FROM chains c LEFT JOIN continued k USING (head) GROUP BY c.head
    ),
    lately AS (  -- that the same subject was told of just before, and how badly
        SELECT detector, tenant, subject, max({rank("told_severity")}) AS as_bad
        FROM alerts
        WHERE told_at > $now::TIMESTAMPTZ - $cool_down::INTERVAL AND status <> 'withdrawn'
        GROUP BY ALL
    ),
    herd AS (  -- in a storm: how bad it will be told of in the next summary; whether in none else
        SELECT m.alert_id, max({rank("m.severity")}) FILTER (m.told_at IS NULL) AS waits,
            NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.alert_id = m.alert_id) AS herded
        FROM storm_members m JOIN storms s USING (storm_id) WHERE s.calm_at IS NULL
        GROUP BY m.alert_id
    ),
    stand AS (
        SELECT a.*, c.what AS cover, coalesce(c.firm, false) AS firm, k.head,
            coalesce(r.waits >= {rank("a.severity")}, false) AS waits,
            coalesce(r.herded, false) AS herded,
            coalesce(l.as_bad >= {rank("a.severity")}, false) AS told_lately,
            {rank("a.severity")} > {rank("a.told_severity")} AS worse,
            {rank("a.severity")} > {rank("a.quiet_severity")} AS broke,
            a.verdict IS NOT NULL AS judged,
            coalesce(h.still, false) AS still, h.ended_at AS over_since, h.flaps,
            a.acked_at IS NULL AND h.still AND h.ended_at > a.told_at
                AND epoch($now::TIMESTAMPTZ) - epoch(a.told_at) >= least(
                    epoch($cool_down::INTERVAL) * pow(2, greatest(a.tellings::INTEGER - 1, 0)),
                    epoch($longest::INTERVAL)) AS again
        FROM alerts a
        LEFT JOIN covered c USING (alert_id)
        LEFT JOIN heads h ON h.head = a.alert_id
        LEFT JOIN continued k USING (alert_id)
        LEFT JOIN herd r USING (alert_id)
        LEFT JOIN lately l
            ON l.detector = a.detector AND l.tenant = a.tenant AND l.subject = a.subject
        WHERE (a.told_at IS NULL AND ({SAYABLE.replace("status", "a.status")}))
            OR (a.told_at IS NOT NULL AND (a.status = 'open' OR NOT a.closed_told)
                AND a.status <> 'merged' AND NOT a.backfill)
    ),
    said AS (
        SELECT *, CASE
            WHEN told_at IS NULL OR (status = 'open' AND closed_told) THEN 'open'
            WHEN status <> 'open' AND herded THEN NULL  -- the storm's end is theirs
            WHEN status = 'withdrawn' THEN 'withdrawn'
            WHEN worse AND (cover IS NULL OR NOT firm) THEN 'worse'
            WHEN status = 'open' AND quiet_reason IN ('silence', 'maintenance') AND cover IS NULL
                THEN CASE WHEN acked_at IS NULL AND NOT judged THEN 'unsilenced' ELSE '{CLEAR}' END
            WHEN status = 'open' AND cover IS NOT NULL THEN '{MARK}'
            WHEN status = 'open' AND acked_at IS NOT NULL AND NOT ack_told THEN 'acknowledged'
            WHEN NOT flapping AND flaps >= {FLAPS} THEN 'flapping'
            WHEN again THEN 'reminder'
            WHEN status = 'resolved' AND NOT still
                AND over_since + $hold::INTERVAL <= $now::TIMESTAMPTZ THEN 'resolved'
            END AS kind
        FROM stand
    ),
    weighed AS (
        SELECT *, CASE
            WHEN kind IN ('withdrawn', 'resolved', 'acknowledged', '{CLEAR}') THEN NULL
            WHEN list_contains($shadow::VARCHAR[], detector) THEN 'shadow'
            WHEN kind = 'worse' THEN CASE WHEN waits THEN 'storm' END
            WHEN cover IS NOT NULL AND (firm OR NOT coalesce(broke, false)) THEN cover
            WHEN judged AND NOT coalesce(broke, false) THEN 'judged'
            WHEN list_contains($inhibited::VARCHAR[], alert_id) THEN 'inhibited'
            WHEN kind IN ('open', 'unsilenced') AND waits THEN 'storm'
            WHEN kind = 'reminder' AND herded THEN 'storm'
            WHEN kind = 'open' AND head IS NOT NULL THEN 'flapping'
            WHEN kind = 'open' AND told_lately THEN 'cooldown'
            END AS reason
        FROM said WHERE kind IS NOT NULL AND list_contains($known::VARCHAR[], detector)
    )
    SELECT * FROM weighed
    WHERE reason IS NULL OR reason IS DISTINCT FROM quiet_reason
    ORDER BY {rank("severity")} DESC, opened_at, alert_id
"""


def owed(
    db: Db, detectors: Mapping[str, Detector], figures: Telling,
    windows: Sequence[Mapping[str, Any]], now: datetime,
) -> list[dict[str, Any]]:  # fmt: skip
    """The alerts of which there is something to say, the worst first: rows of `alerts` with `kind`
    and, where nobody is to be told, a `reason` that is new. `windows`: rows of silences.COVERING.
    """
    covering = [
        {name: row[name] for name in ("detector", "subject", "agent", "tenant", "tag", "severity",
                                      "at_most")} | {"cover": row["silence_id"], "what": "silence"}
        for row in fetch(db, IN_FORCE, now=now)
    ]  # fmt: skip
    order = (
        "cover",
        "what",
        "detector",
        "subject",
        "agent",
        "tenant",
        "tag",
        "severity",
        "at_most",
    )
    covering = [{name: row[name] for name in order} for row in (*covering, *windows)]
    about = tags(detectors)
    return fetch(
        db, OWED, now=now, covering=covering, tagged=list(about), tags=list(about.values()),
        inhibited=inhibited(db, detectors), known=list(detectors),
        shadow=[name for name, each in detectors.items() if each.status == "shadow"],
        cool_down=figures.cool_down, longest=figures.longest, hold=figures.hold,
    )  # fmt: skip
