"""A source's files are read at once when one changes, and read all the same when nobody tells."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from gatewatch import following
from gatewatch.following import Follower
from ingest.apply import Landed
from ingest.batch import Batch, Line
from ingest.tail import Tail


class Landing:
    """Takes batches as the lander does, and says when a line was there."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.came = threading.Condition()

    def __call__(self, batch: Batch, _: datetime) -> Landed:
        with self.came:
            self.lines += batch.lines
            self.came.notify_all()
        return Landed(len(batch.lines))

    def has(self, line: bytes, within: float) -> bool:
        with self.came:
            return self.came.wait_for(lambda: line in self.lines, within)


@contextmanager
def followed(pattern: Path, every: float) -> Iterator[tuple[Follower, Landing]]:
    landing, over = Landing(), threading.Event()
    patterns = [str(pattern)]
    follower = Follower(Tail("s", "native", patterns, 1000, 1000), patterns, landing, every, over)

    def turns() -> None:
        while not over.wait(follower.turn()):
            pass

    threads = [threading.Thread(target=target) for target in (turns, follower.watch)]
    for thread in threads:
        thread.start()
    try:
        yield follower, landing
    finally:
        over.set()
        follower.ring()
        for thread in threads:
            thread.join(20)


def append(path: Path, line: str) -> None:
    with path.open("a") as file:
        file.write(line + "\n")


def test_a_line_is_read_long_before_the_next_look(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    append(log, "one")
    with followed(tmp_path / "*.log", every=60) as (follower, landing):
        assert follower.told.wait(10)
        assert landing.has(b"one", within=10)

        for number in range(3):
            append(log, f"line {number}")
            assert landing.has(b"line %d" % number, within=10)
        log.rename(tmp_path / "a.log.1")
        append(log, "new")
        assert landing.has(b"new", within=10)


def test_a_folder_below_a_wildcard_that_appears_later_is_told_of(tmp_path: Path) -> None:
    with followed(tmp_path / "*" / "*.log", every=60) as (follower, landing):
        assert follower.told.wait(10)
        (tmp_path / "later").mkdir()

        append(tmp_path / "later" / "a.log", "one")

        assert landing.has(b"one", within=10)


def test_a_folder_that_is_not_there_yet_is_found_by_looking(tmp_path: Path) -> None:
    with followed(tmp_path / "later" / "a.log", every=0.05) as (_, landing):
        (tmp_path / "later").mkdir()

        append(tmp_path / "later" / "a.log", "one")

        assert landing.has(b"one", within=10)


def test_where_the_system_does_not_tell_files_are_looked_at_and_the_log_says_so_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuses(*_: Any, **__: Any) -> Iterator[Any]:
        raise OSError("OS file watch limit reached")

    monkeypatch.setattr(following, "watch", refuses)
    monkeypatch.setattr(following, "AGAIN", 0.01)
    with followed(tmp_path / "a.log", every=0.05) as (follower, landing):
        append(tmp_path / "a.log", "one")
        assert landing.has(b"one", within=10)
        append(tmp_path / "a.log", "two")
        assert landing.has(b"two", within=10)
        assert not follower.told.is_set()

    assert [record.getMessage() for record in caplog.records] == [
        "tail s: OS file watch limit reached: nobody tells when a file changes,"
        " so it is looked at every 0.05 s"
    ]
