"""Pauses: who asked to stop whom until when, what each gate made of it, and how it ended.

Every step is a line of the ledger before the table follows, so that a rebuilt database knows what
was asked and answered, and asks nobody twice. One row a gate; `owed` says what it is still to be
told. Reads: operator_log, pauses, events, alerts. Writes: pauses. Next: detectors/pausing.py.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import msgspec

from detectors.containment import LONGEST, Answer, Gate, Verb, Whom, chosen
from detectors.outbox import Recorder
from detectors.receivers import Delivered, Retry
from ingest.config import ConfigError, nearest
from ingest.store import Db, Reader, fetch

GATEWATCH = "gatewatch"  # the actor of what nobody ordered by hand
LEASE = timedelta(seconds=60)  # a request that nobody noted the end of is made again after this
SHORTEST = timedelta(minutes=1)
STANDING = ("asked", "confirmed")  # not over, as far as we know
ACTIONS = ("pause", "pause_answer", "resume", "pause_expired")  # lines of the ledger
FIELDS = ("kind", "name", "tenant", "until", "reason", "alert_id", "automatic", "gates")
AGENT = """
    SELECT list(DISTINCT coalesce(tenant, '')) AS tenants, list(DISTINCT source) AS sources,
           [$name] AS agents, count(*) AS events
    FROM events WHERE agent = $name AND ($tenant::VARCHAR IS NULL OR coalesce(tenant, '') = $tenant)
"""
TRACE = """
    SELECT list(DISTINCT coalesce(tenant, '')) AS tenants, list(DISTINCT source) AS sources,
           list(DISTINCT agent) FILTER (WHERE agent IS NOT NULL) AS agents, count(*) AS events
    FROM events
    WHERE trace_id = $name AND ($tenant::VARCHAR IS NULL OR coalesce(tenant, '') = $tenant)
"""
LIST = """
    SELECT * EXCLUDE (told), until <= $now::TIMESTAMPTZ AND state IN ('asked', 'confirmed') AS due
    FROM pauses
    WHERE ($alert::VARCHAR IS NULL OR alert_id = $alert)
      AND ($pause::VARCHAR IS NULL OR pause_id = $pause)
    ORDER BY asked_at DESC, pause_id, gate LIMIT 1000
