"""What detectors would have said of history, with other values: counts, and people's verdicts.

Reads: what detectors read, alerts. Writes: nothing. Next: gatewatch/trying.py.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from detectors import detector, engine
from detectors.alerts import Found
from detectors.detector import Detector
from detectors.header import Param
from detectors.ranges import Range
from detectors.spelling import spelled
from ingest.config import ConfigError, nearest
from ingest.store import Db, fetch, one

RIGHT, WRONG = ("true", "accepted"), ("false", "expected")  # verdicts, as detectors/triage.py
TOP = 10  # subjects that a count names
STEPS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 4.0)  # of the value in force, where no values are given
Own = Mapping[str, Mapping[str, Any]]  # the user's `[detectors.ID]` tables


@dataclass(frozen=True)
class Step:
    """One value of one parameter over history. `precision`: of the alerts that have a verdict,
    the share of right ones; None without any. `lost`: confirmed alerts that it would not find."""

    param: str
    value: str
    in_force: bool
    alerts: int
    per_day: float
    subjects: int
    right: int
    wrong: int
    precision: float | None
    lost: int


def over(db: Db, detectors: Iterable[Detector], span: Range) -> list[Found]:
    """The alerts that one pass over the span gives, in order of time."""
    return engine.backtest(db, detectors, *span)


def varied(
    each: Detector, db: Db, own: Own, sets: Mapping[str, str], where: str = "--set"
) -> Detector:
    """The detector with other values, over what the user has set. Texts are read as the header
    declares them. Raises ConfigError for what it does not declare, or is out of bounds."""
    table = dict(own.get(each.id, {}))
    table.pop("enabled", None)
    for key, text in sets.items():
        if key not in each.header.params:
            raise ConfigError(
                f"{where}: {each.id} has no {key!r}.{nearest(key, each.header.params)}"
            )
        table[key] = _typed(text, each.header.params[key], f"{where} {key}")
    return detector.load(each.path, db, table, where)


def assigned(texts: Sequence[str], chosen: Mapping[str, Detector]) -> dict[str, dict[str, str]]:
    """`name=value` and `detector.name=value` as values by detector. Without a detector's name it
    holds for every chosen one that declares it. Raises ConfigError."""
    found: dict[str, dict[str, str]] = {}
    for text in texts:
        key, given, value = text.partition("=")
        name, dot, param = key.strip().rpartition(".")
        if not given:
            raise ConfigError(f"--set: {text!r} is not name=value.")
        if dot and name not in chosen:
            raise ConfigError(f"--set: no detector {name!r}.{nearest(name, chosen)}")
        those = [name] if dot else [n for n, d in chosen.items() if param in d.header.params]
        if not those:
            known = {each for one in chosen.values() for each in one.header.params}
            raise ConfigError(f"--set: nothing declares {param!r}.{nearest(param, known)}")
        for each in those:
            found.setdefault(each, {})[param] = value.strip()
    return found


def counts(db: Db, found: Iterable[Found], span: Range) -> list[dict[str, Any]]:
    """Per detector: alerts, by local day, by subject, by severity."""
    zone = ZoneInfo(one(db, "SELECT local_zone()"))
    days = _days(span)
    by: dict[str, list[Found]] = {}
    for each in found:
        by.setdefault(each.detector, []).append(each)
    return [
        {
            "detector": name,
            "alerts": len(those),
            "per_day": round(len(those) / days, 2),
            "days": dict(sorted(Counter(
                each.started_at.astimezone(zone).date().isoformat() for each in those
            ).items())),
            "subjects": dict(Counter(each.subject for each in those).most_common(TOP)),
            "subjects_total": len({(each.tenant, each.subject) for each in those}),
            "severities": dict(Counter(each.severity for each in those)),
        }
        for name, those in sorted(by.items())
    ]  # fmt: skip


def tune(
    db: Db, each: Detector, own: Own, span: Range, param: str | None = None,
    values: Sequence[str] = (),
) -> Iterator[Step]:  # fmt: skip
    """Each value of a parameter (of every parameter, without one) over history, one by one, all
    else as it is in force. Raises ConfigError."""
    params = each.header.params
    if param is not None and param not in params:
        raise ConfigError(f"tune: {each.id} has no parameter {param!r}.{nearest(param, params)}")
    if values and param is None:
        raise ConfigError("tune: name the --param that the --values are of.")
    verdicts = _verdicts(db, each, span)
    for name in [param] if param else params:
        for other in _others(db, each, own, name, values):
            found = over(db, [other], span)
            yield _step(each, name, other.values[name], found, verdicts, span)


def _others(
    db: Db, each: Detector, own: Own, param: str, values: Sequence[str]
) -> Iterator[Detector]:
    """The detector at every value of a parameter, in order. What was not asked for and is out of
    bounds is left out."""
    if values:
        for value in values:
            yield varied(each, db, own, {param: value}, "--values")
        return
    for value in ladder(each.header.params[param], each.values[param]):
        try:
            yield varied(each, db, own, {param: value})
        except ConfigError:
            continue


def ladder(spec: Param, value: Any) -> list[str]:
    """Values around one, in the words of a config file: a quarter of it to four times."""
    match value:
        case timedelta():
            spread = {round(value.total_seconds() * step) for step in STEPS}
            return [f"{seconds} seconds" for seconds in sorted(spread)]
        case int():
            whole = {round(value * step) for step in STEPS} | {value - 1, value + 1}
            return [str(each) for each in sorted(whole) if each >= 0]
        case float():
            return [f"{value * step:g}" for step in STEPS]
    return list(spec.choices)


def _step(
    each: Detector, param: str, value: Any, found: Sequence[Found],
    verdicts: Sequence[Mapping[str, Any]], span: Range,
) -> Step:  # fmt: skip
    met = [row for row in verdicts if any(_same(row, alert) for alert in found)]
    right = sum(row["verdict"] in RIGHT for row in met)
    wrong = len(met) - right
    return Step(
        param, spelled(value), value == each.values[param], len(found),
        round(len(found) / _days(span), 2), len({(a.tenant, a.subject) for a in found}),
        right, wrong, round(right / len(met), 3) if met else None,
        sum(row["verdict"] in RIGHT for row in verdicts) - right,
    )  # fmt: skip


def _verdicts(db: Db, each: Detector, span: Range) -> list[dict[str, Any]]:
    return fetch(
        db,
        "SELECT tenant, subject, started_at, ended_at, verdict FROM alerts WHERE detector = $id"
        " AND verdict IS NOT NULL AND ended_at >= $since::TIMESTAMPTZ"
        " AND started_at < $until::TIMESTAMPTZ",
        id=each.id, since=span[0], until=span[1],
    )  # fmt: skip


def _same(row: Mapping[str, Any], alert: Found) -> bool:
    """Does this verdict speak of what was found here?"""
    return (
        (row["tenant"], row["subject"]) == (alert.tenant, alert.subject)
        and row["started_at"] <= alert.ended_at
        and row["ended_at"] >= alert.started_at
    )


def _days(span: tuple[datetime, datetime]) -> float:
    return max((span[1] - span[0]) / timedelta(days=1), 1 / 24)


def _typed(text: str, spec: Param, where: str) -> Any:
    """What a config file would hold, from the text of a command line."""
    if spec.type in ("interval", "text"):
        return text
    try:
        return int(text) if spec.type == "integer" else float(text)
    except ValueError:
        raise ConfigError(f"{where}: {text!r} is not of type {spec.type}.") from None
