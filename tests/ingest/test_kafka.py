"""Topics of Kafka, on the mock cluster of the client library: real sockets, real groups."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from ingest.adapter import Header
from ingest.batch import Batch, Line, Offset
from ingest.config import ConfigError, Kafka, Source, read_settings
from ingest.kafka import Stream
from tests.world import World, at, native

VICTIM = Path(__file__).with_name("kafka_victim.py")
ROOT = Path(__file__).parents[2]


class Cluster:
    """One broker; `calls` has the mock's four partitions."""

    def __init__(self) -> None:
        self.producer = Producer({"test.mock.num.brokers": 1, "log_level": 0})
        [broker] = self.producer.list_topics(timeout=10).brokers.values()
        self.brokers = f"{broker.host}:{broker.port}"

    def send(self, *values: bytes | None, partition: int | None = None) -> None:
        for number, value in enumerate(values):
            self.producer.produce(
                "calls", value, partition=number % 4 if partition is None else partition
            )
        assert self.producer.flush(20) == 0


@pytest.fixture(scope="module")
def shared() -> Cluster:
    return Cluster()


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def stream(cluster: Cluster, group: str = "g", adapter: str = "native", **more: Any) -> Stream:
    options = {"log_level": 0, "session.timeout.ms": 6000} | more.pop("options", {})
    kafka = Kafka(cluster.brokers, ("calls",), group, options)
    header = more.pop("header", Header("a"))
    source = Source(adapter=adapter, kafka=kafka, zone="Europe/Berlin")
    return Stream("gate", source, header, 1_000, more.pop("batch_bytes", 100_000))


