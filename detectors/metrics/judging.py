"""What Prometheus sees of judging: rounds, windows, how far behind.

Reads: judged, judgements, changes, calls, events. Writes: nothing.
Next: detectors/metrics/alerting.py.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from detectors import detector
from detectors.detector import CATALOGUE, Detector
from detectors.metrics.budget import Family, Value, Waits
from detectors.turn import DURATIONS, SKIPPED
from ingest.store import Reader
from ingest.tally import Tallies

WAITING = """
    WITH those AS (
        SELECT unnest($names::VARCHAR[]) AS detector, unnest($kinds::VARCHAR[][]) AS kinds
    ),
    due AS (
        SELECT detector, since FROM judgements WHERE status = 'due'
        UNION ALL
        SELECT t.detector, c.since FROM those t LEFT JOIN judged j USING (detector)
        JOIN changes c ON c.seq > coalesce(j.seq, 0)
            AND (len(t.kinds) = 0 OR c.kinds IS NULL OR list_has_any(c.kinds, t.kinds))
        UNION ALL
        SELECT t.detector, e.since FROM those t LEFT JOIN judged j USING (detector)
        CROSS JOIN (SELECT min(ts) AS since FROM calls UNION ALL SELECT min(ts) FROM events) e
        WHERE coalesce(j.version, '') = ''
        UNION ALL  -- one of absence has to judge all time that passes
        SELECT detector, max(until) FROM judgements
        WHERE status = 'judged' AND list_contains($clock::VARCHAR[], detector) GROUP BY ALL
    )
    SELECT detector, min(since) AS since FROM due
    WHERE since <= $now::TIMESTAMPTZ AND list_contains($names::VARCHAR[], detector) GROUP BY ALL
"""
DETECTOR = ("detector",)


def families(
    reader: Reader, tallies: Tallies, detectors: Mapping[str, Detector], now: datetime, tick: float
) -> Iterator[Family]:
    """Of every detector that is in force."""
    state = {row["detector"]: row for row in reader.rows("SELECT * FROM judged")}
    runs = {(name,): float(state.get(name, {}).get("runs") or 0) for name in detectors}
    bad = {(name,): float(state.get(name, {}).get("failures") or 0) for name in detectors}
    good = {
        (name,): row["last_success_at"].timestamp()
        for name in detectors if (row := state.get(name, {})) and row["last_success_at"]
    }  # fmt: skip
    yield Family("gatewatch_detector_runs", "counter", "Rounds.", DETECTOR, runs)
    yield Family(
        "gatewatch_detector_failures", "counter", "Rounds that raised or were cut off.", DETECTOR,
        bad,
    )  # fmt: skip
    yield Family(
        "gatewatch_detector_interval_seconds", "gauge", "Time between rounds.", DETECTOR,
        dict.fromkeys(((name,) for name in detectors), tick), fold=max,
    )  # fmt: skip
    yield Family(
        "gatewatch_detector_last_success_timestamp_seconds", "gauge", "End of the last good round.",
        DETECTOR, good, fold=min,
    )  # fmt: skip
    yield from _windows(tallies, detectors)
    yield _behind(reader, detectors, now)
    yield _loaded(state, detectors)


def _windows(tallies: Tallies, detectors: Mapping[str, Detector]) -> Iterator[Family]:
    texts = {
        "evaluated": "Stretches of time that were judged.",
        "reevaluated": "Of these, such as had been judged before.",
    }
    for name, text in texts.items():
        found = tallies.get(name, {})
        rows: dict[tuple[str, ...], Value] = {(d,): found.get((d, ""), 0.0) for d in detectors}
        yield Family(f"gatewatch_windows_{name}", "counter", text, DETECTOR, rows)
    skipped = tallies.get("skipped", {})
    yield Family(
        "gatewatch_windows_skipped", "counter", "Stretches that nobody will judge any more.",
        ("detector", "reason"),
        {(d, why): skipped.get((d, why), 0.0) for d in detectors for why in SKIPPED},
    )  # fmt: skip
    took, seconds = tallies.get("took", {}), tallies.get("seconds", {})
    waits: dict[tuple[str, ...], Value] = {}
    for name in detectors:
        within = tuple(took.get((name, str(le)), 0.0) for le in DURATIONS)
        waits[name,] = Waits(within, took.get((name, ""), 0.0), seconds.get((name, ""), 0.0))
    yield Family(
        "gatewatch_detector_duration_seconds", "histogram", "One run that had something to judge.",
        DETECTOR, waits, les=DURATIONS,
    )  # fmt: skip


def _behind(reader: Reader, detectors: Mapping[str, Detector], now: datetime) -> Family:
    """Of what has been planned and not judged, and of what has landed and not been taken up."""
    kinds = [list(each.header.kinds) for each in detectors.values()]
    clock = [name for name, each in detectors.items() if each.header.clock]
    rows = reader.rows(WAITING, names=list(detectors), kinds=kinds, clock=clock, now=now)
    waiting = {row["detector"]: row["since"] for row in rows}
    return Family(
        "gatewatch_judging_lag_seconds", "gauge", "Age of the oldest time still to be judged.",
        DETECTOR,
        {(name,): (now - waiting.get(name, now)).total_seconds() for name in detectors}, fold=max,
    )  # fmt: skip


def _loaded(state: Mapping[str, Mapping[str, Any]], detectors: Mapping[str, Detector]) -> Family:
    """By state. One that fails is broken, whatever it would be otherwise."""
    broken = {name for name in detectors if state.get(name, {}).get("last_error")}
    shadow = {name for name, each in detectors.items() if each.status == "shadow"} - broken
    ours = {name for name, each in detectors.items() if each.path.parent == CATALOGUE}
    return Family(
        "gatewatch_detectors_loaded", "gauge", "Detectors by state.", ("state",),
        {
            ("active",): float(len(detectors.keys() - shadow - broken)),
            ("shadow",): float(len(shadow)),
            ("disabled",): float(len(set(detector.names()) - ours)),
            ("broken",): float(len(broken)),
        },
    )  # fmt: skip
