"""What Alertmanagers are told: alerts as sets of labels that begin, go on and end.

Alertmanager keeps nothing over a restart and forgets what is not said again, so all of it is said
every minute, and what has ended for six minutes more. A set of labels is one alert there: it holds
nothing that changes while the alert stands, and another severity is another alert.
Prometheus' own page of it: https://prometheus.io/docs/alerting/latest/alerts_api/
Reads: alerts, firing. Writes: firing. Next: detectors/alertmanager_push.py.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import msgspec

from detectors import peers
from detectors.detector import Detector
from detectors.shorten import cut, visible
from ingest.config import ConfigError, Settings, convert
from ingest.store import Db, Reader, fetch

EVERY = timedelta(seconds=60)  # between two times that all of it is said
AHEAD = timedelta(minutes=4)  # for so long an alert goes on without another word from us
REPEATED = timedelta(minutes=6)  # for so long it is said that an alert has ended
APART = timedelta(seconds=1)  # that an alert begins before it ends, or before now
LONG = 200  # code points of a label, and of a text
SAMPLES = 3
SEVERITY = {"critical": "critical", "high": "warning", "medium": "warning", "low": "info"}
HEARTBEAT = "GatewatchHeartbeat"
# Alerts that are told of, or would be: Alertmanager groups and limits for itself, so a cool-down, a
# storm and flapping keep nothing from it.
STANDS = """status = 'open' AND NOT backfill AND coalesce(verdict, 'true') = 'true'
    AND (told_at IS NOT NULL OR quiet_reason IN ('cooldown', 'storm', 'flapping'))"""
STAMP = "concat_ws('|', alert_id, rows, ended_at, title)"
WHICH = f"""
    SELECT alert_id FROM alerts a
    LEFT JOIN (SELECT alert_id, severity, stamp FROM firing WHERE ended_at IS NULL) f
        USING (alert_id, severity)
    WHERE {STANDS} AND (f.stamp IS NULL OR ($whole AND f.stamp <> {STAMP}))
"""  # noqa: S608 - our own text
CHANGED = f"""
    WITH changed AS (
        SELECT *, {STAMP} AS stamp,
            left(sha256(to_json([detector, tenant, subject])::VARCHAR), 16) AS fp
        FROM alerts JOIN (SELECT unnest($ids::VARCHAR[]) AS alert_id) USING (alert_id)
    ),
    newest AS (  -- of one subject one alert: two would be one set of labels
        SELECT c.* FROM changed c
        ANTI JOIN (SELECT detector, tenant, subject, opened_at, alert_id FROM alerts
                   WHERE {STANDS}) s
            ON s.detector = c.detector AND s.tenant = c.tenant AND s.subject = c.subject
            AND (s.opened_at, s.alert_id) > (c.opened_at, c.alert_id)
    )
    SELECT n.*, o.labels AS old_labels
    FROM newest n
    LEFT JOIN firing o ON o.fp = n.fp AND o.severity <> n.severity AND o.ended_at IS NULL
"""  # noqa: S608 - our own text
ENDED = f"""
    SELECT fp, severity FROM firing f
    ANTI JOIN (SELECT alert_id, severity FROM alerts WHERE {STANDS}) s
        ON s.alert_id = f.alert_id AND s.severity = f.severity
    WHERE f.ended_at IS NULL
"""  # noqa: S608 - our own text
END = """
    UPDATE firing SET fresh = true,
        ended_at = greatest($now::TIMESTAMPTZ, started_at + $apart::INTERVAL)
    FROM (SELECT unnest($fps::VARCHAR[]) AS fp, unnest($severities::VARCHAR[]) AS severity) e
    WHERE firing.fp = e.fp AND firing.severity = e.severity
"""
COLUMNS = ("fp", "severity", "alert_id", "stamp", "labels", "annotations")
BEGIN = f"""
    INSERT INTO firing
    SELECT {", ".join(f"unnest(${name}::VARCHAR[])" for name in COLUMNS)},
        unnest($started_at::TIMESTAMPTZ[]), NULL, true
    ON CONFLICT (fp, severity) DO UPDATE SET alert_id = excluded.alert_id, stamp = excluded.stamp,
        annotations = excluded.annotations,
        labels = CASE WHEN ended_at IS NULL THEN labels ELSE excluded.labels END,
        started_at = CASE WHEN ended_at IS NULL THEN started_at ELSE excluded.started_at END,
        fresh = fresh OR ended_at IS NOT NULL, ended_at = NULL
"""


class Alertmanager(peers.Access, frozen=True, kw_only=True):
    """`[alertmanager]`: every member of a cluster, for each keeps alerts for itself.

    `runbooks`: an address under which there is a page `DETECTOR.md` for each detector.
    """

    urls: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    runbooks: str = ""


def read(settings: Settings, where: str) -> Alertmanager | None:
    """The `[alertmanager]` table, or None. Raises ConfigError."""
    if not settings.alertmanager:
        return None
    found = convert(settings.alertmanager, Alertmanager, where)
    urls = peers.check(found.urls, found, where)
    if len(set(urls)) < len(urls):
        raise ConfigError(f"{where}.urls: an address stands there twice.")
    return msgspec.structs.replace(found, urls=urls)


def differs(reader: Reader, whole: bool) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The alerts of which something else is to be said, and the sets of labels that have ended.

    What only explains an alert may change with every event: that is looked at for the `whole`.
    """
    ids = [row["alert_id"] for row in reader.rows(WHICH, whole=whole)]
    return reader.rows(CHANGED, ids=ids) if ids else [], reader.rows(ENDED)