class Reading:
    """What a stream gave and had done, until there is enough."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.lines: list[Line] = []
        self.offsets: dict[str, Offset] = {}
        self.batches: list[Batch] = []

    def until(self, enough: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 60
        while not enough() and time.monotonic() < deadline:
            for batch in self.stream.poll(0.1):
                self.lines += batch.lines
                self.batches.append(batch)
                self.offsets |= {each.path: each for each in batch.offsets}
                self.stream.done(batch)
        assert enough()


@pytest.fixture
def streams() -> Iterator[list[Stream]]:
    opened: list[Stream] = []
    yield opened
    for each in opened:
        each.close()


def test_every_message_is_read_from_the_start_and_the_place_reached_goes_with_the_batch(
    cluster: Cluster, streams: list[Stream]
) -> None:
    values = [b'{"n": %d}' % number for number in range(40)]
    cluster.send(*values)
    streams.append(stream(cluster, batch_bytes=50))
    reading = Reading(streams[0])

    reading.until(lambda: len(reading.lines) >= 40)

    assert sorted(line for line in reading.lines if isinstance(line, bytes)) == sorted(values)
    assert {path: each.pos for path, each in reading.offsets.items()} == {
        f"kafka:calls/{partition}": 10 for partition in range(4)
    }
    assert {batch.zone for batch in reading.batches} == {"Europe/Berlin"}
    assert max(len(batch.lines) for batch in reading.batches) <= 10
    assert len({(each.device, each.inode) for each in reading.offsets.values()}) == 4


def test_a_start_goes_on_from_our_own_place_whatever_kafka_says(
    cluster: Cluster, streams: list[Stream]
) -> None:
    cluster.send(*[b"%d" % number for number in range(6)], partition=0)
    other = Consumer({"bootstrap.servers": cluster.brokers, "group.id": "g", "log_level": 0})
    other.commit(offsets=[TopicPartition("calls", 0, 5)], asynchronous=False)
    other.close()
    streams.append(stream(cluster))
    streams[0].restore([Offset("gate", "kafka:calls/0", 1, 0, 2, "", 0, False),
                        Offset("gate", "/var/log/a", 1, 9, 2, "x", 2, False)])  # fmt: skip
    reading = Reading(streams[0])

    reading.until(lambda: len(reading.lines) >= 4)

    assert reading.lines == [b"2", b"3", b"4", b"5"]


def test_a_batch_that_is_not_done_is_given_again(cluster: Cluster, streams: list[Stream]) -> None:
    cluster.send(b"1", partition=0)  # one: a second might be given later, or with it
    streams.append(stream(cluster))
    first: list[Batch] = []
    deadline = time.monotonic() + 60
    while not first and time.monotonic() < deadline:
        first = list(streams[0].poll(0.1))

    assert list(streams[0].poll(0.1)) == first
    streams[0].done(first[0])
    assert list(streams[0].poll(0.1)) == []


def test_what_has_landed_is_told_to_kafka_for_those_who_watch(
    cluster: Cluster, streams: list[Stream]
) -> None:
    cluster.send(b"1", b"2", b"3", partition=2)
    streams.append(stream(cluster, group="watched"))
    reading = Reading(streams[0])
    reading.until(lambda: len(reading.lines) == 3)
    options = {"bootstrap.servers": cluster.brokers, "group.id": "watched", "log_level": 0}
    watcher = Consumer(options)

    def told() -> int:
        list(streams[0].poll(0.05))
        return int(watcher.committed([TopicPartition("calls", 2)], 10)[0].offset)

    deadline = time.monotonic() + 30
    while told() != 3 and time.monotonic() < deadline:
        pass

    assert told() == 3
    watcher.close()


def test_two_readers_of_one_group_share_the_partitions_and_no_message_comes_twice(
    cluster: Cluster, streams: list[Stream]
) -> None:
    cluster.send(*[b"first %d" % number for number in range(40)])
    streams.append(stream(cluster))
    one = Reading(streams[0])
    one.until(lambda: len(one.lines) >= 40)
    streams.append(stream(cluster))
    two = Reading(streams[1])

    def both() -> bool:
        for batch in streams[1].poll(0.1):
            two.lines += batch.lines
            streams[1].done(batch)
        if not two.lines:
            cluster.send(*[b"more" for _ in range(4)])
        return bool(two.lines)

    one.until(both)

    assert one.lines.count(b"first 7") + two.lines.count(b"first 7") == 1
    firsts = [line for line in one.lines + two.lines if isinstance(line, bytes) and b"fi" in line]
    assert len(firsts) == len(set(firsts)) == 40


RECORDS = [{"body": {"stringValue": text}} for text in ("one", "two")]
REQUEST = {"resourceLogs": [{"scopeLogs": [{"logRecords": RECORDS}]}]}


@pytest.mark.parametrize(
    ("adapter", "header", "value", "lines"),
    [
        ("native", Header("a"), b'{"a":1}', [b'{"a":1}']),
        ("native", Header("a"), b'{"a":1}\n{"a":2}\n', [b'{"a":1}', b'{"a":2}']),
        ("native", Header("a"), b'[{"a":1},{"a":2}]', [b'{"a":1}', b'{"a":2}']),
        ("cloudtrail", Header("a", "json", envelope="Records"), b'{"Records":[{"a":1},{"a":2}]}',
         [b'{"Records":[{"a":1}]}', b'{"Records":[{"a":2}]}']),
        ("squid", Header("a", "text"), b"a b c\nd", [b"a b c", b"d"]),
        ("native", Header("a"), None, []),
        ("native", Header("a"), b"\xff broken", [b"\xff broken"]),
        ("otlp_logs", Header("a"), b"no request", [b"no request"]),
        ("otlp_logs", Header("a"), json.dumps(REQUEST).encode(), 2),
    ],
)  # fmt: skip
def test_a_message_is_a_line_or_several_whatever_the_format(
    shared: Cluster, streams: list[Stream], adapter: str, header: Header, value: bytes | None,
    lines: list[bytes] | int,
) -> None:  # fmt: skip
    streams.append(stream(shared, adapter=adapter, header=header))

    found = streams[0]._lines(value or b"")

    assert found == lines if isinstance(lines, list) else len(found) == lines


def test_it_lands_and_a_kill_between_ledger_and_database_loses_and_doubles_nothing(
    cluster: Cluster, tmp_path: Path
) -> None:
    wanted = 400
    cluster.send(*[native(0, event_id=None, n=number) for number in range(wanted)])

    def run(*kill: int) -> "subprocess.CompletedProcess[str]":
        group = f"group {kill}"  # our place is ours: a group that Kafka does not know will do
        command = [sys.executable, str(VICTIM), str(tmp_path), cluster.brokers, group, str(wanted)]
        return subprocess.run(
            [*command, *map(str, kill)], cwd=ROOT, env={"PYTHONPATH": str(ROOT)},
            capture_output=True, text=True, timeout=200, check=False,
        )  # fmt: skip

    codes = [run(*kill).returncode for kill in ((3, 0), (2, 5), (2, 40))]
    last = run()

    assert codes == [-9, -9, -9]
    assert (last.returncode, last.stdout) == (0, "done"), last.stderr
    world = World(tmp_path, policy=None)
    numbers = [row["n"] for row in world.rows("SELECT (attrs ->> 'n')::INTEGER AS n FROM events")]
    assert sorted(numbers) == list(range(wanted))
    assert world.lander.head[0] == wanted
    world.close()


def test_a_broker_that_is_not_there_is_a_problem_that_is_shown(streams: list[Stream]) -> None:
    kafka = Kafka("127.0.0.1:1", ("calls",), options={"log_level": 0})
    streams.append(Stream("gate", Source(kafka=kafka), Header("a"), 1000, 1000))
    deadline = time.monotonic() + 30
    while not streams[0].problems and time.monotonic() < deadline:
        assert list(streams[0].poll(0.1)) == []

    [(name, sentence)] = streams[0].problems
    assert name == "kafka"
    assert "127.0.0.1:1" in sentence


def config(folder: Path, text: str) -> Source:
    path = folder / "gatewatch.toml"
    path.write_text(text)
    return read_settings(path).sources["gate"]


def test_a_secret_among_the_options_comes_from_the_environment_or_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KAFKA_PASSWORD", raising=False)
    text = """
        [sources.gate.kafka]
        brokers = "127.0.0.1:1"
        topics = ["calls"]
        [sources.gate.kafka.options]
        "security.protocol" = "SASL_SSL"
        "sasl.mechanism" = "SCRAM-SHA-512"
        "sasl.username" = "gatewatch"
        "sasl.password" = "env:KAFKA_PASSWORD"
        "session.timeout.ms" = 6000
        log_level = 0
    """
    source = config(tmp_path, text)
    with pytest.raises(ConfigError, match="no variable 'KAFKA_PASSWORD'"):
        Stream("gate", source, Header("a"), 1000, 1000)
    monkeypatch.setenv("KAFKA_PASSWORD", "FAKE-password")

    Stream("gate", source, Header("a"), 1000, 1000).close()


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ('"no.such.thing" = 1', "sources.gate.kafka: No such configuration property:"),
        ('"group.id" = "x"', "sources.gate.kafka.options: 'group.id' is set by gatewatch."),
    ],
)
def test_a_wrong_option_is_named(tmp_path: Path, option: str, said: str) -> None:
    text = f'[sources.gate.kafka]\nbrokers = "b"\ntopics = ["t"]\noptions = {{ {option} }}\n'

    with pytest.raises(ConfigError) as caught:
        Stream("gate", config(tmp_path, text), Header("a"), 1000, 1000)

    assert str(caught.value).startswith(said)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('brokers = "b"\ntopics = []', "Expected `array` of length >= 1 - at `$.topics`."),
        ('broker = "b"\ntopics = ["t"]', "unknown key 'broker'. Did you mean 'brokers'?"),
    ],
)
def test_a_wrong_table_is_named(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config(tmp_path, f"[sources.gate.kafka]\n{text}\n")

    assert str(caught.value) == f"{tmp_path / 'gatewatch.toml'}: sources.gate.kafka: {said}"


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    kafka = Kafka("b", ("t",))

    with pytest.raises(ConfigError) as caught:
        Stream("gate", Source(kafka=kafka), Header("a"), 1000, 1000)

    assert str(caught.value) == (
        "sources.gate.kafka: reading Kafka needs an extra: pip install 'gatewatch[kafka]'."
    )


def test_the_place_is_stored_with_the_lines(tmp_path: Path) -> None:
    world = World(tmp_path, policy=None)
    offset = Offset("gate", "kafka:calls/3", 2**63 - 1, 3, 17, "", 0, False)

    world.land([native(0)], at(1), offsets=(offset,))
    world.land([native(0)], at(1), offsets=(offset,))

    rows = world.rows("SELECT * EXCLUDE (seen_at) FROM tail_offsets")
    assert [Offset(**row) for row in rows] == [offset]
    world.close()
