"""The Grafana board that ships: it fits Grafana's JSON model, and asks only for what there is.

The model: https://grafana.com/docs/grafana/latest/dashboards/build-dashboards/view-dashboard-json-model/
"""

import json
import re
import subprocess
from itertools import combinations
from pathlib import Path
from typing import Any

import yaml

from detectors import metrics
from ingest.store import memory_store
from tests.world import at

BOARD = Path(__file__).parents[3] / "dashboards/grafana/gatewatch.json"
MODEL: dict[str, Any] = json.loads(BOARD.read_text(encoding="utf-8"))
PANELS: list[dict[str, Any]] = MODEL["panels"]
SHOWN = [panel for panel in PANELS if panel["type"] != "row"]
TARGETS: list[dict[str, Any]] = [target for panel in SHOWN for target in panel["targets"]]
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
KEYS = {  # of a dashboard, with the types of the model
    "id": type(None), "uid": str, "title": str, "tags": list, "timezone": str, "editable": bool,
    "graphTooltip": int, "panels": list, "time": dict, "timepicker": dict, "templating": dict,
    "annotations": dict, "refresh": str, "schemaVersion": int, "version": int, "links": list,
}  # fmt: skip
OWN = {"job", "instance", "le"}  # labels that Prometheus adds


def test_the_board_has_the_keys_of_the_model() -> None:
    assert {key: type(MODEL.get(key, "")) for key in KEYS} == KEYS
    assert MODEL["schemaVersion"] >= 36  # since then a data source is {type, uid}
    assert [panel["title"] for panel in PANELS if panel["type"] == "row"] == [
        "Overview", "Sources", "Detectors", "Alerts", "Deliveries", "Ledger and process",
    ]  # fmt: skip


def test_every_panel_has_an_id_of_its_own_and_a_place_of_its_own() -> None:
    places = [panel["gridPos"] for panel in PANELS]

    assert len({panel["id"] for panel in PANELS}) == len(PANELS)
    for place in places:
        assert place["x"] >= 0
        assert place["x"] + place["w"] <= 24
        assert place["w"] > 0
        assert place["h"] > 0
    for one, other in combinations(places, 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        above = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or above, (one, other)


def test_every_panel_says_what_it_shows_and_asks_the_chosen_prometheus() -> None:
    variables = {each["name"]: each for each in MODEL["templating"]["list"]}

    assert variables["datasource"]["type"] == "datasource"
    assert variables["datasource"]["query"] == "prometheus"
    for panel in SHOWN:
        assert panel["type"] in ("stat", "timeseries", "table")
        assert panel["title"]
        assert panel["datasource"] == SOURCE
        assert {"fieldConfig", "options", "targets"} <= panel.keys()
        refs = [target["refId"] for target in panel["targets"]]
        assert len(set(refs)) == len(refs)
        assert all(target["datasource"] == SOURCE for target in panel["targets"])
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(MODEL))) - {"__rate_interval", "__range"}
    assert used == variables.keys()


def questions() -> list[str]:
    """Every expression of the board, as Grafana would send it."""
    found = [target["expr"] for target in TARGETS]
    found += [each["expr"] for each in MODEL["annotations"]["list"] if "expr" in each]
    values = {"$__rate_interval": "1m", "$__range": "6h", "$job": "gatewatch", "$instance": ".*"}
    for name, value in values.items():
        found = [expr.replace(name, value) for expr in found]
    return found


def test_prometheus_can_read_every_expression(tmp_path: Path) -> None:
    rules = [{"record": f"board:{n}", "expr": expr} for n, expr in enumerate(questions())]
    path = tmp_path / "board.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "board", "rules": rules}]}))

    done = subprocess.run(
        ["promtool", "check", "rules", str(path)], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert len(rules) > 40


def test_every_expression_names_metrics_and_labels_that_there_are() -> None:
    families = metrics.collected(memory_store(), {}, (), (0, "00"), at(0))
    labels: dict[str, set[str]] = {}
    for each in families:
        suffixes = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}
        for suffix in suffixes.get(each.kind, ("",)):
            labels[each.name + suffix] = set(each.labels)

    for target in TARGETS:
        names = re.findall(r"gatewatch_\w+(?=\{)", target["expr"])
        known = set().union(*(labels[name] for name in names)) | OWN
        by = re.findall(r"by \(([^)]*)\)", target["expr"])
        asked = {label.strip() for group in by for label in group.split(",")}
        told = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
        assert asked | told <= known, target["expr"]
        assert not by or told <= asked | OWN, target["expr"]


def test_the_board_shows_every_metric_that_an_alert_rule_asks_for() -> None:
    rules = (BOARD.parents[1] / "prometheus/alerts.yml").read_text(encoding="utf-8")
    wanted = set(re.findall(r"gatewatch_\w+", "\n".join(
        rule["expr"] for rule in yaml.safe_load(rules)["groups"][0]["rules"]
    )))  # fmt: skip
    shown = {name for expr in questions() for name in re.findall(r"gatewatch_\w+", expr)}
    left = {
        "gatewatch_detector_interval_seconds", "gatewatch_detector_runs_total",
        "gatewatch_agent_mismatch_total", "gatewatch_command_success", "gatewatch_command_running",
    }  # fmt: skip

    assert wanted - {name.removesuffix("_bucket") for name in shown} == left
