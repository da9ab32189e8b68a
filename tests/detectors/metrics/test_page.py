"""The page as a whole: the set, zeros in advance, times that are not made up, both formats."""

import re
from datetime import timedelta
from io import StringIO
from pathlib import Path

import pytest
from prometheus_client.core import Metric
from prometheus_client.openmetrics.parser import text_fd_to_metric_families as open_families

from detectors import metrics
from detectors.counting import LATENCY, QUIET
from detectors.metrics.budget import Family, Waits
from detectors.metrics.telling import REASONS
from ingest import tally
from ingest.account import CANARY
from ingest.store import memory_store
from tests.kit_receivers import NOW
from tests.kit_telling import SLACK, Build
from tests.world import START, World, at, denied, native

OPEN = "application/openmetrics-text; version=1.0.0"
SET = {  # name: type, labels; of the reference for what Prometheus is told
    "ingest_events": "counter source", "ingest_backfill_events": "counter source",
    "ingest_rejected": "counter source reason", "ingest_duplicates": "counter source",
    "ingest_late": "counter source", "ingest_lag_seconds": "histogram source",
    "source_last_event_timestamp_seconds": "gauge source",
    "source_last_seen_timestamp_seconds": "gauge source",
    "detector_runs": "counter detector", "detector_failures": "counter detector",
    "detector_duration_seconds": "histogram detector",
    "detector_interval_seconds": "gauge detector",
    "detector_last_success_timestamp_seconds": "gauge detector",
    "windows_evaluated": "counter detector", "windows_reevaluated": "counter detector",
    "windows_skipped": "counter detector reason",
    "alerts_fired": "counter detector severity", "alerts_active": "gauge detector severity",
    "alerts_suppressed": "counter reason",
    "notifications": "counter receiver", "notifications_failed": "counter receiver reason",
    "notifications_coalesced": "counter receiver",
    "notification_latency_seconds": "histogram receiver",
    "outbox_pending": "gauge receiver", "outbox_oldest_timestamp_seconds": "gauge receiver",
    "dead_letters": "counter receiver",
    "receiver_last_success_timestamp_seconds": "gauge receiver",
    "canary_last_success_timestamp_seconds": "gauge gateway",
    "config_last_reload_successful": "gauge",
    "config_last_reload_success_timestamp_seconds": "gauge",
    "rules_loaded": "gauge state", "label_overflow": "counter label",
    "audit_chain_records": "gauge", "audit_chain_head_prefix": "gauge",
    "build_info": "gauge version",
}  # fmt: skip


def families(text: str) -> list[Metric]:
    """What a reader of OpenMetrics makes of a page."""
    return list(open_families(StringIO(text)))  # type: ignore[no-untyped-call]


def collected(world: World, minute: float) -> dict[str, Family]:
    found = metrics.collected(
        world.store, world.engine.detectors, (), world.lander.head, at(minute), sources=("crm",)
    )
    return {each.name.removeprefix("gatewatch_"): each for each in found}


def test_the_whole_set_is_there_under_its_names_types_and_labels(tmp_path: Path) -> None:
    world = World(tmp_path, only=("deny_retry",))

    found = {
        name: " ".join((each.kind, *each.labels)) for name, each in collected(world, 1).items()
    }

    assert {name: found.get(name) for name in SET} == SET
    world.close()


def test_what_is_known_in_advance_stands_there_as_zero(build: Build) -> None:
    house = build(ops=SLACK)

    text = metrics.page(house.store, {}, house.routes, (0, ""), NOW, sources=("crm_gate",)).decode()

    assert 'gatewatch_ingest_events_total{source="crm_gate"} 0.0' in text
    assert 'gatewatch_ingest_rejected_total{reason="parse",source="crm_gate"} 0.0' in text
    assert 'gatewatch_dead_letters_total{receiver="ops"} 0.0' in text
    for reason in REASONS:
        line = f'gatewatch_notifications_failed_total{{reason="{reason}",receiver="ops"}} 0.0'
        assert line in text
    for reason in QUIET:
        assert f'gatewatch_alerts_suppressed_total{{reason="{reason}"}} 0.0' in text


def test_a_time_that_is_not_known_is_not_shown() -> None:
    text = metrics.page(memory_store(), {}, (), (0, ""), at(0), sources=("crm",)).decode()

    assert re.findall(r"^\w+timestamp_seconds\S* ", text, re.MULTILINE) == []


def test_no_series_says_when_a_counter_was_made(tmp_path: Path) -> None:
    world = World(tmp_path, only=("deny_retry",))
    world.land([denied(0)], at(0))
    found = metrics.collected(world.store, world.detectors, (), world.lander.head, at(1))

    for accept in ("", OPEN):
        assert b"_created" not in metrics.written(found, accept)[0]
    world.close()


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("", "text/plain; version=0.0.4"),
        ("text/html, */*", "text/plain; version=0.0.4"),
        (f"{OPEN},text/plain;version=0.0.4;q=0.5", "application/openmetrics-text; version=1.0.0"),
    ],
)
def test_the_format_is_the_one_that_is_asked_for(accept: str, kind: str) -> None:
    text, said = metrics.written([], accept)

    assert said.startswith(kind)
    assert text.endswith(b"# EOF\n") == ("openmetrics" in kind)


