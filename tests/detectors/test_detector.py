"""What loading a detector refuses, in whole sentences, and how a row is worded."""

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from detectors import detector
from ingest.config import ConfigError
from tests.kit import ROOT, allowed, at, denied, loaded, numbered, store

GOOD = """-- title     = "{subject}: {calls} calls of {tool}"
-- title_zh  = "{subject}：{calls} 次"
-- severity  = "low"
-- why       = "w"
-- respond   = "r"
-- quiet     = "q"
-- lookback  = "1 hour"
-- gap       = "10 minutes"
-- needs     = ["agent"]
-- [params]
-- calls     = { type = "integer", default = 3, min = 2, max = 7 }
-- within    = { type = "interval", default = "10 minutes", max = "1 hour" }
-- share     = { type = "number", default = 0.5 }
-- how       = { type = "text", default = "mean", choices = ["mean", "median"] }
SELECT agent AS subject, ts AS started_at, ts AS ended_at, event_ids, tool,
       $share AS share, $how AS how
FROM calls
WHERE ts >= $since - $lookback AND ts < $until
  AND ts >= $since - $within AND len(event_ids) >= $calls
"""


def written(folder: Path, text: str, name: str = "mine") -> Path:
    path = folder / f"{name}.sql"
    path.write_text(text, encoding="utf-8")
    return path


def load(folder: Path, text: str = GOOD, **settings: Any) -> detector.Detector:
    return detector.load(written(folder, text), store(), settings, "gatewatch.toml: detectors.mine")


def test_a_good_file_loads_with_its_times_and_the_users_values(tmp_path: Path) -> None:
    found = load(tmp_path, calls=4, within="5 minutes")

    assert (found.id, found.lookback, found.gap) == (
        "mine",
        timedelta(hours=1),
        timedelta(minutes=10),
    )
    assert found.values["calls"] == 4
    assert found.values["within"] == timedelta(minutes=5)


def test_another_text_or_another_value_is_another_version(tmp_path: Path) -> None:
    versions = [
        load(tmp_path).version,
        load(tmp_path, calls=4).version,
        load(tmp_path, GOOD + "-- more\n").version,
    ]

    assert len(set(versions)) == 3
    assert load(tmp_path).version == versions[0]


@pytest.mark.parametrize(
    ("was", "now", "problem"),
    [
        ("severity  =", "severty  =", "unknown key 'severty'. Did you mean 'severity'?"),
        ('"low"', '"loud"', "Invalid enum value 'loud' - at `$.severity`."),
        ("-- why       =", "-- why", "the header is not TOML: "),
        ("{tool}", "{toool}", "a title names 'toool'. Did you mean 'tool'?"),
        ("{tool}", "{tool.x}", "a title names 'tool.x'. Did you mean 'tool'?"),
        (">= $calls", ">= $call", "the header does not declare $call. Did you mean 'calls'?"),
        (">= $calls", ">= 3", "the query never uses $calls."),
        ("$since - $lookback", "$since", "the query never uses $lookback."),
        ("agent AS subject", "agent AS subjekt", "subject must be VARCHAR, found None."),
        (
            "agent AS subject",
            "agent AS subject, 3 AS severity",
            "severity must be VARCHAR, found INTEGER.",
        ),
        ("agent AS subject", "agnt AS subject", "Binder Error: "),
        ("SELECT agent", "SELEC agent", "Parser Error: "),
        (
            "SELECT agent",
            "DROP TABLE calls; SELECT agent",
            "a detector is one SELECT, nothing else.",
        ),
        (
            "SELECT agent",
            "WITH x AS (INSERT INTO calls (call_key) VALUES ('x') RETURNING 1) SELECT agent",
            "",
        ),
        ("FROM calls", "FROM alerts", "a detector may not read alerts: only what happened."),
        ("default = 3", "default = 8", "params.calls: 8 is above the maximum, 7."),
        ("-- calls ", "-- until ", "a parameter can't be called 'until'."),
        ('lookback  = "1 hour"', 'lookback  = "soon"', "lookback: 'soon' is not of type interval."),
    ],
)
def test_a_wrong_file_is_refused_by_name(tmp_path: Path, was: str, now: str, problem: str) -> None:
    assert was in GOOD

    with pytest.raises(ConfigError) as caught:
        load(tmp_path, GOOD.replace(was, now, 1))

    assert str(caught.value).startswith(f"{tmp_path / 'mine.sql'}: {problem}")


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"call": 3}, ".call: no such key. Did you mean 'calls'?"),
        ({"calls": 8}, ".calls: 8 is above the maximum, 7."),
        ({"calls": 1}, ".calls: 1 is below the minimum, 2."),
        ({"calls": 3.7}, ".calls: 3.7 is not of type integer."),
        ({"calls": True}, ".calls: True is not of type integer."),
        ({"calls": "3"}, ".calls: '3' is not of type integer."),
        ({"within": "2 hours"}, ".within: '2 hours' is above the maximum, 1 hour."),
        ({"within": "ten minutes"}, ".within: 'ten minutes' is not of type interval."),
        ({"how": "meen"}, ".how: 'meen' is no choice. Did you mean 'mean'?"),
        (
            {"lookback": "2 hours"},
            ".lookback: no such key. Known: calls, how, share, within.",
        ),
    ],
)
def test_a_wrong_setting_is_refused_by_name(
    tmp_path: Path, settings: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, **settings)

    assert str(caught.value) == f"gatewatch.toml: detectors.mine{problem}"


def test_a_row_that_depends_on_its_instant_alone_needs_no_lookback(tmp_path: Path) -> None:
    text = GOOD.replace('"1 hour"', '"0 seconds"', 1).replace(" - $lookback", "")

    assert load(tmp_path, text).lookback == timedelta(0)
    with pytest.raises(ConfigError, match="does not declare \\$lookback"):
        load(tmp_path, GOOD.replace('"1 hour"', '"0 seconds"', 1))


