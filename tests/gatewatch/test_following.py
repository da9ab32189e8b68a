"""A source's files are read at once when one changes, and read all the same when nobody tells."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from gatewatch import following
from gatewatch.following import Follower
from gatewatch.parts import Parts, open_parts
from gatewatch.service import Service
from ingest.apply import Landed
from ingest.batch import Batch, Line
from ingest.config import read_settings
from ingest.tail import Tail
from tests.world import native


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


def test_a_topic_is_read_by_the_service_and_a_restart_goes_on_where_it_was(tmp_path: Path) -> None:
    producer = Producer({"test.mock.num.brokers": 1, "log_level": 0})
    [broker] = producer.list_topics(timeout=10).brokers.values()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    config = tmp_path / "gatewatch.toml"
    config.write_text(f"""
        redact_key = "redact.key"
        [service]
        port = {port}
        [sources.gate.kafka]
        brokers = "{broker.host}:{broker.port}"
        topics = ["calls"]
        options = {{ log_level = 0, "session.timeout.ms" = 6000 }}
    """)

    never = threading.Event()
    for round_ in (1, 2):
        producer.produce("calls", native(round_), partition=0)
        assert producer.flush(20) == 0
        parts = open_parts(read_settings(config))
        service = Service(parts)
        service.start()
        try:
            until = time.monotonic() + 60
            while (seen := events(parts)) < round_ and time.monotonic() < until:
                never.wait(0.2)
            assert seen == round_
            assert service.health()["kafka gate"] == "ok"
        finally:
            service.stop()


def events(parts: Parts) -> int:
    return int(parts.rows("SELECT count(*) AS n FROM events")[0]["n"])
