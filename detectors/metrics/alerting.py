"""What Prometheus sees of alerts.

Reads: alerts. Writes: nothing. Next: detectors/metrics/telling.py.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from detectors.counting import QUIET
from detectors.detector import Detector
from detectors.metrics.budget import Family, Key, Seen, Value
from detectors.stretch import SEVERITIES
from ingest.store import Reader
from ingest.tally import Tallies

LABELS = ("detector", "severity")
EXAMPLES = timedelta(hours=1)  # how old an example may be
TRACE = re.compile(r"[\x21-\x7e]{1,100}")  # a trace that an example may carry: logs write them
OPEN = """
    SELECT detector, severity, count(*) AS n FROM alerts WHERE status = 'open' GROUP BY ALL
    ORDER BY ALL
"""
LATEST = """
    SELECT detector, severity, max_by(about, opened_at) AS about, max(opened_at) AS at
    FROM alerts WHERE opened_at > $since::TIMESTAMPTZ AND NOT backfill GROUP BY ALL
"""


def families(
    reader: Reader, tallies: Tallies, detectors: Mapping[str, Detector], now: datetime
) -> Iterator[Family]:
    """Fired and active ones by detector and severity, and those kept quiet by reason."""
    rare: set[Key] = {
        (name, severity) for name, each in detectors.items() for severity in SEVERITIES
        if severity != each.header.severity and re.search(rf"['\"]{severity}['\"]", each.sql)
    }  # fmt: skip
    usual = [(name, each.header.severity) for name, each in detectors.items()]
    fired: dict[Key, Value] = dict.fromkeys([*usual, *sorted(rare)], 0.0)
    active: dict[Key, Value] = dict.fromkeys(usual, 0.0)
    for key, count in tallies.get("fired", {}).items():
        fired[key] = count
    for row in reader.rows(OPEN):
        active[row["detector"], row["severity"]] = float(row["n"])
    seen = {
        ((row["detector"], row["severity"]), 0.0): Seen(trace, 1.0, row["at"])
        for row in reader.rows(LATEST, since=now - EXAMPLES)
        if (trace := trace_of(row["about"]))
    }
    yield Family(
        "gatewatch_alerts_fired", "counter", "Alerts opened.", LABELS, fired, rare=rare,
        seen={key: each for key, each in seen.items() if key[0] in fired},
    )  # fmt: skip
    yield Family("gatewatch_alerts_active", "gauge", "Alerts that are open.", LABELS, active)
    quiet = tallies.get("quiet", {})
    yield Family(
        "gatewatch_alerts_suppressed", "counter", "Alerts kept quiet, by reason.", ("reason",),
        {(reason,): quiet.get(("", reason), 0.0) for reason in QUIET},
    )  # fmt: skip


def trace_of(about: Sequence[str] | None) -> str | None:
    """The first trace of an alert's `about` that is short and plain."""
    for each in about or ():
        word, _, name = each.partition(" ")
        if word == "trace" and TRACE.fullmatch(name):
            return name
    return None
