"""Detectors and policy are taken up while the service runs; what is wrong changes nothing."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from detectors.metrics import RELOADED
from gatewatch.parts import open_parts
from gatewatch.reloading import Reloader
from ingest.config import read_settings
from tests.kit_http import running, until

MINE = """-- title = "{subject} was here"
-- title_zh = "{subject} 来过"
-- severity = "low"
-- why = "It was here."
-- respond = "Look."
-- quiet = "Never."
-- lookback = "0 seconds"
-- gap = "1 minute"
-- needs = []
SELECT agent AS subject, ts AS started_at, ts AS ended_at, [event_id] AS event_ids
FROM events WHERE ts >= $since AND ts < $until AND agent IS NOT NULL
"""
CONFIG = 'redact_key = "redact.key"\npolicy = "policy.json"\ndetectors_folder = "own"\n'


class Reloading:
    """A folder as an operator edits it, and what the service makes of it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, folder / "gatewatch.toml"
        self.path.write_text(CONFIG)
        (folder / "own").mkdir()
        (folder / "own" / "mine.sql").write_text(MINE)
        self.policy({"global": {"timezone": "UTC"}})
        self.parts = open_parts(read_settings(self.path))
        self.reloader = Reloader(self.parts, self.path)

    def policy(self, doc: object) -> None:
        (self.folder / "policy.json").write_text(json.dumps(doc))

    def settle(self) -> bool:
        """The looks of a few seconds: a change is taken up once it has stopped changing."""
        found = [self.reloader.look() for _ in range(3)]
        self.reloader.adopt()
        return any(found)

    def logged(self, action: str) -> list[dict[str, object]]:
        sql = "SELECT detail FROM operator_log WHERE action = $a ORDER BY ledger_seq"
        return [json.loads(row["detail"]) for row in self.parts.rows(sql, a=action)]


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Reloading]:
    made = Reloading(tmp_path)
    yield made
    made.parts.close()


def test_settings_of_a_detector_are_in_force_and_noted(service: Reloading) -> None:
    kept = service.parts.detectors["deny_rotation"]
    service.path.write_text(
        CONFIG + "[detectors.deny_retry]\ndenials = 7\n[detectors.silent_source]\nenabled = false\n"
    )

    assert service.settle()

    assert service.parts.engine.detectors["deny_retry"].values["denials"] == 7
    assert "silent_source" not in service.parts.detectors
    assert service.parts.detectors["deny_rotation"] is kept
    assert service.logged("detectors") == [
        {"changed": ["deny_retry"], "removed": ["silent_source"]}
    ]
    assert service.reloader.problem is None


def test_nothing_is_loaded_where_nothing_has_changed(service: Reloading) -> None:
    service.path.touch()

    assert not service.settle()
    assert service.logged("detectors") == []


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ("[detectors.deny_retri]\n", "detectors.deny_retri: no such detector. Did you mean 'deny_"),
        ("[detectors.deny_retry]\ndenials = 1\n", "deny_retry.denials: 1 is below the minimum, 2."),
        ("[detectors.deny_retry\n", "not TOML"),
        ('[detectors.deny_retry]\nwithin = "9 days"\n', "above the maximum"),
    ],
)
def test_a_mistake_leaves_the_last_good_in_force_until_it_is_mended(
    service: Reloading, table: str, says: str
) -> None:
    before = dict(service.parts.detectors)
    service.path.write_text(CONFIG + table)

    service.settle()

    assert service.parts.engine.detectors == before
    assert says in str(service.reloader.problem)
    assert str(service.path) in str(service.reloader.problem)
    assert service.reloader.own()[RELOADED] == 0.0
    service.path.write_text(CONFIG)
    service.settle()
    assert service.reloader.problem is None
    assert service.reloader.own()[RELOADED] == 1.0


def test_a_detector_of_ones_own_is_taken_up_changed_broken_and_removed(service: Reloading) -> None:
    mine, other = service.folder / "own" / "mine.sql", service.folder / "own" / "other.sql"
    first = service.parts.detectors["mine"].version
    mine.write_text(MINE.replace("1 minute", "2 minutes"))
    other.write_text(MINE)
    service.settle()
    second = service.parts.detectors["mine"].version
    assert second != first
    assert "other" in service.parts.detectors

    mine.write_text(MINE.replace("FROM events", "FROM evnets"))
    service.settle()
    assert service.parts.detectors["mine"].version == second
    assert "evnets" in str(service.reloader.problem)

    mine.unlink()
    service.settle()
    assert "mine" not in service.parts.detectors
    assert service.reloader.problem is None


