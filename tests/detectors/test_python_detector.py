"""A detector that is a Python file: the same header, the same promises, the same errors."""

from datetime import timedelta
from pathlib import Path

import pytest

from detectors import detector
from ingest.config import ConfigError
from tests.kit import at, denied, numbered, store

GOOD = '''# title     = "{subject}: {calls} calls"
# title_zh  = "{subject}：{calls} 次"
# severity  = "low"
# why       = "w"
# respond   = "r"
# quiet     = "q"
# lookback  = "1 hour"
# gap       = "10 minutes"
# needs     = ["agent"]
# facts     = ["calls"]
# [params]
# calls     = { type = "integer", default = 3, min = 2, max = 7 }
"""A detector for the test."""

from datetime import datetime, timedelta
from typing import Any

from ingest.store import Db, fetch

SQL = """
    SELECT agent AS subject, min(ts) AS started_at, max(ts) AS ended_at, count(*) AS calls,
        list_sort(list(event_ids[1])) AS event_ids
    FROM calls WHERE ts >= $since AND ts < $until GROUP BY agent
"""


def find(
    db: Db, since: datetime, until: datetime, *, lookback: timedelta, calls: int
) -> list[dict[str, Any]]:
    rows = fetch(db, SQL, since=since, until=until)
    return [row for row in rows if row["calls"] >= calls]
'''


def load(folder: Path, text: str = GOOD) -> detector.Detector:
    path = folder / "mine.py"
    path.write_text(text, encoding="utf-8")
    return detector.load(path, store(), {}, "gatewatch.toml: detectors.mine")


def test_it_is_found_in_a_folder_runs_and_is_worded(tmp_path: Path) -> None:
    load(tmp_path)
    db = store(numbered(denied("09:00", "09:01", "09:02")))

    each = detector.load_all(db, {"mine": {"calls": 2}}, [tmp_path])["mine"]
    [row] = detector.find(each, db, at("08:00"), at("10:00"))

    assert (row["subject"], row["calls"]) == ("a1", 3)
    assert detector.word(each, row) == ("a1: 3 calls", "a1：3 次")
    assert each.lookback == timedelta(hours=1)


def test_another_text_is_another_version(tmp_path: Path) -> None:
    first = load(tmp_path).version

    assert load(tmp_path, GOOD.replace('"q"', '"r"')).version != first
    assert load(tmp_path).version == first


MISTAKES = [
    ("def find", "def found", "there is no function `find(db, since, until, ...)`."),
    ("calls: int", "call: int", "the header does not declare $call. Did you mean 'calls'?"),
    (", calls: int", "", "the query never uses $calls."),
    ('facts     = ["calls"]', "facts     = []", None),
    ("from ingest.store", "from ingest.stor", "ModuleNotFoundError: No module named 'ingest.stor'"),
    ("FROM calls", "FROM alerts", "a detector may not read alerts: only what happened."),
    ("FROM calls", "FROM cals", "Catalog Error: Table with name cals does not exist!"),
    ('"low"', '"lo"', "Invalid enum value 'lo' - at `$.severity`."),
]


@pytest.mark.parametrize(("was", "now", "says"), MISTAKES)
def test_a_wrong_file_is_refused_by_name(
    tmp_path: Path, was: str, now: str, says: str | None
) -> None:
    assert was in GOOD
    if says is None:  # a parameter is a fact by itself
        load(tmp_path, GOOD.replace(was, now, 1))
        return

    with pytest.raises(ConfigError) as caught:
        load(tmp_path, GOOD.replace(was, now, 1))

    assert str(caught.value).startswith(f"{tmp_path / 'mine.py'}: {says}")


def test_a_title_names_only_facts(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, GOOD.replace("{calls} calls", "{cals} calls", 1))

    assert "a title names 'cals'. Did you mean 'calls'?" in str(caught.value)


def test_two_files_of_one_name_are_refused(tmp_path: Path) -> None:
    load(tmp_path)
    (tmp_path / "mine.sql").write_text("SELECT 1")

    with pytest.raises(ConfigError) as caught:
        detector.files(tmp_path)

    assert str(caught.value) == f"{tmp_path / 'mine.sql'}: there is mine.py beside it."
