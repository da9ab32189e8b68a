"""Why a detector says nothing of somebody at some time: what it saw, what kept it quiet, and the
nearest value of a parameter with which it would have fired.

Reads: what detectors read, alerts, judgements, judged. Writes: nothing. Next: gatewatch/trying.py.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from itertools import product
from typing import Any

from detectors import coverage, detector
from detectors.coverage import Need
from detectors.detector import Detector
from detectors.header import Param
from detectors.shorten import visible
from detectors.spelling import spelled
from detectors.trial import Own, varied
from detectors.wording import moment
from ingest.config import ConfigError, nearest
from ingest.store import Db, fetch

SEEN = timedelta(days=1)  # of a longer lookback, this much is looked at for what was seen
TRIED = 4  # parameters that are loosened together: 2 to this power passes
STEPS: dict[str, tuple[float, ...]] = {
    "integer": (0.9, 0.75, 0.5, 0.25, 0.1, 0, 1.1, 1.5, 2, 4, 10),
    "number": (0.9, 0.75, 0.5, 0.25, 0.1, 0, 1.1, 1.5, 2, 4, 10),
    "interval": (0.5, 0.25, 0.1, 2, 4, 8),
}
OF = """
    ts >= $low::TIMESTAMPTZ AND ts < $high::TIMESTAMPTZ AND (agent = $subject
        OR actor(agent, principal, session, trace_id, source) = $subject OR trace_id = $subject
        OR 'session ' || session = $subject OR config_object = $subject OR source = $subject)
