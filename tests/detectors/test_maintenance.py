"""Planned work: nobody is told of it, and afterwards of what it has left behind."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from detectors import maintenance
from ingest.config import ConfigError, read_settings
from tests.kit_lifecycle import Desktop, detectors, minutes

TUESDAY = datetime.fromisoformat("2026-03-10T00:00:00+00:00")
ONCE = {"name": "release", "subject": "a*", "since": TUESDAY + timedelta(hours=9),
        "until": TUESDAY + timedelta(hours=11)}  # fmt: skip


def windows(*tables: dict[str, Any]) -> tuple[maintenance.Window, ...]:
    return maintenance.load(tables, detectors())


def test_what_opens_in_a_window_is_recorded_and_told_of_when_it_ends(desk: Desktop) -> None:
    desk.windows = windows(ONCE)
    desk.open("al_1", "a1")
    desk.open("al_2", "b1")
    first = desk.tell()
    reason = desk.alert("al_1")["quiet_reason"]
    desk.now = TUESDAY + timedelta(hours=11)

    assert first == [("open", "al_2")]
    assert reason == "maintenance"
    assert desk.tell() == [("open", "al_1")]


def test_what_is_over_when_a_window_ends_is_never_told(desk: Desktop) -> None:
    desk.windows = windows(ONCE)
    desk.open("al_1", "a1")
    desk.tell()
    desk.over("al_1")

    assert desk.wait(24 * 60) == []


def test_what_was_known_before_is_told_anew_after_the_window(desk: Desktop) -> None:
    desk.open("al_1", "a1")
    desk.tell()
    desk.windows = windows(ONCE)
    desk.wait(1)

    assert desk.wait(120) == [("unsilenced", "al_1")]


@pytest.mark.parametrize(
    ("at", "holds"),
    [
        ("2026-03-10T01:59", False),
        ("2026-03-10T02:00", True),
        ("2026-03-10T03:59", True),
        ("2026-03-10T04:00", False),
        ("2026-03-11T02:30", False),  # a Wednesday
    ],
)
def test_a_weekly_window_holds_on_its_days_on_the_clock_of_its_zone(at: str, holds: bool) -> None:
    [window] = windows({"name": "w", "detector": "*", "days": ["tue"], "from": "02:00",
                        "to": "04:00", "zone": "Asia/Shanghai"})  # fmt: skip
    then = datetime.fromisoformat(f"{at}:00+08:00")

    assert bool(list(maintenance.covering([window], then, "UTC"))) == holds


def test_a_weekly_window_without_a_zone_is_in_the_installations(desk: Desktop) -> None:
    found = windows({"name": "w", "detector": "*", "from": "02:00", "to": "04:00"})
    then = datetime.fromisoformat("2026-03-10T18:30:00+00:00")

    assert list(maintenance.covering(found, then, "UTC")) == []
    [row] = maintenance.covering(found, then, "Asia/Shanghai")
    assert (row["cover"], row["what"], row["detector"]) == ("w", "maintenance", "*")


def test_a_window_that_says_how_bad_lets_what_is_worse_through(desk: Desktop) -> None:
    desk.windows = windows(ONCE | {"at_most": "medium"})
    desk.open("al_1", "a1", "critical")
    desk.open("al_2", "a2", "low")

    assert desk.tell() == [("open", "al_1")]
    desk.change("al_2", severity="medium")
    assert desk.wait(1) == []
    desk.change("al_2", severity="high")
    assert desk.wait(1) == [("open", "al_2")]


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"subject": "a"}, "maintenance[0]: Object missing required field `name`."),
        ({"name": "w", "since": TUESDAY, "until": TUESDAY + timedelta(hours=1)},
         "maintenance[0]: it would match everything: name at least one of detector, subject,"
         " agent, tenant, tag, severity, at_most. Where everything is meant, write"
         ' detector = "*".'),
        ({"name": "w", "subject": "a"},
         "maintenance[0]: when? Either since and until, or days, from and to."
         ' As in days = ["sun"], from = "02:00", to = "04:00", zone = "Europe/Berlin".'),
        ({"name": "w", "subject": "a", "since": TUESDAY, "from": "02:00"},
         "maintenance[0]: either once (since, until), or weekly (days, from, to, zone)."),
        ({"name": "w", "subject": "a", "since": TUESDAY, "until": TUESDAY},
         "maintenance[0]: ends before it begins."),
        ({"name": "w", "subject": "a", "since": datetime(2026, 3, 10), "until": TUESDAY},  # noqa: DTZ001
         "maintenance[0].since: write a zone, as in 2026-12-01T08:00:00Z."),
        ({"name": "w", "subject": "a", "days": ["son"]},
         "maintenance[0].days: no day 'son'. Did you mean 'sun'?"),
        ({"name": "w", "detector": "deny_rety", "days": ["sun"]},
         "maintenance[0]: no detector called 'deny_rety'. Did you mean 'deny_retry'?"),
        ({"name": "w", "subjekt": "a"},
         "maintenance[0]: unknown key 'subjekt'. Did you mean 'subject'?"),
    ],
)  # fmt: skip
def test_a_window_that_is_none_is_refused(table: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        maintenance.load([table], detectors(), "maintenance")

    assert str(caught.value) == said


def test_windows_and_figures_come_from_the_config(tmp_path: Path) -> None:
    path = tmp_path / "gatewatch.toml"
    path.write_text(
        '[[maintenance]]\nname = "backup"\nagent = "billing-*"\ndays = ["sun"]\nfrom = "02:00"\n'
        'to = "04:00"\n\n[telling]\nstorm_after = 3\nhold = "5 minutes"\n'
    )

    settings = read_settings(path)
    [window] = maintenance.load(settings.maintenance, detectors())

    assert window.matchers.agent == "billing-*"
    assert (settings.telling.storm_after, settings.telling.hold) == (3, minutes(5))
