"""What the service does about pauses by itself, once a round: ends them at their time, says loudly
where a gate does not hold, and orders those that the config wants for a detector's alerts.

Reads: pauses, alerts, events, operator_log. Writes: pauses, deliveries, operator_log.
Next: gatewatch/parts.py.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from detectors import outbox, pauses, wording
from detectors.applying import passport
from detectors.containment import Gate, Whom, chosen
from detectors.detector import Detector
from detectors.pauses import GATEWATCH, Wish
from detectors.routing import Desk, Route
from detectors.unheld import unheld, withheld
from ingest.store import Reader, Store, fetch

PATIENCE = timedelta(seconds=60)  # within which a gate confirms a pause, or people are told
SLOW = timedelta(minutes=5)  # the same for letting go
FRESH = timedelta(minutes=10)  # an alert that opened longer ago is no reason to act by itself
MOST = 3  # agents that one alert may pause by itself
TROUBLE = """
    SELECT * FROM (
        SELECT *, CASE WHEN state = 'refused' THEN 'refused' WHEN state = 'stuck' THEN 'stuck'
                       WHEN state = 'asked' AND asked_at <= $pause::TIMESTAMPTZ THEN 'unconfirmed'
                       WHEN owed = 'resume' AND ended_at <= $resume::TIMESTAMPTZ THEN 'unresumed'
                  END AS trouble,
               bool_or(state = 'confirmed') OVER (PARTITION BY pause_id) AS held
        FROM pauses
    ) WHERE trouble IS NOT NULL AND trouble IS DISTINCT FROM told
    ORDER BY asked_at, pause_id, gate LIMIT 100
"""
OPENED = """
    SELECT * FROM alerts a
    WHERE status = 'open' AND NOT backfill AND verdict IS NULL
      AND opened_at > $since::TIMESTAMPTZ AND list_contains($detectors, detector)
      AND (quiet_reason IS NULL OR starts_with(quiet_reason, 'cooldown')
           OR starts_with(quiet_reason, 'storm'))
      AND NOT EXISTS (SELECT 1 FROM pauses p WHERE p.automatic AND p.alert_id = a.alert_id)
      AND NOT EXISTS (SELECT 1 FROM operator_log o
                      WHERE o.action = 'pause_withheld' AND o.subject = a.alert_id)
    ORDER BY opened_at, alert_id LIMIT 100
