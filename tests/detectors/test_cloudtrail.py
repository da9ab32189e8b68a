"""Detectors on a real attack exercise: 2,900 CloudTrail events of 55 minutes, of which 214 are the
attack tool's, with 58 of the 60 denials. What nobody planted must be found, and little else.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from detectors import detector, engine
from detectors.alerts import Found
from ingest.batch import Batch
from ingest.land import Lander
from ingest.ledger import Ledger
from ingest.redact import Redactor
from ingest.store import Db, memory_store
from tests.kit import ROOT

FILES = sorted((ROOT.parent / "shared/data/cloudtrail_stratus/CloudTrail").glob("*.json"))
ATTACK = re.compile(r"^\[?stratus-red-team_")  # the user agent of the attack tool


@pytest.fixture(scope="module")
def cloudtrail(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Db]:
    made = memory_store()
    ledger = Ledger(tmp_path_factory.mktemp("cloudtrail") / "ledger")
    lander = Lander(made, ledger, Redactor(b"key"))
    lines = [json.dumps(each).encode() for path in FILES for each in _records(path)]
    lander.land(Batch("aws", "cloudtrail", tuple(lines)), datetime(2023, 7, 10, 13, tzinfo=UTC))
    ledger.close()
    with made.writing() as db:
        yield db


@pytest.fixture(scope="module")
def alerts(cloudtrail: Db) -> list[Found]:
    span = engine.history(cloudtrail)
    assert span is not None
    every = detector.load_all(cloudtrail).values()
    return engine.backtest(cloudtrail, every, span[0], span[1] + timedelta(days=1))


def _records(path: Path) -> list[dict[str, object]]:
    records: list[dict[str, object]] = json.loads(path.read_bytes())["Records"]
    return records


def _of(alerts: list[Found], name: str) -> list[Found]:
    return [each for each in alerts if each.detector == name]


@pytest.mark.parametrize(
    ("call", "denials"),
    [("ec2.GetPasswordData", 29), ("ec2.DescribeInstanceAttribute", 15), ("sts.AssumeRole", 13)],
)
def test_a_streak_of_denials_is_found(alerts: list[Found], call: str, denials: int) -> None:
    [found] = [each for each in _of(alerts, "deny_retry") if each.facts["tool"] == call]

    assert found.facts["denials"] == denials


def test_every_streak_of_denials_is_the_attack_tools(cloudtrail: Db, alerts: list[Found]) -> None:
    agents = dict(
        cloudtrail.execute("SELECT event_id, attrs ->> '$.user_agent' FROM events").fetchall()
    )
    found = _of(alerts, "deny_retry")

    assert all(ATTACK.match(agents[each]) for alert in found for each in alert.event_ids)
    assert len(found) == 3


@pytest.mark.parametrize(
    "thing", ["iam/malicious-iam-user", "iam/stratus-red-team-backdoor-r-role"]
)
def test_what_the_attack_changes_again_and_again_is_found(alerts: list[Found], thing: str) -> None:
    assert thing in {each.subject for each in _of(alerts, "config_churn")}


def test_people_and_roles_that_are_no_agents_are_quiet(alerts: list[Found]) -> None:
    """Nothing here is an agent's, nothing was approved, and no clock of ours was running."""
    loud = {each.detector for each in alerts}

    assert not loud & {
        "shared_account", "personal_account", "unapproved_config_change", "sequence_gap",
        "clock_skew", "unapproved_execution", "undecided_execution", "rubber_stamp",
    }  # fmt: skip


def test_the_whole_catalogue_is_quiet_enough_to_be_read(alerts: list[Found]) -> None:
    """`pytest -s` shows how many of each. A person can look through thirty."""
    counts = Counter(each.detector for each in alerts)
    print(*(f"{name:24} {count}" for name, count in sorted(counts.items())), sep="\n")  # noqa: T201

    assert counts.total() <= 30
