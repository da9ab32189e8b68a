"""What people did, and what became of messages, applied to the tables. The ledger has it first.

Every action names its alert whole (a passport), so that a rebuilt database, whose alerts are found
anew, gives them their old ids and brings back what was told and decided.
Reads: operator_log, alerts, events. Writes: alerts, alert_events, incidents, silences, storms,
deliveries. Next: rules_miner/traces.py.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import msgspec

from detectors import pauses, settling
from detectors.alerts import note
from detectors.receivers import OVER
from ingest.land import Lander
from ingest.store import Db, Store, fetch, insert

LABELS = {"true": "misaction", "false": "good", "expected": "good"}  # accepted risk labels nothing
PASSPORT = (
    "alert_id", "detector", "tenant", "subject", "severity", "started_at", "ended_at", "opened_at",
    "told_at", "told_severity", "tellings", "closed_told", "backfill",
)  # fmt: skip
TELLS = ("open", "worse", "reminder", "unsilenced", "storm", "resolved", "withdrawn")  # who knows?
KNOWN = f"""
    UPDATE alerts SET tellings = k.tellings, told_at = k.told_at, told_severity = k.told_severity,
        closed_told = coalesce(k.over_at > k.told_at, false), flapping = k.flapping
    FROM (
        WITH said AS (
            SELECT alert_id, kind, created_at, severity FROM deliveries
            UNION ALL
            SELECT m.alert_id, d.kind, d.created_at, m.severity
            FROM deliveries d JOIN storm_members m ON m.storm_id = d.alert_id
            WHERE d.kind = 'storm' AND m.told_at <= d.created_at
        )
        SELECT alert_id, count(DISTINCT (kind, created_at)) FILTER (kind <> 'flapping') AS tellings,
            max(created_at) FILTER (kind NOT IN ({str(OVER)[1:-1]}, 'flapping')) AS told_at,
            max(created_at) FILTER (kind IN {OVER}) AS over_at,
            arg_max(severity, created_at) AS told_severity,
            coalesce(bool_or(kind = 'flapping'), false) AS flapping
        FROM said WHERE list_contains($ids, alert_id) AND kind IN {(*TELLS, "flapping")}
        GROUP BY alert_id
    ) k
    WHERE alerts.alert_id = k.alert_id
"""


def noted(
    store: Store, lander: Lander, action: str, actor: str, subject: str, detail: dict[str, Any],
    now: datetime,
) -> None:  # fmt: skip
    """An action into the ledger, then into the tables that show it."""
    lander.record(action, actor, subject, detail, now)
    with store.writing() as db:
        catch_up(db)


def passport(row: Mapping[str, Any]) -> dict[str, Any]:
    """What identifies an alert, and what was told of it, for a line of the ledger."""
    return {name: row[name] for name in PASSPORT}


def seed(db: Db) -> None:
    """Before a rebuilt database is judged: the alerts that people and receivers know by id.

    They stand withdrawn until judging finds them again.
    """
    newest: dict[str, dict[str, Any]] = {}
    for row in fetch(db, "SELECT detail FROM operator_log WHERE NOT applied ORDER BY ledger_seq"):
        for alert in _named(msgspec.json.decode(row["detail"])):
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
    pauses.catch_up(db)
    rows = fetch(db, "SELECT * FROM operator_log WHERE NOT applied ORDER BY ledger_seq")
    again: set[str] = set()  # alerts that were told of before the database was made anew
    for row in rows:
        detail = msgspec.json.decode(row["detail"])
        match row["action"]:
            case "ack" | "verdict" | "reopen" | "assign" | "comment":
                _triage(db, row, detail)
            case "silence":
                _silence(db, row, detail)
            case "silence_end":
                db.execute(
                    "UPDATE silences SET expires_at = $at::TIMESTAMPTZ, ended_by = $by"
                    " WHERE silence_id = $id AND expires_at > $at::TIMESTAMPTZ",
                    {"at": row["ts"], "by": row["actor"], "id": row["subject"]},
                )
            case "label":
                for each in detail["rows"]:
                    _incident(db, row, each["trace_id"], each["label"], each)
            case "propose":
                _mined(db, row, detail)
            case "delivery":
                again |= _delivered(db, row, detail)
            case "retry":
                settling.again(db, detail["deliveries"], row["ts"])
    if again:
        db.execute(KNOWN, {"ids": sorted(again)})
    db.execute("UPDATE operator_log SET applied = true WHERE NOT applied")
    return len(rows)


def _named(detail: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The passports in a line: of its alert, or of the alerts of a storm."""
    if detail.get("alert"):
        yield detail["alert"]
    yield from detail.get("members") or ()


