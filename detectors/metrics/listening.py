"""What Prometheus sees of sources: lines, events, clocks, canaries.

Reads: sources, source_clocks. Writes: nothing. Next: detectors/metrics/judging.py.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from detectors.metrics.budget import Family, Waits
from ingest.skew import WAITS
from ingest.store import Reader
from ingest.tally import Tallies

REJECTED = ("parse", "encoding", "too_large", "schema", "time")  # reasons of the quarantine
PER_SOURCE = {
    "gatewatch_ingest_backfill_events": ("backfilled", "Accepted, but an hour old or older."),
    "gatewatch_ingest_duplicates": ("duplicates", "Events that were there already."),
    "gatewatch_ingest_id_conflicts": ("id_conflicts", "Ids that came again with other content."),
    "gatewatch_agent_mismatch": ("mismatched", "Events that claimed another's agent."),
}
SOURCE = ("source",)


NOTHING = dict.fromkeys(("events", "backfilled", "duplicates", "id_conflicts", "mismatched"), 0)


def families(reader: Reader, tallies: Tallies, configured: Iterable[str]) -> Iterator[Family]:
    """Of every source, the oldest first: when there is no room, the newest go."""
    rows = reader.rows("SELECT * FROM sources ORDER BY first_seen_at, source")
    known = {row["source"] for row in rows}
    every = [*rows, *({"source": name} | NOTHING for name in configured if name not in known)]
    yield from _counters(every, tallies)
    yield from _times(rows)
    yield from _clocks(reader)


def _counters(rows: Sequence[Mapping[str, Any]], tallies: Tallies) -> Iterator[Family]:
    names = [(row["source"],) for row in rows]
    live = {(row["source"],): float(row["events"] - row["backfilled"]) for row in rows}
    yield Family(
        "gatewatch_ingest_events", "counter", "Events accepted, new and live.", SOURCE, live
    )
    for name, (column, text) in PER_SOURCE.items():
        values = {(row["source"],): float(row[column] or 0) for row in rows}
        yield Family(name, "counter", text, SOURCE, values)
    late = tallies.get("late", {})
    yield Family(
        "gatewatch_ingest_late", "counter", "Live events behind the newest of their source.",
        SOURCE, {(name,): late.get((name, ""), 0.0) for (name,) in names},
    )  # fmt: skip
    found = tallies.get("rejected", {})
    every = {(name, reason): found.get((name, reason), 0.0)
             for (name,) in names for reason in REJECTED}  # fmt: skip
    yield Family(
        "gatewatch_ingest_rejected", "counter", "Lines that gave no event, kept in quarantine.",
        ("source", "reason"), every, rare={key for key in every if key[1] != "schema"},
    )  # fmt: skip


def _times(rows: Sequence[Mapping[str, Any]]) -> Iterator[Family]:
    times = {
        "gatewatch_source_last_seen_timestamp_seconds": ("last_seen_at", "When a line last came."),
        "gatewatch_source_last_event_timestamp_seconds": (
            "last_event_at", "Newest plausible event time.",
        ),
    }  # fmt: skip
    for name, (column, text) in times.items():  # an unset time would read as fifty years of silence
        known = {(row["source"],): row[column].timestamp() for row in rows if row[column]}
        yield Family(name, "gauge", text, SOURCE, known, fold=min)
    yield Family(
        "gatewatch_canary_last_success_timestamp_seconds", "gauge",
        "When a gate last denied the canary.", ("gateway",),
        {(row["source"],): row["canary_at"].timestamp() for row in rows if row["canary_at"]},
        fold=min,
    )  # fmt: skip


def _clocks(reader: Reader) -> Iterator[Family]:
    rows = reader.rows("SELECT c.* FROM source_clocks c LEFT JOIN sources s USING (source)"
                       " ORDER BY s.first_seen_at, source")  # fmt: skip
    yield Family(
        "gatewatch_source_skew_seconds", "gauge", "How far its clock is ahead of ours.", SOURCE,
        {(row["source"],): row["skew_seconds"] for row in rows if row["skew_seconds"] is not None},
        fold=_farthest,
    )  # fmt: skip
    yield Family(
        "gatewatch_source_lag_seconds", "gauge",
        "From the time lines claim to their arrival, of late.", SOURCE,
        {(row["source"],): row["lag_seconds"] for row in rows}, fold=max,
    )  # fmt: skip
    waits: dict[tuple[str, ...], float | Waits] = {}
    for row in rows:
        counts = tuple(map(float, row["waits"]))
        waits[row["source"],] = Waits(counts, counts[-1], row["waited_seconds"])
    yield Family(
        "gatewatch_ingest_lag_seconds", "histogram", "From the time a line claims to its arrival.",
        SOURCE, waits, les=tuple(map(float, WAITS)),
    )  # fmt: skip


def _farthest(values: object) -> float:
    return max(values, key=abs)  # type: ignore[call-overload,no-any-return]