def test_a_policy_is_put_in_force_and_a_wrong_one_is_not(service: Reloading) -> None:
    service.policy({"global": {"timezone": "Asia/Tokyo"}})
    service.settle()
    assert service.parts.rows("SELECT local_zone() AS zone") == [{"zone": "Asia/Tokyo"}]
    assert len(service.logged("policy")) == 2

    service.policy({"global": {"timezone": "Asia/Tokio"}})
    service.settle()
    assert service.parts.rows("SELECT local_zone() AS zone") == [{"zone": "Asia/Tokyo"}]
    assert "policy.json" in str(service.reloader.problem)


def test_protocols_are_put_in_force_and_a_wrong_one_is_not(service: Reloading) -> None:
    till = service.folder / "protocols" / "till.toml"
    till.parent.mkdir()
    till.write_text('initial = "start"\nfinal = ["paid"]\n[transitions.start]\npay = "paid"\n')
    service.path.write_text(CONFIG + 'protocols_folder = "protocols"\n')
    service.settle()
    assert len(service.parts.rows("SELECT 1 FROM protocols")) == 1

    till.write_text(till.read_text() + 'refund = "paid"\n')
    service.settle()
    assert len(service.parts.rows("SELECT 1 FROM protocols")) == 2

    till.write_text(till.read_text().replace('["paid"]', '["over"]'))
    service.settle()
    assert len(service.parts.rows("SELECT 1 FROM protocols")) == 2
    assert "till.toml" in str(service.reloader.problem)


def test_half_a_file_is_not_a_mistake(service: Reloading) -> None:
    service.path.write_text(CONFIG + "[detectors.deny_re")
    assert not service.reloader.look()
    service.path.write_text(CONFIG + "[detectors.deny_retry]\ndenials = 7\n")
    assert not service.reloader.look()
    assert service.reloader.problem is None

    assert service.settle()


def test_what_takes_a_restart_is_said_and_the_rest_is_in_force(
    service: Reloading, caplog: pytest.LogCaptureFixture
) -> None:
    service.path.write_text('language = "zh"\n' + CONFIG + "[detectors.deny_retry]\ndenials = 7\n")

    service.settle()

    assert "language: this takes a restart of the service." in caplog.text
    assert service.parts.settings.language == "en"
    assert service.parts.detectors["deny_retry"].values["denials"] == 7


LINKS = '[links]\nurl = "https://gatewatch.example"\nkey = "{key}"\n'


def test_a_secret_that_is_as_it_was_takes_no_restart(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "gatewatch.toml"
    config, more = 'redact_key = "redact.key"\n', "[detectors.deny_retry]\ndenials = 7\n"
    path.write_text(config + LINKS.format(key="a" * 32))
    parts = open_parts(read_settings(path))
    reloader = Reloader(parts, path)

    path.write_text(config + LINKS.format(key="a" * 32) + more)
    assert [reloader.look() for _ in range(3)].count(True) == 1
    assert "restart" not in caplog.text

    path.write_text(config + LINKS.format(key="b" * 32) + more)
    assert [reloader.look() for _ in range(3)].count(True) == 1
    assert "links: this takes a restart of the service." in caplog.text
    parts.close()


def test_a_running_service_takes_up_a_change_and_shows_a_mistake(tmp_path: Path) -> None:
    with running(tmp_path) as service:
        path = tmp_path / "gatewatch.toml"
        good = path.read_text()
        path.write_text(f"{good}\n[detectors.deny_retry]\ndenial = 3\n")
        os.kill(service.process.pid, signal.SIGHUP)
        until(lambda: "denial" in service.http.get("/readyz").json()["reload"])
        assert service.http.get("/readyz").status_code == 503
        assert "gatewatch_config_last_reload_successful 0.0" in service.http.get("/metrics").text

        path.write_text(f"{good}\n[detectors.deny_retry]\ndenials = 4\n")
        until(lambda: service.http.get("/readyz").json()["reload"] == "ok")
        until(lambda: service.rows("SELECT 1 FROM operator_log WHERE action = 'detectors'"))
        assert "gatewatch_config_last_reload_successful 1.0" in service.http.get("/metrics").text
