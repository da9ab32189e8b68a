"""Reads topics of Kafka: an optional extra. Where it is, our own tables say, not Kafka.

The position after each batch lands in the same transaction as its lines (a row of tail_offsets for
each partition), and a start goes on from there; so no line is lost or comes twice, whatever dies.
What is committed to Kafka is for people who watch the lag, and for a database that is new.
Reads: Kafka, tail_offsets. Writes: nothing itself. Next: ingest/land.py.
"""

import hashlib
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ingest import otlp
from ingest.adapter import Header
from ingest.batch import Batch, Line, Offset
from ingest.config import ConfigError, Kafka, Secret, Source
from ingest.cut import of_body
from ingest.split import limited

AT_ONCE = 1000  # messages
OURS = ("bootstrap.servers", "group.id", "enable.auto.commit", "enable.auto.offset.store")
SIGNALS: dict[str, otlp.Signal] = {"otlp_logs": "logs", "otlp_spans": "traces"}
Place = tuple[str, int]  # topic, partition


class Stream:
    """The topics of one source. `problems`: what is wrong now, each a name and a sentence."""

    def __init__(
        self, name: str, source: Source, header: Header, max_line: int, batch_bytes: int
    ) -> None:
        if source.kafka is None:
            raise ConfigError(f"sources.{name}: has no table kafka.")
        self.source, self._adapter, self._zone = name, source.adapter, source.zone
        self._header, self._max_line, self._batch_bytes = header, max_line, batch_bytes
        self._topics = list(source.kafka.topics)
        self._read: dict[Place, int] = {}  # the offset that comes next
        self._waiting: deque[Batch] = deque()  # read, and not yet landed
        self._trouble = ""
        self._cooperative = "cooperative" in str(
            source.kafka.options.get("partition.assignment.strategy", "")
        )
        self._client, self._kafka = _consumer(name, source.kafka, self._failed)
        self._joined = False

    @property
    def problems(self) -> list[tuple[str, str]]:
        return [("kafka", self._trouble)] if self._trouble else []

    def restore(self, offsets: Iterable[Offset]) -> None:
        """Go on from what an earlier process landed."""
        for offset in offsets:
            if offset.source == self.source and offset.path.startswith("kafka:"):
                self._read[_place(offset)] = offset.pos

    def poll(self, wait: float) -> Iterator[Batch]:
        """What has come within so many seconds. Land each batch and call done(); one that is not
        done is given again by the next poll."""
        if not self._joined:
            self._client.subscribe(self._topics, on_assign=self._assigned)
            self._joined = True
        if not self._waiting:
            first = self._client.poll(wait)
            found = [] if first is None else [first, *self._client.consume(AT_ONCE, 0)]
            self._waiting.extend(self._batches(found))
        yield from list(self._waiting)

    def done(self, batch: Batch) -> None:
        """The batch has landed."""
        self._waiting.remove(batch)
        partition = self._kafka.TopicPartition
        told = [partition(*_place(each), each.pos) for each in batch.offsets]
        try:
            self._client.commit(offsets=told, asynchronous=True)
        except self._kafka.KafkaException:
            return  # for those who watch; our own position has landed

    def close(self) -> None:
        self._client.close()

    def _assigned(self, client: Any, partitions: list[Any]) -> None:
        """Begin where we are; a partition that we never read, where Kafka says, or at its start."""
        for each in partitions:
            if (at := self._read.get((each.topic, each.partition))) is not None:
                each.offset = at
        if self._cooperative:
            client.incremental_assign(partitions)
        else:
            client.assign(partitions)
        self._trouble = ""

    def _failed(self, error: Any) -> None:
        self._trouble = f"{error.str()}."

    def _batches(self, messages: Sequence[Any]) -> Iterator[Batch]:
        lines, ends, size = list[Line](), dict[Place, int](), 0
        for message in messages:
            if message.error() is not None:
                self._failed(message.error())
                continue
            place, value = (message.topic(), message.partition()), message.value() or b""
            if message.offset() < self._read.get(place, 0):
                continue  # it was given already; a partition came back to us
            self._trouble = ""
            self._read[place] = ends[place] = message.offset() + 1
            lines += self._lines(value)
            size += len(value)
            if size >= self._batch_bytes:
                yield self._batch(lines, ends)
                lines, ends, size = [], {}, 0
        if ends:
            yield self._batch(lines, ends)

    def _batch(self, lines: list[Line], ends: dict[Place, int]) -> Batch:
        offsets = tuple(_offset(self.source, place, at) for place, at in sorted(ends.items()))
        where = ", ".join(f"{each.path}:{each.pos}" for each in offsets)
        return Batch(
            self.source, self._adapter, tuple(lines), pos=where, offsets=offsets, zone=self._zone
        )

    def _lines(self, value: bytes) -> list[Line]:
        """A message is a line, several, an array, an envelope, or an OTLP request."""
        if (signal := SIGNALS.get(self._adapter)) is not None:
            try:
                packed = value.lstrip()[:1] not in (b"{", b"[", b"")
                return otlp.lines(value, packed, signal, self._max_line)
            except otlp.OtlpError:
                return [limited(value, self._max_line)]  # into quarantine
        return of_body(value, self._header, self._max_line)


def _consumer(name: str, kafka: Kafka, failed: Any) -> tuple[Any, Any]:
    """The client and its library. Raises ConfigError when it is not installed, or refuses."""
    where = f"sources.{name}.kafka"
    try:
        import confluent_kafka as library
    except ImportError:
        raise ConfigError(
            f"{where}: reading Kafka needs an extra: pip install 'gatewatch[kafka]'."
        ) from None
    for key in OURS:
        if key in kafka.options:
            raise ConfigError(f"{where}.options: {key!r} is set by gatewatch.")
    options = {
        "auto.offset.reset": "earliest",
        "queued.max.messages.kbytes": 16_384,  # a partition; the library's own default is 64 MiB
        **{key: _revealed(value) for key, value in kafka.options.items()},
        "bootstrap.servers": kafka.brokers,
        "group.id": kafka.group,
        "enable.auto.commit": False,
        "error_cb": failed,
    }
    try:
        return library.Consumer(options), library
    except (library.KafkaException, TypeError, ValueError) as error:
        said = error.args[0]
        raise ConfigError(f"{where}: {said.str() if hasattr(said, 'str') else said}.") from None


def _revealed(value: str | int | float | bool) -> str | int | float | bool:
    """`env:NAME` and `file:PATH` are looked up, as all secrets are."""
    return Secret(value).reveal if isinstance(value, str) else value


def _offset(source: str, place: Place, at: int) -> Offset:
    """A partition's position as a row of tail_offsets: the topic's number stands for a device, the
    partition for an inode."""
    topic, partition = place
    number = int.from_bytes(hashlib.sha256(topic.encode()).digest()[:8], "big") >> 1
    return Offset(source, f"kafka:{topic}/{partition}", number, partition, at, "", 0, False)


def _place(offset: Offset) -> Place:
    topic, _, partition = offset.path.removeprefix("kafka:").rpartition("/")
    return topic, int(partition)
