"""Rows to alerts: an alert is the union of one subject's stretches with no gap longer than `gap`.

Alerts are recomputed for the stretch of time that changed, never patched. A late event can so
lengthen, join, split or withdraw an alert. It keeps the id of the oldest alert that it overlaps.
Reads: stretches, alerts. Writes: alerts, alert_events, tallies. Next: detectors/telling.py.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import msgspec

from detectors import counting
from detectors.detector import Detector, word
from detectors.stretch import NEAR, SEVERITIES, Run, Span, Stretch, Subject, edges, within
from ingest.store import Db, fetch

SHOWN = 20  # event ids that an alert carries
BACKFILL = timedelta(hours=1)  # trouble that was over this long before it landed is not told
BESIDE = timedelta(hours=1)  # events of a call may lie so far beside the call's own time
UNSAID = "FROM alerts WHERE detector = $id AND about IS NULL"
ABOUT = f"""
    UPDATE alerts SET about = coalesce(k.about, []), gates = k.gates FROM (
        WITH unsaid AS (SELECT alert_id, event_ids {UNSAID}),
        named AS (
            SELECT u.alert_id, e.source,
                unnest(['agent ' || e.agent, 'trace ' || e.trace_id]) AS name
            FROM (SELECT alert_id, unnest(event_ids) AS event_id FROM unsaid) u
            JOIN events e USING (event_id)
            WHERE e.ts >= $low::TIMESTAMPTZ AND e.ts <= $high::TIMESTAMPTZ
        )
        SELECT u.alert_id, list_sort(list(DISTINCT n.source)) AS gates,
            list_sort(list(DISTINCT n.name) FILTER (n.name IS NOT NULL)) AS about
        FROM unsaid u LEFT JOIN named n USING (alert_id)
        GROUP BY u.alert_id
    ) k
    WHERE alerts.alert_id = k.alert_id
