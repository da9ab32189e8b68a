"""Metrics before they are written, and the one gate that keeps the page small.

A name that does not fit is summed into `other`. What is given up first is what is missed least: a
family keeps its total when it loses its names, so each alert rule still fires, without naming whom.
Which names are kept depends on the configuration, not on what happens, so counters stay counters.
Reads: nothing. Writes: nothing. Next: detectors/metrics/__init__.py.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal

from prometheus_client.core import Metric
from prometheus_client.samples import Exemplar, Timestamp

CAP = 100  # values of one label (hard limit: 200)
SERIES = 500  # of the whole page, with those that count what did not fit
OTHER = "other"
NAMES = ("source", "detector", "receiver", "gateway")  # labels whose values somebody configures
Key = tuple[str, ...]


@dataclass(frozen=True)
class Waits:
    """A histogram's value: how many took at most so long, by bucket; how many at all; their sum."""

    within: tuple[float, ...]
    count: float
    total: float

    def __add__(self, other: "Waits") -> "Waits":
        both = zip(self.within, other.within, strict=True)
        return Waits(
            tuple(mine + its for mine, its in both),
            self.count + other.count,
            self.total + other.total,
        )


Value = float | Waits


@dataclass(frozen=True)
class Seen:
    """The newest example behind a number: a trace, and when."""

    trace: str
    value: float
    at: datetime


@dataclass
class Family:
    """One metric. `rows`: its values by label values; `les`: the buckets of a histogram.

    `fold` makes one value of several; `rare` are rows that stand there as 0 in advance and may go
    where there is no room; `seen` are examples by label values, and bucket of a histogram.
    """

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    text: str
    labels: Key = ()
    rows: Mapping[Any, Value] = field(default_factory=dict)  # by Key
    les: tuple[float, ...] = ()
    fold: Callable[[Iterable[float]], float] = sum
    rare: set[Key] = field(default_factory=set)
    seen: dict[tuple[Key, float], Seen] = field(default_factory=dict)

    @property
    def series(self) -> int:
        """Lines on the page: of a histogram its buckets, +Inf, sum and count."""
        return len(self.rows) * (len(self.les) + 3 if self.les else 1)

    def folded(self, label: str, kept: frozenset[str]) -> "Family":
        """Itself with every other value of a label summed into `other`."""
        if label not in self.labels:
            return self
        place = self.labels.index(label)
        groups: dict[Key, list[Value]] = {}
        for key, value in self.rows.items():
            name = key[place] if key[place] in kept else OTHER
            groups.setdefault((*key[:place], name, *key[place + 1 :]), []).append(value)
        rows = {key: _one(self.fold, values) for key, values in groups.items()}
        seen = {key: each for key, each in self.seen.items() if key[0] in rows}
        return replace(self, rows=rows, rare=self.rare & rows.keys(), seen=seen)

    def metric(self) -> Metric:
        """As the client library writes it."""
        made = Metric(self.name, self.text, self.kind)
        for key, value in self.rows.items():
            labels = dict(zip(self.labels, key, strict=True))
            if isinstance(value, Waits):
                self._buckets(made, key, labels, value)
                continue
            example = _example(self.seen.get((key, 0.0)))
            name = f"{self.name}_total" if self.kind == "counter" else self.name
            made.add_sample(name, labels, value, exemplar=example)
        return made

    def _buckets(self, made: Metric, key: Key, labels: Mapping[str, str], value: Waits) -> None:
        within = zip((*self.les, float("inf")), (*value.within, value.count), strict=True)
        for le, count in within:
            bucket = {**labels, "le": "+Inf" if le == float("inf") else str(le)}
            example = _example(self.seen.get((key, le)))
            made.add_sample(f"{self.name}_bucket", bucket, count, exemplar=example)
        made.add_sample(f"{self.name}_count", dict(labels), value.count)
        made.add_sample(f"{self.name}_sum", dict(labels), value.total)


def _one(fold: Callable[[Iterable[float]], float], values: Sequence[Value]) -> Value:
    first, *more = values
    if isinstance(first, Waits):
        return sum((each for each in more if isinstance(each, Waits)), first)
    return fold(each for each in values if not isinstance(each, Waits))


def _example(seen: Seen | None) -> Exemplar | None:
    if seen is None:
        return None
    at = Timestamp(int(seen.at.timestamp()), seen.at.microsecond * 1000)
    return Exemplar({"trace_id": seen.trace}, seen.value, at)


GIVEN_UP = (  # the first is missed least: a family, and the label whose values it loses
    ("gatewatch_detector_duration_seconds", "detector"),
    ("gatewatch_windows_reevaluated", "detector"),
    ("gatewatch_windows_evaluated", "detector"),
    (None, "rare"),  # what has never happened
    ("gatewatch_judging_lag_seconds", "detector"),
    ("gatewatch_ingest_lag_seconds", "source"),
    ("gatewatch_notification_latency_seconds", "receiver"),
    ("gatewatch_windows_skipped", "detector"),
)


def fit(families: Sequence[Family]) -> tuple[list[Family], dict[str, int]]:
    """What fits on the page, and how many names of each label do not."""
    lost = dict.fromkeys(NAMES, 0)
    found, room = list(families), SERIES - len(NAMES)
    for label in NAMES:
        if len(_names(found, label)) > CAP:
            found, lost[label] = _fewer(found, label, CAP)
    for name, label in GIVEN_UP:
        if _total(found) <= room:
            return found, lost
        found = [
            _common(each) if name is None
            else each.folded(label, frozenset()) if each.name == name
            else each
            for each in found
        ]  # fmt: skip
    while _total(found) > room:
        label = max(NAMES, key=lambda each: _total(each_of(found, each)))
        names = len([name for name in _names(found, label) if name != OTHER])
        if not names:
            break
        found, dropped = _fewer(found, label, names * 3 // 4)
        lost[label] += dropped
    return found, lost


def each_of(families: Iterable[Family], label: str) -> list[Family]:
    """Those that have a label."""
    return [each for each in families if label in each.labels]


def _names(families: Iterable[Family], label: str) -> list[str]:
    """The values of a label, in the order in which they come."""
    return list(
        dict.fromkeys(
            key[each.labels.index(label)]
            for each in each_of(families, label)
            for key in each.rows
        )
    )  # fmt: skip


def _fewer(families: list[Family], label: str, count: int) -> tuple[list[Family], int]:
    """The first so many names of a label, the rest summed; and how many those are."""
    names = [name for name in _names(families, label) if name != OTHER]
    kept = frozenset(names[:count])
    return [each.folded(label, kept) for each in families], len(names) - len(kept)


def _common(family: Family) -> Family:
    rows = {key: value for key, value in family.rows.items() if value or key not in family.rare}
    return replace(family, rows=rows)


def _total(families: Iterable[Family]) -> int:
    return sum(each.series for each in families)
