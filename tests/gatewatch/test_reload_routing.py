"""The routing tree of a config: in force from the start, taken up when it changes, or refused."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from gatewatch.parts import Parts, open_parts
from gatewatch.reloading import Reloader
from ingest.config import ConfigError, read_settings
from tests.world import at

CONFIG = """
redact_key = "redact.key"
policy = "policy.json"

[receivers.ops]
type = "webhook"
webhook = "https://ops.example/hook"

[receivers.pager]
type = "webhook"
webhook = "https://pager.example/hook"
detectors = ["deny_retry"]
"""
NIGHT = """
[routing]
to = ["ops"]

[[routing.routes]]
when = "unattended"
min_severity = "high"
to = ["pager"]
"""
ALERT = {"severity": "high", "detector": "deny_retry", "subject": "a1", "tenant": "", "about": None}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    windows = [{"start": "17:00", "end": "07:00"}]
    policy = {"global": {"timezone": "UTC", "unattended_window": windows}}
    (tmp_path / "policy.json").write_text(json.dumps(policy))
    (tmp_path / "gatewatch.toml").write_text(CONFIG + NIGHT)
    return tmp_path


@pytest.fixture
def parts(folder: Path) -> Iterator[Parts]:
    opened = open_parts(read_settings(folder / "gatewatch.toml"))
    yield opened
    opened.close()


def told(parts: Parts) -> list[list[str]]:
    """At noon, and at half past five in the afternoon."""
    return [[each.name for each in parts.desk.chosen(ALERT, at(m))] for m in (180, 510)]


def test_routes_and_the_hours_of_the_policy_are_taken_up_and_a_mistake_is_not(
    folder: Path, parts: Parts, caplog: pytest.LogCaptureFixture
) -> None:
    reloader = Reloader(parts, folder / "gatewatch.toml")

    def changed(path: str, text: str) -> str | None:
        (folder / path).write_text(text)
        for _ in range(3):
            reloader.look()
        reloader.adopt()
        return reloader.problem

    assert told(parts) == [["ops"], ["pager"]]
    assert parts.gaps() != []

    assert changed("policy.json", '{"global": {"timezone": "UTC"}}') is None
    assert told(parts) == [["ops"], ["ops"]]  # the night begins at ten now

    both = NIGHT.replace('["pager"]', '["pager", "ops"]')
    assert changed("gatewatch.toml", CONFIG + both.replace("unattended", "attended")) is None
    assert told(parts) == [["pager", "ops"], ["pager", "ops"]]
    assert parts.gaps() == []
    with caplog.at_level(logging.WARNING):
        assert changed("gatewatch.toml", CONFIG + NIGHT) is None
    assert "reload: routing: nobody would be told of a critical alert of " in caplog.text

    problem = changed("gatewatch.toml", CONFIG + NIGHT.replace('"pager"', '"pagr"'))
    assert problem is not None
    assert "routing.routes[0].to: no receiver called 'pagr'. Did you mean 'pager'?" in problem
    assert str(folder) in problem
    assert told(parts) == [["ops"], ["ops"]]


def test_a_service_does_not_start_with_a_mistake_in_its_routes(folder: Path) -> None:
    path = folder / "gatewatch.toml"
    path.write_text(CONFIG + NIGHT.replace("unattended", "unatended"))

    with pytest.raises(ConfigError) as error:
        open_parts(read_settings(path))

    assert str(error.value).startswith(f"{path}: routing.routes[0].when: 'unatended' is neither")
