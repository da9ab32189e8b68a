"""A real Alertmanager is told by the service and by a real Prometheus: it groups, silences and
resolves, and is restarted empty in between."""

import json
import queue
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.kit_command import run
from tests.kit_sockets import answering
from tests.real.kit_running import deny, eventually, free_port, prometheus, running, serving

ALERTMANAGER = """
route:
  receiver: soc
  group_by: [alertname]
  group_wait: 500ms
  group_interval: 1s
  routes:
    - matchers: [alertname = GatewatchHeartbeat]
      receiver: nobody
receivers:
  - name: nobody
  - name: soc
    webhook_configs:
      - url: http://127.0.0.1:{hook}/
        send_resolved: true
"""
SCRAPE = """
global:
  scrape_interval: 500ms
  scrape_timeout: 500ms
  evaluation_interval: 500ms
rule_files: [rules.yml]
alerting:
  alertmanagers:
    - static_configs:
        - targets: ["127.0.0.1:{alertmanager}"]
scrape_configs:
  - job_name: gatewatch
    static_configs:
      - targets: ["127.0.0.1:{service}"]
"""
RULES = """
groups:
  - name: own
    rules:
      - alert: AgentDenied
        expr: sum by (detector) (gatewatch_alerts_active{detector="deny_retry"}) > 0
        labels: {severity: warning}
"""
OURS = """
[alertmanager]
urls = ["http://127.0.0.1:{port}"]
allow_http = true
allow_private = true
"""


class Hook:
    """A receiver of Alertmanager's webhook; `notes` holds what it was sent."""

    def __init__(self) -> None:
        self.notes: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                hook.notes.put(json.loads(body))
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *args: object) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    def until(self, alertname: str, status: str) -> dict[str, Any]:
        """The first note of such alerts in that state."""
        while True:
            note = self.notes.get(timeout=60)
            if (note["groupLabels"]["alertname"], note["status"]) == (alertname, status):
                return note


@pytest.fixture
def hook() -> Iterator[Hook]:
    made = Hook()
    with answering(made.server):
        yield made


@contextmanager
def alertmanager(folder: Path, port: int, hook: Hook) -> Iterator[None]:
    """A new one each time: nothing of an earlier one is on its disk."""
    folder.mkdir()
    config = ALERTMANAGER.format(hook=hook.server.server_port)
    (folder / "alertmanager.yml").write_text(config, encoding="utf-8")
    command = [
        "prometheus-alertmanager", "--config.file=alertmanager.yml", "--storage.path=data",
        "--cluster.listen-address=", f"--web.listen-address=127.0.0.1:{port}",
    ]  # fmt: skip
    with running(command, f"127.0.0.1:{port}", folder):
        yield


def known(port: int, **labels: str) -> list[dict[str, Any]]:
    """The alerts that it has and that carry these labels, silenced ones included."""
    found = httpx.get(f"http://127.0.0.1:{port}/api/v2/alerts", trust_env=False).json()
    return [each for each in found if labels.items() <= each["labels"].items()]


def amtool(port: int, *words: str) -> str:
    command = ["amtool", f"--alertmanager.url=http://127.0.0.1:{port}", *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_alertmanager_hears_of_an_alert_from_us_and_from_prometheus(
    tmp_path: Path, hook: Hook
) -> None:
    port, folder = free_port(), tmp_path / "prometheus"
    denied = {"alertname": "GatewatchDenyRetry", "agent": "a1"}
    with serving(tmp_path, OURS.format(port=port)) as service:
        with alertmanager(tmp_path / "first", port, hook):
            [ours] = eventually(lambda: known(port, **denied), "our alert")
            [_] = eventually(lambda: known(port, alertname="GatewatchHeartbeat"), "the heartbeat")
            told = hook.until("GatewatchDenyRetry", "firing")
            config = SCRAPE.format(alertmanager=port, service=service)
            with prometheus_with_rules(folder, config):
                [_] = eventually(lambda: known(port, alertname="AgentDenied"), "Prometheus' own")
                hook.until("AgentDenied", "firing")
            groups = httpx.get(f"http://127.0.0.1:{port}/api/v2/alerts/groups", trust_env=False)
            _silenced(port, denied)
        deny(tmp_path, "a2")  # while nobody is there to be told
        with alertmanager(tmp_path / "second", port, hook):
            [again] = eventually(lambda: known(port, **denied), "our alert, told again")
            [_] = eventually(lambda: known(port, **denied | {"agent": "a2"}), "the second alert")
            hook.until("GatewatchDenyRetry", "firing")
            for each in known(port, alertname="GatewatchDenyRetry"):
                _judged_false(each["annotations"]["alert_id"], tmp_path)
            over = hook.until("GatewatchDenyRetry", "resolved")

    assert ours["annotations"]["summary"].startswith("a1: 3 denials in a row")
    assert ours["labels"] | {"gateway": "crm_gate", "level": "high"} == ours["labels"]
    assert told["alerts"][0]["annotations"]["dashboard_url"]
    assert {each["labels"]["alertname"] for each in groups.json()} == {
        "GatewatchDenyRetry", "GatewatchHeartbeat", "AgentDenied",
    }  # fmt: skip
    assert (again["labels"], again["startsAt"]) == (ours["labels"], ours["startsAt"])
    assert {each["status"] for each in over["alerts"]} == {"resolved"}


@contextmanager
def prometheus_with_rules(folder: Path, config: str) -> Iterator[None]:
    rules = folder.parent / "rules.yml"
    rules.write_text(RULES, encoding="utf-8")
    with prometheus(folder, config.replace("rules.yml", str(rules))):
        yield


def _silenced(port: int, labels: dict[str, str]) -> None:
    """amtool silences by the labels that we give, and the alert is kept quiet."""
    matchers = [f"{name}={value}" for name, value in labels.items()]
    amtool(port, "silence", "add", "--author=test", "--comment=known", *matchers)

    def silenced() -> list[dict[str, Any]]:
        return [each for each in known(port, **labels) if each["status"]["state"] == "suppressed"]

    [found] = eventually(silenced, "the silence")
    assert found["status"]["silencedBy"]


def _judged_false(alert: str, folder: Path) -> None:
    done = run("verdict", alert, "false", "--reason", "a test", folder=folder)
    assert done.returncode == 0, done.stderr
