"""The command line, as a user runs it: a process of its own, its answer as JSON."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def run(*words: str | Path, folder: Path) -> "subprocess.CompletedProcess[str]":
    """One command, in this folder, which also holds its keys."""
    return subprocess.run(
        [sys.executable, "-m", "gatewatch", *map(str, words)],
        capture_output=True, text=True, cwd=folder, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), "XDG_CONFIG_HOME": str(folder)},
    )  # fmt: skip


def gatewatch(*words: str | Path, db: Path) -> Any:
    """What a command prints with --json about this database."""
    done = run(*words, "--db", db, "--json", folder=db.parent)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def landed(log: Path, adapter: str, db: Path, events: int | None = None) -> Any:
    """Lands a log that has no fault; one event a line unless `events` says otherwise."""
    counts = gatewatch("ingest", log, "--adapter", adapter, db=db)
    assert counts["quarantined"] == 0
    assert counts["events"] == (counts["lines"] if events is None else events)
    return counts


def alert(detector: str, db: Path) -> Any:
    """The one alert of a detector."""
    [found] = [each for each in gatewatch("detect", db=db) if each["detector"] == detector]
    return found
