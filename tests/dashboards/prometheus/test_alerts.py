"""The Prometheus rules that ship: each fires on trouble, is quiet before, and can be acted on."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import yaml

from detectors import metrics
from gatewatch import pushing
from ingest.store import memory_store
from tests.world import at

HERE = Path(__file__).parent
ALERTS = HERE.parents[2] / "dashboards/prometheus/alerts.yml"
RULES: list[dict[str, Any]] = yaml.safe_load(ALERTS.read_text())["groups"][0]["rules"]


def promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = shutil.which("promtool")
    assert program, "this test needs promtool: apt-get install prometheus"
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=False)


def test_promtool_finds_the_rules_right() -> None:
    checked = promtool("check", "rules", str(ALERTS))

    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_each_rule_is_quiet_at_first_and_fires_on_its_trouble(tmp_path: Path) -> None:
    bare = [{name: rule[name] for name in rule if name != "annotations"} for rule in RULES]
    groups = {"groups": [{"name": "gatewatch", "rules": bare}]}  # the words are not what is tested
    (tmp_path / "alerts.yml").write_text(yaml.safe_dump(groups))
    played = (HERE / "alerts_test.yml").read_text()
    (tmp_path / "played.yml").write_text(played.replace("ALERTS", "alerts.yml"))

    result = promtool("test", "rules", str(tmp_path / "played.yml"))

    assert result.returncode == 0, result.stdout + result.stderr
    assert {rule["alert"] for rule in RULES} == set(re.findall(r"alertname: (\w+)", played))


def test_every_metric_in_a_rule_is_one_that_the_service_shows() -> None:
    page = metrics.page(memory_store(), {}, (), (0, "00"), at(0)).decode()
    shown = set(re.findall(r"^# TYPE (\w+)", page, re.MULTILINE)) | pushing.METRICS.keys()

    used = {name for rule in RULES for name in re.findall(r"gatewatch_\w+", rule["expr"])}
    assert used
    assert used - shown == set()


def test_every_rule_has_a_severity_a_summary_and_a_runbook() -> None:
    for rule in RULES:
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert rule["annotations"].keys() == {"summary", "runbook_url"}


def test_every_rule_has_its_section_in_the_runbooks_and_every_section_its_rule() -> None:
    page = (ALERTS.parents[2] / "docs/runbooks.md").read_text()
    sections = re.findall(r"^## (\w+)$", page, re.MULTILINE)

    assert sections == [rule["alert"] for rule in RULES]
    for rule in RULES:
        anchor = f"docs/runbooks.md#{rule['alert'].lower()}"
        assert rule["annotations"]["runbook_url"] == anchor
