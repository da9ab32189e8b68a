"""What tests with real programs share: a service on real lines, and programs beside it."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

Found = TypeVar("Found")
ROOT = Path(__file__).parents[2]
PATIENCE = 60.0  # seconds: a busy machine starts several programs
CONFIG = """
data = "data"

[service]
port = {port}

[sources.crm_gate]
adapter = "native"
paths = ["gate.jsonl"]
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


def eventually(ask: Callable[[], Found], what: str) -> Found:
    """The first answer that says anything."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        if found := ask():
            return found
        time.sleep(0.1)
    raise AssertionError(f"in vain: {what}")


def deny(folder: Path, agent: str) -> None:
    """An agent is denied thrice, as the gate's log tells."""
    start = datetime.now(UTC) - timedelta(minutes=5)
    lines = [
        json.dumps(
            {
                "ts": (start + timedelta(minutes=at)).isoformat(), "kind": "tool_call",
                "agent": agent, "trace_id": f"t-{agent}", "tool": "crm.export_contacts",
                "decision": "deny", "status": "denied", "event_id": f"{agent}-{at}",
            }
        )
        for at in range(3)
    ]  # fmt: skip
    with (folder / "gate.jsonl").open("a", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


@contextmanager
def serving(folder: Path, more: str = "") -> Iterator[int]:
    """The port of a service that follows gate.jsonl, in which a1 has just been denied thrice."""
    port = free_port()
    (folder / "gatewatch.toml").write_text(CONFIG.format(port=port) + more, encoding="utf-8")
    deny(folder, "a1")
    with running([sys.executable, "-m", "gatewatch", "serve"], "listens on", folder):
        yield port


@contextmanager
def prometheus(folder: Path, config: str) -> Iterator[int]:
    """The port of a Prometheus with this prometheus.yml."""
    folder.mkdir()
    port = free_port()
    (folder / "prometheus.yml").write_text(config, encoding="utf-8")
    command = [
        "prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=data",
        "--enable-feature=exemplar-storage", f"--web.listen-address=127.0.0.1:{port}",
    ]  # fmt: skip
    with running(command, "Server is ready", folder):
        yield port
