"""The Prometheus page, made anew from the tables at each scrape: it survives restarts.

Labels are names from the configuration (sources, detectors, receivers) and words of closed sets,
never text from logs, and pass one gate, so the page cannot grow with what agents write. What is
counted is counted where it happens (ingest/tally.py), so a scrape does not grow with history.
Metric names and meanings: docs/metrics.md.
Reads: sources, clocks, tallies, judged, judgements, changes, alerts, deliveries, rules. Writes:
nothing. Next: detectors/metrics/budget.py.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from importlib.metadata import version
from types import MappingProxyType

import duckdb
from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder

from detectors.detector import Detector
from detectors.metrics import alerting, judging, listening, pausing, telling
from detectors.metrics.budget import NAMES, Family, fit
from detectors.routing import Route
from ingest import tally
from ingest.store import Reader

TICK = 1.0  # seconds between rounds, unless the service says otherwise
HEAD_DIGITS = 12  # hex digits of the chain head: 48 bits, exact in a double
RELOADED = "gatewatch_config_last_reload_successful"
RELOADED_AT = "gatewatch_config_last_reload_success_timestamp_seconds"
OWN = {  # what the process knows of itself; a time that is not known is not shown
    "gatewatch_intake_stopped": "1 while no lines are taken.",
    "gatewatch_disk_free_bytes": "Room for ledger and database.",
    RELOADED: "1 while detectors and policy are in force as they are on disk.",
}
TIMES = {RELOADED_AT: "When they were last put in force."}
STATES = ("active", "shadow", "disabled", "broken")
RULES = {  # a rule's status (rules_miner/rule.schema.json) as one of STATES
    "canary": "active", "enforced": "active", "experimental": "shadow", "shadow": "shadow",
    "deprecated": "disabled", "retired": "disabled",
}  # fmt: skip


def page(
    reader: Reader, detectors: Mapping[str, Detector], routes: Iterable[Route],
    head: tuple[int, str], now: datetime, tick: float = TICK,
    own: Mapping[str, float] = MappingProxyType({}), sources: Iterable[str] = (),
) -> bytes:  # fmt: skip
    """The whole page in the plain text format. `head`: lines in the ledger, and its chain hash.

    `own`, values for OWN and TIMES, is there even while no table can be read.
    """
    return written(collected(reader, detectors, routes, head, now, tick, own, sources))[0]


def collected(
    reader: Reader, detectors: Mapping[str, Detector], routes: Iterable[Route],
    head: tuple[int, str], now: datetime, tick: float = TICK,
    own: Mapping[str, float] = MappingProxyType({}), sources: Iterable[str] = (),
) -> list[Family]:  # fmt: skip
    """Every metric, as far as there is room. `sources`: those that are configured."""
    found = [
        Family(name, "gauge", text, (), {(): own.get(name, 0.0)}) for name, text in OWN.items()
    ]
    found += [
        Family(name, "gauge", text, (), {(): own[name]} if name in own else {})
        for name, text in TIMES.items()
    ]
    with suppress(duckdb.Error):  # scrapes must not end with the tables: `own` says why
        found += _families(reader, detectors, [each.name for each in routes], sources, now, tick)
        found += _head(head)
    fitting, lost = fit(found)
    over = Family(
        "gatewatch_label_overflow", "counter", "Names that are shown as other.", ("label",),
        {(label,): float(lost[label]) for label in NAMES},
    )  # fmt: skip
    return [*fitting, over]


def written(families: Iterable[Family], accept: str = "") -> tuple[bytes, str]:
    """The page and its type: OpenMetrics with examples where `accept` asks for it, else text."""
    encode, kind = choose_encoder(accept)
    registry = CollectorRegistry()
    registry.register(_Collected([each.metric() for each in families]))
    return encode(registry), kind


class _Collected:
    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> list[Metric]:
        return self._metrics


def _families(
    reader: Reader, detectors: Mapping[str, Detector], receivers: list[str],
    sources: Iterable[str], now: datetime, tick: float,
) -> Iterator[Family]:  # fmt: skip
    tallies = tally.read(reader)
    yield from listening.families(reader, tallies, sources)
    yield from judging.families(reader, tallies, detectors, now, tick)
    yield from alerting.families(reader, tallies, detectors, now)
    yield from telling.families(reader, tallies, receivers, now)
    yield from pausing.families(reader, now)
    rules = dict.fromkeys(STATES, 0.0)
    sql = "SELECT status, count(*) AS n FROM rules GROUP BY 1"
    for row in reader.rows(sql):
        rules[RULES.get(row["status"], "broken")] += row["n"]
    yield Family(
        "gatewatch_rules_loaded", "gauge", "Stopping rules by state.", ("state",),
        {(state,): count for state, count in rules.items()},
    )  # fmt: skip


def _head(head: tuple[int, str]) -> Iterator[Family]:
    records, prefix = float(head[0]), float(int(head[1][:HEAD_DIGITS] or "0", 16))
    one = (
        ("gatewatch_audit_chain_records", "Lines in the ledger; never falls.", records),
        ("gatewatch_audit_chain_head_prefix", "First 48 bits of the chain hash.", prefix),
    )
    for name, text, value in one:
        yield Family(name, "gauge", text, (), {(): value})
    yield Family(
        "gatewatch_build_info", "gauge", "The version that runs.", ("version",),
        {(version("gatewatch"),): 1.0},
    )  # fmt: skip
