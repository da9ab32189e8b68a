"""What people do about alerts: into the ledger first; detectors/applying.py follows it.

Reads: alerts. Writes: through the ledger. Next: detectors/applying.py.
"""

from datetime import datetime
from typing import Any, Literal

import msgspec

from detectors.applying import noted, passport
from ingest.config import ConfigError, nearest
from ingest.land import Lander
from ingest.store import Store

VERDICTS = ("true", "false", "expected", "accepted")
TEXT, NAME = 4_000, 100  # characters of what people write, and of a person's name


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


def acknowledge(
    store: Store, lander: Lander, alert_id: str, actor: str, reason: str, now: datetime
) -> dict[str, Any]:
    """Somebody has it. Stops reminders. Returns the alert. Raises ConfigError for an unknown id."""
    return _act(store, lander, "ack", alert_id, actor, {"reason": _text(reason, "reason")}, now)


def judge(
    store: Store, lander: Lander, alert_id: str, verdict: str, actor: str, reason: str,
    now: datetime,
) -> dict[str, Any]:  # fmt: skip
    """Close the triage of an alert. `true` makes an incident of each run in its evidence."""
    if verdict not in VERDICTS:
        raise ConfigError(f"verdict: {verdict!r} is none.{nearest(verdict, VERDICTS)}")
    detail = {"verdict": verdict, "reason": _text(reason, "reason")}
    return _act(store, lander, "verdict", alert_id, actor, detail, now)


def reopen(
    store: Store, lander: Lander, alert_id: str, actor: str, reason: str, now: datetime
) -> dict[str, Any]:
    """Triage begins anew: acknowledgement and verdict are taken back, its incidents with them."""
    return _act(store, lander, "reopen", alert_id, actor, {"reason": _text(reason, "reason")}, now)


def assign(
    store: Store, lander: Lander, alert_id: str, to: str, actor: str, reason: str, now: datetime
) -> dict[str, Any]:
    """Somebody is to look into it; with an empty name, nobody is."""
    if len(to.strip()) > NAME or not to.strip().isprintable():
        raise ConfigError(f"assign: {to[:NAME]!r} is no name: one line, {NAME} characters at most.")
    detail = {"to": to.strip(), "reason": _text(reason, "reason")}
    return _act(store, lander, "assign", alert_id, actor, detail, now)


def comment(
    store: Store, lander: Lander, alert_id: str, text: str, actor: str, now: datetime
) -> dict[str, Any]:
    """Something that whoever reads the alert's history should know."""
    if not text.strip():
        raise ConfigError("comment: it says nothing.")
    return _act(store, lander, "comment", alert_id, actor, {"text": _text(text, "comment")}, now)


def label(
    store: Store, lander: Lander, rows: list[dict[str, Any]], actor: str, now: datetime
) -> int:
    """Import labels of runs: `{"trace_id", "label": misaction|good, "committed_at"?, ...}`."""
    _checked(rows, list[_Label], "labels")
    noted(store, lander, "label", actor, f"{len(rows)} runs", {"rows": rows}, now)
    return len(rows)


def mined(
    store: Store, lander: Lander, results: list[dict[str, Any]], rules: list[dict[str, Any]],
    actor: str, now: datetime,
) -> None:  # fmt: skip
    """Keep what the miner found and which rules there are, for people to look at."""
    detail = {"results": results, "rules": rules}
    _checked(detail, _Found, "mined")
    noted(store, lander, "propose", actor, f"{len(results)}", detail, now)


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
    noted(store, lander, action, actor, alert_id, detail | {"alert": passport(found[0])}, now)
    return store.rows("SELECT * FROM alerts WHERE alert_id = $id", id=alert_id)[0]


def _text(text: str, what: str) -> str:
    if len(text) > TEXT:
        raise ConfigError(f"{what}: longer than {TEXT} characters.")
    return text


def _checked(given: object, kind: Any, what: str) -> None:
    try:
        msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{what}: {error}.") from None
