"""`gatewatch pause`, `resume`, `pauses`: through a running service and on the database itself,
against a gate that listens on this machine."""

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.kit_command import ROOT, run
from tests.kit_http import lines, running, until
from tests.kit_listening import Listening, listening


@pytest.fixture
def gate() -> Iterator[Listening]:
    with listening() as made:
        yield made


def command(folder: Path, *words: str) -> tuple[int, Any, str]:
    done = run(*words, "--json", "--config", folder / "gatewatch.toml", folder=folder)
    return done.returncode, json.loads(done.stdout) if done.stdout else None, done.stderr


@contextmanager
def agent_seen(folder: Path, config: str) -> Iterator[None]:
    """A service that has heard of the agent a1."""
    with running(folder, config) as service:
        service.http.post("/v1/events", content=lines(1))
        until(lambda: service.rows("SELECT 1 FROM events"))
        yield


def test_through_a_service(gate: Listening, tmp_path: Path) -> None:
    with agent_seen(tmp_path, gate.config):
        code, [row], _ = command(tmp_path, "pause", "a1", "--yes", "--for", "1h", "--reason", "odd")
        _, listed, _ = command(tmp_path, "pauses")
        again, [ended], _ = command(tmp_path, "resume", "a1", "--reason", "a drill")
        _, none, _ = command(tmp_path, "pauses")

    assert (code, row["state"], row["name"], row["reason"]) == (0, "confirmed", "a1", "odd")
    assert [each["pause_id"] for each in listed] == [row["pause_id"]]
    assert (again, ended["state"], ended["pause_id"]) == (0, "resumed", row["pause_id"])
    assert none == []
    assert [each["type"] for each in gate.till.seen] == ["gatewatch.pause", "gatewatch.resume"]


def test_on_the_database_itself_and_what_is_refused(gate: Listening, tmp_path: Path) -> None:
    with agent_seen(tmp_path, gate.config):
        pass
    code, [row], _ = command(tmp_path, "pause", "a1", "--yes")
    gate.status = 403
    refused, [no], said = command(tmp_path, "pause", "a1", "--yes", "--kind", "agent")
    gate.status = 0
    _, listed, _ = command(tmp_path, "pauses")
    unknown, _, why = command(tmp_path, "pause", "a9", "--yes")
    shy, _, asks = command(tmp_path, "pause", "a1")
    nobody, _, paused = command(tmp_path, "resume", "a2")

    assert (code, row["state"]) == (0, "confirmed")
    assert (refused, no["state"], no["status"]) == (1, "refused", 403)
    assert "NOT PAUSED by till." in said
    assert len(listed) == 2
    assert (unknown, shy, nobody) == (2, 2, 2)
    assert "no agent or trace 'a9' has been seen. Known: a1." in why
    assert "this is no terminal. Say --yes." in asks
    assert "'a2' is not paused." in paused
    assert "FAKE-till" not in said + why + asks + str(listed)


def test_on_a_terminal_it_says_whom_it_will_ask_and_no_means_no(
    gate: Listening, tmp_path: Path
) -> None:
    with agent_seen(tmp_path, gate.config):
        pass
    ours, theirs = pty.openpty()
    words = [sys.executable, "-m", "gatewatch", "pause", "a1", "--for", "1h",
             "--config", str(tmp_path / "gatewatch.toml")]  # fmt: skip
    with subprocess.Popen(
        words, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
        env=os.environ | {"XDG_CONFIG_HOME": str(tmp_path)},
    ) as asking:  # fmt: skip
        os.write(ours, b"n\n")
        _, said = asking.communicate(timeout=60)
    os.close(ours)
    os.close(theirs)

    assert asking.returncode == 1
    assert "Pause agent a1 until" in said
    assert "till: webhook at 127.0.0.1" in said
    assert gate.till.seen == []