"""


def turn(
    store: Store, recorder: outbox.Recorder, gates: Sequence[Gate], desk: Desk,
    detectors: Mapping[str, Detector], now: datetime,
) -> int:  # fmt: skip
    """One round. Returns how many requests and messages it has made due."""
    done = _automatic(store, recorder, gates, desk, detectors, now) if gates else 0
    with store.reading() as db:  # nearly always there is nothing, and then nobody has to write
        anything = fetch(db, "SELECT 1 FROM pauses LIMIT 1")
    if not anything:
        return done
    return done + _expire(store, recorder, gates, now) + _tell(store, desk, now)


def _expire(store: Store, recorder: outbox.Recorder, gates: Sequence[Gate], now: datetime) -> int:
    """A pause ends at its time by itself. A gate that does not know the time is told."""
    rows = store.rows(
        "SELECT pause_id, list(gate ORDER BY gate) AS gates FROM pauses"
        " WHERE until <= $now::TIMESTAMPTZ AND state IN ('asked', 'confirmed')"
        " GROUP BY pause_id ORDER BY pause_id LIMIT 100",
        now=now,
    )
    forgetful = {gate.name for gate in gates if gate.options.forgets}
    for row in rows:
        owed = [name for name in row["gates"] if name not in forgetful]
        recorder.record("pause_expired", GATEWATCH, row["pause_id"], {"owed": owed}, now)
    if rows:
        with store.writing() as db:
            pauses.catch_up(db)
    return len(rows)


def _tell(store: Store, desk: Desk, now: datetime) -> int:
    """What people must know at once: whoever they believe to be stopped may go on."""
    given = {"pause": now - PATIENCE, "resume": now - SLOW}
    rows = store.rows(TROUBLE, **given)
    for row in rows:
        alert = _alert(store, row["alert_id"])
        severity = "high" if row["held"] or row["trouble"] in ("stuck", "unresumed") else "critical"
        with store.writing() as db:
            for route in _heard(desk, row, alert, severity, now):
                key = outbox.delivery_id(
                    "pause", row["pause_id"], row["gate"], row["trouble"], route.name
                )
                note = unheld(row, severity, key, route, desk, now)
                outbox.put(db, route.name, severity, now, note)
            db.execute(
                "UPDATE pauses SET told = ? WHERE pause_id = ? AND gate = ?",
                [row["trouble"], row["pause_id"], row["gate"]],
            )
    return len(rows)


def _automatic(
    store: Store, recorder: outbox.Recorder, gates: Sequence[Gate], desk: Desk,
    detectors: Mapping[str, Detector], now: datetime,
) -> int:  # fmt: skip
    """Pauses that nobody orders by hand, because the config names their detector."""
    named = sorted({each for gate in gates for each in gate.common.automatic})
    if not named:
        return 0
    done = 0
    for alert in store.rows(OPENED, since=now - FRESH, detectors=named):
        if alert["detector"] not in detectors or detectors[alert["detector"]].status == "shadow":
            continue
        willing = [gate for gate in gates if alert["detector"] in gate.common.automatic]
        why = _order(store, recorder, willing, alert, now)
        if why:
            _withhold(store, recorder, desk, alert, why, now)
        with store.writing() as db:  # at once: the next one counts what this one took
            pauses.catch_up(db)
        done += 1
    return done


def _order(
    store: Store, recorder: outbox.Recorder, gates: Sequence[Gate], alert: Mapping[str, Any],
    now: datetime,
) -> str:  # fmt: skip
    """Order what this alert wants. Returns why not, where it does not."""
    wanted = list(concerned(store, alert))
    if not wanted:
        return "its evidence names no agent"
    if len(wanted) > MOST:
        return f"its evidence names {len(wanted)} agents"
    served = [(whom, chosen(gates, whom)) for whom in wanted]
    for gate in gates:
        mine = sum(gate in asked for _, asked in served)
        if mine + _lately(store, gate, now) > gate.common.automatic_per_hour:
            return f"{gate.name} has had its {gate.common.automatic_per_hour} for this hour"
    if not any(asked for _, asked in served):
        return pauses.nobody(gates, wanted[0])
    for whom, asked in served:
        if asked:
            until = pauses.until_for(asked, whom, now)
            reason = f"{alert['detector']}: {alert['title']}"
            key = f"automatic|{alert['alert_id']}|{whom.name}"
            wish = Wish(whom, until, GATEWATCH, reason, key, passport(alert), True)
            pauses.ask(store, recorder, asked, wish, now)
    return ""


def concerned(reader: Reader, alert: Mapping[str, Any]) -> Iterator[Whom]:
    """The agents of an alert's evidence; only its own subject where that is one of them."""
    seen: dict[str, set[str]] = {}
    for event in wording.evidence(reader.rows, alert):
        if event["agent"]:
            seen.setdefault(event["agent"], set()).add(event["source"])
    own = {alert["subject"]: seen[alert["subject"]]} if alert["subject"] in seen else seen
    for agent, sources in sorted(own.items()):
        yield Whom("agent", agent, alert["tenant"], (agent,), tuple(sorted(sources)))


def _lately(store: Store, gate: Gate, now: datetime) -> int:
    [row] = store.rows(
        "SELECT count(*) AS n FROM pauses WHERE automatic AND gate = $gate"
        " AND asked_at > $since::TIMESTAMPTZ",
        gate=gate.name, since=now - timedelta(hours=1),
    )  # fmt: skip
    return int(row["n"])


def _withhold(
    store: Store, recorder: outbox.Recorder, desk: Desk, alert: Mapping[str, Any], why: str,
    now: datetime,
) -> None:  # fmt: skip
    """It is told instead, and stands in the log, so that it is decided once."""
    detail = {"reason": why, "alert": passport(alert)}
    recorder.record("pause_withheld", GATEWATCH, alert["alert_id"], detail, now)
    with store.writing() as db:
        for route in _heard(desk, {}, alert, alert["severity"], now):
            key = outbox.delivery_id("withheld", alert["alert_id"], route.name)
            note = withheld(alert, why, key, route, desk, now)
            outbox.put(db, route.name, alert["severity"], now, note)


def _heard(
    desk: Desk, row: Mapping[str, Any], alert: Mapping[str, Any] | None, severity: str,
    now: datetime,
) -> Sequence[Route]:  # fmt: skip
    """Those that are told of such an alert; where that is nobody, all: this must be heard."""
    of = alert or {
        "alert_id": row["pause_id"], "detector": "containment", "tenant": row["tenant"],
        "subject": row["name"], "about": None,
    }  # fmt: skip
    return desk.chosen({**of, "severity": severity}, now) or desk.routes


def _alert(store: Store, alert_id: str) -> Mapping[str, Any] | None:
    rows = store.rows("SELECT * FROM alerts WHERE alert_id = $id", id=alert_id)
    return rows[0] if rows else None