"""


@dataclass(frozen=True)
class Wish:
    """A pause as it is ordered. `key` makes its id: the same wish is one pause."""

    whom: Whom
    until: datetime
    actor: str
    reason: str
    key: str
    alert: Mapping[str, Any] | None = None  # its passport, where there is an alert
    automatic: bool = False

    @property
    def id(self) -> str:
        return id_of(self.key)


def id_of(key: str) -> str:
    """The same wish is always the same pause. Holds no "."."""
    return "pa_" + hashlib.sha256(key.encode()).hexdigest()[:16]


def find(reader: Reader, name: str, kind: str | None = None, tenant: str | None = None) -> Whom:
    """Who is meant: an agent or a trace that has been seen. Raises ConfigError where none was, or
    where the word fits several."""
    if kind not in (None, "agent", "trace"):
        raise ConfigError(f"kind: {kind!r} is none.{nearest(str(kind), ('agent', 'trace'))}")
    seen = {
        each: reader.rows(sql, name=name, tenant=tenant)[0]
        for each, sql in (("agent", AGENT), ("trace", TRACE))
        if kind in (None, each)
    }
    seen = {each: row for each, row in seen.items() if row["events"]}
    if not seen:
        raise ConfigError(
            f"no {kind or 'agent or trace'} {name!r} has been seen{_near(reader, name)}"
        )
    if len(seen) > 1:
        raise ConfigError(f"{name!r} is an agent and a trace: say which with --kind.")
    [(found, row)] = seen.items()
    if len(row["tenants"]) > 1:
        known = ", ".join(sorted(filter(None, row["tenants"])))
        raise ConfigError(f"{found} {name!r} is of several tenants: {known}. Say which.")
    [of] = row["tenants"]
    target: Any = found
    return Whom(target, name, of, tuple(sorted(row["agents"])), tuple(sorted(row["sources"])))


def _near(reader: Reader, name: str) -> str:
    rows = reader.rows(
        "SELECT agent FROM minute_counts WHERE agent IS NOT NULL GROUP BY agent"
        " ORDER BY sum(events) DESC LIMIT 500"
    )
    return f".{nearest(name, [row['agent'] for row in rows])}" if rows else "."


def ask(
    reader: Reader, recorder: Recorder, gates: Sequence[Gate], wish: Wish, now: datetime
) -> str:
    """Order a pause of every gate that serves its target. Returns its id; the same wish again is
    the same pause. Raises ConfigError where no gate could do it."""
    if reader.rows("SELECT 1 FROM pauses WHERE pause_id = $id", id=wish.id):
        return wish.id
    asked = chosen(gates, wish.whom)
    if not asked:
        raise ConfigError(nobody(gates, wish.whom))
    if not SHORTEST <= wish.until - now <= LONGEST:
        raise ConfigError(f"until: between a minute and {LONGEST.days} days from now.")
    detail = {
        "kind": wish.whom.kind, "name": wish.whom.name, "tenant": wish.whom.tenant,
        "until": wish.until.replace(microsecond=0), "reason": wish.reason[:500],
        "alert_id": wish.alert["alert_id"] if wish.alert else "", "automatic": wish.automatic,
        "gates": [gate.name for gate in asked],
    }  # fmt: skip
    passport = {"alert": dict(wish.alert)} if wish.alert else {}
    recorder.record("pause", wish.actor[:200], wish.id, detail | passport, now)
    return wish.id


def listed(
    reader: Reader, now: datetime, alert: str | None = None, pause: str | None = None
) -> list[dict[str, Any]]:
    """A row a gate, the newest first: all, those of an alert, or one."""
    return reader.rows(LIST, now=now, alert=alert, pause=pause)


def nobody(gates: Sequence[Gate], whom: Whom) -> str:
    """Why nobody can be asked, and what would change that."""
    if not gates:
        return (
            "no gate can be asked to pause: configure [containment.NAME], see docs/containment.md."
        )
    names = ", ".join(gate.name for gate in gates)
    return (
        f"none of {names} serves {whom.kind} {whom.name!r}: look at their agents, tenants, sources."
    )


def until_for(gates: Iterable[Gate], whom: Whom, now: datetime) -> datetime:
    """When a pause ends that nobody gave an end: the shortest that its gates say."""
    terms = [gate.common.expires for gate in gates if gate.serves(whom)]
    return now + min(terms, default=timedelta(hours=1))


def resume(
    reader: Reader, recorder: Recorder, pause_id: str, actor: str, reason: str, now: datetime
) -> None:
    """Let go before the time. Raises ConfigError for a pause that there is not, or is over."""
    rows = reader.rows("SELECT state FROM pauses WHERE pause_id = $id", id=pause_id)
    if not rows:
        known = [row["pause_id"] for row in reader.rows("SELECT DISTINCT pause_id FROM pauses")]
        raise ConfigError(f"no pause {pause_id!r}.{nearest(pause_id, known) if known else ''}")
    if not any(row["state"] in (*STANDING, "refused", "stuck") for row in rows):
        raise ConfigError(f"{pause_id} is over already: {rows[0]['state']}.")
    recorder.record("resume", actor[:200], pause_id, {"reason": reason[:500]}, now)


def answered(
    recorder: Recorder, row: Mapping[str, Any], verb: Verb, answer: Answer, now: datetime
) -> None:
    """Put into the ledger what a gate said, unless it said just that before."""
    state, said = _state(row, verb, answer), _said(answer)
    if isinstance(answer.outcome, Retry) and (row["status"], row["answer"]) == (
        answer.status, said,
    ):  # fmt: skip
        return
    if state == row["state"] and row["owed"] is None:
        return  # a standing pause, said once more
    detail = {
        "gate": row["gate"], "verb": verb, "state": state, "status": answer.status,
        "answer": said, "final": not isinstance(answer.outcome, Retry),
    }  # fmt: skip
    recorder.record("pause_answer", GATEWATCH, row["pause_id"], detail, now)


def _state(row: Mapping[str, Any], verb: Verb, answer: Answer) -> str:
    """What a row becomes by an answer."""
    if isinstance(answer.outcome, Retry):
        return str(row["state"])
    yes = isinstance(answer.outcome, Delivered)
    if verb == "pause":
        return "confirmed" if yes else "refused"
    if not yes:
        return "stuck"
    return "expired" if row["state"] == "expired" else "resumed"


def _said(answer: Answer) -> str:
    """What is shown of an answer: our own reading of it, and the gate's words."""
    outcome = answer.outcome
    ours = outcome.hint if isinstance(outcome, Delivered) else outcome.reason
    return ": ".join(part for part in (ours, answer.text) if part)[:400]


