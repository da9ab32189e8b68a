"""Now: counters, order and rhythm."""

from datetime import timedelta

import pytest

from dashboards.filters import Filters
from dashboards.pages import now
from ingest.store import memory_store
from tests.dashboards import rows, service
from tests.dashboards.insert import NOW


@pytest.mark.parametrize(
    ("span", "step"),
    [
        (timedelta(minutes=30), "1 minute"),
        (timedelta(hours=2), "1 minute"),
        (timedelta(hours=2, minutes=1), "5 minutes"),
        (timedelta(days=1), "15 minutes"),
        (timedelta(days=7), "6 hours"),
        (timedelta(days=400), "7 days"),
        (timedelta(days=20_000), "30 days"),
    ],
)
def test_the_chart_never_holds_more_bars_than_the_eye_can_tell_apart(
    span: timedelta, step: str
) -> None:
    assert now.pace(NOW - span, NOW) == step


def test_open_alerts_come_worst_first_and_an_agents_alone_when_asked() -> None:
    client = service.client(rows.example())

    everything = now.load(client, Filters(NOW))
    one = now.load(client, Filters(NOW, agent="a1"))

    assert everything.open["severity"].to_list() == ["critical", "high", "medium", "low"]
    assert one.open["alert_id"].to_list() == ["al_7f3a"]


def test_counts_are_those_of_the_last_hour_by_the_services_clock() -> None:
    data = now.load(service.client(rows.example()), Filters(NOW))

    events = sum(20 + (n * 7) % 23 for n in range(61))
    assert data.counts["events"] == events
    assert data.counts["denied"] == 6
    assert (data.counts["owed"], data.counts["dead"]) == (1, 1)
    assert (data.counts["detectors"], data.counts["failing"], data.counts["stale"]) == (2, 1, 0)
    assert data.rhythm["events"].sum() == sum(20 + (n * 7) % 23 for n in range(120))


def test_an_empty_store_gives_a_range_and_no_bars() -> None:
    data = now.load(service.client(memory_store()), Filters(NOW))

    assert data.rhythm.is_empty()
    assert data.now - data.since == now.SHORTEST
