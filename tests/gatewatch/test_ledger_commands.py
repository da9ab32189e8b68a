"""What an auditor types: verify, rebuild, export, prune; with the service running and without."""

import json
import signal
import socket
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import httpx
import pyarrow.parquet as pq
import pytest
import typer

from gatewatch.commands import ledger as commands
from gatewatch.parts import open_parts, utc_now
from gatewatch.service import Service
from ingest.batch import Batch
from ingest.config import ConfigError, read_settings
from tests.gatewatch.trials import serve
from tests.world import denied, native

CONFIG = """
redact_key = "redact.key"
[service]
port = {port}
[retention]
ordinary = "30 days"
high_risk = "180 days"
[ledger]
sign_key = "file:{folder}/sign.pem"
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A configuration with a key, and a database with lines of forty days ago and of today."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    commands.verify(new_key=tmp_path / "sign.pem")
    path = tmp_path / "gatewatch.toml"
    path.write_text(CONFIG.format(port=port, folder=tmp_path))
    parts = open_parts(read_settings(path))
    for days in (40, 39, 0):
        lines = (*(native(n, kind="message", event_id=f"{days}-{n}") for n in range(20)),
                 denied(30, event_id=f"deny-{days}"))  # fmt: skip
        parts.lander.land(Batch("gate", "native", lines), utc_now() - timedelta(days=days))
    parts.close()
    return path


@pytest.fixture
def running(config: Path) -> Iterator[str]:
    """The address of a service, in a process of its own, that holds the database."""
    url = f"http://127.0.0.1:{read_settings(config).service.port}"
    process = serve(config.parent, url)
    yield url
    process.send_signal(signal.SIGTERM)
    process.wait(30)


def told(capsys: pytest.CaptureFixture[str]) -> object:
    return json.loads(capsys.readouterr().out)


def test_a_head_that_was_kept_elsewhere_shows_a_cut_tail(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "head.json"
    commands.verify(config=config, export_head=kept, public_key=[tmp_path / "sign.pem.pub"])
    head = json.loads(kept.read_text())
    assert head["seq"] == 63
    assert head["sig"]
    commands.verify(config=config, head=f"{head['seq']}:{head['head']}")
    commands.verify(config=config, head=str(kept), public_key=[tmp_path / "sign.pem.pub"])
    forged = tmp_path / "forged.json"
    forged.write_text(json.dumps(head | {"seq": 42}))
    with pytest.raises(ConfigError, match="was not signed by this key"):
        commands.verify(config=config, head=str(forged), public_key=[tmp_path / "sign.pem.pub"])
    assert "63 lines, 2 sealed segments" in capsys.readouterr().out

    data = tmp_path / "data"
    [active] = (data / "gatewatch.ledger").glob("*/*.ndjson")
    active.unlink()
    for path in data.glob("gatewatch.duckdb*"):  # who can cut one can remove the other
        path.unlink()
    commands.verify(config=config)  # it adds up by itself

    with pytest.raises(typer.Exit):
        commands.verify(config=config, head=str(kept))
    assert "ends at line 42, it has been at 63: it was cut" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["7", "7:abc", "nowhere.json"])
def test_a_head_that_is_none_is_refused(text: str, config: Path) -> None:
    with pytest.raises(ConfigError, match="neither SEQ:HASH nor a file"):
        commands.verify(config=config, head=text)


def test_pruning_by_hand_says_what_went_and_what_it_gave_back(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    commands.prune(config=config, dry_run=True, as_json=True)
    plan = told(capsys)
    commands.prune(config=config, compact=True, as_json=True)
    done = told(capsys)

    assert isinstance(plan, dict)
    assert isinstance(done, dict)
    assert (plan["lines"], plan["kept"], plan["segments"]) == (40, 2, 2)
    assert (done["lines"], done["kept"], done["segments"]) == (40, 2, 2)
    assert done["bytes"]["after"].keys() == {"database", "ledger"}
    commands.verify(config=config, public_key=[config.parent / "sign.pem.pub"], as_json=True)
    found = told(capsys)
    assert isinstance(found, dict)
    assert (found["ok"], found["pruned"]) == (True, 40)
    commands.rebuild(config=config, as_json=True)
    again = told(capsys)
    assert isinstance(again, dict)
    assert {*again["differ"]} <= {"stretches", "alerts"}
    assert again["events"] == 23


def test_what_must_be_kept_longer_is_not_pruned_by_hand(config: Path) -> None:
    with pytest.raises(ConfigError, match=r"--before: lines since .* are kept"):
        commands.prune(config=config, before="1d")


def test_a_service_does_not_start_that_would_forget_what_detectors_need(config: Path) -> None:
    config.write_text(config.read_text().replace('"30 days"', '"9 days"'))
    parts = open_parts(read_settings(config))
    with pytest.raises(ConfigError, match="looks back"):
        Service(parts)
    parts.close()


def test_a_running_service_prunes_and_exports_whole_days(
    config: Path, running: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    commands.export(tmp_path / "out", config=config, tables="events,calls", as_json=True)
    before = told(capsys)
    commands.prune(config=config, as_json=True)
    done = told(capsys)
    commands.export(tmp_path / "out", config=config, tables="events,calls", as_json=True)
    after = told(capsys)

    assert isinstance(before, list)
    assert isinstance(done, dict)
    assert isinstance(after, list)
    assert [(each["table"], each["rows"]) for each in before] == [("events", 63), ("calls", 3)]
    assert done["lines"] == 40
    files = (tmp_path / "out" / "events").rglob("*.parquet")
    assert sum(pq.read_metadata(path).num_rows for path in files) == 63
    assert after[0]["left"] > 0
    commands.verify(config=config)
    with pytest.raises(ConfigError, match="Stop the service to compact"):
        commands.prune(config=config, compact=True)


def test_a_day_can_be_asked_of_tables_alone(running: str) -> None:
    for path in ("/v1/days/landed/2026-03-10", "/v1/days/events/2026-13-10", "/v1/days/events/x"):
        assert httpx.get(running + path, trust_env=False).status_code == 404
    head = httpx.get(f"{running}/v1/head", trust_env=False).json()
    assert head["seq"] == 63
    bad = httpx.post(f"{running}/v1/prune", json={"before": "soon"}, trust_env=False)
    assert bad.status_code == 400
