"""A real Pushgateway keeps what one-shot commands say, a real Prometheus scrapes it, and a group
goes when it is told to."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from detectors.receivers import Delivered
from gatewatch import pushing
from gatewatch.pushing import Pushgateway
from tests.kit import CASES
from tests.kit_command import run
from tests.real.kit_running import deny, eventually, free_port, prometheus, running

CONFIG = """
data = "data"
[pushgateway]
url = "http://127.0.0.1:{port}"
allow_http = true
allow_private = true
"""
SCRAPE = """
global:
  scrape_interval: 500ms
  scrape_timeout: 500ms
scrape_configs:
  - job_name: pushgateway
    honor_labels: true
    static_configs:
      - targets: ["127.0.0.1:{port}"]
"""
[CASE] = (CASES / "fixtures").glob("B145-*.json")
GROUPING: list[str] = json.loads(CASE.read_text(encoding="utf-8"))["grouping"]


def groups(port: int) -> list[dict[str, Any]]:
    """What it holds: a group each, with its labels."""
    answer = httpx.get(f"http://127.0.0.1:{port}/api/v1/metrics", trust_env=False)
    return list(answer.json()["data"])


def command(port: int) -> list[str]:
    return ["prometheus-pushgateway", f"--web.listen-address=127.0.0.1:{port}"]


def test_a_command_is_seen_by_prometheus_and_goes_when_it_is_told_to(tmp_path: Path) -> None:
    port = free_port()
    (tmp_path / "gatewatch.toml").write_text(CONFIG.format(port=port), encoding="utf-8")
    deny(tmp_path, "a1")
    landed = run("ingest", "gate.jsonl", "--adapter", "native", folder=tmp_path)
    assert landed.returncode == 0, landed.stderr
    query = 'gatewatch_command_result{job="gatewatch_verify",what="lines"}'
    with (
        running(command(port), "Listening on", tmp_path),
        prometheus(tmp_path / "prometheus", SCRAPE.format(port=port)) as at,
        httpx.Client(base_url=f"http://127.0.0.1:{at}", trust_env=False) as client,
    ):
        verified = run("verify", folder=tmp_path)
        assert (verified.returncode, verified.stderr) == (0, "")

        def ask() -> list[dict[str, Any]]:
            told = client.get("/api/v1/query", params={"query": query}).json()
            return list(told["data"]["result"])

        [found] = eventually(ask, query)
        [group] = groups(port)
        gone = run("unpush", "verify", folder=tmp_path)

        assert found["value"][1] == "3"
        assert group["labels"] == {"job": "gatewatch_verify"}
        assert group["push_time_seconds"]
        assert gone.returncode == 0, gone.stderr
        assert eventually(lambda: not groups(port), "no group")


@pytest.mark.parametrize("value", GROUPING)
def test_b145_a_grouping_value_comes_through_as_it_is(tmp_path: Path, value: str) -> None:
    port = free_port()
    gateway = Pushgateway(
        url=f"http://127.0.0.1:{port}", instance=value, allow_http=True, allow_private=True
    )
    with running(command(port), "Listening on", tmp_path):
        pushed = pushing.put(gateway, "gatewatch_verify", pushing.text({"running": 1.0}, {}))
        [group] = groups(port)
        deleted = pushing.delete(gateway, "gatewatch_verify")
        left = eventually(lambda: [groups(port)] if not groups(port) else [], "no group")

    assert (pushed, deleted, left) == (Delivered(), Delivered(), [[]])
    assert group["labels"] == {"job": "gatewatch_verify", "instance": value}
