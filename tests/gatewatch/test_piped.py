"""Lines through a pipe that stays open."""

import gzip
import io
import json
import os
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pytest

from gatewatch import piped
from ingest.batch import Line
from ingest.cut import LINES
from tests.kit_http import ROOT, Running, lines, running, until


def read(data: bytes, batch_bytes: int = 2**20) -> list[list[Line]]:
    pipe = io.BufferedReader(io.BytesIO(data))
    return [list(each.lines) for each in piped.batches(pipe, "s", "a", 1_000, batch_bytes, LINES)]


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"", []),
        (b"{}", [b"{}"]),
        (b'{"a":1}\n{"a":2}\n', [b'{"a":1}', b'{"a":2}']),
        (b'[{"a":1},\n{"a":2}]', [b'{"a":1}', b'{"a":2}']),
        (gzip.compress(b'{"a":1}\n{"a":2}', mtime=0), [b'{"a":1}', b'{"a":2}']),
    ],
)
def test_a_pipe_that_ends_gives_what_a_file_gives(data: bytes, found: list[bytes]) -> None:
    assert [line for batch in read(data) for line in batch] == found


def test_a_batch_is_no_larger_than_it_may_be() -> None:
    sizes = [sum(map(len, map(bytes, batch))) for batch in read(b'{"a":1}\n' * 50_000, 100_000)]  # type: ignore[arg-type]

    assert sum(sizes) == 7 * 50_000
    assert max(sizes) < 200_000


def test_what_has_come_is_given_before_the_pipe_ends() -> None:
    ours, theirs = os.pipe()
    got: list[Line] = []
    with os.fdopen(ours, "rb") as pipe, os.fdopen(theirs, "wb", buffering=0) as writer:

        def follow() -> None:
            for batch in piped.batches(pipe, "s", "a", 1_000, 2**20, LINES):
                got.extend(batch.lines)

        thread = threading.Thread(target=follow)
        thread.start()
        writer.write(b'{"a":1}\n{"a":2}\n{"a"')
        until(lambda: got == [b'{"a":1}', b'{"a":2}'])
        writer.write(b":3}\n")
        until(lambda: got[2:] == [b'{"a":3}'])
        writer.write(b'{"a":4}')
        writer.close()
        thread.join()
        assert got[3:] == [b'{"a":4}']


def stored(service: Running, count: int) -> bool:
    return bool(service.rows("SELECT count(*) AS n FROM events") == [{"n": count}])


def test_a_command_that_reads_a_pipe_lands_its_lines_as_they_come(tmp_path: Path) -> None:
    """Another command of ours sees them while the first one still waits for more."""
    with running(tmp_path, '[sources.gate]\nadapter = "native"\n') as service:
        command = [sys.executable, "-m", "gatewatch", "ingest", "-", "--source", "gate", "--json"]
        command += ["--config", str(tmp_path / "gatewatch.toml")]
        with subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        ) as process:
            assert process.stdin
            assert process.stdout
            for count in (1, 2):
                process.stdin.write(lines(count))
                until(partial(stored, service, count))
            process.stdin.close()
            told = json.loads(process.stdout.read())
            assert (process.wait(), told["events"]) == (0, 2)
