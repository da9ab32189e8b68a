"""Series that others made and labelled, held against the detector as it stands.

Numenta's NAB (MIT; shared/data/nab): five minutes between two values. A series is scaled to whole
calls (its median becomes 20, far from the cap) and judged in windows of five minutes, everything
else as shipped. The artificial series were looked at while the detector was made, those of
CloudWatch were not. Many labels are no surges (a level that falls, a shape that changes).
`pytest -s` prints the whole table.
"""

import csv
import json
import statistics
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import NamedTuple

import pyarrow as pa

from detectors import detector
from detectors.detector import Detector
from ingest.store import Db
from tests.kit import ROOT, loaded, store, united

NAB = ROOT.parent / "shared/data/nab"
GROUPS = ("artificialNoAnomaly", "artificialWithAnomaly", "realAWSCloudwatch")
STEP = timedelta(minutes=5)
DAY = 288  # values
GAP = timedelta(hours=1)
Times = list[datetime]


class Series(NamedTuple):
    name: str
    group: str
    points: list[tuple[datetime, int]]  # the value's time, whole calls
    windows: list[tuple[datetime, datetime]]


class Score(NamedTuple):
    """Of one way to judge: windows with an alarm in them, of how many; alarms outside of any."""

    hit: int
    windows: int
    false: int


def series(group: str) -> list[Series]:
    labels = json.loads((NAB / "labels/combined_windows.json").read_text(encoding="utf-8"))
    found = []
    for path in sorted((NAB / "data" / group).glob("*.csv")):
        with path.open(encoding="utf-8") as file:
            rows = [(moment(row["timestamp"]), float(row["value"])) for row in csv.DictReader(file)]
        unit = statistics.median(abs(value) for _, value in rows) or 1.0
        points = {when: max(0, round(value * 20 / unit)) for when, value in rows}
        spans = labels[f"{group}/{path.name}"]
        windows = [(moment(first), moment(last)) for first, last in spans]
        found.append(Series(path.stem, group, sorted(points.items()), windows))
    return found


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC, microsecond=0)


def score(found: Series, alarms: Times) -> Score:
    """Alarms that are no further apart than GAP are one."""
    rows = [{"subject": "s", "started_at": each, "ended_at": each} for each in alarms]
    spans = [(first, last) for _, first, last in united(rows, GAP)]
    hit = sum(any(a <= high and b >= low for a, b in spans) for low, high in found.windows)
    false = sum(not any(a <= high and b >= low for low, high in found.windows) for a, b in spans)
    return Score(hit, len(found.windows), false)


@cache
def shipped() -> tuple[Db, Detector]:
    db = store()
    return db, loaded("external_call_spike", db, window="5 minutes")


def ours(found: Series) -> Times:
    db, each = shipped()
    zero = {"agent": "a1", "subject": "a1", "events": 1, "denied": 0, "approvals": 0}
    rows = [
        zero | {"minute": when.replace(second=0), "external": calls} for when, calls in found.points
    ]
    db.execute("DELETE FROM minute_counts")
    db.register("by_hand", pa.Table.from_pylist(rows))
    db.execute("INSERT INTO minute_counts BY NAME SELECT * FROM by_hand")
    db.unregister("by_hand")
    until = found.points[-1][0] + 2 * STEP
    return sorted(row["ended_at"] for row in detector.find(each, db, found.points[0][0], until))


def fixed(found: Series) -> Times:
    """More than five times the mean of the day before."""
    return [
        when
        for when, calls, before in _with_day(found)
        if calls > 5 * statistics.fmean(before)
    ]  # fmt: skip


def z_score(found: Series) -> Times:
    """More than three standard deviations above the mean of the day before."""
    return [
        when
        for when, calls, before in _with_day(found)
        if calls > statistics.fmean(before) + 3 * statistics.pstdev(before)
    ]


def _with_day(found: Series) -> list[tuple[datetime, int, list[int]]]:
    calls = [number for _, number in found.points]
    return [
        (when, number, calls[n - DAY : n])
        for n, (when, number) in enumerate(found.points)
        if n >= DAY
    ]


WAYS = {"external_call_spike": ours, "5 x mean": fixed, "z-score 3": z_score}


def table(group: str) -> dict[str, list[Score]]:
    """Per way the scores of each series; printed as it goes."""
    every = series(group)
    assert every
    found = {name: [score(each, way(each)) for each in every] for name, way in WAYS.items()}
    for n, each in enumerate(every):
        cells = [f"{name} {s[n].hit}/{s[n].windows} hit, {s[n].false} false"
                 for name, s in found.items()]  # fmt: skip
        print(f"{group}/{each.name}: " + "; ".join(cells))  # noqa: T201 - the report
    for name, scores in found.items():
        total = summed(scores)
        told = f"{total.hit} of {total.windows} windows, {total.false} false alarms"
        print(f"{group}: {name}: {told} in {len(scores)} series")  # noqa: T201 - the report
    return found


def summed(scores: Sequence[Score]) -> Score:
    return Score(*(sum(column) for column in zip(*scores, strict=True)))


def test_series_without_an_anomaly_give_at_most_one_false_alarm() -> None:
    found = table("artificialNoAnomaly")

    assert len(found["external_call_spike"]) == 5
    assert summed(found["external_call_spike"]).false <= 1


def test_fewer_false_alarms_than_the_plain_baselines_and_as_many_windows() -> None:
    found = {name: summed(scores) for name, scores in table("artificialWithAnomaly").items()}

    mine, *plain = found.values()
    assert mine.false <= min(each.false for each in plain)
    assert mine.hit >= max(each.hit for each in plain)


def test_series_of_real_machines_give_a_quarter_fewer_false_alarms() -> None:
    found = {name: summed(scores) for name, scores in table("realAWSCloudwatch").items()}

    mine, fixed_mean, z = found.values()
    assert mine.false * 4 < 3 * min(fixed_mean.false, z.false)
    assert mine.hit * 3 >= mine.windows