"""


@dataclass(frozen=True)
class Check:
    """One thing that could keep a detector quiet. `ok`: it did not."""

    check: str
    ok: bool
    says: str


def why_not(
    db: Db, name: str, subject: str, ts: datetime, detectors: Mapping[str, Detector], own: Own,
    around: timedelta = timedelta(minutes=30),
) -> dict[str, Any]:  # fmt: skip
    """Everything that speaks for or against an alert about `subject` within `around` of `ts`.

    Raises ConfigError for a detector that there is not.
    """
    each = detectors.get(name)
    if each is None:
        if own.get(name, {}).get("enabled") is False:
            raise ConfigError(f"{name} is switched off: detectors.{name}.enabled is false.")
        raise ConfigError(f"no detector {visible(name)[:80]!r}.{nearest(name, detectors)}")
    low, high = ts - around, ts + around
    fired = list(_alerts(db, name, subject, low, high))
    checks = [*fired, *_judged(db, each, low, high), *_exempt(each, subject, ts)]
    saw = _saw(db, each, subject, ts - max(min(each.lookback, SEEN), around), high)
    checks += _needs(db, each, saw)
    near = list(_near(db, each, own, subject, low, high)) if not fired else []
    return {
        "detector": name,
        "subject": subject,
        "at": moment(ts),
        "fired": bool(fired),
        "checks": [asdict(check) for check in checks],
        "saw": saw,
        "near": near,
        "quiet": each.header.quiet,
    }


def lines(found: Mapping[str, Any]) -> Iterator[str]:
    """The same for a terminal. Text from logs cannot move its cursor."""
    said = "did fire" if found["fired"] else "says nothing"
    yield visible(f"{found['detector']} {said} of {found['subject']} around {found['at']}")
    for check in found["checks"]:
        yield visible(f"  {'ok' if check['ok'] else 'NO'}  {check['check']}: {check['says']}")
    saw = found["saw"]
    kinds = ", ".join(f"{count} {kind}" for kind, count in saw["kinds"].items()) or "none"
    yield visible(f"  Events of that subject since {saw['since']}: {kinds}")
    for each in found["near"]:
        changed = (
            f"{key} = {value} (now {each['is'][key]})" for key, value in each["with"].items()
        )
        yield visible(f"  It would have fired with {', '.join(changed)}")
    if not found["near"] and not found["fired"]:
        yield "  No value of its parameters finds this subject here. What it leaves alone:"
        yield f"  {found['quiet']}"


def _alerts(db: Db, name: str, subject: str, low: datetime, high: datetime) -> Iterator[Check]:
    rows = fetch(
        db,
        "SELECT alert_id, status, started_at, told_at, quiet_reason, backfill FROM alerts"
        " WHERE detector = $name AND subject = $subject AND status IN ('open', 'resolved')"
        " AND started_at <= $high::TIMESTAMPTZ AND ended_at >= $low::TIMESTAMPTZ"
        " ORDER BY started_at",
        name=name, subject=subject, low=low, high=high,
    )  # fmt: skip
    for row in rows:
        told = f"told at {moment(row['told_at'])}" if row["told_at"] else "told nobody"
        if row["told_at"] is None and row["backfill"]:
            told += ": it was over long before it landed"
        elif row["told_at"] is None and row["quiet_reason"]:
            told += f": {row['quiet_reason']}"
        says = f"{row['alert_id']}, {row['status']}, since {moment(row['started_at'])}, {told}"
        yield Check("alert", row["told_at"] is not None, says)


def _judged(db: Db, each: Detector, low: datetime, high: datetime) -> Iterator[Check]:
    rows = fetch(
        db,
        "SELECT status, since, until, reason, judged_at FROM judgements WHERE detector = $id"
        " AND since < $high::TIMESTAMPTZ AND until > $low::TIMESTAMPTZ ORDER BY since",
        id=each.id, low=low, high=high,
    )  # fmt: skip
    for row in rows:
        span = f"{moment(max(row['since'], low))} to {moment(min(row['until'], high))}"
        says = f"{row['status']}: {span}" + (f", {row['reason']}" if row["reason"] else "")
        yield Check("judged", row["status"] == "judged", says)
    if not rows:
        yield Check("judged", False, "not yet: no event near it has been taken up")
    for row in fetch(db, "SELECT last_error FROM judged WHERE detector = $id", id=each.id):
        if row["last_error"]:
            yield Check("runs", False, row["last_error"])
    if each.status == "shadow":
        yield Check("status", False, "in shadow: alerts are kept and nobody is told")


def _exempt(each: Detector, subject: str, ts: datetime) -> Iterator[Check]:
    for exempt in each.exempt:
        if exempt.holds((subject,), ts):
            yield Check("exempt", False, f"{exempt.match}: {exempt.reason}")


def _saw(db: Db, each: Detector, subject: str, low: datetime, high: datetime) -> dict[str, Any]:
    """The events that name the subject, counted by kind and by each need of the detector."""
    needs = _read(db, each)
    shares = "".join(
        f", count(*) FILTER (WHERE {need.sql}) AS n{at}" for at, need in enumerate(needs)
    )
    rows = fetch(
        db,
        f"SELECT kind, count(*) AS n{shares} FROM events WHERE {OF} GROUP BY kind ORDER BY n DESC",  # noqa: S608 - see Need.sql
        low=low, high=high, subject=subject,
    )  # fmt: skip
    return {
        "subject": subject,
        "since": moment(low),
        "until": moment(high),
        "events": sum(row["n"] for row in rows),
        "kinds": {row["kind"]: row["n"] for row in rows},
        "needs": {need.text: sum(row[f"n{at}"] for row in rows) for at, need in enumerate(needs)},
    }


def _read(db: Db, each: Detector) -> tuple[Need, ...]:
    return coverage.needs({each.id: each.header.needs}, coverage.columns_of(db))[each.id]


def _needs(db: Db, each: Detector, saw: Mapping[str, Any]) -> Iterator[Check]:
    if not saw["events"]:
        rows = fetch(
            db,
            "SELECT DISTINCT actor(agent, principal, session, trace_id, source) AS who FROM events"
            " WHERE ts >= $low::TIMESTAMPTZ AND ts < $high::TIMESTAMPTZ LIMIT 1000",
            low=saw["since"], high=saw["until"],
        )  # fmt: skip
        known = [row["who"] for row in rows]
        hint = nearest(saw["subject"], known) if known else " Nobody has any then."
        yield Check("events", False, f"none names {saw['subject']!r}.{hint}")
        return
    for text, met in saw["needs"].items():
        yield Check(f"needs {text}", met > 0, f"{met} of {saw['events']} events")


def _near(
    db: Db, each: Detector, own: Own, subject: str, low: datetime, high: datetime
) -> Iterator[dict[str, Any]]:
    """Per parameter the value nearest to the one in force with which it fires; where none alone
    helps, one set of values that does together."""
    alone = False
    loose: dict[str, list[str]] = {}
    for name, spec in each.header.params.items():
        for value in _others(spec, each.values[name]):
            changed = _fires(db, each, own, {name: value}, subject, low, high)
            if changed is not None:
                loose.setdefault(name, []).append(value)
                if changed:
                    alone = True
                    yield _told(each, {name: value})
                    break
    if alone:
        return
    names = list(loose)[:TRIED]
    for chosen in product(*(_ends(loose[name]) for name in names)):
        sets = dict(zip(names, chosen, strict=True))
        if _fires(db, each, own, sets, subject, low, high):
            yield _told(each, sets)
            return


def _others(spec: Param, value: Any) -> list[str]:
    """Other values, the nearest first."""
    match value:
        case timedelta():
            return [f"{value.total_seconds() * step:.0f} seconds" for step in STEPS["interval"]]
        case int():
            spread = {round(value * step) for step in STEPS["integer"]} | {value - 1, value + 1}
            near = sorted(spread - {value}, key=lambda each: (abs(each - value), each))
            return [str(each) for each in near]
        case float():
            return [f"{value * step:g}" for step in STEPS["number"]]
    return [each for each in spec.choices if each != value]


def _ends(values: list[str]) -> tuple[str, ...]:
    """The smallest and the largest; of choices each."""
    try:
        ordered = sorted(values, key=lambda text: float(text.partition(" ")[0]))
    except ValueError:
        return tuple(values)
    return ordered[0], ordered[-1]


def _fires(
    db: Db, each: Detector, own: Own, sets: Mapping[str, str], subject: str, low: datetime,
    high: datetime,
) -> bool | None:  # fmt: skip
    """None: the values are out of bounds."""
    try:
        other = varied(each, db, own, sets)
    except ConfigError:
        return None
    rows = detector.find(other, db, low, high)
    return any(subject in (row["subject"], row.get("agent")) for row in rows)


def _told(each: Detector, sets: Mapping[str, str]) -> dict[str, Any]:
    return {"with": dict(sets), "is": {name: spelled(each.values[name]) for name in sets}}