def _triage(db: Db, row: dict[str, Any], detail: dict[str, Any]) -> None:
    """One action of a person upon one alert, and the line of its history that tells of it."""
    alert_id, said = row["subject"], detail.get("reason") or ""
    match row["action"]:
        case "ack":
            what = "acked"
            db.execute("UPDATE alerts SET acked_at = ?, acked_by = ? WHERE alert_id = ?",
                       [row["ts"], row["actor"], alert_id])  # fmt: skip
        case "verdict":
            what, said = "verdict", ": ".join(filter(None, (detail["verdict"], said)))
            _verdict(db, row, detail)
        case "reopen":
            what = "retaken"
            db.execute(
                "UPDATE alerts SET acked_at = NULL, acked_by = NULL, ack_told = false,"
                " verdict = NULL, verdict_reason = NULL, verdict_by = NULL, verdict_at = NULL"
                " WHERE alert_id = ?", [alert_id]
            )  # fmt: skip
            db.execute("DELETE FROM incidents WHERE alert_id = ?", [alert_id])
        case "assign":
            what, said = "assigned", ": ".join(filter(None, (detail["to"] or "nobody", said)))
            db.execute("UPDATE alerts SET assigned_to = ? WHERE alert_id = ?",
                       [detail["to"] or None, alert_id])  # fmt: skip
        case _:
            what, said = "comment", detail["text"]
    note(db, alert_id, row["ts"], what, f"{row['actor']}: {said}" if said else row["actor"])


def _silence(db: Db, row: dict[str, Any], detail: dict[str, Any]) -> None:
    wanted = detail.get("matchers") or {key: detail[key] for key in ("detector", "subject")}
    silence = {
        "silence_id": row["subject"], "author": row["actor"], "reason": detail["reason"],
        "created_at": row["ts"], "expires_at": detail["until"], **wanted,
    }  # fmt: skip
    db.execute("DELETE FROM silences WHERE silence_id = ?", [row["subject"]])
    insert(db, "silences", silence)


def _verdict(db: Db, row: dict[str, Any], detail: dict[str, Any]) -> None:
    db.execute(
        "UPDATE alerts SET verdict = ?, verdict_reason = ?, verdict_by = ?, verdict_at = ?,"
        " acked_at = coalesce(acked_at, ?), acked_by = coalesce(acked_by, ?) WHERE alert_id = ?",
        [detail["verdict"], detail["reason"], row["actor"], row["ts"], row["ts"], row["actor"],
         row["subject"]],
    )  # fmt: skip
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


def _delivered(db: Db, row: dict[str, Any], detail: dict[str, Any]) -> set[str]:
    """After a rebuild: the message went out then, it is not owed now. Returns the ids of alerts of
    which it told; none where the tables know of it."""
    of = (detail.get("alert") or {}).get("alert_id") or detail.get("of") or ""
    [(new,)] = db.execute(
        "INSERT INTO deliveries (delivery_id, receiver, alert_id, kind, severity, created_at,"
        " message, state, attempts, next_at, done_at, last_error, handle)"
        " SELECT $id, $receiver, $of, $kind, $severity, $created::TIMESTAMPTZ, $message, $state,"
        " $attempts, $at::TIMESTAMPTZ, $at::TIMESTAMPTZ, $error, $handle WHERE NOT EXISTS"
        " (SELECT 1 FROM deliveries WHERE delivery_id = $id)",
        {
            "id": row["subject"], "receiver": detail["receiver"], "of": of, "at": row["ts"],
            "kind": detail["kind"], "severity": _severity(detail), "state": detail["state"],
            "created": detail["created_at"], "attempts": detail["attempts"],
            "error": detail.get("error"), "handle": detail.get("handle"),
            "message": msgspec.json.encode(detail.get("message") or {}).decode(),
        },
    ).fetchall()  # fmt: skip
    if not new:
        settling.ended_again(db, row["subject"], detail, row["ts"])
        return set()
    if detail.get("members"):
        _storm(db, of, detail)
    return {each["alert_id"] for each in _named(detail)}


def _severity(detail: Mapping[str, Any]) -> str:
    alert = detail.get("alert") or {}
    return str(detail.get("severity") or alert.get("told_severity") or "low")


def _storm(db: Db, storm_id: str, detail: Mapping[str, Any]) -> None:
    """A storm as one of its messages knew it."""
    at, calm = detail["created_at"], detail["kind"] == "calm"
    db.execute(
        "INSERT INTO storms SELECT $id, $detector, [], $at::TIMESTAMPTZ, $at::TIMESTAMPTZ, 0, NULL"
        " WHERE NOT EXISTS (SELECT 1 FROM storms WHERE storm_id = $id)",
        {"id": storm_id, "detector": detail["members"][0]["detector"], "at": at},
    )
    db.execute(
        "UPDATE storms SET receivers = list_sort(list_distinct(list_append(receivers, $to))),"
        " tellings = (SELECT count(DISTINCT created_at) FROM deliveries WHERE alert_id = $id),"
        " began_at = least(began_at, $at::TIMESTAMPTZ),"
        " told_at = greatest(told_at, $at::TIMESTAMPTZ),"
        " calm_at = CASE WHEN $calm THEN $at::TIMESTAMPTZ ELSE calm_at END WHERE storm_id = $id",
        {"id": storm_id, "to": detail["receiver"], "at": at, "calm": calm},
    )
    for each in detail["members"]:
        db.execute(
            "INSERT INTO storm_members SELECT $id, $alert, $severity, $at::TIMESTAMPTZ,"
            " $at::TIMESTAMPTZ WHERE NOT EXISTS"
            " (SELECT 1 FROM storm_members WHERE storm_id = $id AND alert_id = $alert)",
            {"id": storm_id, "alert": each["alert_id"], "severity": each["told_severity"],
             "at": at},
        )  # fmt: skip
