"""What each adapter owes, whatever it reads: it finds new adapters by itself."""

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest import adapter
from ingest.parse import parse, parse_text
from ingest.store import Db, fetch, memory_store

HERE = Path(__file__).with_name("adapters")
CASES = Path(__file__).parents[3] / "shared" / "cases" / "fixtures"
NOW = datetime(2026, 3, 11, tzinfo=UTC)
NAMES = adapter.names()
KINDS = {
    "tool_proposed", "tool_decided", "tool_executed", "approval_requested", "approval_decided",
    "egress", "config_changed", "limit_hit", "message", "model_call", "agent_run", "heartbeat",
    "other",
}  # fmt: skip
Row = dict[str, Any]
each_adapter = pytest.mark.parametrize("name", NAMES)


def lines(path: Path, text: bool = False) -> list[tuple[int, str]]:
    """The lines of a file that adapters see, as the ledger numbers them."""
    read = parse_text if text else parse
    parsed = [read(raw).doc for raw in path.read_bytes().split(b"\n")]
    return [(at, doc) for at, doc in enumerate(parsed, start=1) if doc is not None]


def read(name: str, numbered: Sequence[tuple[int, str]], db: Db | None = None) -> list[Row]:
    """What an adapter makes of lines, in the order of the ledger; absent columns left out."""
    if db is None:
        with memory_store().writing() as own:
            return read(name, numbered, own)
    found = adapter.load(name, db, "tests")
    with adapter.lines(db, "gate", NOW, numbered):
        rows = fetch(db, found.events, at=NOW)
    filled = [{key: value for key, value in row.items() if value is not None} for row in rows]
    return sorted(filled, key=lambda row: (row["ledger_seq"], row["event_id"]))


def golden(rows: Sequence[Row]) -> str:
    """Rows as a person reads them: one JSON object a line."""
    return "".join(json.dumps(row, default=str, ensure_ascii=False) + "\n" for row in rows)


def sample(name: str) -> list[tuple[int, str]]:
    with memory_store().writing() as db:
        text = adapter.load(name, db, "tests").header.format == "text"
    return lines(HERE / f"{name}.ndjson", text)


@each_adapter
def test_names_and_types_fit_the_events(name: str) -> None:
    with memory_store().writing() as db:
        found = adapter.load(name, db, "tests")

    assert found.header.title
    assert all(path.startswith("/") for path in found.header.paths)


@each_adapter
def test_the_sample_gives_the_golden_rows(name: str, pytestconfig: pytest.Config) -> None:
    expected = HERE / f"{name}.golden.ndjson"

    found = golden(read(name, sample(name)))

    if pytestconfig.getoption("--accept"):
        expected.write_text(found, encoding="utf-8")
    assert found == expected.read_text(encoding="utf-8")


@each_adapter
def test_the_order_of_lines_changes_no_row(name: str) -> None:
    forwards, backwards = read(name, sample(name)), read(name, sample(name)[::-1])

    assert golden(backwards) == golden(forwards)


@each_adapter
def test_a_line_that_comes_twice_gives_the_same_event_id(name: str) -> None:
    first = sample(name)
    again = [(at + 1_000, doc) for at, doc in first]

    rows = read(name, first + again)

    half = len(rows) // 2
    with_id = [row for row in rows if "native_id" in row]
    assert len(rows) == 2 * half
    assert len(with_id) >= half
    for row, twin in zip(rows[:half], rows[half:], strict=True):
        assert (row["event_id"] == twin["event_id"]) == ("native_id" in row)


@each_adapter
def test_the_sample_is_long_enough_to_say_something(name: str) -> None:
    assert 5 <= len(sample(name)) <= 30


def test_each_sample_and_golden_file_belongs_to_an_adapter() -> None:
    found = {path.name.split(".")[0] for path in HERE.glob("*.ndjson")}

    assert found == set(NAMES)


@each_adapter
def test_every_hostile_line_is_read_without_an_error(name: str) -> None:
    docs = [doc for file in sorted(CASES.glob("*.jsonl")) for _, doc in lines(file)]
    assert len(docs) > 400

    for row in read(name, list(enumerate(docs))):
        assert row["kind"] in KINDS
        assert row["ts"].year >= 2000


