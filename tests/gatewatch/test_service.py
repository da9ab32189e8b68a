"""The service as a whole: where it listens, how it starts and ends."""

import json
import socket
from pathlib import Path

import httpx
import pytest

from detectors import rounds
from gatewatch.parts import open_parts
from gatewatch.service import Service
from ingest.config import ConfigError, read_settings
from tests.kit_http import running, until
from tests.world import World, at, native


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


def test_a_running_service_notes_whom_it_listens_to(tmp_path: Path) -> None:
    with running(tmp_path, "[sources.till]\n[sources.crm]\n") as served:
        noted = "SELECT DISTINCT source FROM arrivals WHERE lines = 0 ORDER BY source"
        until(lambda: served.rows(noted))

        assert [row["source"] for row in served.rows(noted)] == ["crm", "gatewatch", "till"]


def test_a_source_that_is_configured_and_never_sends_is_told_of_and_no_other(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, only=("silent_source",))
    for minute in range(75):
        with world.store.writing() as db:
            for _ in range(3):  # the service does it more often than once a minute
                rounds.listened(db, ("gatewatch", "till", "crm"), at(minute))
        lines = [native(minute, kind="heartbeat", event_id=str(minute))]
        world.land(lines, now=at(minute), source="crm")
        world.tick(at(minute + 0.5))

    [alert] = world.rows("SELECT subject, title, started_at FROM alerts")
    assert (alert["subject"], alert["started_at"]) == ("till", at(0))
    assert "it is configured and has sent nothing" in alert["title"]
    [noted] = world.rows("SELECT count(*) AS n FROM arrivals WHERE source = 'till'")
    assert noted["n"] == 75
    world.close()