def keep(
    db: Db, changed: Sequence[Mapping[str, Any]], ended: Sequence[Mapping[str, Any]],
    detectors: Mapping[str, Detector], settings: Settings, runbooks: str, now: datetime,
) -> None:  # fmt: skip
    """Note what Alertmanagers are to be told. An alert that changes its severity ends as one set
    and begins as another at the same moment."""
    if ended:
        fps, severities = [row["fp"] for row in ended], [row["severity"] for row in ended]
        db.execute(END, {"now": now, "apart": APART, "fps": fps, "severities": severities})
    if not changed:
        return
    rows = []
    for row in changed:
        old = msgspec.json.decode(row["old_labels"]) if row["old_labels"] else {}
        about = annotations(row, detectors, settings, runbooks)
        rows.append({
            **row, "labels": msgspec.json.encode(labels(row, old)).decode(),
            "annotations": msgspec.json.encode(about).decode(),
            "started_at": begins(row["started_at"], now),
        })  # fmt: skip
    given = {name: [row[name] for row in rows] for name in (*COLUMNS, "started_at")}
    db.execute(BEGIN, given)


def begins(started_at: datetime | None, now: datetime) -> datetime:
    """When an alert began, as Alertmanager may be told: a moment ago at the latest."""
    return min(started_at or now, now - APART)


def labels(row: Mapping[str, Any], old: Mapping[str, str]) -> dict[str, str]:
    """What makes this alert the one it is. `old`: what it was called at another severity.

    An empty value is no label: Alertmanager drops it, and so do we.
    """
    named_in = row["about"] or ()
    agents = [each.removeprefix("agent ") for each in named_in if each.startswith("agent ")]
    gates: Sequence[str] = row["gates"] or ()
    named = {
        "alertname": alertname(row["detector"]),
        "detector": row["detector"],
        "gateway": gates[0] if len(gates) == 1 else "",
        "agent": agents[0] if len(agents) == 1 else "",
        "gatewatch_fp": row["fp"],
        **old,
        "severity": SEVERITY[row["severity"]],
        "level": row["severity"],
    }
    return {name: _text(value) for name, value in named.items() if _text(value)}


def alertname(detector: str) -> str:
    """`deny_retry` is GatewatchDenyRetry."""
    words = re.findall(r"[A-Za-z0-9]+", detector)
    return "Gatewatch" + "".join(word[:1].upper() + word[1:] for word in words)


def annotations(
    row: Mapping[str, Any], detectors: Mapping[str, Detector], settings: Settings, runbooks: str
) -> dict[str, str]:
    """What explains it, and may change while it stands."""
    each, chinese = detectors.get(row["detector"]), settings.language == "zh"
    facts = msgspec.json.decode(row["facts"])
    numbers = [value for value in facts.values() if type(value) in (int, float)]
    respond = ((chinese and each.header.respond_zh) or each.header.respond) if each else ""
    span = (_rfc(row["started_at"]), _rfc(row["ended_at"]))
    said = {
        "summary": row["title_zh"] if chinese else row["title"],
        "description": f"{row['subject']}: {respond}",
        "runbook_url": f"{runbooks.rstrip('/')}/{row['detector']}.md" if runbooks else "",
        "dashboard_url": f"{settings.public_url.rstrip('/')}/alert?alert={row['alert_id']}",
        "alert_id": row["alert_id"],
        "rule_version": each.version if each else "",
        "window": "/".join(span),
        "count": str(numbers[0] if numbers else row["rows"]),
        "baseline": str(facts.get("baseline", "")),
        "threshold": str(facts.get("threshold", "")),
        "samples": ", ".join(row["event_ids"][:SAMPLES]),
    }
    return {name: _text(value, 4 * LONG) for name, value in said.items() if value}


def said(reader: Reader, public_url: str, whole: bool, began: datetime, now: datetime) -> list[str]:
    """The alerts of one telling, each as JSON: all, or those that none has taken yet."""
    rows = reader.rows(
        "SELECT labels, annotations, started_at, ended_at FROM firing WHERE $whole OR fresh"
        " ORDER BY started_at, fp, severity",
        whole=whole,
    )
    until = _rfc(now + AHEAD)
    found = [
        _json(row["labels"], row["annotations"], row["started_at"],
              _rfc(row["ended_at"]) if row["ended_at"] else until, public_url)
        for row in rows
    ]  # fmt: skip
    if whole:  # whoever stops hearing of it knows that we are not there
        named = {"alertname": HEARTBEAT, "severity": "info", "level": "low"}
        about = {"summary": "gatewatch works. Somebody should hear when this stops."}
        first, second = (msgspec.json.encode(each).decode() for each in (named, about))
        found.insert(0, _json(first, second, began - APART, until, public_url))
    return found


def taken(db: Db, now: datetime) -> None:
    """An Alertmanager has them: what has ended long enough ago is not said any more."""
    if fetch(db, "SELECT 1 FROM firing WHERE fresh LIMIT 1"):
        db.execute("UPDATE firing SET fresh = false WHERE fresh")
    db.execute("DELETE FROM firing WHERE ended_at < ?", [now - REPEATED])


def _json(named: str, about: str, started_at: datetime, until: str, url: str) -> str:
    source = msgspec.json.encode(url).decode()
    return (
        f'{{"labels":{named},"annotations":{about},"startsAt":"{_rfc(started_at)}",'
        f'"endsAt":"{until}","generatorURL":{source}}}'
    )


def _rfc(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _text(value: str, most: int = LONG) -> str:
    return cut(visible(value), most).strip()