KEYS = sorted({key for name in NAMES for _, doc in sample(name) for key in json.loads(doc)})
WORDS = ["", "-", "null", "NaN", "1e999", "2026-02-30T09:00:00Z", "deny", "'; --", "{", "\u202e"]
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.sampled_from(WORDS),
    st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=20),
)  # fmt: skip
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)
STARTS = st.sampled_from([{}, *(json.loads(doc) for name in NAMES for _, doc in sample(name)[:5])])
CHANGES = st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=8), VALUES, max_size=12)


@each_adapter
@settings(max_examples=25, deadline=None)
@given(changed=st.lists(st.tuples(STARTS, CHANGES), min_size=1, max_size=40))
def test_no_value_of_any_key_raises(
    name: str, changed: list[tuple[dict[str, Any], dict[str, Any]]]
) -> None:
    docs = [json.dumps(start | change).encode() for start, change in changed]
    parsed = [(at, parse(doc).doc) for at, doc in enumerate(docs)]

    rows = read(name, [(at, doc) for at, doc in parsed if doc is not None])

    assert {row["kind"] for row in rows} <= KINDS
    assert all(row["event_id"] and row["ts"] for row in rows)


HOSTILE: list[Any] = [
    1e300, "1e300", "1e999", "NaN", "-Infinity", "1e18", 2**70, "-9223372036854775808", -1, True,
    None, "", "a\u2400b", [], {}, [[]], [None, {}], {"a": 1}, "{", "[::1", "(",
    "9999-12-31T23:59:59Z", "-5000-01-01T00:00:00Z", "300000-01-01T00:00:00Z",
    "2026-11-01T00:00:00+99:99",
]  # fmt: skip


def places(value: Any) -> Iterator[tuple[str | int, ...]]:
    """Where something stands within a document; of a list, in its first element."""
    todo: list[tuple[tuple[str | int, ...], Any]] = [((), value)]
    while todo:
        at, inner = todo.pop()
        if at:
            yield at
        if isinstance(inner, dict):
            todo += [((*at, key), each) for key, each in inner.items()]
        elif isinstance(inner, list) and inner:
            todo.append(((*at, 0), inner[0]))


@each_adapter
def test_no_value_deep_within_a_line_raises(name: str) -> None:
    docs, seen = list[str](), set[tuple[str | int, ...]]()
    for _, doc in sample(name):
        for place in places(json.loads(doc)):
            if place in seen:
                continue
            seen.add(place)
            for value in HOSTILE:
                whole = found = json.loads(doc)
                for step in place[:-1]:
                    found = found[step]
                found[place[-1]] = value
                docs.append(json.dumps(whole))

    rows = read(name, list(enumerate(docs)))

    assert {row["kind"] for row in rows} <= KINDS


PARTS = 1_000
ROOM = "800MB"  # a list of parts that each part carries with it would need several times as much


def widened(value: Any) -> Iterator[tuple[Any, list[Any]]]:
    """For each list within a document: the document, and that list in it; a copy each time."""
    places: list[tuple[str | int, ...]] = []
    todo: list[tuple[tuple[str | int, ...], Any]] = [((), value)]
    while todo:
        at, inner = todo.pop()
        if isinstance(inner, dict):
            todo += [((*at, key), each) for key, each in inner.items()]
        elif isinstance(inner, list) and inner:
            places.append(at)
            todo.append(((*at, 0), inner[0]))
    for place in places:
        whole = found = json.loads(json.dumps(value))
        for step in place:
            found = found[step]
        yield whole, found


@each_adapter
def test_a_line_of_many_parts_costs_no_more_than_its_parts(name: str) -> None:
    docs = []
    for _, doc in sample(name):
        for whole, found in widened(json.loads(doc)):
            found[:] = found[:1] * PARTS
            docs.append(json.dumps(whole))
    longest = sorted(docs, key=len)[-4:]

    with memory_store().writing() as db:
        db.execute("PRAGMA disable_optimizer")  # as landing does where lines are few
        db.execute(f"SET memory_limit = '{ROOM}'")
        for at, doc in enumerate(longest):
            read(name, [(at, doc)], db)
