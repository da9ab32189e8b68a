"""Any bytes: each line is an event's or in quarantine, nothing raises, no two readers differ.

The alphabets are made of what breaks readers: brackets, quotes, escapes, surrogates, numbers over
any width, NUL, BOM, invalid UTF-8. Hypothesis puts them together and makes what fails small.
"""

import gzip
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zstandard
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ingest.batch import Line
from ingest.cut import LINES, Cutter, How
from ingest.files import read_file
from ingest.parse import parse, parse_text
from ingest.split import Splitter, elements
from ingest.store import Store, memory_store
from tests.world import World, at

PIECES = [
    b"{", b"}", b"[", b"]", b'"', b":", b",", b"\\", b"\\u", b"\\ud83d", b"\\ude00", b"\\u0000",
    b"\n", b"\r\n", b"\r", b" ", b"\t", b"\0", b"\xef\xbb\xbf", b"\xff", b"\xc3", b"\xed\xa0\x80",
    b"null", b"true", b"NaN", b"Infinity", b"-0", b"1e999", b"1.", b"18446744073709551616",
    b"-9223372036854775809", b"123456789012345678901234567890", b"0.1", b"1e-400", b'"a"', b'"ts"',
    b'{"ts":"2026-03-10T09:00:00Z","kind":"tool_call","agent":"a1"}', b'{"kind":{"a":[1]}}',
    "é\u2028\U0001f600".encode(), b"a", b"' ", b"$", b'"$.x"', b'"a.b"', b"/*", b"{}", b"[]",
]  # fmt: skip
TEXTS = st.lists(st.sampled_from(PIECES), max_size=30).map(b"".join) | st.binary(max_size=80)
WORDS = st.text(st.characters(codec=None), max_size=6) | st.sampled_from(
    ["", "a.b", "$", "$.a", "a/b", "~1", "a\0b", "\u2028", "\ud83d", "'", '"', "\\", "[0]", "*"]
)
NUMBERS = (
    st.integers()
    | st.integers(-(10**40), 10**40)
    | st.floats(allow_nan=True, allow_infinity=True)
    | st.sampled_from([2**53 + 1, 2**63, -(2**63) - 1, 2**64, 1e308, 5e-324, -0.0, 1e16])
)
DOCS = st.dictionaries(
    WORDS,
    st.recursive(
        st.none() | st.booleans() | NUMBERS | WORDS,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=4),
        max_leaves=12,
    ),
    max_size=5,
)


HOWS = [LINES, How("json"), How("text"), How(wrapper="cri"), How(wrapper="docker")]


