"""What people did, applied to alerts and incidents. The ledger has it first; this follows.

Every action names its alert whole (a passport), so that a rebuilt database, whose alerts are found
anew, gives them their old ids and brings back what was told and decided.
Reads: operator_log, alerts, events. Writes: alerts, alert_events, incidents, silences, deliveries.
Next: rules_miner/traces.py.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

import msgspec

from detectors.alerts import note
from ingest.config import ConfigError, nearest
from ingest.land import Lander
from ingest.store import Db, Store, fetch

VERDICTS = ("true", "false", "expected", "accepted")
LABELS = {"true": "misaction", "false": "good", "expected": "good"}  # accepted risk labels nothing
PASSPORT = (
    "alert_id", "detector", "tenant", "subject", "severity", "started_at", "ended_at", "opened_at",
    "told_at", "told_severity", "tellings", "closed_told", "backfill",
)  # fmt: skip


class _Result(msgspec.Struct):
    fingerprint: str
    state: str
    rule: dict[str, Any]
    rule_id: str | None
    branch: str | None
    url: str | None
    reason: str | None
    domain: str | None
    title: str | None
    backtest: Any
    evidence: Any


class _Rule(msgspec.Struct):
    rule_id: str
    fingerprint: str
    status: str
    path: str
    doc: dict[str, Any]


class _Found(msgspec.Struct):
    """What a mining hands over: checked before it is kept, because the ledger forgets nothing."""

    results: list[_Result]
    rules: list[_Rule]


class _Label(msgspec.Struct):
    trace_id: str
    label: Literal["misaction", "good"]
    committed_at: datetime | None = None
    tenant: str | None = None
    family: str | None = None
    event_id: str | None = None
    severity: str | None = None
    reason: str | None = None


def _checked(given: object, kind: Any, what: str) -> None:
    try:
        msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{what}: {error}.") from None


def passport(row: Mapping[str, Any]) -> dict[str, Any]:
    """What identifies an alert, and what was told of it, for a line of the ledger."""
    return {name: row[name] for name in PASSPORT}


def acknowledge(
    store: Store, lander: Lander, alert_id: str, actor: str, reason: str, now: datetime
) -> dict[str, Any]:
    """Somebody has it. Stops reminders. Returns the alert. Raises ConfigError for an unknown id."""
    return _act(store, lander, "ack", alert_id, actor, {"reason": reason}, now)


def judge(
    store: Store, lander: Lander, alert_id: str, verdict: str, actor: str, reason: str,
    now: datetime,
) -> dict[str, Any]:  # fmt: skip
    """Close the triage of an alert. `true` makes an incident of each run in its evidence."""
    if verdict not in VERDICTS:
        raise ConfigError(f"verdict: {verdict!r} is none.{nearest(verdict, VERDICTS)}")
    detail = {"verdict": verdict, "reason": reason}
    return _act(store, lander, "verdict", alert_id, actor, detail, now)


def silence(
    store: Store, lander: Lander, detector: str | None, subject: str | None, until: datetime,
    actor: str, reason: str, now: datetime,
) -> None:  # fmt: skip
    """Tell nobody of matching alerts until then. None matches everything."""
    detail = {"detector": detector, "subject": subject, "until": until, "reason": reason}
    _noted(store, lander, "silence", actor, f"si_{int(now.timestamp() * 1000):x}", detail, now)


def label(
    store: Store, lander: Lander, rows: list[dict[str, Any]], actor: str, now: datetime
) -> int:
    """Import labels of runs: `{"trace_id", "label": misaction|good, "committed_at"?, ...}`."""
    _checked(rows, list[_Label], "labels")
    _noted(store, lander, "label", actor, f"{len(rows)} runs", {"rows": rows}, now)
    return len(rows)


def mined(
    store: Store, lander: Lander, results: list[dict[str, Any]], rules: list[dict[str, Any]],
    actor: str, now: datetime,
) -> None:  # fmt: skip
    """Keep what the miner found and which rules there are, for people to look at."""
    detail = {"results": results, "rules": rules}
    _checked(detail, _Found, "mined")
    _noted(store, lander, "propose", actor, f"{len(results)}", detail, now)


def _noted(
    store: Store, lander: Lander, action: str, actor: str, subject: str, detail: dict[str, Any],
    now: datetime,
) -> None:  # fmt: skip
    """An action into the ledger, then into the tables that show it."""
    lander.record(action, actor, subject, detail, now)
    with store.writing() as db:
        catch_up(db)


def _act(
    store: Store, lander: Lander, action: str, alert_id: str, actor: str, detail: dict[str, Any],
    now: datetime,
) -> dict[str, Any]:  # fmt: skip
    found = store.rows("SELECT * FROM alerts WHERE alert_id = $id", id=alert_id)
    if not found:
        known = [row["alert_id"] for row in store.rows("SELECT alert_id FROM alerts LIMIT 10000")]
        raise ConfigError(
            f"no alert {alert_id!r}.{nearest(alert_id, known[-10:]) if known else ''}"
        )
    _noted(store, lander, action, actor, alert_id, detail | {"alert": passport(found[0])}, now)
    return store.rows("SELECT * FROM alerts WHERE alert_id = $id", id=alert_id)[0]


def seed(db: Db) -> None:
    """Before a rebuilt database is judged: the alerts that people and receivers know by id.

    They stand withdrawn until judging finds them again.
    """
    newest: dict[str, dict[str, Any]] = {}
    for row in fetch(db, "SELECT detail FROM operator_log WHERE NOT applied ORDER BY ledger_seq"):
        alert = msgspec.json.decode(row["detail"]).get("alert")
        if alert:
            newest[alert["alert_id"]] = alert
    for alert in newest.values():
        blank: dict[str, Any] = {
            "status": "withdrawn", "rows": 0, "title": "", "title_zh": "", "facts": "{}",
            "event_ids": [], "severity": alert.get("told_severity") or "low",
            "tellings": 0, "closed_told": False, "backfill": False,
        }  # fmt: skip
        values = blank | {name: alert[name] for name in PASSPORT if name in alert}
        names, places = ", ".join(values), ", ".join(f"${name}" for name in values)
        db.execute(
            f"INSERT INTO alerts ({names}) SELECT {places} WHERE NOT EXISTS"
            " (SELECT 1 FROM alerts WHERE alert_id = $alert_id)",
            values,
        )


def catch_up(db: Db) -> int:
    """Apply every action that the ledger brought and the tables do not show yet."""
    rows = fetch(db, "SELECT * FROM operator_log WHERE NOT applied ORDER BY ledger_seq")
    for row in rows:
        detail = msgspec.json.decode(row["detail"])
        match row["action"]:
            case "ack":
                db.execute("UPDATE alerts SET acked_at = ?, acked_by = ? WHERE alert_id = ?",
                           [row["ts"], row["actor"], row["subject"]])  # fmt: skip
                note(db, row["subject"], row["ts"], "acked", f"{row['actor']}: {detail['reason']}")
            case "verdict":
                _verdict(db, row, detail)
            case "silence":
                values = [row["subject"], detail["detector"], detail["subject"], row["actor"],
                          detail["reason"], row["ts"], detail["until"]]  # fmt: skip
                db.execute("INSERT OR REPLACE INTO silences VALUES (?, ?, ?, ?, ?, ?, ?)", values)
            case "label":
                for each in detail["rows"]:
                    _incident(db, row, each["trace_id"], each["label"], each)
            case "propose":
                _mined(db, row, detail)
            case "delivery":
                _delivered(db, row, detail)
    db.execute("UPDATE operator_log SET applied = true WHERE NOT applied")
    return len(rows)


def _verdict(db: Db, row: dict[str, Any], detail: dict[str, Any]) -> None:
    db.execute(
        "UPDATE alerts SET verdict = ?, verdict_reason = ?, verdict_by = ?, verdict_at = ?,"
        " acked_at = coalesce(acked_at, ?), acked_by = coalesce(acked_by, ?) WHERE alert_id = ?",
        [detail["verdict"], detail["reason"], row["actor"], row["ts"], row["ts"], row["actor"],
         row["subject"]],
    )  # fmt: skip
    note(db, row["subject"], row["ts"], "verdict", f"{row['actor']}: {detail['verdict']}")
    db.execute("DELETE FROM incidents WHERE alert_id = ?", [row["subject"]])  # a changed mind
    if detail["verdict"] not in LABELS:
        return
    runs = fetch(
        db,
        """
        SELECT e.trace_id, min(e.tenant) AS tenant, min(e.task) AS family,
            any_value(a.severity) AS severity,
            arg_max(e.event_id, (e.op IS NOT DISTINCT FROM 'commit', e.ts, e.event_id)) AS event_id,
            arg_max(e.ts, (e.op IS NOT DISTINCT FROM 'commit', e.ts, e.event_id)) AS committed_at
        FROM alerts a JOIN events e ON list_contains(a.event_ids, e.event_id)
            AND e.ts BETWEEN a.started_at - INTERVAL 1 DAY AND a.ended_at
        WHERE a.alert_id = $id AND e.trace_id IS NOT NULL GROUP BY e.trace_id
        """,
        id=row["subject"],
    )
    for run in runs:
        _incident(db, row, run["trace_id"], LABELS[detail["verdict"]], run)


def _incident(
    db: Db, row: dict[str, Any], trace_id: str, kind: str, known: Mapping[str, Any]
) -> None:
    """One labelled run. A second label of one run by the same source replaces the first."""
    alert_id = row["subject"] if row["action"] == "verdict" else None
    key = f"in_{alert_id or 'label'}_{trace_id}"
    db.execute(
        "INSERT OR REPLACE INTO incidents VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [key, kind, known.get("tenant"), trace_id, known.get("family"), known.get("committed_at"),
         known.get("event_id"), alert_id, known.get("severity"), row["actor"],
         known.get("reason"), row["ts"]],
    )  # fmt: skip


def _mined(db: Db, row: dict[str, Any], detail: dict[str, Any]) -> None:
    """The last mining replaces the one before: its figures are of all that is stored."""

    def text(value: object) -> str:
        return msgspec.json.encode(value).decode()

    db.execute("DELETE FROM proposals")
    db.execute("DELETE FROM rules")
    for each in detail["results"]:
        proof = {key: each[key] for key in ("reason", "backtest", "evidence", "domain", "title")}
        db.execute(
            "INSERT OR REPLACE INTO proposals VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            [each["fingerprint"], each["rule_id"] or "", each["state"], text(each["rule"]),
             text(proof), each["branch"], each["url"], row["ts"]],
        )  # fmt: skip
    for each in detail["rules"]:
        db.execute(
            "INSERT INTO rules VALUES (?, ?, ?, ?, ?, ?)",
            [each["rule_id"], each["fingerprint"], each["status"], each["path"],
             text(each["doc"]), row["ts"]],
        )  # fmt: skip


def _delivered(db: Db, row: dict[str, Any], detail: dict[str, Any]) -> None:
    """After a rebuild: the message went out then, it is not owed now."""
    alert = detail.get("alert")
    if not alert:
        return
    [(new,)] = db.execute(
        "INSERT INTO deliveries SELECT ?, ?, ?, ?, ?, ?, '{}', ?, ?, ?, ?, ? WHERE NOT EXISTS"
        " (SELECT 1 FROM deliveries WHERE delivery_id = ?)",
        [row["subject"], detail["receiver"], alert["alert_id"], detail["kind"],
         alert["told_severity"], detail["created_at"], detail["state"], detail["attempts"],
         row["ts"], row["ts"], detail.get("error"), row["subject"]],
    ).fetchall()  # fmt: skip
    if not new:
        return  # it is told of already: this is no rebuild
    over = detail["kind"] in ("resolved", "withdrawn")
    db.execute(
        "UPDATE alerts SET tellings = tellings + 1, closed_told = closed_told OR $over,"
        " told_at = CASE WHEN $over THEN told_at ELSE $at::TIMESTAMPTZ END, told_severity = $as"
        " WHERE alert_id = $id AND (told_at IS NULL OR told_at < $at::TIMESTAMPTZ)"
        " AND NOT (closed_told AND $over)",
        {"id": alert["alert_id"], "over": over, "at": detail["created_at"],
         "as": alert["told_severity"]},
    )  # fmt: skip
