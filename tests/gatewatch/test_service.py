"""The service as a whole: where it listens, how it starts and ends."""

import json
import socket
from pathlib import Path

import httpx
import pytest

from gatewatch.parts import open_parts
from gatewatch.service import Service
from ingest.config import ConfigError, read_settings


def service(folder: Path, host: str, port: int) -> Service:
    path = folder / "gatewatch.toml"
    path.write_text(f'redact_key = "redact.key"\n[service]\nhost = "{host}"\nport = {port}\n')
    return Service(open_parts(read_settings(path)))


def test_an_address_of_the_newer_kind_can_be_asked(tmp_path: Path) -> None:
    with socket.socket(socket.AF_INET6) as probe:
        probe.bind(("::1", 0))
        port = probe.getsockname()[1]
    running = service(tmp_path, "::1", port)
    running.start()
    try:
        left = json.loads((tmp_path / "data" / "gatewatch.service.json").read_text())
        answer = httpx.post(f"{left['url']}/v1/events", content=b"", trust_env=False)
        assert answer.status_code == 200
    finally:
        running.stop()


def test_a_port_that_is_taken_leaves_nothing_running(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        second = service(tmp_path, "127.0.0.1", other.getsockname()[1])
        with pytest.raises(ConfigError, match="in use"):
            second.start()

    again = open_parts(read_settings(tmp_path / "gatewatch.toml"))
    again.close()