def bounded(examples: int) -> settings:
    """Other bytes at each run; the whole file stays under half a minute."""
    return settings(
        max_examples=examples, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    world = World(tmp_path_factory.mktemp("fuzz"), policy=None)
    yield world
    world.close()


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    store = memory_store()
    yield store
    store.close()


def cut(cutter: Cutter, text: bytes, sizes: list[int]) -> list[Line]:
    found, left = list[Line](), text
    for size in [*sizes, len(text) + 1]:
        found += cutter.split(left[:size])
        left = left[size:]
    assert cutter.consumed + cutter.pending == len(text)
    return found + cutter.finish()


def plain_lines(text: bytes) -> list[bytes]:
    """What the lines of a text are, said in the plainest way."""
    ended = text.split(b"\n")
    lines = ended if ended[-1] else ended[:-1]
    if lines:
        lines[0] = lines[0].removeprefix(b"\xef\xbb\xbf")
    return [line.removesuffix(b"\r") for line in lines]


@bounded(400)
@given(TEXTS, st.lists(st.integers(0, 7), max_size=12))
def test_lines_are_the_same_in_any_chunking(text: bytes, sizes: list[int]) -> None:
    assert cut(Splitter(10_000), text, sizes) == plain_lines(text)


@bounded(40)
@given(st.lists(TEXTS, max_size=12))
@example([b'\xef\xbb\xbf{"a":1}', b" \n\n{}"])
def test_every_line_becomes_an_event_or_stands_in_quarantine(
    world: World, texts: list[bytes]
) -> None:
    lines = cut(Splitter(10_000), b"\n".join(texts), [])
    blank = sum(parse(line)[:4:3] == (None, None) for line in lines if isinstance(line, bytes))
    [before] = world.rows(
        "SELECT (SELECT count(*) FROM events) AS events, (SELECT count(*) FROM quarantine) AS bad"
    )

    landed = world.land(lines, at(1))

    [after] = world.rows(
        "SELECT (SELECT count(*) FROM events) AS events, (SELECT count(*) FROM quarantine) AS bad"
    )
    assert landed.lines + blank == len(lines)
    assert landed.events + landed.duplicates + landed.quarantined == landed.lines
    assert after["events"] - before["events"] == landed.events
    assert after["bad"] - before["bad"] == landed.quarantined


def paths(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every value in a document with its JSON pointer."""
    yield path, value
    if isinstance(value, dict):
        for key, inner in value.items():
            step = key.replace("~", "~0").replace("/", "~1")
            yield from paths(inner, f"{path}/{step}")
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from paths(inner, f"{path}/{number}")


def exact(text: str) -> Any:
    """JSON with every whole number as its digits, so that none is rounded."""
    return json.loads(text, parse_int=lambda digits: ("n", digits))


def shows(text: str | None, value: Any) -> bool:
    """Whether this is what ->> gives for a value."""
    match value:
        case None | str():
            return text == value
        case bool():
            return text == ("true" if value else "false")
        case float():
            return float(text or "nan") == value
        case _:
            return bool(text == value[1])


def same_everywhere(store: Store, doc: str) -> None:
    """Python, msgspec and DuckDB read one thing, under every path."""
    told = exact(doc)
    assert msgspec.json.decode(doc) == json.loads(doc)
    every = [(path, value) for path, value in paths(told) if path and "//" not in f"{path}/"]
    with store.reading() as db:
        for path, value in every:
            row = db.execute("SELECT $d::JSON -> $p, $d::JSON ->> $p", {"d": doc, "p": path})
            part, text = row.fetchall()[0]
            assert exact(part) == value, path
            if not isinstance(value, dict | list):
                assert shows(text, value), path
        read = "SELECT json_valid($d), json_keys($d), from_json($d, '\"MAP(VARCHAR, JSON)\"')"
        valid, keys, members = db.execute(read, {"d": doc}).fetchall()[0]
    assert valid
    assert list(keys) == list(told)
    # a JSON null is no value of a MAP
    assert {key: value and exact(value) for key, value in members.items()} == told


@bounded(150)
@given(DOCS, st.booleans(), st.sampled_from([None, 1]))
def test_what_is_stored_reads_the_same_for_python_and_for_duckdb(
    store: Store, doc: dict[str, Any], escaped: bool, indent: int | None
) -> None:
    text = json.dumps(doc, ensure_ascii=escaped, indent=indent)

    found = parse(text.encode("utf-8", "surrogatepass"))

    if found.doc is None:  # NaN, and a surrogate that is no UTF-8, are no JSON
        assert found.reason in ("parse", "encoding")
        assert found.reason == "encoding" or "NaN" in text or "Infinity" in text
    else:
        same_everywhere(store, found.doc)
        assert parse(found.doc.encode()).doc == found.doc


@bounded(250)
@given(TEXTS)
@example(b'{"a":1,"a":[{"b":-0.0,"b":1e5}]}')
def test_any_bytes_that_are_taken_for_an_object_read_the_same(store: Store, text: bytes) -> None:
    for found in (parse(text), parse_text(text), parse(b"{" + text + b"}")):
        assert (found.doc is None) or (found.error, found.reason) == (None, None)
        if found.doc is not None:
            same_everywhere(store, found.doc)


@bounded(80)
@given(TEXTS, st.integers(1, 50), st.sampled_from(HOWS))
def test_a_file_gives_the_same_lines_however_it_is_packed(
    tmp_path_factory: pytest.TempPathFactory, text: bytes, size: int, how: How
) -> None:
    half = len(text) // 2
    packed = [
        text,
        gzip.compress(text[:half]) + gzip.compress(text[half:]),
        zstandard.compress(text[:half]) + zstandard.compress(text[half:]),
    ]
    if text[:2] == b"\x1f\x8b" or text[:4] == b"\x28\xb5\x2f\xfd":
        return

    found = [
        [
            line
            for batch in read_file(Path("-"), "s", "native", 10_000, size, io.BytesIO(each), how)
            for line in batch.lines
        ]
        for each in packed
    ]

    assert found[0] == found[1] == found[2]
    if how == How("text"):
        assert found[0] == plain_lines(text)


@bounded(200)
@given(TEXTS, st.sampled_from([None, "Records", "a"]))
def test_a_body_gives_its_elements_or_else_its_lines_and_never_raises(
    text: bytes, envelope: str | None
) -> None:
    found = elements(text, 10_000, envelope)

    whole = b"".join(line for line in found if isinstance(line, bytes))
    assert whole.count(b'"') >= text.count(b'"') if envelope else True
    for line in found:
        assert isinstance(line, bytes)
        parse(line)


@bounded(100)
@given(st.lists(DOCS, max_size=4), st.booleans())
def test_a_body_of_objects_gives_each_of_them(docs: list[dict[str, Any]], array: bool) -> None:
    texts = [json.dumps(doc) for doc in docs]
    body = f"[{', '.join(texts)}]" if array else "\n".join(texts)

    found = elements(body.encode(), 100_000)

    assert [line for line in found if line] == [text.encode() for text in texts]