def apply(db: Db, row: Mapping[str, Any], detail: Mapping[str, Any]) -> None:
    """One line of the ledger about a pause (a row of operator_log), as the table shows it."""
    match row["action"]:
        case "pause":
            _asked(db, row, detail)
        case "pause_answer":
            _answer(db, row, detail)
        case "resume":
            db.execute(
                "UPDATE pauses SET state = 'resuming', owed = 'resume', next_at = $at::TIMESTAMPTZ,"
                " attempts = 0, ended_at = $at::TIMESTAMPTZ, ended_by = $by, ended_reason = $why"
                " WHERE pause_id = $id AND state IN ('asked', 'confirmed', 'refused', 'stuck')",
                {"at": row["ts"], "by": row["actor"], "why": detail["reason"],
                 "id": row["subject"]},
            )  # fmt: skip
        case "pause_expired":
            db.execute(
                "UPDATE pauses SET state = 'expired', attempts = 0, next_at = $at::TIMESTAMPTZ,"
                " owed = CASE WHEN list_contains($owed::VARCHAR[], gate) THEN 'resume' END,"
                " ended_at = $at::TIMESTAMPTZ, ended_by = $by, ended_reason = 'its time was over'"
                " WHERE pause_id = $id AND state IN ('asked', 'confirmed')",
                {"at": row["ts"], "by": GATEWATCH, "id": row["subject"], "owed": detail["owed"]},
            )


def _asked(db: Db, row: Mapping[str, Any], detail: Mapping[str, Any]) -> None:
    given = {name: detail[name] for name in FIELDS}
    given |= {"id": row["subject"], "actor": row["actor"], "at": row["ts"]}
    db.execute(
        "INSERT INTO pauses (pause_id, gate, kind, name, tenant, until, reason, actor, alert_id,"
        " automatic, asked_at, state, owed, next_at, attempts)"
        " SELECT $id, unnest($gates::VARCHAR[]) AS gate, $kind, $name, $tenant, $until, $reason,"
        " $actor, $alert_id, $automatic, $at, 'asked', 'pause', $at, 0"
        " WHERE NOT EXISTS (SELECT 1 FROM pauses WHERE pause_id = $id)",
        given,
    )


def _answer(db: Db, row: Mapping[str, Any], detail: Mapping[str, Any]) -> None:
    """An answer that comes after the wish has changed is shown, and changes nothing else."""
    where = {"id": row["subject"], "gate": detail["gate"]}
    db.execute(
        "UPDATE pauses SET status = $status, answer = $answer, answered_at = $at::TIMESTAMPTZ"
        " WHERE pause_id = $id AND gate = $gate",
        {"status": detail["status"], "answer": detail["answer"], "at": row["ts"]} | where,
    )
    if detail["final"]:
        of = ["asked", "confirmed"] if detail["verb"] == "pause" else ["resuming", "expired"]
        db.execute(
            "UPDATE pauses SET state = $state, owed = NULL WHERE pause_id = $id AND gate = $gate"
            " AND list_contains($of::VARCHAR[], state)",
            {"state": detail["state"], "of": of} | where,
        )


def catch_up(db: Db) -> None:
    """Apply what the ledger brought about pauses and the table does not show yet."""
    rows = fetch(
        db,
        "SELECT * FROM operator_log WHERE NOT applied AND list_contains($actions, action)"
        " ORDER BY ledger_seq",
        actions=list(ACTIONS),
    )
    for row in rows:
        apply(db, row, msgspec.json.decode(row["detail"]))
    if rows:
        db.execute(
            "UPDATE operator_log SET applied = true"
            " WHERE NOT applied AND list_contains($actions, action)",
            {"actions": list(ACTIONS)},
        )
