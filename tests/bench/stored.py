"""Lands a fleet's steps as its gates would have sent them: each gate its own numbers, its own clock
and its own losses; and the times of arrival as if every line had come within two seconds.
"""

import heapq
import math
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

import msgspec

from gatewatch.parts import Parts, open_parts
from ingest.batch import Batch
from ingest.config import Settings
from ingest.land import Ready
from tests.bench.cast import GATES, RELEASE, rules
from tests.bench.fleet import Quiet
from tests.bench.scene import Step

OFF = {gate: timedelta(seconds=n % 5 - 2) for n, gate in enumerate(GATES)}  # clocks are never right
DELAY = timedelta(seconds=1)
PIECE = 20_000  # lines of a batch
DAY = timedelta(days=1)


class Fault(NamedTuple):
    """What goes wrong at a gate from `since` until `until`. `down`: it writes nothing. `lost`: it
    writes, and its lines get lost on the way. `off`: its clock is off by so much more. `slow`: its
    decisions take so many times as long."""

    gate: str
    since: datetime
    until: datetime
    down: bool = False
    lost: bool = False
    off: timedelta = timedelta(0)
    slow: float = 1.0

    def holds(self, gate: str, at: datetime) -> bool:
        return gate == self.gate and self.since <= at < self.until


def land(
    folder: Path, fleet: Quiet, start: datetime, days: int, planted: Iterable[Step] = (),
    faults: Sequence[Fault] = (),
) -> Parts:  # fmt: skip
    """An open database that holds these days, under the bench's policy."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "policy.json").write_bytes(msgspec.json.encode(rules()))
    (folder / "protocols").mkdir()
    (folder / "protocols" / "release.toml").write_text(RELEASE)
    settings = Settings(policy="policy.json", redact_key="redact.key", folder=str(folder),
                        protocols_folder="protocols")  # fmt: skip
    parts = open_parts(settings)
    extra = sorted(planted, key=itemgetter(0))
    gates, after = _Gates(faults), start + days * DAY

    def pieces() -> Iterator[tuple[Ready, datetime]]:
        for day in range(days):
            end = start + (day + 1) * DAY
            own = [each for each in extra if end - DAY <= each[0] < end]
            steps = heapq.merge(fleet.steps(end), own, key=itemgetter(0))
            for gate, lines in gates.written(steps).items():
                for at in range(0, len(lines), PIECE):
                    batch = Batch(gate, "native", lines[at : at + PIECE])
                    yield parts.lander.read(batch), after

    for landed in parts.lander.land_all(pieces()):
        assert landed.events == landed.lines, landed
    _arrived(parts, faults, start, days)
    parts.store.checkpoint()
    return parts


class _Gates:
    """What the gates write: numbered, by their own clocks."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self._faults, self._numbers = faults, dict.fromkeys(GATES, 0)

    def written(self, steps: Iterable[Step]) -> dict[str, list[bytes]]:
        found: dict[str, list[bytes]] = {gate: [] for gate in GATES}
        for at, gate, fields in steps:
            its = [each for each in self._faults if each.holds(gate, at)]
            if any(each.down for each in its):
                continue
            self._numbers[gate] += 1
            if any(each.lost for each in its):
                continue
            ts = at + sum((each.off for each in its), OFF[gate])
            number = self._numbers[gate]
            doc = {"ts": f"{ts:%Y-%m-%dT%H:%M:%S.%f}Z", "event_id": f"{gate}-{number}",
                   "seq": number, **fields}  # fmt: skip
            if "decision_ms" in doc and its:
                doc["decision_ms"] = round(doc["decision_ms"] * math.prod(e.slow for e in its), 2)
            found[gate].append(msgspec.json.encode(doc))
        return found


def _arrived(parts: Parts, faults: Sequence[Fault], start: datetime, days: int) -> None:
    """Lines came as they were written, not all at the end; the service listened all the time."""
    with parts.store.writing() as db:
        off = [(gate, start - DAY, start + (days + 1) * DAY, OFF[gate]) for gate in GATES]
        off += [(e.gate, e.since + e.off, e.until + e.off, e.off) for e in faults if e.off]
        db.execute(
            "CREATE TEMP TABLE off (gate VARCHAR, lo TIMESTAMPTZ, hi TIMESTAMPTZ, ahead INTERVAL)"
        )
        db.executemany("INSERT INTO off VALUES (?, ?, ?, ?)", off)
        db.execute(
            "UPDATE events SET ingested_at = ts + $delay - (SELECT sum(epoch_ms(ahead)) FROM off"
            " WHERE gate = source AND ts >= lo AND ts < hi) * INTERVAL '1 millisecond'",
            {"delay": DELAY},
        )
        db.execute("DROP TABLE off")
        db.execute("DELETE FROM arrivals")
        db.execute(
            "INSERT INTO arrivals SELECT source, date_trunc('minute', ingested_at), count(*),"
            " max(event_id) FROM events GROUP BY ALL"
        )
        db.execute(
            "INSERT INTO arrivals SELECT 'gatewatch', unnest(generate_series($a, $b,"
            " INTERVAL '1 minute')), 0, NULL",
            {"a": start, "b": start + days * DAY},
        )
