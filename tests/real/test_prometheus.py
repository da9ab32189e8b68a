"""A real Prometheus scrapes the running service, and answers a question about an open alert."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.real.kit_running import eventually, prometheus, serving

SCRAPE = """
global:
  scrape_interval: 500ms
  scrape_timeout: 500ms
scrape_configs:
  - job_name: gatewatch
    static_configs:
      - targets: ["127.0.0.1:{port}"]
"""


@pytest.fixture
def service(tmp_path: Path) -> Iterator[int]:
    with serving(tmp_path) as port:
        yield port


@pytest.fixture
def scraping(service: int, tmp_path: Path) -> Iterator[httpx.Client]:
    """A client of a Prometheus that scrapes the service twice a second."""
    with (
        prometheus(tmp_path / "prometheus", SCRAPE.format(port=service)) as port,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client,
    ):
        yield client


def answer(prometheus: httpx.Client, query: str) -> list[dict[str, Any]]:
    """What Prometheus says, as soon as it says anything."""

    def ask() -> list[dict[str, Any]]:
        told = prometheus.get("/api/v1/query", params={"query": query}).json()
        return list(told["data"]["result"])

    return eventually(ask, query)


def test_prometheus_counts_an_open_alert_and_keeps_its_trace(scraping: httpx.Client) -> None:
    [open_alert] = answer(scraping, 'gatewatch_alerts_active{detector="deny_retry"} > 0')
    [landed] = answer(scraping, 'gatewatch_ingest_events_total{source="crm_gate"} > 0')
    [scraped] = answer(scraping, 'up{job="gatewatch"}')

    def ask() -> list[dict[str, Any]]:
        given = {"query": "gatewatch_alerts_fired_total", "start": "0", "end": "4000000000"}
        return list(scraping.get("/api/v1/query_exemplars", params=given).json()["data"])

    [example] = eventually(ask, "exemplars")

    assert open_alert["metric"]["severity"] == "high"
    assert open_alert["value"][1] == "1"
    assert landed["value"][1] == "3"
    assert scraped["value"][1] == "1"
    assert example["seriesLabels"]["detector"] == "deny_retry"
    assert example["exemplars"][0]["labels"] == {"trace_id": "t-a1"}


def test_promtool_finds_nothing_wrong_with_the_page(service: int) -> None:
    page = httpx.get(f"http://127.0.0.1:{service}/metrics", trust_env=False).content

    checked = subprocess.run(["promtool", "check", "metrics"], input=page, capture_output=True)

    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")
