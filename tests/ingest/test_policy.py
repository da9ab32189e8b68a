"""The policy file, and the SQL macros that read it back from the store."""

import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

from gatewatch import starter
from ingest.config import ConfigError
from ingest.policy import load
from ingest.store import MACROS, TABLES

ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared"
EXAMPLE = SHARED / "examples/policy.json"


def store(tmp_path: Path, **doc: Any) -> duckdb.DuckDBPyConnection:
    """A store in which this policy is in force; none, without any key."""
    db = duckdb.connect()
    db.execute("SET TimeZone = 'UTC'")
    for part in (TABLES, *MACROS):
        db.execute(part.read_text(encoding="utf-8"))
    if doc:
        path = tmp_path / "policy.json"
        path.write_text(json.dumps(doc), encoding="utf-8")
        policy = load(path)
        row = [policy.version, datetime(2026, 1, 1, tzinfo=UTC), str(path), policy.doc]
        db.execute("INSERT INTO policies VALUES (?, ?, ?, ?)", row)
    return db


def ask(db: duckdb.DuckDBPyConnection, macro: str, *values: Any) -> list[Any]:
    """What a macro of one argument says to each value."""
    sql = f"SELECT {macro}(v) FROM (SELECT unnest($values) AS v)"
    return [row[0] for row in db.execute(sql, {"values": list(values)}).fetchall()]


def case_times(name: str) -> list[datetime]:
    lines = (SHARED / "cases/fixtures" / name).read_text(encoding="utf-8").splitlines()
    return [datetime.fromisoformat(json.loads(line)["ts"]) for line in lines]


def test_the_example_loads_and_says_what_a_tool_does() -> None:
    policy = load(EXAMPLE)

    assert policy.op("message.send_sms") == "commit"
    assert policy.op("unheard.of") is None
    assert len(policy.version) == 12
    assert json.loads(policy.doc)["global"]["timezone"] == "Asia/Shanghai"


def test_what_the_file_leaves_out_has_the_documented_default(tmp_path: Path) -> None:
    (tmp_path / "policy.json").write_text("{}")

    controls = load(tmp_path / "policy.json").controls

    assert controls.general.default_action == "deny"
    assert controls.general.unattended_window[0].end == "08:00"
    assert controls.rate_limits.tool_calls_per_minute == 30
    assert controls.budgets.daily_cost_limit_usd == 100
    assert controls.egress is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "not JSON: Input data was truncated."),
        ('{"globl": {}}', "globl: unknown key. Did you mean 'global'?"),
        (
            '{"global": {"time_zone": "UTC"}}',
            "global.time_zone: unknown key. Did you mean 'timezone'?",
        ),
        (
            '{"tools": [{"name": "a", "action": "deny", "opp": 1}]}',
            "tools[0].opp: unknown key. Did you mean 'op'?",
        ),
        (
            '{"tools": [{"name": "a", "action": "deny", "allowed_windows": [{"begin": "1"}]}]}',
            "tools[0].allowed_windows[0].begin: unknown key. Known: end, start.",
        ),
        (
            '{"egress": {"allowed_host": []}}',
            "egress.allowed_host: unknown key. Did you mean 'allowed_hosts'?",
        ),
        ("[]", "Expected `object`, got `array`."),
        (
            '{"tools": [{"name": "a", "action": "maybe"}]}',
            "Invalid enum value 'maybe' - at `$.tools[0].action`.",
        ),
        (
            '{"global": {"timezone": "Mars/Base"}}',
            "global.timezone: 'Mars/Base' is no time zone. Write it like 'Europe/Berlin'.",
        ),
        (
            '{"global": {"timezone": "../etc/passwd"}}',
            "global.timezone: '../etc/passwd' is no time zone. Write it like 'Europe/Berlin'.",
        ),
        (
            '{"global": {"unattended_window": [{"start": "22", "end": "08:00"}]}}',
            "global.unattended_window[0].start: '22' is no time of day. Write it like '22:00'.",
        ),
        (
            '{"global": {"unattended_window": [{"start": "08:00", "end": "08:00"}]}}',
            "global.unattended_window[0]: starts when it ends. The whole day is 00:00 to 24:00.",
        ),
        (
            '{"tools": [{"name": "a", "action": "deny"}, {"name": "a", "action": "allow"}]}',
            "tools[1]: 'a' is there twice.",
        ),
        (
            '{"rate_limits": {"tool_calls_per_minute": -1}}',
            "rate_limits.tool_calls_per_minute: -1 is below 0, and 0 allows nothing.",
        ),
        (
            '{"budgets": {"daily_cost_limit_usd": -0.5}}',
            "budgets.daily_cost_limit_usd: -0.5 is below 0, and 0 allows nothing.",
        ),
        (
            '{"tools": [{"name": "a", "action": "allow", "daily_limit": -3}]}',
            "tools[0].daily_limit: -3 is below 0, and 0 allows nothing.",
        ),
        (
            '{"tools": [{"name": "a", "action": "allow", "allowed_params": ["id", "all"],'
            ' "forbidden_params": ["all"]}]}',
            "tools[0]: the parameter 'all' is allowed and forbidden.",
        ),
        (
            '{"agents": [{"agent": "a1", "allowed_tools": [{"name": "x"}],'
            ' "forbidden_tools": ["x"]}]}',
            "agents[0]: 'x' is allowed and forbidden.",
        ),
        (
            '{"egress": {"allowed_hosts": ["api.*.example"]}}',
            "egress.allowed_hosts[0]: 'api.*.example' is no host. Write a host, an address,"
            " or '*.' and a name for all hosts below it.",
        ),
    ],
)
def test_a_mistake_names_the_place_and_the_right_spelling(
    tmp_path: Path, text: str, problem: str
) -> None:
    path = tmp_path / "policy.json"
    path.write_text(text)

    with pytest.raises(ConfigError) as caught:
        load(path)

    assert str(caught.value) == f"{path}: {problem}"


