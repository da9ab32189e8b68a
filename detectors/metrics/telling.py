"""What Prometheus sees of receivers: attempts, failures, what waits.

Reads: deliveries, alerts. Writes: nothing. Next: detectors/outbox.py.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import get_args

from detectors.counting import LATENCY
from detectors.metrics.alerting import EXAMPLES, trace_of
from detectors.metrics.budget import Family, Key, Seen, Value, Waits
from detectors.receivers import Label
from ingest.store import Reader
from ingest.tally import Tallies

RECEIVER = ("receiver",)
REASONS: tuple[str, ...] = get_args(Label)
PENDING = """
    SELECT receiver, count(*) AS n, min(created_at) AS oldest
    FROM deliveries WHERE state = 'pending' GROUP BY 1
"""
LATEST = """
    SELECT d.receiver, d.created_at, d.done_at, a.about
    FROM deliveries d JOIN alerts a USING (alert_id)
    WHERE d.done_at > $since::TIMESTAMPTZ AND d.state IN ('delivered', 'accepted')
    ORDER BY d.done_at DESC LIMIT 100
"""


def families(
    reader: Reader, tallies: Tallies, receivers: Sequence[str], now: datetime
) -> Iterator[Family]:
    """Of every receiver that is configured, and of each Alertmanager."""
    names = list(dict.fromkeys([*receivers, *(whose for whose, _ in tallies.get("peer", {}))]))
    texts = {
        "notifications": ("attempts", "Attempts."),
        "notifications_coalesced": ("coalesced", "Messages merged into a digest."),
        "dead_letters": ("dead", "Given up."),
    }
    for name, (tally, text) in texts.items():
        found = tallies.get(tally, {})
        rows: dict[Key, Value] = {(each,): found.get((each, ""), 0.0) for each in names}
        yield Family(f"gatewatch_{name}", "counter", text, RECEIVER, rows)
    bad = tallies.get("failures", {})
    failed: dict[Key, Value] = {(n, why): bad.get((n, why), 0.0) for n in names for why in REASONS}
    yield Family(
        "gatewatch_notifications_failed", "counter", "Attempts that failed.",
        ("receiver", "reason"), failed, rare={key for key in failed if key[1] != "other"},
    )  # fmt: skip
    good = tallies.get("succeeded_at", {})
    yield Family(
        "gatewatch_receiver_last_success_timestamp_seconds", "gauge", "Last confirmed message.",
        RECEIVER, {(each,): good[each, ""] for each in names if (each, "") in good}, fold=min,
    )  # fmt: skip
    yield from _waiting(reader, receivers)
    yield _latency(reader, tallies, receivers, now)


def _waiting(reader: Reader, receivers: Sequence[str]) -> Iterator[Family]:
    rows = {row["receiver"]: row for row in reader.rows(PENDING)}
    yield Family(
        "gatewatch_outbox_pending", "gauge", "Messages owed.", RECEIVER,
        {(name,): float(rows[name]["n"] if name in rows else 0) for name in receivers},
    )  # fmt: skip
    yield Family(
        "gatewatch_outbox_oldest_timestamp_seconds", "gauge",
        "Since when the oldest message waits.", RECEIVER,
        {(name,): rows[name]["oldest"].timestamp() for name in receivers if name in rows},
        fold=min,
    )  # fmt: skip


def _latency(reader: Reader, tallies: Tallies, receivers: Sequence[str], now: datetime) -> Family:
    took, seconds = tallies.get("latency", {}), tallies.get("waited", {})
    waits: dict[Key, Value] = {}
    for name in receivers:
        within = tuple(took.get((name, str(le)), 0.0) for le in LATENCY)
        waits[name,] = Waits(within, took.get((name, ""), 0.0), seconds.get((name, ""), 0.0))
    seen: dict[tuple[Key, float], Seen] = {}
    for row in reader.rows(LATEST, since=now - EXAMPLES):
        wait = max((row["done_at"] - row["created_at"]).total_seconds(), 0.0)
        le = next((each for each in LATENCY if wait <= each), float("inf"))
        if (trace := trace_of(row["about"])) and (row["receiver"],) in waits:
            seen.setdefault(((row["receiver"],), le), Seen(trace, wait, row["done_at"]))
    return Family(
        "gatewatch_notification_latency_seconds", "histogram", "From alert to confirmation.",
        RECEIVER, waits, les=LATENCY, seen=seen,
    )  # fmt: skip
