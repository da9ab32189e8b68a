"""How many of the planted troubles each detector finds, and how many of its alerts are about
nothing: one backtest over everything, every detector as it is by default.

`python -m tests.bench --only accuracy --seeds 101,102,103`. Seeds below 100 are for looking at:
their misses and false alarms are listed. Those from 101 on tell what nobody has tuned to.
"""

import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from detectors import engine
from detectors.alerts import Found
from detectors.detector import Detector
from ingest.store import Db, fetch
from tests.bench.cast import cast
from tests.bench.fleet import Quiet
from tests.bench.measure import Figure
from tests.bench.plants import Plant, plants
from tests.bench.stored import land

START = datetime(2026, 5, 4, tzinfo=UTC)  # a Monday
DAY = timedelta(days=1)
SLACK = timedelta(minutes=5)
LOOKED_AT = 100  # seeds below may be looked at
RESULT = Path(__file__).parents[2] / "docs" / "detectors.json"


@dataclass
class Score:
    """Of one detector. `quiet`: alerts in a fleet with nothing planted."""

    planted: int = 0
    found: int = 0
    alerts: int = 0
    false_alarms: int = 0
    quiet: int = 0
    shadow: bool = False
    seconds: float = 0.0

    @property
    def recall(self) -> float | None:
        return self.found / self.planted if self.planted else None

    @property
    def precision(self) -> float | None:
        return 1 - self.false_alarms / self.alerts if self.alerts else None

    def __iadd__(self, other: "Score") -> "Score":
        for key in ("planted", "found", "alerts", "false_alarms", "quiet", "seconds"):
            setattr(self, key, getattr(self, key) + getattr(other, key))
        return self


@dataclass
class Report:
    scores: dict[str, Score] = field(default_factory=dict)
    missed: list[str] = field(default_factory=list)
    false: list[str] = field(default_factory=list)

    def of(self, name: str) -> Score:
        return self.scores.setdefault(name, Score())

    def whole(self) -> Score:
        """Of all detectors that tell people."""
        total = Score()
        for each in self.scores.values():
            if not each.shadow:
                total += each
        return total


def run(
    folder: Path, seed: int, agents: int, days: int, only: Sequence[str] = (), small: bool = False
) -> Report:
    """One fleet with plants, and the same one without. `small`: the first alone, and each
    kind at its first strength."""
    report, who = Report(), cast(agents, seed, days)
    planted = plants(who, START, days, seed, only, small)
    steps = [step for each in planted for step in each.steps]
    faults = [fault for each in planted for fault in each.faults]
    for name, extra, wrong in (("planted", steps, faults), ("quiet", [], [])):
        if name == "quiet" and small:
            continue
        parts = land(folder / name, Quiet(who, START, seed), START, days, extra, wrong)
        try:
            for each in parts.detectors.values():
                if only and each.id not in only:
                    continue
                began = time.perf_counter()
                with parts.store.reading() as db:
                    found = engine.backtest(db, [each], START, START + days * DAY)
                    if name == "planted":
                        judge(report, db, each, found, planted)
                        report.of(each.id).seconds += time.perf_counter() - began
                    else:
                        report.of(each.id).quiet += len(found)
                        report.false += [_line("quiet", alert) for alert in found]
        finally:
            parts.close()
    return report


def judge(
    report: Report, db: Db, each: Detector, found: Sequence[Found], planted: Iterable[Plant]
) -> None:
    """Alerts of one detector against what was planted."""
    score = report.of(each.id)
    score.shadow = each.status == "shadow"
    about = _about(db, found)
    concerned = {
        n: [plant for plant in planted if _concerns(each, alert, about[n], plant)]
        for n, alert in enumerate(found)
    }
    for plant in planted:
        if plant.kind.near or plant.kind.detector != each.id:
            continue
        score.planted += 1
        if any(plant is one for its in concerned.values() for one in its):
            score.found += 1
        else:
            what = f"{plant.kind.name}/{plant.strength} {sorted(plant.names)[:4]}"
            report.missed.append(f"{each.id}: {what} {plant.since:%m-%d %H:%M}")
    for n, alert in enumerate(found):
        score.alerts += 1
        its = [plant.kind for plant in concerned[n]]
        if not any(each.id in kind.speak for kind in its):
            score.false_alarms += 1
            beside = ", ".join(f"{kind.detector}.{kind.name}" for kind in its) or "false"
            report.false.append(_line(beside, alert))


