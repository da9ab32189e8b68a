"""Who would be told of an alert, and why: the tree asked node by node, and what keeps it quiet.

Of an alert that there is, or of one that is only supposed, at any time.
Reads: alerts, deliveries, attempts, silences, storms. Writes: nothing.
Next: detectors/whom_words.py.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import msgspec

from detectors import escalation, hours, hushed
from detectors.explain import UnknownAlertError, unknown
from detectors.hushed import Office
from detectors.routing import AGENT, Route
from detectors.stretch import SEVERITIES
from detectors.tree import Node, steps_of, told_by
from detectors.trouble import failing_since
from detectors.wording import moment
from ingest.config import ConfigError, nearest

SENT = """
    SELECT receiver, kind, state, created_at, delivery_id, last_error FROM deliveries
    WHERE alert_id = $id ORDER BY created_at, receiver, delivery_id
"""


class Supposed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to suppose of an alert: with no alert at all, `detector` is needed."""

    detector: str | None = None
    severity: str | None = None
    agent: str | None = None
    subject: str | None = None
    tenant: str | None = None
    at: datetime | None = None


def whom(office: Office, alert_id: str | None, asked: Supposed, now: datetime) -> dict[str, Any]:
    """The answer, ready for JSON. Raises UnknownAlertError, ConfigError."""
    found = _alert(office, alert_id, asked)
    at, desk = asked.at or now, office.desk
    facts, seen = desk.facts(found), hours.moment(desk.policy, at)
    chosen = desk.tree.chosen(facts, seen) if desk.tree else ()
    named = told_by(chosen) if desk.tree else desk.names
    willing = {route.name for route in desk.willing(named, facts)}
    real = alert_id is not None and asked == Supposed()
    quiet = list(hushed.reasons(office, found, at, real))
    return {
        "alert": {
            "alert_id": alert_id, "severity": facts.severity, "detector": facts.detector,
            "agents": [each.removeprefix(AGENT) for each in found["about"] or ()
                       if each.startswith(AGENT)],
            "subject": found["subject"], "tenant": facts.tenant,
            "tags": list(each.tags) if (each := office.detectors.get(facts.detector)) else [],
        },
        "at": moment(at), "clock": hours.clock(seen),
        "told": [] if quiet else [name for name in named if name in willing],
        "quiet": quiet, "state": list(hushed.state(office, found)) if real else [],
        "routes": desk.tree.explain(facts, seen) if desk.tree else [],
        "receivers": [_receiver(office, each, chosen, found, at) for each in desk.routes],
        "escalate": list(_steps(office, found, alert_id, chosen, at)),
        "fallback": _fallback(office, found),
        "sent": [_sent(row) for row in office.reader.rows(SENT, id=alert_id)] if alert_id else [],
    }  # fmt: skip


def _alert(office: Office, alert_id: str | None, asked: Supposed) -> dict[str, Any]:
    """A row of `alerts`, as far as it counts here, with what is supposed of it."""
    row: dict[str, Any] = {"tenant": "", "about": []}
    if alert_id is not None:
        rows = office.reader.rows("SELECT * FROM alerts WHERE alert_id = $id", id=alert_id)
        if not rows:
            raise UnknownAlertError(unknown(office.reader, alert_id))
        row = rows[0]
    elif asked.detector is None:
        raise ConfigError("name an alert, or suppose one: --detector says of which detector.")
    given = {key: value for key, value in msgspec.structs.asdict(asked).items() if value}
    row |= {
        key: given[key] for key in ("detector", "severity", "tenant", "subject") if key in given
    }
    if row["detector"] not in office.detectors and alert_id is None:
        name = row["detector"]
        raise ConfigError(f"no detector {name!r}.{nearest(name, office.detectors)}")
    if "severity" not in row:
        row["severity"] = office.detectors[row["detector"]].header.severity
    if row["severity"] not in SEVERITIES:
        name = row["severity"]
        raise ConfigError(f"severity: {name!r} is none.{nearest(name, SEVERITIES)}")
    if asked.agent:
        row["about"] = [f"{AGENT}{asked.agent}"]
        row["subject"] = asked.subject or asked.agent
    row.setdefault("subject", "")
    return row


def _receiver(
    office: Office, route: Route, chosen: tuple[Node, ...], alert: Mapping[str, Any], at: datetime
) -> dict[str, Any]:
    naming = [each.place for each in chosen if route.name in each.to]
    failing = failing_since(office.reader, route.name, at)
    return {
        "receiver": route.name, "type": route.type,
        "named_by": naming if office.desk.tree else ["its own filter: there is no [routing]"],
        "wants": route.wants(alert["severity"], alert["detector"]), "filter": _filter(route),
        "failing_since": moment(failing) if failing else None,
    }  # fmt: skip


def _filter(route: Route) -> str:
    """What a receiver takes, by its own table."""
    severity = f"{route.min_severity} or worse" if route.min_severity != "low" else "any severity"
    return f"{severity}, {', '.join(route.detectors) or 'any detector'}"


def _steps(
    office: Office, alert: Mapping[str, Any], alert_id: str | None, chosen: tuple[Node, ...],
    at: datetime,
) -> Iterator[dict[str, Any]]:  # fmt: skip
    """Whom each step tells, and when: of an alert that people know of, else as if told now."""
    since = escalation.since(office.reader.rows, alert_id) if alert_id else None
    known = {row["delivery_id"]: row for row in office.reader.rows(SENT, id=alert_id or "")}
    steps = office.desk.steps(alert, since) if since else steps_of(chosen)
    for step in steps:
        each = escalation.Planned(step, (since or at) + step.after)
        willing = [route.name for route in office.desk.willing(step.to, office.desk.facts(alert))]
        told = [
            known[key]["created_at"] for name in willing
            if since and alert_id and (key := each.key(alert_id, since, name)) in known
        ]  # fmt: skip
        yield {
            "after_seconds": int(step.after.total_seconds()), "to": list(step.to),
            "willing": willing, "at": moment(each.at),
            "told_at": moment(min(told)) if told else None,
        }  # fmt: skip


def _fallback(office: Office, alert: Mapping[str, Any]) -> dict[str, Any] | None:
    route = office.desk.fallback
    if route is None:
        return None
    wants = route.wants(alert["severity"], alert["detector"])
    return {"receiver": route.name, "wants": wants, "filter": _filter(route)}


def _sent(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **{key: row[key] for key in ("receiver", "kind", "state")},
        "at": moment(row["created_at"]), "error": row["last_error"],
    }  # fmt: skip
