"""A real Prometheus scrapes the running service, and answers a question about an open alert."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

ROOT = Path(__file__).parents[2]
PATIENCE = 60.0  # seconds: a busy machine starts three programs
CONFIG = """
data = "data"

[service]
port = {port}

[sources.crm_gate]
adapter = "native"
paths = ["gate.jsonl"]
"""
SCRAPE = """
global:
  scrape_interval: 500ms
  scrape_timeout: 500ms
scrape_configs:
  - job_name: gatewatch
    static_configs:
      - targets: ["127.0.0.1:{port}"]
"""


def free_port() -> int:
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@contextmanager
def running(command: Sequence[str], ready: str, folder: Path) -> Iterator[None]:
    """A program that says on stderr when it is ready. It is stopped, and must end in time."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NO_PROXY": "127.0.0.1"}
    log = folder / "stderr.log"
    with log.open("w", encoding="utf-8") as stderr:
        program = subprocess.Popen(command, stderr=stderr, cwd=folder, env=environment)
    try:
        until = time.monotonic() + PATIENCE
        while ready not in log.read_text(encoding="utf-8"):
            assert program.poll() is None, log.read_text(encoding="utf-8")
            assert time.monotonic() < until, log.read_text(encoding="utf-8")
            time.sleep(0.05)
        yield
        program.terminate()
        program.wait(PATIENCE)
    finally:
        program.kill()
        program.wait()


@pytest.fixture
def service(tmp_path: Path) -> Iterator[int]:
    """The port of a service that follows gate.jsonl, in which a1 has just been denied thrice."""
    port = free_port()
    (tmp_path / "gatewatch.toml").write_text(CONFIG.format(port=port), encoding="utf-8")
    start = datetime.now(UTC) - timedelta(minutes=5)
    lines = [
        json.dumps(
            {
                "ts": (start + timedelta(minutes=at)).isoformat(), "kind": "tool_call",
                "agent": "a1", "trace_id": "t-1", "tool": "crm.export_contacts",
                "decision": "deny", "status": "denied", "event_id": f"e-{at}",
            }
        )
        for at in range(3)
    ]  # fmt: skip
    (tmp_path / "gate.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    with running([sys.executable, "-m", "gatewatch", "serve"], "listens on", tmp_path):
        yield port


@pytest.fixture
def prometheus(service: int, tmp_path: Path) -> Iterator[httpx.Client]:
    """A client of a Prometheus that scrapes the service twice a second."""
    folder, port = tmp_path / "prometheus", free_port()
    folder.mkdir()
    (folder / "prometheus.yml").write_text(SCRAPE.format(port=service), encoding="utf-8")
    command = [
        "prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=data",
        f"--web.listen-address=127.0.0.1:{port}",
    ]  # fmt: skip
    with (
        running(command, "Server is ready", folder),
        httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client,
    ):
        yield client


def answer(prometheus: httpx.Client, query: str) -> list[dict[str, Any]]:
    """What Prometheus says, as soon as it says anything."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        told = prometheus.get("/api/v1/query", params={"query": query}).json()
        if found := told["data"]["result"]:
            return list(found)
        time.sleep(0.1)
    raise AssertionError(f"no answer to {query}")


def test_prometheus_counts_an_open_alert(prometheus: httpx.Client) -> None:
    [open_alert] = answer(prometheus, 'gatewatch_alerts_active{detector="deny_retry"} > 0')
    [landed] = answer(prometheus, 'gatewatch_ingest_events_total{source="crm_gate"}')
    [scraped] = answer(prometheus, 'up{job="gatewatch"}')

    assert open_alert["metric"]["severity"] == "high"
    assert open_alert["value"][1] == "1"
    assert landed["value"][1] == "3"
    assert scraped["value"][1] == "1"


def test_promtool_finds_nothing_wrong_with_the_page(service: int) -> None:
    page = httpx.get(f"http://127.0.0.1:{service}/metrics", trust_env=False).content

    checked = subprocess.run(["promtool", "check", "metrics"], input=page, capture_output=True)

    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")