def _about(db: Db, found: Sequence[Found]) -> list[set[str]]:
    """Per alert: the runs that its evidence is of."""
    ids = sorted({event for alert in found for event in alert.event_ids})
    sql = "SELECT event_id, trace_id FROM events WHERE event_id IN (SELECT unnest($ids))"
    traces = {row["event_id"]: row["trace_id"] for row in fetch(db, sql, ids=ids)} if ids else {}
    return [{traces[each] or "" for each in alert.event_ids if each in traces} for alert in found]


def _concerns(each: Detector, alert: Found, traces: set[str], plant: Plant) -> bool:
    after = min(each.lookback, DAY) + SLACK
    if alert.ended_at < plant.since - SLACK or alert.started_at > plant.until + after:
        return False
    return bool(traces & plant.names) or any(name in alert.subject for name in plant.names)


def _line(why: str, alert: Found) -> str:
    return (
        f"{alert.detector}: [{why}] {alert.started_at:%m-%d %H:%M} {alert.severity} {alert.title}"
    )


def measure(
    folder: Path, seeds: Sequence[int], agents: int, days: int, only: Sequence[str], accept: bool
) -> list[Figure]:
    """The table, and with `accept` docs/detectors.json."""
    whole = Report()
    for seed in seeds:
        print(f"seed {seed} ...", file=sys.stderr, flush=True)  # noqa: T201
        report = run(folder / str(seed), seed, agents, days, only)
        for name, score in report.scores.items():
            total = whole.of(name)
            total += score
            total.shadow = score.shadow
        if seed < LOOKED_AT:
            for line in (*(f"MISSED {each}" for each in report.missed), *report.false):
                print(line, file=sys.stderr, flush=True)  # noqa: T201
    result = table(whole, seeds, agents, days)
    if accept:
        RESULT.write_bytes(
            msgspec.json.format(msgspec.json.encode(_lasting(result)), indent=1) + b"\n"
        )
    rows = [Figure(each["detector"] + " (shadow)" * each["shadow"], _said(each), _counts(each))
            for each in result["detectors"]]  # fmt: skip
    rows.append(Figure("whole catalogue", _said(result["whole"]), _counts(result["whole"])))
    return [*rows, Figure("quiet fleet", f"{result['quiet_a_day_per_100_agents']:.2f} a day",
                          "false alerts of 100 agents, those in shadow left out")]  # fmt: skip


def table(whole: Report, seeds: Sequence[int], agents: int, days: int) -> dict[str, Any]:
    """What docs/detectors.json holds."""
    detectors = [_row(name, score) for name, score in sorted(whole.scores.items())]
    total = whole.whole()
    rate = total.quiet / len(seeds) / days / agents * 100
    return {
        "seeds": list(seeds), "agents": agents, "days": days, "detectors": detectors,
        "whole": _row("whole catalogue", total), "quiet_a_day_per_100_agents": round(rate, 2),
    }  # fmt: skip


def _lasting(result: dict[str, Any]) -> dict[str, Any]:
    """Without what is another on each run."""
    every = (*result["detectors"], result["whole"])
    *rows, whole = ({k: v for k, v in row.items() if k != "seconds"} for row in every)
    return result | {"detectors": rows, "whole": whole}


def _row(name: str, score: Score) -> dict[str, Any]:
    rounded = {"recall": score.recall, "precision": score.precision}
    kept = {key: value for key, value in asdict(score).items() if key != "seconds"}
    ratios = {key: None if v is None else round(v, 3) for key, v in rounded.items()}
    return {"detector": name, **kept, **ratios, "seconds": round(score.seconds, 2)}


def _said(row: dict[str, Any]) -> str:
    recall, precision = (
        "-" if row[key] is None else f"{row[key]:.2f}" for key in ("recall", "precision")
    )
    return f"recall {recall}, precision {precision}"


def _counts(row: dict[str, Any]) -> str:
    return (
        f"{row['found']} of {row['planted']} found; {row['alerts']} alerts,"
        f" {row['false_alarms']} false; quiet fleet {row['quiet']}; {row['seconds']:.1f} s"
    )