def test_an_open_page_names_the_trace_of_the_newest_alert(tmp_path: Path) -> None:
    world = World(tmp_path, only=("deny_retry",))
    lines = [denied(m, event_id=str(m), trace_id="trace-1") for m in (0, 1, 2)]
    world.land(lines, at(3))
    world.tick(at(3))

    found = metrics.collected(world.store, world.detectors, (), world.lander.head, at(4))
    text = metrics.written(found, OPEN)[0].decode()

    exemplars = [
        sample.exemplar
        for family in families(text) for sample in family.samples
        if sample.name == "gatewatch_alerts_fired_total" and sample.exemplar
    ]  # fmt: skip
    assert [each.labels for each in exemplars] == [{"trace_id": "trace-1"}]
    assert 'gatewatch_alerts_fired_total{detector="deny_retry",severity="high"} 1.0 # {' in text
    assert b"trace-1" not in metrics.written(found)[0]
    world.close()


def test_a_trace_that_is_no_plain_name_is_no_example(tmp_path: Path) -> None:
    world = World(tmp_path, only=("deny_retry",))
    for number, trace in enumerate(("t" * 500, 'a"b\nc', "链")):
        rows = [denied(m, f"a{number}", event_id=f"{number}-{m}", trace_id=trace)
                for m in (0, 1, 2)]  # fmt: skip
        world.land(rows, at(3))
    world.tick(at(3))

    found = metrics.collected(world.store, world.detectors, (), world.lander.head, at(4))

    traces = {each.trace for family in found for each in family.seen.values()}
    assert traces <= {'a"b\nc'.replace("\n", "")}
    assert b"# EOF" in metrics.written(found, OPEN)[0]
    world.close()


def test_a_delivery_counts_once_and_its_wait_falls_into_a_bucket(build: Build) -> None:
    house = build(ops=SLACK)
    house.owe(house.alert(about=["trace t-1"]))
    house.now += timedelta(seconds=7)
    house.run()

    found = metrics.collected(house.store, {}, house.routes, (0, ""), house.now)
    text = metrics.written(found, OPEN)[0].decode()

    head = 'gatewatch_notification_latency_seconds_bucket{le="'
    counts = dict(re.findall(rf'^{re.escape(head)}(\S+?)",receiver="ops"\}} (\S+)', text, re.M))
    assert counts == {"1.0": "0.0", "5.0": "0.0", "10.0": "1.0", "15.0": "1.0", "20.0": "1.0",
                      "+Inf": "1.0"}  # fmt: skip
    assert len(LATENCY) == 5
    assert '{le="10.0",receiver="ops"} 1.0 # {trace_id="t-1"} 7.0' in text
    assert 'gatewatch_notifications_total{receiver="ops"} 1.0' in text
    [last] = [
        each for each in found if each.name.endswith("receiver_last_success_timestamp_seconds")
    ]
    assert last.rows["ops",] == pytest.approx(house.now.timestamp(), abs=1)


def test_windows_are_counted_and_those_that_are_judged_again_apart(tmp_path: Path) -> None:
    world = World(tmp_path, only=("deny_retry",))
    world.land([denied(0, event_id="0"), denied(30, event_id="1")], at(30))
    world.tick(at(30))
    first = collected(world, 31)
    world.land([denied(10, event_id="late")], at(31))
    world.tick(at(31))
    second = collected(world, 31)

    assert first["windows_evaluated"].rows["deny_retry",] == 1
    assert first["windows_reevaluated"].rows["deny_retry",] == 0
    assert second["windows_reevaluated"].rows["deny_retry",] == 1
    assert second["windows_skipped"].rows == {("deny_retry", "pruned"): 0.0}
    assert second["ingest_late"].rows["gate",] == 1.0
    took = second["detector_duration_seconds"].rows["deny_retry",]
    assert isinstance(took, Waits)
    assert took.count == 2
    world.close()


def test_a_severity_that_rises_takes_nothing_back_from_a_counter(tmp_path: Path) -> None:
    world = World(tmp_path, only=("deny_retry",))
    world.land([denied(m, event_id=str(m)) for m in (0, 1, 2)], at(3))
    world.tick(at(3))
    with world.store.writing() as db:
        db.execute("UPDATE alerts SET severity = 'critical'")

    found = collected(world, 4)

    assert found["alerts_fired"].rows["deny_retry", "high"] == 1.0
    assert found["alerts_active"].rows["deny_retry", "critical"] == 1.0
    world.close()


def test_the_denied_canary_is_seen_by_gate(tmp_path: Path) -> None:
    world = World(tmp_path, only=("deny_retry",))
    world.land([denied(2, CANARY), native(5, CANARY, tool="t", decision="allow"), denied(9)], at(9))

    found = collected(world, 10)["canary_last_success_timestamp_seconds"]

    assert found.rows == {("gate",): (START + timedelta(minutes=2)).timestamp()}
    world.close()


def test_a_tally_adds_up_in_one_transaction_and_over_several() -> None:
    store = memory_store()
    with store.writing() as db:
        tally.add(db, "x", {("a", ""): 1.0, ("b", ""): 2.0})
        tally.add(db, "x", {("a", ""): 1.5})
        tally.add(db, "x", {})
    with store.writing() as db:
        tally.add(db, "x", {("b", ""): 1.0})

    rows = store.rows("SELECT whose, n FROM tallies ORDER BY whose")
    assert rows == [{"whose": "a", "n": 2.5}, {"whose": "b", "n": 3.0}]
