"""The Prometheus page, made anew from the tables at each scrape: it survives restarts.

Labels are names from the configuration (sources, detectors, receivers), never text from logs, so
the page cannot grow with what agents write. Metric names and meanings: docs/metrics.md.
Reads: sources, clocks, judged, judgements, changes, alerts, deliveries, attempts. Writes: nothing.
Next: detectors/triage.py.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from importlib.metadata import version
from types import MappingProxyType
from typing import Any

import duckdb
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from detectors.detector import Detector
from detectors.routing import Route
from detectors.stretch import SEVERITIES
from ingest.skew import WAITS
from ingest.store import Reader

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
LATENCY = (1.0, 5.0, 10.0, 15.0, 20.0)  # seconds, Alertmanager's buckets
TICK = 1.0  # seconds between rounds, unless the service says otherwise
HEAD_DIGITS = 12  # hex digits of the chain head: 48 bits, exact in a double
Rows = Sequence[Mapping[str, Any]]
OWN = {  # what the process knows of itself
    "gatewatch_intake_stopped": "1 while no lines are taken.",
    "gatewatch_disk_free_bytes": "Room for ledger and database.",
    "gatewatch_reload_ok": "1 while detectors and policy are in force as they are on disk.",
    "gatewatch_reload_last_success_timestamp_seconds": "When they were last put in force.",
}
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
PER_SOURCE = {
    "gatewatch_ingest_events": ("events", "Events accepted and new."),
    "gatewatch_ingest_backfill_events": ("backfilled", "Accepted, but an hour old or older."),
    "gatewatch_ingest_duplicates": ("duplicates", "Events that were there already."),
    "gatewatch_ingest_rejected": ("quarantined", "Lines that gave no event, kept in quarantine."),
    "gatewatch_ingest_id_conflicts": ("id_conflicts", "Ids that came again with other content."),
    "gatewatch_agent_mismatch": ("mismatched", "Events that claimed another's agent."),
}


def page(
    reader: Reader, detectors: Mapping[str, Detector], routes: Iterable[Route],
    head: tuple[int, str], now: datetime, tick: float = TICK,
    own: Mapping[str, float] = MappingProxyType({}),
) -> bytes:  # fmt: skip
    """The whole page in the text format. `head`: lines in the ledger, and its chain hash.

    `own`, a value for each of OWN, is there even while no table can be read.
    """
    found = [_gauge(name, text, own.get(name, 0.0)) for name, text in OWN.items()]
    with suppress(duckdb.Error):  # scrapes must not end with the tables: `own` says why
        found += list(_metrics(reader, detectors, routes, head, now, tick))
    registry = CollectorRegistry()
    registry.register(_Collected(found))
    return generate_latest(registry)


class _Collected:
    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> list[Metric]:
        return self._metrics


def _metrics(
    reader: Reader, detectors: Mapping[str, Detector], routes: Iterable[Route],
    head: tuple[int, str], now: datetime, tick: float,
) -> Iterator[Metric]:  # fmt: skip
    yield from _sources(reader.rows("SELECT * FROM sources ORDER BY source"))
    yield from _clocks(reader.rows("SELECT * FROM source_clocks ORDER BY source"))
    yield from _detectors(reader.rows("SELECT * FROM judged"), detectors, tick)
    yield _behind(reader, detectors, now)
    yield from _alerts(reader, detectors)
    yield from _deliveries(reader, [route.name for route in routes])
    yield _gauge("gatewatch_audit_chain_records", "Lines in the ledger; never falls.", head[0])
    prefix = int(head[1][:HEAD_DIGITS] or "0", 16)
    yield _gauge("gatewatch_audit_chain_head_prefix", "First 48 bits of the chain hash.", prefix)
    info = GaugeMetricFamily("gatewatch_build_info", "The version that runs.", labels=["version"])
    info.add_metric([version("gatewatch")], 1)
    yield info


def _sources(rows: Rows) -> Iterator[Metric]:
    for name, (column, text) in PER_SOURCE.items():
        counter = CounterMetricFamily(name, text, labels=["source"])
        for row in rows:
            counter.add_metric([row["source"]], row[column] or 0)
        yield counter
    seen = GaugeMetricFamily(
        "gatewatch_source_last_seen_timestamp_seconds", "When a line last came.", labels=["source"]
    )
    event = GaugeMetricFamily(
        "gatewatch_source_last_event_timestamp_seconds", "Newest plausible event time.",
        labels=["source"],
    )  # fmt: skip
    for row in rows:
        seen.add_metric([row["source"]], row["last_seen_at"].timestamp())
        if row["last_event_at"]:  # an unset one would read as fifty years of silence
            event.add_metric([row["source"]], row["last_event_at"].timestamp())
    yield from (seen, event)


def _clocks(rows: Rows) -> Iterator[Metric]:
    skew = GaugeMetricFamily(
        "gatewatch_source_skew_seconds", "How far its clock is ahead of ours.", labels=["source"]
    )
    lag = GaugeMetricFamily(
        "gatewatch_source_lag_seconds", "From the time lines claim to their arrival, of late.",
        labels=["source"],
    )  # fmt: skip
    waits = HistogramMetricFamily(
        "gatewatch_ingest_lag_seconds", "From the time a line claims to its arrival.",
        labels=["source"],
    )  # fmt: skip
    for row in rows:
        if row["skew_seconds"] is not None:
            skew.add_metric([row["source"]], row["skew_seconds"])
        lag.add_metric([row["source"]], row["lag_seconds"])
        counts = [float(count) for count in row["waits"]]
        buckets = [(str(float(le)), count) for le, count in zip(WAITS, counts, strict=True)]
        waits.add_metric([row["source"]], [*buckets, ("+Inf", counts[-1])], row["waited_seconds"])
    yield from (skew, lag, waits)


def _detectors(rows: Rows, detectors: Mapping[str, Detector], tick: float) -> Iterator[Metric]:
    state = {row["detector"]: row for row in rows}
    runs = CounterMetricFamily("gatewatch_detector_runs", "Rounds.", labels=["detector"])
    failures = CounterMetricFamily(
        "gatewatch_detector_failures", "Rounds that raised or were cut off.", labels=["detector"]
    )
    every = GaugeMetricFamily(
        "gatewatch_detector_interval_seconds", "Time between rounds.", labels=["detector"]
    )
    took = GaugeMetricFamily(
        "gatewatch_detector_last_duration_seconds", "The last good round.", labels=["detector"]
    )
    good = GaugeMetricFamily(
        "gatewatch_detector_last_success_timestamp_seconds", "End of the last good round.",
        labels=["detector"],
    )  # fmt: skip
    for name in detectors:
        row = state.get(name, {})
        runs.add_metric([name], row.get("runs") or 0)
        failures.add_metric([name], row.get("failures") or 0)
        every.add_metric([name], tick)
        if row.get("last_success_at"):
            took.add_metric([name], row["last_seconds"])
            good.add_metric([name], row["last_success_at"].timestamp())
    loaded = GaugeMetricFamily(
        "gatewatch_detectors_loaded", "Detectors by state.", labels=["state"]
    )
    loaded.add_metric(["active"], len(detectors))
    yield from (runs, failures, every, took, good, loaded)


def _behind(reader: Reader, detectors: Mapping[str, Detector], now: datetime) -> Metric:
    """Of what has been planned and not judged, and of what has landed and not been taken up."""
    lag = GaugeMetricFamily(
        "gatewatch_judging_lag_seconds", "Age of the oldest time that is still to be judged.",
        labels=["detector"],
    )  # fmt: skip
    kinds = [list(each.header.kinds) for each in detectors.values()]
    clock = [name for name, each in detectors.items() if each.header.clock]
    rows = reader.rows(WAITING, names=list(detectors), kinds=kinds, clock=clock, now=now)
    waiting = {row["detector"]: row["since"] for row in rows}
    for name in detectors:
        lag.add_metric([name], (now - waiting.get(name, now)).total_seconds())
    return lag


def _alerts(reader: Reader, detectors: Mapping[str, Detector]) -> Iterator[Metric]:
    sql = "SELECT detector, severity, status, count(*) AS n FROM alerts GROUP BY ALL"
    fired: dict[tuple[str, str], int] = {
        (name, severity): 0 for name in detectors for severity in SEVERITIES
    }
    active = dict(fired)
    for row in reader.rows(sql):
        key = row["detector"], row["severity"]
        fired[key] = fired.get(key, 0) + row["n"]
        active[key] = active.get(key, 0) + (row["n"] if row["status"] == "open" else 0)
    labels = ["detector", "severity"]
    counter = CounterMetricFamily("gatewatch_alerts_fired", "Alerts opened.", labels=labels)
    gauge = GaugeMetricFamily("gatewatch_alerts_active", "Alerts that are open.", labels=labels)
    for key in fired:
        counter.add_metric(list(key), fired[key])
        gauge.add_metric(list(key), active[key])
    quiet = GaugeMetricFamily(
        "gatewatch_alerts_suppressed", "Open alerts of which nobody is told, by reason.",
        labels=["reason"],
    )  # fmt: skip
    found = reader.rows("""
        SELECT quiet_reason AS reason, count(*) AS n
        FROM alerts WHERE quiet_reason IS NOT NULL AND status = 'open' GROUP BY 1""")
    counts = {row["reason"]: row["n"] for row in found}
    for reason in ("cooldown", "silence", "inhibited"):
        quiet.add_metric([reason], counts.get(reason, 0))
    yield from (counter, gauge, quiet)


def _deliveries(reader: Reader, receivers: Sequence[str]) -> Iterator[Metric]:
    rows = {
        row["receiver"]: row
        for row in reader.rows("""
        SELECT receiver, count(*) FILTER (WHERE state = 'pending') AS pending,
            count(*) FILTER (WHERE state = 'dead') AS dead,
            min(created_at) FILTER (WHERE state = 'pending') AS oldest,
            max(done_at) FILTER (WHERE state = 'delivered') AS last_success,
            list(date_diff('millisecond', created_at, done_at) / 1000.0)
                FILTER (WHERE state = 'delivered' AND done_at IS NOT NULL) AS waits
        FROM deliveries GROUP BY 1""")
    }
    pending = GaugeMetricFamily("gatewatch_outbox_pending", "Messages owed.", labels=["receiver"])
    dead = CounterMetricFamily("gatewatch_dead_letters", "Given up.", labels=["receiver"])
    oldest = GaugeMetricFamily(
        "gatewatch_outbox_oldest_timestamp_seconds", "Since when the oldest message waits.",
        labels=["receiver"],
    )  # fmt: skip
    success = GaugeMetricFamily(
        "gatewatch_receiver_last_success_timestamp_seconds", "Last confirmed message.",
        labels=["receiver"],
    )  # fmt: skip
    latency = HistogramMetricFamily(
        "gatewatch_notification_latency_seconds", "From alert to confirmation.", labels=["receiver"]
    )
    for name in receivers:
        row = rows.get(name, {})
        pending.add_metric([name], row.get("pending") or 0)
        dead.add_metric([name], row.get("dead") or 0)
        if row.get("oldest"):
            oldest.add_metric([name], row["oldest"].timestamp())
        if row.get("last_success"):
            success.add_metric([name], row["last_success"].timestamp())
        waits = row.get("waits") or []
        buckets = [(str(le), float(sum(wait <= le for wait in waits))) for le in LATENCY]
        latency.add_metric([name], [*buckets, ("+Inf", float(len(waits)))], sum(waits))
    yield from (pending, dead, oldest, success, latency)
    yield from _attempts(reader, receivers)


def _attempts(reader: Reader, receivers: Sequence[str]) -> Iterator[Metric]:
    total = CounterMetricFamily("gatewatch_notifications", "Attempts.", labels=["receiver"])
    failed = CounterMetricFamily(
        "gatewatch_notifications_failed", "Attempts that failed.", labels=["receiver", "reason"]
    )
    tries: dict[str, int] = dict.fromkeys(receivers, 0)
    bad: dict[tuple[str, str], int] = {}
    sql = """
        SELECT receiver, outcome, coalesce(reason, 'other') AS reason, count(*) AS n
        FROM attempts WHERE outcome NOT IN ('started', 'digest') GROUP BY ALL"""
    for row in reader.rows(sql):
        tries[row["receiver"]] = tries.get(row["receiver"], 0) + row["n"]
        if row["outcome"] != "delivered":
            key = row["receiver"], row["reason"]
            bad[key] = bad.get(key, 0) + row["n"]
    for name, n in tries.items():
        total.add_metric([name], n)
        failed.add_metric([name, "other"], bad.pop((name, "other"), 0))
    for (name, reason), n in bad.items():
        failed.add_metric([name, reason], n)
    yield from (total, failed)


def _gauge(name: str, text: str, value: float) -> Metric:
    gauge = GaugeMetricFamily(name, text)
    gauge.add_metric([], value)
    return gauge
