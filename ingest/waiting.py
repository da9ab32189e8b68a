"""Batches that wait for their turn at the one writer, and what became of each.

Reads: batches. Writes: nothing. Next: ingest/land.py.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from ingest.account import Landed
from ingest.batch import Batch
from ingest.reading import Lines
from ingest.segment import Marker

TOGETHER = 20_000  # lines of waiting batches that are landed at once: a third of a second's work


@dataclass(frozen=True)
class Ready:
    """A batch whose lines have been redacted and parsed."""

    batch: Batch
    lines: Lines

    @property
    def marker(self) -> Marker:
        its = self.batch
        return Marker(
            its.source, its.adapter, pos=its.pos, key=its.key, offsets=its.offsets,
            zone=its.zone, agent=its.agent,
        )  # fmt: skip


@dataclass
class Waiting:
    """A batch that a thread has brought."""

    ready: Ready
    now: datetime
    landed: Landed | None = None
    error: Exception | None = None

    @property
    def over(self) -> bool:
        return self.landed is not None or self.error is not None

    @property
    def answer(self) -> Landed:
        """What became of it. Raises what kept it from landing."""
        if self.landed is not None:
            return self.landed
        raise self.error or RuntimeError("nobody has landed this batch yet")


class Queue:
    """First come, first served. Any thread may put; whoever has the turn takes."""

    def __init__(self) -> None:
        self._waiting: deque[Waiting] = deque()

    def put(self, one: Waiting) -> None:
        self._waiting.append(one)

    def take(self) -> list[Waiting]:
        """Those who came first, as many as land well together."""
        group, size = list[Waiting](), 0
        while self._waiting and (size < TOGETHER or not group):
            size += len(self._waiting[0].ready.lines.docs)
            group.append(self._waiting.popleft())
        return group


def once(group: Sequence[Waiting]) -> tuple[list[Waiting], list[Waiting]]:
    """Those to land, and those that bring a batch (by its key) that one of the former brings."""
    first: dict[tuple[str, str | int], Waiting] = {}
    for each in group:
        batch = each.ready.batch
        first.setdefault((batch.source, batch.key or id(each)), each)
    chosen = list(first.values())
    return chosen, [each for each in group if all(each is not other for other in chosen)]