def test_the_whole_catalogue_loads_with_a_users_folder_and_settings(tmp_path: Path) -> None:
    written(tmp_path, GOOD)
    settings: dict[str, Any] = {
        "mine": {"calls": 5},
        "deny_retry": {"denials": 4},
        "config_churn": {"enabled": False},
    }

    found = detector.load_all(store(), settings, [tmp_path])

    assert sorted(found) == sorted({*detector.names(), "mine"} - {"config_churn"})
    assert found["mine"].values["calls"] == 5
    assert found["deny_retry"].values["denials"] == 4


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"deny_rety": {}}, "detectors.deny_rety: no such detector. Did you mean 'deny_retry'?"),
        (
            {"deny_retry": {"enabled": "no"}},
            "detectors.deny_retry.enabled: 'no' is not true or false.",
        ),
        (
            {"deny_retry": {"denials": 9, "enabled": False}},
            "detectors.deny_retry.denials: 9 is above the maximum, 7.",
        ),
    ],
)
def test_a_wrong_table_of_settings_is_refused_by_name(
    settings: dict[str, dict[str, Any]], problem: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        detector.load_all(store(), settings)

    assert str(caught.value) == f"gatewatch.toml: {problem}"


def test_a_users_file_can_not_replace_one_of_ours_nor_name_an_unknown_one(tmp_path: Path) -> None:
    written(tmp_path, GOOD, "deny_retry")
    with pytest.raises(ConfigError, match="there is a detector 'deny_retry' already"):
        detector.load_all(store(), {}, [tmp_path])

    (tmp_path / "deny_retry.sql").unlink()
    written(tmp_path, GOOD.replace("-- needs", '-- inhibited_by = ["deny_rety"]\n-- needs'))
    with pytest.raises(ConfigError, match="inhibited_by names 'deny_rety'"):
        detector.load_all(store(), {}, [tmp_path])

    with pytest.raises(ConfigError, match="nowhere is no folder"):
        detector.load_all(store(), {}, [tmp_path / "nowhere"])


def test_a_detector_says_whether_the_policy_changes_its_rows() -> None:
    found = detector.load_all(store())

    by_policy = {each.id for each in found.values() if each.by_policy}
    assert by_policy >= {"config_churn", "limit_exceeded", "policy_mismatch", "protocol_violation"}
    assert not by_policy & {"deny_retry", "silent_source", "repeated_commit"}


def test_every_macro_that_reads_the_policy_is_known_by_its_name() -> None:
    text = "".join(path.read_text("utf-8") for path in (ROOT / "ingest").glob("*.sql"))
    bare = re.sub(r"--.*|'[^'\n]*'", "", text)
    _, *parts = re.split(r"CREATE OR REPLACE MACRO (\w+)", bare)
    bodies = dict(zip(parts[::2], parts[1::2], strict=True))
    reading, found = set[str](), {name for name in bodies if "FROM policies" in bodies[name]}
    while found:
        reading |= found
        call = re.compile(rf"\b({'|'.join(reading)})\s*\(")
        found = {name for name in bodies.keys() - reading if call.search(bodies[name])}

    assert reading > {"policy_doc", "local_zone", "host_listed"}
    assert [name for name in sorted(reading) if not detector.BY_POLICY.search(f"{name}(")] == []


def test_the_catalogue_is_listed_without_reading_a_file() -> None:
    assert detector.names() == sorted(
        path.stem for path in detector.CATALOGUE.glob("*.*") if path.suffix in (".py", ".sql")
    )


def test_a_title_holds_each_value_on_one_line_and_short() -> None:
    each = loaded("deny_rotation", store())
    row = {"subject": "t-1\n# x\u202e\x1b[31m", "denials": 5, "tools": ["a", None, "b" * 500]}

    english, chinese = detector.word(each, row)

    assert english.startswith("t-1 # x [31m: 5 denials in 10 minutes, over a, ?, bbb")
    assert chinese.startswith("t-1 # x [31m：10 分钟内被拒 5 次，涉及 a、?、bbb")
    assert len(english) < 300
    assert english.endswith("…")


HOT = """-- hot       = "FROM calls WHERE ts >= $since AND ts < $until AND decision = 'deny'"
-- [params]
"""


def test_what_cannot_fire_is_asked_for_no_further(tmp_path: Path) -> None:
    text = GOOD.replace("-- [params]\n", HOT).replace(">= $calls", ">= $calls - 2")
    found = numbered([*denied("09:00"), *allowed("09:10")])
    db = store(found)
    each = load(tmp_path, text)

    assert len(detector.find(each, db, at("09:00"), at("09:01"))) == 1
    assert detector.find(each, db, at("09:10"), at("09:11")) == []
    assert len(detector.find(load(tmp_path, text.replace(HOT, "-- [params]\n")), db,
                             at("09:10"), at("09:11"))) == 2  # fmt: skip


@pytest.mark.parametrize(
    ("was", "now", "says"),
    [
        ("ts < $until AND", "", "the query never uses $until."),
        ("FROM calls", "FROM alerts", "a detector may not read alerts: only what happened."),
        ("decision =", "decison =", "Binder Error: Referenced column"),
        ("FROM calls", "DELETE FROM calls", "a detector is one SELECT, nothing else."),
    ],
)
def test_what_is_hot_is_checked_as_the_query_is(
    tmp_path: Path, was: str, now: str, says: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, GOOD.replace("-- [params]\n", HOT.replace(was, now)))

    assert str(caught.value).startswith(f"{tmp_path / 'mine.sql'}: {says}")
