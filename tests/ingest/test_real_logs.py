"""CloudTrail as AWS wrote it, under an attack that somebody else staged, through the command.

../shared/data/cloudtrail_stratus: 2,900 records in 55 files, 60 of them refused.
"""

import gzip
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gatewatch.cli import app
from tests.world import World

LOGS = sorted(
    (Path(__file__).parents[3] / "shared" / "data" / "cloudtrail_stratus").glob("CloudTrail/*.json")
)


def records() -> list[dict[str, Any]]:
    return [each for log in LOGS for each in json.loads(log.read_bytes())["Records"]]


def ingest(folder: Path, *logs: Path) -> dict[str, Any]:
    command = ["ingest", *map(str, logs), "--adapter", "cloudtrail", "--json"]
    done = CliRunner().invoke(app, [*command, "--db", str(folder / "gatewatch.duckdb")])
    assert done.exit_code == 0, done.output
    said: dict[str, Any] = json.loads(done.stdout)
    return {key: said[key] for key in ("lines", "events", "duplicates", "quarantined")}


@pytest.fixture(scope="module")
def landed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the database that all the files have gone into."""
    folder = tmp_path_factory.mktemp("stratus")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
        assert len(LOGS) == 55
        said = ingest(folder, *LOGS)
        assert said == {"lines": 2_900, "events": 2_900, "duplicates": 0, "quarantined": 0}
        yield folder


def ask(folder: Path, sql: str) -> list[dict[str, Any]]:
    world = World(folder, policy=None)
    try:
        return world.rows(sql)
    finally:
        world.close()


def test_every_record_is_an_event_at_the_time_it_says(landed: Path) -> None:
    rows = ask(landed, "SELECT native_id, strftime(ts, '%Y-%m-%dT%H:%M:%SZ') AS at FROM events")

    assert Counter((row["native_id"], row["at"]) for row in rows) == Counter(
        (each["eventID"], each["eventTime"]) for each in records()
    )


def test_what_was_refused_is_a_denial_and_nothing_else_is(landed: Path) -> None:
    rows = ask(landed, "SELECT native_id, kind, status FROM events WHERE decision IS NOT NULL")

    refused = {each["eventID"] for each in records() if each.get("errorCode") in
               ("AccessDenied", "Client.UnauthorizedOperation")}  # fmt: skip
    assert len(refused) == len(rows) == 60
    assert {row["native_id"] for row in rows} == refused
    assert {(row["kind"], row["status"]) for row in rows} == {("tool_decided", "denied")}


def test_what_the_account_was_made_to_be_is_a_change(landed: Path) -> None:
    rows = ask(landed, "SELECT native_id, tool FROM events WHERE kind = 'config_changed'")

    done = [each for each in records() if each["readOnly"] is False and not each.get("errorCode")
            and each["eventType"] == "AwsApiCall"]  # fmt: skip
    reports = {"UpdateInstanceInformation", "UpdateInstanceAssociationStatus", "PutInventory",
               "PutComplianceItems"}  # fmt: skip
    assert {row["native_id"] for row in rows} == {
        each["eventID"] for each in done if each["eventName"] not in reports
    }
    assert {"cloudtrail.DeleteTrail", "iam.AttachRolePolicy"} <= {row["tool"] for row in rows}


def test_throttling_is_no_denial(landed: Path) -> None:
    [row] = ask(landed, "SELECT count(*) AS n FROM events WHERE list_contains(signals, 'throttled')"
                        " AND decision IS NULL AND status = 'error'")  # fmt: skip

    assert row["n"] == 102


def test_the_attack_is_found(landed: Path) -> None:
    world = World(landed, policy=None)
    try:
        found = world.backtest()
    finally:
        world.close()

    assert {"'deny_retry'", "'deny_rotation'", "'config_churn'"} <= {each[0] for each in found}
    assert any("stratus-red-team" in subject for row in found for subject in row[:-1])


def test_all_of_it_again_on_one_line_of_one_file_adds_nothing(landed: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.json.gz"
    text = json.dumps({"Records": records()}).encode()
    assert len(text) > 3 * 1024 * 1024  # far over limits.line_bytes
    again.write_bytes(gzip.compress(text))

    said = ingest(landed, again)

    assert said == {"lines": 2_900, "events": 0, "duplicates": 2_900, "quarantined": 0}
