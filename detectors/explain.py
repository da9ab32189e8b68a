"""Everything there is to say about one alert: why, on what evidence, who was told, what became.

Reads: alerts, events, alert_events, deliveries, attempts. Writes: nothing. Next: gatewatch/cli.py.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from detectors import wording
from detectors.receivers import Language
from detectors.shorten import visible
from detectors.spelling import many
from detectors.story import story
from detectors.wording import moment
from ingest.config import nearest
from ingest.store import Reader

DELIVERIES = """
    SELECT d.delivery_id, d.receiver, d.kind, d.severity, d.state, d.attempts, d.created_at,
           d.next_at, d.done_at, d.last_error,
           (SELECT any_value(a.reason) FROM attempts a
            WHERE a.delivery_id = d.delivery_id AND a.outcome = 'digest') AS digest
    FROM deliveries d
    WHERE d.alert_id = $id OR d.alert_id IN  -- of a storm, those that name this one
        (SELECT storm_id FROM storm_members WHERE alert_id = $id AND told_at <= d.created_at)
    ORDER BY d.created_at, d.receiver, d.delivery_id
"""
HISTORY = "SELECT ts, what, detail FROM alert_events WHERE alert_id = $id ORDER BY ts, what"
HEAD = ("alert_id", "detector", "severity", "status", "subject", "tenant", "title", "title_zh",
        "started_at", "ended_at", "opened_at", "resolved_at", "rows", "merged_into", "backfill",
        "told_at", "quiet_reason", "continues", "acked_at", "acked_by", "assigned_to", "verdict",
        "verdict_reason", "verdict_by", "verdict_at")  # fmt: skip


class UnknownAlertError(LookupError):
    """No alert has this id. The text names the nearest."""


def explain(
    reader: Reader,
    alert_id: str,
    detectors: Mapping[str, wording.Worded],
    language: Language = "en",
) -> dict[str, Any]:
    """One alert in full, ready for JSON: times are RFC 3339 texts, evidence is in order of time.

    Raises UnknownAlertError.
    """
    found = reader.rows("SELECT * FROM alerts WHERE alert_id = $id", id=alert_id)
    if not found:
        raise UnknownAlertError(unknown(reader, alert_id))
    alert = found[0]
    events = wording.evidence(reader.rows, alert)
    each = detectors.get(alert["detector"])
    return {
        **{key: _json(alert[key]) for key in HEAD},
        **{key: getattr(each.header, key) if each else None for key in ("why", "respond", "quiet")},
        "facts": wording.as_dict(alert["facts"]),
        "shown": [
            list(pair)
            for pair in wording.facts(alert, events, language, wording.limits(each, alert))
        ],
        "evidence": [_step(event) for event in reversed(events)],
        "evidence_total": len(alert["event_ids"]),
        "trace_ids": sorted({event["trace_id"] for event in events if event["trace_id"]}),
        "deliveries": [_row(row) for row in reader.rows(DELIVERIES, id=alert_id)],
        "history": [_row(row) for row in reader.rows(HISTORY, id=alert_id)],
        "story": {name: [_row(row) for row in rows] for name, rows in story(reader, alert).items()},
    }


def unknown(reader: Reader, alert_id: str) -> str:
    """That there is no such alert, and which is nearest."""
    known = reader.rows("SELECT alert_id FROM alerts ORDER BY opened_at DESC LIMIT 200")
    near = nearest(alert_id, [row["alert_id"] for row in known][:10]) if known else ""
    return f"no alert {visible(alert_id)[:80]!r}.{near}"


def render(found: Mapping[str, Any], language: Language = "en") -> str:
    """The same as text for a terminal, in which no log text can move the cursor or colour."""
    return "\n".join(map(visible, _lines(found, language))) + "\n"


def _lines(found: Mapping[str, Any], language: Language) -> Iterator[str]:
    yield found["title_zh" if language == "zh" else "title"]
    ended = f"{found['started_at']} .. {found['ended_at']}"
    yield f"{found['alert_id']}  {found['severity']}  {found['status']}  {found['detector']}"
    yield f"{ended}, {found['rows']} times; opened {found['opened_at']}"
    for name, text in (
        ("Why", "why"), ("Do", "respond"), ("Known false alarm", "quiet"),
        ("Not told", "quiet_reason"), ("Goes on from", "continues"), ("Part of", "merged_into"),
    ):  # fmt: skip
        if found[text]:
            yield f"{name}: {found[text]}"
    if found["verdict"]:
        yield f"Verdict: {found['verdict']} by {found['verdict_by']}: {found['verdict_reason']}"
    elif found["acked_by"]:
        yield f"Acknowledged by {found['acked_by']} at {found['acked_at']}"
    if found["assigned_to"]:
        yield f"Assigned to {found['assigned_to']}"
    yield ""
    for name, value in found["shown"]:
        yield f"  {name}: {value}"
    yield ""
    yield f"Evidence, {len(found['evidence'])} of {found['evidence_total']} events:"
    yield from (f"  {event['line']}" for event in found["evidence"])
    yield f"Traces: {', '.join(found['trace_ids']) or 'none named in the log'}"
    yield ""
    yield from _story(found["story"], language)
    yield "Told:" if found["deliveries"] else "Told: nobody yet."
    for each in found["deliveries"]:
        error = f": {each['last_error']}" if each["last_error"] else ""
        digest = f" in digest {each['digest']}" if each["digest"] else ""
        at = each["done_at"] or f"next {each['next_at']}"
        yield (f"  {each['receiver']}  {each['kind']}  {each['state']}{digest}"
               f" after {many(each['attempts'], 'attempt')}, {at}{error}")  # fmt: skip
    yield "History:"
    for each in found["history"]:
        yield f"  {each['ts']}  {each['what']}  {each['detail'] or ''}".rstrip()


def _story(told: Mapping[str, Any], language: Language) -> Iterator[str]:
    if told["alerts"]:
        yield "Same story, within an hour:"
    for each in told["alerts"]:
        title = each["title_zh" if language == "zh" else "title"]
        shares = ", ".join(each["shares"])
        yield f"  {each['started_at']}  {each['alert_id']}  {each['severity']}  {title} ({shares})"
    if told["changes"]:
        yield "Changed in the hour before:"
    yield from (f"  {each['ts']}  {each['what']}: {each['says']}" for each in told["changes"])
    if told["alerts"] or told["changes"]:
        yield ""


def _step(event: Mapping[str, Any]) -> dict[str, Any]:
    keys = ("event_id", "ts", "trace_id", "source", "ledger_seq")
    return {key: _json(event[key]) for key in keys} | {"line": wording.line(event)}


def _row(row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _json(value) for key, value in row.items()}


def _json(value: Any) -> Any:
    return moment(value) if isinstance(value, datetime) else value
