"""Inputs that broke systems like ours, through the command a person would run.

../shared/cases/manifest.json names the cases and what is right. Every case of kinds ingest and time
whose fixture is a plain file, or can be made into one, is here; those that need more, and those of
kind security that concern what comes in, are driven by the tests named in ELSEWHERE.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gatewatch.cli import app
from tests.world import World

CASES = Path(__file__).parents[3] / "shared" / "cases"
ELSEWHERE = {
    "B001": "tests/ingest/test_tail.py", "B003": "tests/ingest/test_tail.py",
    "B005": "tests/ingest/test_tail.py", "B006": "tests/ingest/test_tail.py",
    "B008": "tests/ingest/test_tail.py", "B010": "tests/ingest/test_tail.py",
    "B036": "tests/gatewatch/test_api.py", "B043": "tests/gatewatch/test_intake.py",
    "B044": "tests/gatewatch/test_intake.py", "B046": "tests/gatewatch/test_kill.py",
    "B048": "tests/ingest/test_store.py", "B063": "tests/ingest/test_skew.py",
    "B172": "tests/ingest/test_redact.py", "B178": "tests/gatewatch/test_intake_pressure.py",
    "B182": "tests/gatewatch/test_intake.py",
}  # fmt: skip
# Of kind security, and about what comes in; the others are about what goes out.
SECURITY = {"B172", "B178", "B182"}
# The case's own words for a detector's settings, as ours.
DETECTORS = {"min_denies": "denials", "window_s": "within"}


def manifest() -> list[dict[str, Any]]:
    cases = json.loads((CASES / "manifest.json").read_text())
    return [case for case in cases if case["kind"] in ("ingest", "time") or case["id"] in SECURITY]


def plain() -> list[Any]:
    return [pytest.param(case, id=case["id"]) for case in manifest() if case["id"] not in ELSEWHERE]


class Outcome:
    """What `gatewatch ingest --json` said, and the database it left."""

    def __init__(self, folder: Path, fixture: Path, case: dict[str, Any]) -> None:
        self.fixture = fixture
        self.db = folder / "gatewatch.duckdb"
        command = ["ingest", str(fixture), "--adapter", "native", "--db", str(self.db), "--json"]
        zone = case["expect"].get("source_tz", "UTC")
        (folder / "gatewatch.toml").write_text(f'[sources.native]\nzone = "{zone}"\n')
        command += ["--config", str(folder / "gatewatch.toml")]
        policy = {"global": {"timezone": case["expect"].get("tz", zone), "unattended_window": [
            {"start": "22:00", "end": "08:00"}]}}  # fmt: skip
        (folder / "policy.json").write_text(json.dumps(policy))
        done = CliRunner().invoke(app, [*command, "--policy", str(folder / "policy.json")])
        assert done.exit_code == 0, done.output
        self.said = json.loads(done.stdout)

    def ask(self, sql: str) -> list[dict[str, Any]]:
        world = World(self.db.parent, policy=None)
        try:
            return world.rows(sql)
        finally:
            world.close()

    def ids(self) -> list[str]:
        return [row["native_id"] for row in self.ask("SELECT native_id FROM events")]

    def flagged(self) -> list[str]:
        rows = self.ask("SELECT native_id FROM events WHERE signals IS NOT NULL ORDER BY 1")
        return [row["native_id"] for row in rows]


def _ids_once(got: Outcome, wanted: list[str]) -> bool:
    return sorted(got.ids()) == sorted(wanted)


def _ids_at_least(got: Outcome, wanted: list[str]) -> bool:
    return all(got.ids().count(each) == 1 for each in wanted)


def _flagged(got: Outcome, wanted: int | list[str]) -> bool:
    return got.flagged() == wanted if isinstance(wanted, list) else len(got.flagged()) == wanted


def _instant(got: Outcome, wanted: str) -> bool:
    rows = got.ask("SELECT DISTINCT ts FROM events")
    return [row["ts"] for row in rows] == [datetime.fromisoformat(wanted)]


def _days(got: Outcome, wanted: dict[str, int]) -> bool:
    rows = got.ask("SELECT local_day(ts)::VARCHAR AS day, count(*) AS n FROM events GROUP BY 1")
    return {row["day"]: row["n"] for row in rows} == wanted


def _inside(got: Outcome, wanted: list[str]) -> bool:
    """A time that never was on the clock is in no window for certain."""
    rows = got.ask("""
        SELECT native_id FROM events WHERE unattended(ts)
            AND NOT list_contains(coalesce(signals, []), 'impossible_time') ORDER BY ts""")
    return [row["native_id"] for row in rows] == wanted


def _hours(got: Outcome, wanted: int) -> bool:
    """How long the night was that holds the first event."""
    [row] = got.ask("""
        SELECT count(*) AS minutes FROM events, range(-1440, 1440) AS near(m)
        WHERE native_id = 'sp-0'
            AND unattended_night(ts + to_minutes(m)) = unattended_night(ts)""")
    return bool(row["minutes"] == wanted * 60)


def _night(got: Outcome, wanted: str) -> bool:
    rows = got.ask(
        "SELECT DISTINCT unattended_night(ts)::VARCHAR AS n FROM events WHERE unattended(ts)"
    )
    return [row["n"] for row in rows] == [wanted]


def _count(sql: str) -> Callable[[Outcome, int], bool]:
    return lambda got, wanted: got.ask(f"SELECT {sql} AS n FROM events")[0]["n"] == wanted


def _watermark(got: Outcome, wanted: str) -> bool:
    [row] = got.ask("SELECT last_event_at FROM sources WHERE source = 'native'")
    return bool(row["last_event_at"] == datetime.fromisoformat(wanted))


def _flat(got: Outcome, wanted: float) -> bool:
    """Peak memory of the command on this file, over that on a file of one short line."""
    small = got.db.parent / "small.jsonl"
    with got.fixture.open("rb") as lines:
        small.write_bytes(lines.readline())
    return _peak_mb(got.fixture) - _peak_mb(small) <= wanted


def _peak_mb(fixture: Path) -> float:
    code = (
        "import resource, sys; from gatewatch.cli import app\n"
        "app(sys.argv[1:], standalone_mode=False)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    with tempfile.TemporaryDirectory() as folder:
        command = ["ingest", str(fixture), "--db", f"{folder}/x.duckdb", "--json"]
        done = subprocess.run(
            [sys.executable, "-c", code, *command], capture_output=True, check=True, text=True
        )
    return int(done.stdout.split()[-1]) / 1024


def _no_nan(got: Outcome, wanted: bool) -> bool:
    [row] = got.ask("SELECT string_agg(params::VARCHAR, ' ') AS text FROM events")
    found = any(word in row["text"] for word in ("NaN", "Infinity"))
    return found == wanted


MEANS: dict[str, Callable[[Outcome, Any], bool]] = {
    "event_ids_once": _ids_once,
    "event_ids_once_min": _ids_at_least,
    "valid": _ids_at_least,
    "quarantined": lambda got, wanted: bool(got.said["quarantined"] == wanted),
    "rows": _count("count(*)"),
    "null_rows": _count("count(*) FILTER (WHERE agent IS NULL OR ts IS NULL)"),
    "rows_trusted_as_allow": _count(
        "count(*) FILTER (WHERE decision = 'allow' AND native_id = 'dup-1')"
    ),
    "flagged": _flagged,
    "distinct_row_text": _count("count(DISTINCT trim(params ->> 'row', '\"'))"),
    "emits_nan": _no_nan,
    "lossy": _count("count(*) FILTER (WHERE list_contains(signals, 'lossy_utf8'))"),
    "distinct_agents": _count("count(DISTINCT agent)"),
    "id_conflicts": lambda got, wanted: bool(got.said["id_conflicts"] == wanted),
    "logical_calls": _count("count(*)"),
    "denies": _count("count(*) FILTER (WHERE decision = 'deny')"),
    "ts_utc": _instant,
    "watermark_max": _watermark,
    "days": _days,
    "inside": _inside,
    "window_hours": _hours,
    "window_date": _night,
    "egress_host_not_null": _count("count(host)"),
    "max_rss_growth_mb": _flat,
    "crash": lambda got, wanted: wanted is False,  # it ran: see Outcome
}
SETTINGS = {"tz", "source_tz", "window", "detector", "config", "incidents"}


def made(case: dict[str, Any], folder: Path) -> Path:
    """The fixture, or the file that its recipe makes."""
    fixture: Path = CASES / "fixtures" / case["file"]
    if not case["file"].endswith(".gen.json"):
        return fixture
    target = folder / "made.jsonl"
    with target.open("w") as out:
        for part in json.loads(fixture.read_text())["parts"]:
            left = part.get("repeat", 1)
            while left:  # a hundred million times one letter is not written letter by letter
                now = min(left, 100_000)
                out.write(part["text"] * now)
                left -= now
    return target


@pytest.mark.parametrize("case", plain())
def test_a_case_gives_what_is_right(
    case: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))

    got = Outcome(tmp_path, made(case, tmp_path), case)

    expect = case["expect"]
    assert expect.keys() <= MEANS.keys() | SETTINGS
    wrong = {key: value for key, value in expect.items()
             if key in MEANS and not MEANS[key](got, value)}  # fmt: skip
    assert wrong == {}
    if "incidents" in expect:
        assert _incidents(got, case) == expect["incidents"]


def _incidents(got: Outcome, case: dict[str, Any]) -> int:
    values = {DETECTORS[key]: value for key, value in case["expect"]["config"].items()}
    values["within"] = f"{values['within']} seconds"
    world = World(got.db.parent, settings={case["expect"]["detector"]: values}, policy=None)
    found = [each for each in world.backtest() if case["expect"]["detector"] in each[0]]
    world.close()
    return len(found)


def test_every_case_is_reached_here_or_by_the_test_that_is_named() -> None:
    ids = {case["id"] for case in manifest()}

    assert len(ids) == 41
    assert ELSEWHERE.keys() <= ids
    for case_id, place in ELSEWHERE.items():
        assert case_id in (Path(__file__).parents[2] / place).read_text(), place


@pytest.mark.parametrize(
    ("wall", "utc", "odd"),
    [
        ("2026-03-08 01:59:59", "2026-03-08T06:59:59Z", None),
        ("2026-03-08 02:30:00", "2026-03-08T07:30:00Z", "impossible_time"),
        ("2026-03-08 03:00:00", "2026-03-08T07:00:00Z", None),
        ("2026-11-01 00:59:59", "2026-11-01T04:59:59Z", None),
        ("2026-11-01 01:30:00", "2026-11-01T06:30:00Z", "ambiguous_time"),
        ("2026-11-01 02:00:00", "2026-11-01T07:00:00Z", None),
        ("2026-11-01T01:30:00-04:00", "2026-11-01T05:30:00Z", None),
    ],
)
def test_a_wall_time_that_the_clocks_skipped_or_showed_twice_is_read_by_rule_and_marked(
    wall: str, utc: str, odd: str | None, tmp_path: Path
) -> None:
    world = World(tmp_path, policy=None)
    line = json.dumps({"ts": wall, "kind": "tool_call", "agent": "a1", "event_id": "e"})

    world.land([line.encode()], datetime.fromisoformat(utc), zone="America/New_York")

    [row] = world.rows("SELECT ts, signals FROM events")
    assert row["ts"] == datetime.fromisoformat(utc)
    assert row["signals"] == ([odd] if odd else None)
    world.close()
