from datetime import UTC, datetime, timedelta
from pathlib import Path

from detectors import engine
from detectors.alerts import Found
from gatewatch.demo import prepare
from gatewatch.fleet import AGENTS, HOSTS, TOOLS, Fleet, Line
from gatewatch.parts import Parts, open_parts
from gatewatch.troubles import troubles
from ingest.batch import Batch

NOW = datetime(2026, 6, 3, 15, 20, tzinfo=UTC)
PAST = timedelta(hours=29)


def test_the_same_seed_and_times_give_the_same_lines() -> None:
    one, other = (Fleet(NOW, UTC), Fleet(NOW, UTC))
    whole = one.until(NOW + timedelta(hours=2))
    parts = [line for n in (1, 2) for line in other.until(NOW + timedelta(hours=n))]

    assert whole == parts
    assert [each.at for each in whole] == sorted(each.at for each in whole)


def test_the_fleet_has_dozens_of_agents_and_some_hundred_tools_and_hosts() -> None:
    assert len(set(AGENTS)) == 40
    assert len(set(TOOLS)) == 128
    assert len({host for area in HOSTS.values() for host in area}) == 104


def test_the_fleet_is_busier_by_day_than_by_night() -> None:
    fleet = Fleet(datetime(2026, 6, 3, tzinfo=UTC), UTC)
    night = fleet.until(datetime(2026, 6, 3, 8, tzinfo=UTC))
    day = fleet.until(datetime(2026, 6, 3, 16, tzinfo=UTC))

    assert len(day) > 2 * len(night)


def test_a_quickened_fleet_sends_about_so_many_lines_a_second() -> None:
    fleet = Fleet(NOW, UTC)
    fleet.quicken(20)

    assert 1000 < len(fleet.until(NOW + timedelta(seconds=60))) < 1500


def _fired(parts: Parts, lines: list[Line]) -> list[Found]:
    """The alerts of one pass over everything, when these lines have landed as well."""
    parts.lander.land(Batch("gate_a", "native", [each.data for each in lines]), NOW)
    with parts.store.reading() as db:
        return engine.backtest(db, parts.detectors.values(), NOW - PAST, NOW + timedelta(minutes=3))


def test_a_quiet_fleet_fires_nothing_and_each_trouble_is_found_by_its_detector(
    tmp_path: Path,
) -> None:
    settings, zone = prepare(tmp_path, "http://127.0.0.1:1", f"whsec_{'A' * 32}", NOW)
    injected = troubles()
    parts = open_parts(settings)
    try:
        before = _fired(parts, Fleet(NOW - PAST, zone).until(NOW))
        after = _fired(parts, [line for each in injected for line in each.at(NOW)])
    finally:
        parts.close()

    assert before == []
    wanted = {(each.detector, each.subject) for each in injected}
    assert wanted <= {(each.detector, each.subject) for each in after}
    known = frozenset[str]().union(*(each.concerns() for each in injected))
    assert {each.subject for each in after} <= known
