"""Batches that wait for their turn are landed together, and each sender is answered for its own."""

import json
import threading
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from ingest import adapter, marking
from ingest.account import Landed
from ingest.batch import Batch
from ingest.config import ConfigError
from ingest.land import Lander, Ready
from tests.world import World, at, denied, native

# An adapter that raises on one word: ours never do, but a user's may.
FRAGILE = """
-- title = "fragile"
SELECT eid(source, 'seq:' || ledger_seq, NULL) AS event_id, 'other' AS kind, source, ledger_seq,
    iso_ts(doc ->> 'ts') AS ts,
    CASE WHEN doc ->> 'agent' = 'boom' THEN error('no') ELSE doc ->> 'agent' END AS agent
FROM lines
"""
NOW = at(24 * 60)
TABLES = {
    "events": "* EXCLUDE (ledger_seq)",
    "calls": "*",
    "sources": "*",
    "quarantine": "* EXCLUDE (ledger_seq, pos)",
    "minute_counts": "minute, agent, sum(events), sum(denied), sum(external), sum(approvals)",
}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    own = tmp_path / "own"
    own.mkdir()
    (own / "fragile.sql").write_text(FRAGILE.lstrip())
    opened = World(tmp_path)
    steps.clear()
    redactor = opened.lander._redactor
    opened.lander = Lander(opened.store, opened.ledger, redactor, steps.append, own)
    yield opened
    opened.close()


steps: list[str] = []


def at_once(world: World, batches: list[Batch]) -> list[Landed | Exception]:
    """What each of many threads is answered that come while somebody else has the turn."""
    answers: list[Landed | Exception | None] = [None] * len(batches)

    def send(number: int) -> None:
        try:
            answers[number] = world.lander.land(batches[number], NOW)
        except Exception as error:  # noqa: BLE001 - is the answer
            answers[number] = error

    threads = [threading.Thread(target=send, args=(number,)) for number in range(len(batches))]
    with world.lander.alone():
        for number, each in enumerate(threads, 1):  # in their order
            each.start()
            limit = time.monotonic() + 30
            while len(world.lander._queue._waiting) < number - _answered(answers):
                assert time.monotonic() < limit
                time.sleep(0.001)
    for each in threads:
        each.join()
    return [each for each in answers if each is not None]


def _answered(answers: list[Any]) -> int:
    return sum(each is not None for each in answers)


def batch(*lines: Any, source: str = "gate", **more: Any) -> Batch:
    return Batch(source, more.pop("adapter", "native"), lines, **more)


def mixed() -> list[Batch]:
    """Parts of one call in several batches and sources, a repeat, bad lines, an agent's sender."""
    call = {"tool": "pay", "call_id": "call_0123456789abcdef"}
    return [
        batch(denied(0, "a1", event_id="x", **call), b"no json"),
        batch(native(3, "a1", decision="allow", status="ok", event_id="y", **call), source="two"),
        batch(denied(0, "a1", event_id="x", **call), native(9, "a2", tool="t", event_id="z")),
        batch(native(5, "other", tool="t", event_id="w"), agent="a3"),
        batch(native(5, "other", tool="t", event_id="w")),  # the same again, of the whole source
        batch(b'{"of":"another format"}', adapter="kong_ai"),
        batch(b'{"kind":"egress","kind":"egress","ts":"2026-03-09T09:00:00Z","agent":"a"}', b" "),
        batch(native(1, "a1", tool="t", event_id="z"), source="two", zone="Asia/Shanghai"),
    ]


def tables(world: World) -> dict[str, list[str]]:
    return {
        name: sorted(map(repr, world.rows(f"SELECT {columns} FROM {name} GROUP BY ALL")))
        for name, columns in TABLES.items()
    }


def test_those_who_wait_share_one_fsync_and_one_commit(world: World) -> None:
    answers = at_once(world, [batch(denied(n, event_id=f"e{n}")) for n in range(5)])

    assert answers == [Landed(lines=1, events=1)] * 5
    assert steps == ["ledger", "applied", "commit"]
    assert world.lander.head[0] == 6, "and the policy"


def test_landed_together_or_each_alone_the_tables_are_the_same(
    world: World, tmp_path: Path
) -> None:
    alone = World(tmp_path / "alone")
    singly = [alone.lander.land(each, NOW) for each in mixed()]

    together = at_once(world, mixed())

    assert together == singly
    assert tables(world) == tables(alone)
    world.store.close()
    alone.close()


def test_a_batch_that_its_adapter_cannot_read_spoils_no_other(world: World) -> None:
    found = at_once(
        world,
        [
            batch(native(0, "a"), adapter="fragile"),
            batch(native(1, "boom"), native(2, "c"), adapter="fragile"),
            batch(denied(3)),
        ],
    )

    assert found == [
        Landed(lines=1, events=1), Landed(lines=2, events=1, quarantined=1),
        Landed(lines=1, events=1),
    ]  # fmt: skip
    assert [row["agent"] for row in world.rows("SELECT agent FROM events ORDER BY ts")][:2] == [
        "a",
        "c",
    ]


