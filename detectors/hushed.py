"""Why nobody is told of an alert, though routes choose somebody; and how far those are who were.

Reads: alerts, silences, storms. Writes: nothing. Next: detectors/whom.py.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from detectors import maintenance, silences
from detectors.detector import Detector
from detectors.routing import Desk
from detectors.silences import Matchers
from detectors.stretch import SEVERITIES
from detectors.wording import moment
from ingest.config import Telling
from ingest.store import Reader

COVERS = f"""
    SELECT DISTINCT s.what, s.cover
    FROM (SELECT $detector AS detector, $subject AS subject, $tenant AS tenant,
          $about::VARCHAR[] AS about, $severity AS severity) a
    JOIN ({silences.COVERING}) s ON {silences.MATCHES} ORDER BY ALL
"""
IN_FORCE = """
    SELECT * FROM silences
    WHERE created_at <= $at::TIMESTAMPTZ AND expires_at > $at::TIMESTAMPTZ
"""
LATELY = """
    SELECT alert_id, told_at FROM alerts
    WHERE detector = $detector AND tenant = $tenant AND subject = $subject AND alert_id <> $id
        AND status <> 'withdrawn' AND told_at <= $at::TIMESTAMPTZ AND told_at > $since::TIMESTAMPTZ
        AND list_contains($as_bad, told_severity)
    ORDER BY told_at DESC LIMIT 1
"""
SAID = ("silence", "maintenance", "storm")  # quiet_reason of which there is more to say
STORM = """
    SELECT m.storm_id, m.told_at FROM storm_members m JOIN storms s USING (storm_id)
    WHERE m.alert_id = $id AND s.calm_at IS NULL
"""


@dataclass(frozen=True)
class Office:
    """All that decides who is told."""

    reader: Reader
    desk: Desk
    detectors: Mapping[str, Detector]
    figures: Telling = field(default_factory=Telling)
    windows: tuple[maintenance.Window, ...] = ()


def reasons(
    office: Office, alert: Mapping[str, Any], at: datetime, real: bool
) -> Iterator[dict[str, str]]:
    """Everything for which nobody would be told at that time, though routes choose somebody."""
    each = office.detectors.get(alert["detector"])
    if each is None:
        yield _why("detector", f"{alert['detector']} is switched off")
    elif each.status == "shadow":
        yield _why("shadow", f"{each.id} is in shadow: its alerts are shown, and told to nobody")
    for row in _covers(office, alert, at):
        yield _why(row["what"], _named(office, row))
    if real:
        yield from _hushed(office, alert)
    elif lately := _lately(office, alert, at):
        until = moment(lately["told_at"] + office.figures.cool_down)
        yield _why(
            "cooldown",
            f"{lately['alert_id']}, of the same subject and as bad, was told at"
            f" {moment(lately['told_at'])}: until {until} no other is",
        )


def _hushed(office: Office, alert: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """What the alert itself says to that."""
    if alert["status"] != "open":
        yield _why(alert["status"], f"it is {alert['status']}: only those told of it hear of that")
    if alert["backfill"]:
        yield _why("backfill", "it was over long before its lines came")
    if alert["verdict"]:
        yield _why("verdict", f"{alert['verdict_by']} judged it: {alert['verdict']}")
    for row in office.reader.rows(STORM, id=alert["alert_id"]):
        if row["told_at"] is None:
            yield _why("storm", f"one of many: it waits for the next summary of {row['storm_id']}")
    if alert["quiet_reason"] and alert["quiet_reason"] not in SAID:
        yield _why("quiet", str(alert["quiet_reason"]))


def state(office: Office, alert: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """How far it is with those who have been told."""
    for row in office.reader.rows(STORM, id=alert["alert_id"]):
        if row["told_at"] is not None:
            yield _why("storm", f"told in the summary of {row['storm_id']}")
    if alert["acked_at"]:
        by = f"{alert['acked_by']} has it since {moment(alert['acked_at'])}"
        yield _why("acknowledged", f"{by}: no reminders and no steps; what gets worse is told")
    elif alert["told_at"] and alert["status"] == "open":
        figures, times = office.figures, max(int(alert["tellings"]) - 1, 0)
        wait: timedelta = min(figures.cool_down * 2 ** min(times, 20), figures.longest)
        again = moment(alert["told_at"] + wait)
        yield _why(
            "told",
            f"told at {moment(alert['told_at'])}; again when it gets worse, or after {again}"
            " if it still goes on",
        )


def _covers(office: Office, alert: Mapping[str, Any], at: datetime) -> list[dict[str, Any]]:
    zone = office.desk.policy.general.timezone
    rows = [
        Matchers(**{name: row[name] for name in Matchers.__struct_fields__}).covering(
            row["silence_id"], "silence"
        )
        for row in office.reader.rows(IN_FORCE, at=at)
    ]
    rows += maintenance.covering(office.windows, at, zone)
    tags = silences.tags(office.detectors)
    names = ("detector", "subject", "tenant", "about", "severity")
    return office.reader.rows(
        COVERS, covering=rows, tagged=list(tags), tags=list(tags.values()),
        **{name: alert[name] or [] if name == "about" else alert[name] for name in names},
    )  # fmt: skip


def _named(office: Office, row: Mapping[str, Any]) -> str:
    if row["what"] == "maintenance":
        return f"planned work: {row['cover']}"
    sql = "SELECT author, reason, expires_at FROM silences WHERE silence_id = $id"
    [found] = office.reader.rows(sql, id=row["cover"])
    until = moment(found["expires_at"])
    return f"{row['cover']} of {found['author']} until {until}: {found['reason']}"


def _lately(office: Office, alert: Mapping[str, Any], at: datetime) -> dict[str, Any] | None:
    since = at - office.figures.cool_down
    as_bad = list(SEVERITIES[SEVERITIES.index(alert["severity"]) :])
    names = ("detector", "tenant", "subject")
    found = office.reader.rows(
        LATELY, at=at, since=since, as_bad=as_bad, id=alert.get("alert_id", ""),
        **{name: alert[name] for name in names},
    )  # fmt: skip
    return found[0] if found else None


def _why(what: str, says: str) -> dict[str, str]:
    return {"what": what, "says": says}