"""


@dataclass(frozen=True)
class Found:
    """An alert as a pass over history gives it: no id, nobody told."""

    detector: str
    tenant: str
    subject: str
    severity: str
    started_at: datetime
    ended_at: datetime
    rows: int
    title: str
    title_zh: str
    facts: dict[str, Any]
    event_ids: tuple[str, ...]


def unite(each: Detector, rows: Iterable[Stretch]) -> list[Found]:
    """Stretches of any subjects as alerts, in order of time."""
    subjects: dict[Subject, list[Stretch]] = {}
    for row in rows:
        subjects.setdefault((row.tenant, row.subject), []).append(row)
    done: list[Found] = []
    for of_one in subjects.values():
        of_one.sort(key=lambda row: (row.started_at, row.ended_at, row))
        parts: list[list[Stretch]] = []
        until = of_one[0].ended_at
        for row in of_one:
            if not parts or row.started_at > until + each.gap:
                parts.append([])
            until = max(until, row.ended_at)
            parts[-1].append(row)
        for part in parts:
            worst = max((row.severity for row in part), key=SEVERITIES.index)
            ended_at = max(row.ended_at for row in part)
            done.append(_found(each, Run(part[0].started_at, ended_at, len(part), worst), part))
    return sorted(done, key=lambda found: (found.started_at, found.tenant, found.subject))


def _found(each: Detector, run: Run, edges: Iterable[Stretch]) -> Found:
    """`edges`: stretches of the subject, among them all with which the run begins or ends."""
    first = min(row for row in edges if row.started_at == run.started_at)
    latest = max(row for row in edges if row.ended_at == run.ended_at)
    facts = msgspec.json.decode(latest.facts)
    row = facts | {"subject": latest.subject, "started_at": run.started_at}
    title, title_zh = word(each, row | {"ended_at": run.ended_at})
    ids = dict.fromkeys((*first.event_ids[:5], *latest.event_ids))  # where it began, where it is
    return Found(
        each.id,
        latest.tenant,
        latest.subject,
        run.severity,
        run.started_at,
        run.ended_at,
        run.rows,
        title,
        title_zh,
        facts,
        tuple(list(ids)[-SHOWN:]),
    )


def reconcile(db: Db, each: Detector, changed: Sequence[Stretch], now: datetime) -> None:
    """Bring the alerts of one detector up to its stored stretches, where those have changed."""
    spans: dict[Subject, Span] = {}
    for row in changed:
        _widen(spans, (row.tenant, row.subject), row.started_at, row.ended_at)
    while spans:
        runs, old = _around(db, each, spans)
        wider = dict(spans)
        for key in spans:  # an alert, or a run, may hang over the edge of what has been looked at
            for run in runs[key]:
                _widen(wider, key, run.started_at, run.ended_at)
            for alert in old[key]:
                _widen(wider, key, alert["started_at"], alert["ended_at"])
        whole = sorted(key for key in spans if wider[key] == spans[key])
        ends = edges(db, each, {key: runs[key] for key in whole})
        for key in whole:
            found = [
                _found(each, run, ends[key, run.started_at] + ends[key, run.ended_at])
                for run in runs[key]
            ]
            _match(db, each, found, old[key], now)
        spans = {key: wider[key] for key in spans if wider[key] != spans[key]}
    if changed:
        _say_about(db, each)


def _say_about(db: Db, each: Detector) -> None:
    """Note whom and which traces the evidence of new and changed alerts names."""
    [span] = fetch(db, f"SELECT min(started_at) AS low, max(ended_at) AS high {UNSAID}", id=each.id)
    if span["low"] is not None:
        low, high = span["low"] - BESIDE, span["high"] + BESIDE
        db.execute(ABOUT, {"id": each.id, "low": low, "high": high})


def _widen(spans: dict[Subject, Span], key: Subject, low: datetime, high: datetime) -> None:
    since, until = spans.get(key, (low, high))
    spans[key] = min(since, low), max(until, high)


def _around(
    db: Db, each: Detector, spans: Mapping[Subject, Span]
) -> tuple[dict[Subject, list[Run]], dict[Subject, list[dict[str, Any]]]]:
    """The runs of stored rows, and the alerts, of every subject within a gap of its span."""
    old: dict[Subject, list[dict[str, Any]]] = {key: [] for key in spans}
    with within(db, each, spans) as runs:
        sql = f"SELECT t.* {NEAR.format('alerts')} AND status IN ('open', 'resolved', 'withdrawn')"
        for alert in fetch(db, sql, id=each.id):
            old[alert["tenant"], alert["subject"]].append(alert)
    return runs, old


def _match(
    db: Db, each: Detector, found: Sequence[Found], old: list[dict[str, Any]], now: datetime
) -> None:
    """Give every found alert its id, and say of the others what became of them."""
    free = sorted(old, key=lambda row: (row["opened_at"], row["started_at"], row["alert_id"]))
    for alert in found:
        mine = [
            row for row in free
            if row["started_at"] <= alert.ended_at and row["ended_at"] >= alert.started_at
        ]  # fmt: skip
        free = [row for row in free if row not in mine]
        mine.sort(
            key=lambda row: row["status"] == "withdrawn"
        )  # one that stands before one that fell
        if mine:
            _update(db, each, mine[0], alert, now)
            for other in mine[1:]:
                if other["status"] != "withdrawn" or not other["rows"]:  # 0 rows: see applying.seed
                    _end(db, other, "merged", now, mine[0]["alert_id"])
        else:
            _open(db, each, alert, now)
    for row in free:
        if row["status"] != "withdrawn":
            _end(db, row, "withdrawn", now, None)


def _open(db: Db, each: Detector, alert: Found, now: datetime) -> None:
    parts = (alert.detector, alert.tenant, alert.subject, alert.started_at.isoformat())
    bare = "|" not in alert.tenant + alert.subject  # else names of a log could be made to collide
    key = "|".join(parts).encode() if bare else msgspec.json.encode(parts)
    alert_id = first = "al_" + hashlib.sha256(key).hexdigest()[:12]
    moment = int(now.timestamp())
    while fetch(db, "SELECT 1 FROM alerts WHERE alert_id = $id", id=alert_id):
        # it stood before, was joined to another, and now stands alone again
        alert_id, moment = f"{first}_{moment:x}", moment + 1
    values = {
        "alert_id": alert_id,
        "status": "resolved" if now > alert.ended_at + each.gap else "open",
        "opened_at": now,
        "backfill": now - alert.ended_at > BACKFILL,
        "tellings": 0,
        **_columns(alert),
    }
    if values["status"] == "resolved":
        values["resolved_at"] = now
    names = ", ".join(values)
    places = ", ".join(f"${name}" for name in values)
    db.execute(f"INSERT INTO alerts ({names}) VALUES ({places})", values)
    note(db, alert_id, now, "opened", alert.title)
    if not values["backfill"]:
        counting.opened(db, alert.detector, alert.severity)


def _update(db: Db, each: Detector, row: Mapping[str, Any], alert: Found, now: datetime) -> None:
    status = "open" if now <= alert.ended_at + each.gap else "resolved"
    values = _columns(alert) | {
        "status": status,
        "alert_id": row["alert_id"],
        "resolved_at": None if status == "open" else row["resolved_at"] or now,
        # history that goes on until now is live trouble
        "backfill": row["backfill"] and now - alert.ended_at > BACKFILL,
    }
    if row["status"] == "withdrawn" and row["closed_told"] and row["rows"]:
        # people think that it was nothing; one without rows is the ledger's, see applying.seed
        values |= {"told_at": None, "closed_told": False}
    if all(row[name] == value for name, value in values.items() if name != "about"):
        return
    sets = ", ".join(f"{name} = ${name}" for name in values if name != "alert_id")
    db.execute(f"UPDATE alerts SET {sets} WHERE alert_id = $alert_id", values)
    worse = SEVERITIES.index(alert.severity) > SEVERITIES.index(row["severity"])
    what = "reopened" if row["status"] != "open" and status == "open" else "grew"
    note(db, row["alert_id"], now, "severity" if worse else what, alert.title)


def _end(db: Db, row: Mapping[str, Any], status: str, now: datetime, into: str | None) -> None:
    db.execute(
        "UPDATE alerts SET status = ?, merged_into = ?, resolved_at = ? WHERE alert_id = ?",
        [status, into, now, row["alert_id"]],
    )
    note(
        db,
        row["alert_id"],
        now,
        status,
        into or "not found any more: late events, or another policy",
    )


def resolve(db: Db, detectors: Mapping[str, Detector], now: datetime) -> int:
    """Close what has been quiet for longer than its gap, once the quiet itself has been judged."""
    done = 0
    for row in fetch(db, "SELECT alert_id, detector, ended_at FROM alerts WHERE status = 'open'"):
        each = detectors.get(row["detector"])
        if each is None:
            continue  # a detector that was switched off: its alerts stay for a person to close
        quiet = row["ended_at"] + each.gap
        if now <= quiet or fetch(
            db,
            "SELECT 1 FROM judgements WHERE detector = $id AND status = 'due'"
            " AND since <= $quiet::TIMESTAMPTZ AND until > $ended::TIMESTAMPTZ",
            id=each.id, quiet=quiet, ended=row["ended_at"],
        ):  # fmt: skip
            continue
        db.execute("UPDATE alerts SET status = 'resolved', resolved_at = ? WHERE alert_id = ?",
                   [now, row["alert_id"]])  # fmt: skip
        note(db, row["alert_id"], now, "resolved", None)
        done += 1
    return done


def note(db: Db, alert_id: str, now: datetime, what: str, detail: str | None) -> None:
    """One line of an alert's history. Why nobody is told is counted with it."""
    note_all(db, [alert_id], now, what, detail)


def note_all(db: Db, ids: Sequence[str], now: datetime, what: str, detail: str | None) -> None:
    """The same line in the histories of many alerts."""
    db.execute(
        "INSERT INTO alert_events"
        " SELECT unnest($ids::VARCHAR[]), $now::TIMESTAMPTZ, $what, $detail",
        {"ids": list(ids), "now": now, "what": what, "detail": detail},
    )
    if what == "quiet":
        counting.quiet(db, detail or "other", len(ids))


def _columns(alert: Found) -> dict[str, Any]:
    return {
        "detector": alert.detector,
        "tenant": alert.tenant,
        "subject": alert.subject,
        "severity": alert.severity,
        "started_at": alert.started_at,
        "ended_at": alert.ended_at,
        "rows": alert.rows,
        "title": alert.title,
        "title_zh": alert.title_zh,
        "facts": msgspec.json.encode(alert.facts, order="sorted").decode(),
        "event_ids": list(alert.event_ids),
        "about": None,
    }
