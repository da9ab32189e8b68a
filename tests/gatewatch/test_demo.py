import os
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gatewatch.demo import Demo, night_zone, prepare
from gatewatch.summary import Alert
from ingest.config import ConfigError

DAY = datetime(2026, 6, 3, tzinfo=UTC)


@pytest.mark.parametrize("hour", range(24))
def test_the_fleet_is_in_its_night_and_far_from_its_midnight(hour: int) -> None:
    now = DAY + timedelta(hours=hour, minutes=59)

    assert now.astimezone(night_zone(now)).hour == 1


def test_a_folder_that_is_in_use_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").touch()

    with pytest.raises(ConfigError) as error:
        prepare(tmp_path, "http://127.0.0.1:1", "", DAY)
    assert str(error.value) == f"{tmp_path}: holds 'mine.txt'; the demo wants an empty folder."


def test_a_short_run_loses_nothing_and_tells_the_chat_of_the_first_trouble(tmp_path: Path) -> None:
    said, told = list[str](), list[Alert]()
    run = Demo(tmp_path, False, said.append, told.append, past=timedelta(hours=1))

    summary = run.run(12)

    assert summary.lost == 0
    assert summary.lines_written == summary.lines_in_ledger > 1000
    assert ("deny_retry", "a1") in {(each.detector, each.subject) for each in told}
    assert summary.false_alerts == ()
    assert not summary.good  # twelve seconds are too short for the last of them
    assert (tmp_path / "logs" / "gate_a.jsonl.1").exists()
    assert any(line.startswith("Chat") for line in said)


def test_an_interrupt_ends_it_with_a_summary_and_leaves_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "gatewatch", "demo", "--no-dashboard"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    ) as process:  # fmt: skip
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("Service"):
                break
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=60)

    assert process.returncode == 0
    assert "5 detected" in out
    assert "0 lost" in out
    assert errors == ""
    assert list(tmp_path.iterdir()) == []