def test_a_batch_with_a_key_that_comes_twice_at_once_lands_once(world: World) -> None:
    twice = batch(denied(0), key="k")

    found = at_once(world, [twice, batch(denied(1)), twice])

    assert found == [
        Landed(lines=1, events=1), Landed(lines=1, events=1),
        Landed(lines=1, duplicates=1, repeated=True),
    ]  # fmt: skip
    assert world.lander.head[0] == 3


def test_one_whose_adapter_is_unknown_is_told_so_and_the_others_land(world: World) -> None:
    found = at_once(world, [batch(denied(0)), batch(denied(1), adapter="nativ")])

    assert found[0] == Landed(lines=1, events=1)
    assert isinstance(found[1], ConfigError)


def many(world: World, batches: list[Batch]) -> Iterator[tuple[Ready, datetime]]:
    return ((world.lander.read(each), NOW) for each in batches)


def test_a_file_lands_in_one_transaction_and_gives_the_same_tables(
    world: World, tmp_path: Path
) -> None:
    alone = World(tmp_path / "alone")
    singly = [alone.lander.land(each, NOW) for each in mixed()]

    found = list(world.lander.land_all(many(world, mixed())))

    assert found == singly
    assert tables(world) == tables(alone)
    alone.close()


def test_a_file_with_a_line_that_its_adapter_cannot_read_lands_all_others(world: World) -> None:
    batches = [batch(native(n, a), adapter="fragile") for n, a in enumerate(("a", "boom", "c"))]

    found = list(world.lander.land_all(many(world, batches)))

    assert sum(each.quarantined for each in found) == 1
    assert world.rows("SELECT count(*) AS n FROM events") == [{"n": 2}]
    assert world.lander.recover() == 0, "the database is up to the ledger"


def test_a_file_that_breaks_off_lands_what_came_before(world: World) -> None:
    def broken() -> Iterator[tuple[Ready, datetime]]:
        yield from many(world, [batch(denied(0))])
        raise OSError("the disk is gone")

    found = world.lander.land_all(broken())

    assert next(found).events == 1
    with pytest.raises(OSError, match="gone"):
        next(found)
    assert world.rows("SELECT count(*) AS n FROM events") == [{"n": 1}]


@pytest.mark.parametrize("together", [True, False])
def test_a_fault_of_our_own_puts_a_batch_into_quarantine_and_keeps_out_no_other(
    world: World, together: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def faulty(host: str) -> str:
        if host == "boom.example":
            raise ZeroDivisionError(host)
        return host

    monkeypatch.setattr(marking, "canonical_host", faulty)
    hosts = ["a.example", "boom.example", "c.example"]
    batches = [batch(native(n, kind="egress", host=host)) for n, host in enumerate(hosts)]

    found = (
        at_once(world, batches) if together else list(world.lander.land_all(many(world, batches)))
    )

    assert [getattr(each, "quarantined", each) for each in found] == [0, 1, 0]
    rows = world.rows("SELECT detail FROM quarantine")
    assert [row["detail"] for row in rows] == [
        "the adapter 'native' cannot read it: ZeroDivisionError: boom.example"
    ]
    assert world.lander.recover() == 0


ODD = ("9" * 5_000, "-1e400", "18446744073709551616", '"9999-12-31T23:59:59Z"', "[[1]]", '""', "{}",
       '"\\u0000"', '"%s"' % ("9" * 3_000), "true", '"xn--\\u2100"', '"http://[::1"')  # fmt: skip


@pytest.mark.parametrize("name", adapter.names())
def test_no_value_under_any_key_of_a_line_keeps_out_the_next_one(world: World, name: str) -> None:
    samples = (Path(__file__).parent / f"adapters/{name}.ndjson").read_bytes().splitlines()
    docs = [json.loads(line) for line in samples[:12] if line.startswith(b"{")]
    odd = [
        json.dumps(doc | {key: "@"}).replace('"@"', ODD[n % len(ODD)]).encode()
        for doc in docs
        for n, key in enumerate(dict.fromkeys([*doc, "ts", "time", "timestamp"]))
    ]

    first = world.lander.land(batch(*odd, adapter=name), NOW)
    second = world.lander.land(batch(*samples, adapter=name, source="two"), NOW)

    assert (first.lines, second.lines) == (
        len(odd),
        len([each for each in samples if each.strip()]),
    )
    rows = world.rows("""
        SELECT count(DISTINCT ledger_seq) AS lines FROM (SELECT ledger_seq FROM events
        UNION ALL SELECT ledger_seq FROM repeats UNION ALL SELECT ledger_seq FROM quarantine)
    """)
    assert rows == [{"lines": first.lines + second.lines}]