def test_a_missing_file_is_a_mistake_too(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.json: cannot be read: No such file"):
        load(tmp_path / "nowhere.json")


@pytest.mark.parametrize("pattern", ["*", "*.", "*x.example", "a.*", "*.0.0.1", "*.*.example", ""])
def test_a_wildcard_is_a_whole_first_label_above_a_name(tmp_path: Path, pattern: str) -> None:
    with pytest.raises(ConfigError, match="is no host"):
        store(tmp_path, egress={"allowed_hosts": [pattern]})


def test_hosts_of_the_list_match_only_at_label_borders(tmp_path: Path) -> None:
    hosts = ["API.crm.example.", "*.Bücher.example", "10.0.0.1", "[::1]"]
    db = store(tmp_path, egress={"allowed_hosts": hosts})

    assert all(
        ask(db, "host_listed", "api.crm.example", "a.xn--bcher-kva.example", "10.0.0.1", "::1")
    )
    assert ask(db, "host_listed", "a.b.xn--bcher-kva.example") == [True]
    assert not any(
        ask(db, "host_listed", "xn--bcher-kva.example", "axn--bcher-kva.example", "crm.example",
            "x.api.crm.example", "api.crm.example.evil.net", "110.0.0.1", "10.0.0.10", None)
    )  # fmt: skip


def test_an_empty_list_of_hosts_is_a_list_and_no_list_is_none(tmp_path: Path) -> None:
    asked = "SELECT egress_listed(), host_listed('a.example')"

    assert store(tmp_path).execute(asked).fetchall() == [(False, False)]
    assert store(tmp_path, tools=[]).execute(asked).fetchall() == [(False, False)]
    assert store(tmp_path, egress={"allowed_hosts": []}).execute(asked).fetchall() == [
        (True, False)
    ]


def test_the_night_is_half_open_and_belongs_to_its_evening_b054(tmp_path: Path) -> None:
    db = store(tmp_path, **{"global": {"timezone": "America/New_York"}})
    times = case_times("B054-window-midnight.jsonl")

    assert ask(db, "unattended", *times) == [False, True, True, True, True, False]
    assert set(ask(db, "unattended_night", *times)) == {None, date(2026, 6, 3)}


def test_the_night_of_the_spring_change_has_nine_hours_b056(tmp_path: Path) -> None:
    db = store(tmp_path, **{"global": {"timezone": "America/New_York"}})
    start = datetime(2026, 3, 8, tzinfo=UTC)
    minutes = [start + timedelta(minutes=i) for i in range(24 * 60)]

    nights = ask(db, "unattended_night", *minutes)

    assert ask(db, "unattended", *case_times("B056-dst-spring.jsonl")[:2]) == [True, True]
    assert nights.count(date(2026, 3, 7)) == 9 * 60


@pytest.mark.parametrize(
    ("zone", "day", "hours"),
    [
        ("America/New_York", date(2026, 10, 31), 11.0),
        ("Australia/Lord_Howe", date(2026, 4, 4), 10.5),
        ("Asia/Kathmandu", date(2026, 4, 4), 10.0),
        ("Pacific/Chatham", date(2026, 4, 4), 11.0),
    ],
)
def test_a_night_has_its_real_length_in_every_zone(
    tmp_path: Path, zone: str, day: date, hours: float
) -> None:
    db = store(tmp_path, **{"global": {"timezone": zone}})
    start = datetime(day.year, day.month, day.day, tzinfo=UTC) - timedelta(hours=14)
    minutes = [start + timedelta(minutes=i) for i in range(3 * 24 * 60)]

    assert ask(db, "unattended_night", *minutes).count(day) == hours * 60


def test_a_day_is_a_local_day_b058_b061(tmp_path: Path) -> None:
    shanghai = store(tmp_path, **{"global": {"timezone": "Asia/Shanghai"}})

    assert ask(shanghai, "local_day", *case_times("B058-day-bucket.jsonl")) == [
        date(2026, 3, 9),
        date(2026, 3, 10),
    ]
    nights = ask(store(tmp_path), "local_day", *case_times("B061-session-over-midnight.jsonl"))
    assert [nights.count(date(2026, 3, day)) for day in (9, 10)] == [2, 3]


def test_without_a_policy_the_night_is_22_to_8_in_utc(tmp_path: Path) -> None:
    times = [datetime(2026, 3, 10, hour, tzinfo=UTC) for hour in (7, 8, 21, 22)]

    assert ask(store(tmp_path), "unattended", *times) == [True, False, False, True]


def test_two_windows_a_day_and_none_at_all(tmp_path: Path) -> None:
    times = [datetime(2026, 3, 10, hour, tzinfo=UTC) for hour in (11, 12, 13, 23)]
    windows = [{"start": "12:00", "end": "13:00"}, {"start": "23:00", "end": "24:00"}]

    lunch = store(tmp_path, **{"global": {"unattended_window": windows}})
    never = store(tmp_path, **{"global": {"unattended_window": []}})

    assert ask(lunch, "unattended", *times) == [False, True, False, True]
    assert ask(never, "unattended", *times) == [False] * 4


def test_the_newest_policy_is_in_force(tmp_path: Path) -> None:
    db = store(tmp_path, egress={"allowed_hosts": ["old.example"]})
    newer = json.dumps({"egress": {"allowed_hosts": ["new.example"]}})
    db.execute(
        "INSERT INTO policies VALUES ('b', ?, 'p', ?)", [datetime(2026, 2, 1, tzinfo=UTC), newer]
    )

    assert ask(db, "host_listed", "old.example", "new.example") == [False, True]


def test_the_policy_that_the_book_shows_and_the_one_that_init_writes_load(tmp_path: Path) -> None:
    page = (ROOT / "docs/policy.md").read_text(encoding="utf-8")
    path = tmp_path / "policy.json"
    for text in (page.split("```json\n")[1].split("```")[0], starter.POLICY):
        path.write_text(text, encoding="utf-8")

        assert load(path).controls.rate_limits.recipients_per_message == 5


@pytest.mark.parametrize(
    ("params", "operations", "tables", "deletes"),
    [
        ({"sql": "SELECT a FROM public.customers c, orders o WHERE extract(year from d) = 1"},
         ["SELECT"], ["customers", "orders"], False),
        ({"sql": "select * from t1 a left join `t2` as b using (id) order by a, b"},
         ["SELECT"], ["t1", "t2"], False),
        ({"sql": "WITH r AS (SELECT * FROM orders) DELETE FROM x USING r"},
         ["DELETE"], ["orders", "x"], True),
        ({"query": "select 1; DROP TABLE IF EXISTS foo"}, ["DROP", "SELECT"], ["foo"], True),
        ({"sql": "UPDATE a SET b = (SELECT c FROM d) -- delete from e"},
         ["UPDATE"], ["a", "d"], False),
        ({"sql": "SELECT 'delete from x'"}, ["SELECT"], [], False),
        ({"query": "how to delete from my list of things"}, [], [], False),
        ({"operation": "truncate", "tables": ["A", "b"]}, ["TRUNCATE"], ["a", "b"], True),
        ({"operation": 7, "table": None, "sql": {}}, [], [], False),
        ({}, [], [], False),
    ],
)  # fmt: skip
def test_what_a_call_does_to_a_database_is_read_from_its_parameters(
    params: dict[str, Any], operations: list[str], tables: list[str], deletes: bool
) -> None:
    sql = "SELECT operations_of($p::JSON), tables_of($p::JSON), deletes('run', 'commit', $p::JSON)"
    db = duckdb.connect()
    for part in (TABLES, *MACROS):
        db.execute(part.read_text(encoding="utf-8"))

    assert db.execute(sql, {"p": json.dumps(params)}).fetchall() == [(operations, tables, deletes)]
