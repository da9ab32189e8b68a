"""An object that only carries an array gives a line for each element, however long it is."""

import gzip
import io
import json
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.batch import Line, Oversized
from ingest.cut import How
from ingest.envelope import opened
from ingest.files import read_file
from ingest.parse import parse
from ingest.split import Splitter, elements


def of_file(data: bytes, max_line: int = 100, batch_bytes: int = 1000) -> list[Line]:
    stream = io.BytesIO(data)
    found = read_file(Path("-"), "s", "a", max_line, batch_bytes, stream, How(envelope="Records"))
    return [line for batch in found for line in batch.lines]


ONE_BY_ONE = {
    b'{"Records":[{"a":1},{"a":2}]}': [b'{"Records":[{"a":1}]}', b'{"Records":[{"a":2}]}'],
    # other members stay, and the text of an element stays as it is
    b'{"v":[3], "Records": [ {"a" : 1.0} ,{"a":1,"a":2} ], "z":{"y":[]}}': [
        b'{"v":[3], "Records": [{"a" : 1.0}], "z":{"y":[]}}',
        b'{"v":[3], "Records": [{"a":1,"a":2}], "z":{"y":[]}}',
    ],
    # brackets and quotes in strings are text
    rb'{"Records":["]},{[\"",{"b":"\\"}]}': [
        rb'{"Records":["]},{[\""]}', rb'{"Records":[{"b":"\\"}]}',
    ],
    # one bad element spoils no other
    b'{"Records":[{"a":1},{"a":NaN},{"a":3}]}': [
        b'{"Records":[{"a":1}]}', b'{"Records":[{"a":NaN}]}', b'{"Records":[{"a":3}]}',
    ],
    # what was cut off is a line of its own
    b'{"Records":[{"a":1},{"a":2},{"a': [
        b'{"Records":[{"a":1}]}', b'{"Records":[{"a":2}]}', b'{"a',
    ],
    b'{"Records":[{"a":1},{"a":2}]': [b'{"Records":[{"a":1}]}', b'{"Records":[{"a":2}]}', b"]"],
    # files put together without a line end between them
    b'{"Records":[{"a":1},{"a":2}]}{"Records":[{"a":3}]} {"Records":[]}': [
        b'{"Records":[{"a":1}]}', b'{"Records":[{"a":2}]}', b'{"Records":[{"a":3}]}',
        b'{"Records":[]}',
    ],
}  # fmt: skip


@pytest.mark.parametrize(("line", "expected"), ONE_BY_ONE.items())
def test_each_element_becomes_a_line(line: bytes, expected: list[bytes]) -> None:
    assert opened(line, "Records") == expected


AS_IT_IS = [
    b'{"Records":[{"a":1}]}', b'{"Records":[]}', b'{"Records":{}}', b'{"Records":"[1,2]"}',
    b'{"x":{"Records":[1,2]}}', b'["Records",[1,2]]', b'{"x":"Records","y":[1,2]}', b'{"Records"',
    b"", b"{", b'{"Records":[', b'"Records":[1,2]', b'{"Records":[1,2],"Records":[3]}',
    b'{"eventName":"x","n":[1,2]}', b"\xff{", b'}{"Records":[1,2]}',
]  # fmt: skip


@pytest.mark.parametrize("line", AS_IT_IS)
def test_what_carries_no_array_of_two_stays_as_it_is(line: bytes) -> None:
    assert opened(line, "Records") == [line]


def test_other_members_are_not_repeated_without_end() -> None:
    heavy = b'{"Records":[' + b",".join([b"0"] * 50_000) + b'],"x":"' + b"x" * 50_000 + b'"}'

    assert opened(heavy, "Records") == [heavy]


def test_a_file_of_one_long_line_loses_no_element() -> None:
    records = [{"n": number, "text": "x" * 50} for number in range(3_000)]
    text = json.dumps({"Records": records}).encode()
    assert len(text) > 2_000 * 100

    for data in (text, gzip.compress(text + b"\n"), text + b"\r\n" + text):
        found = [
            json.loads(line)["Records"][0] for line in of_file(data) if isinstance(line, bytes)
        ]

        assert found == records * (len(found) // 3_000)
        assert len(found) in (3_000, 6_000)


@pytest.mark.parametrize("indent", [None, 0, 1])
def test_an_envelope_is_found_however_it_is_printed(indent: int | None) -> None:
    text = json.dumps({"Records": [{"a": 1}, {"a": 2}]}, indent=indent)
    for printed in (text, "\ufeff" + text, text.replace("{\n", "{", 1)):
        found = [json.loads(line) for line in of_file(printed.encode()) if isinstance(line, bytes)]

        assert found == [{"Records": [{"a": 1}]}, {"Records": [{"a": 2}]}]


def test_a_long_line_that_is_no_envelope_leaves_its_head() -> None:
    other = b'{"text":"Records","x":"' + b"x" * 5_000 + b'"}'

    [line, last] = of_file(other + b'\n{"Records":[{"a":1},' + b'{"x":"' + b"x" * 200 + b'"}]}')[
        ::2
    ]

    assert isinstance(line, Oversized)
    assert isinstance(last, Oversized)
    assert (line.length, last.length) == (len(other), len(b'{"Records":[{"x":""}]}') + 200)


def test_a_body_is_opened_like_a_file() -> None:
    two = b'{"Records":[{"a":1},{"a":2}]}'
    lines = [b'{"Records":[{"a":1}]}', b'{"Records":[{"a":2}]}']

    for body in (two, two + b"\n", b"[" + two + b"]", two.replace(b"[", b"[\n")):
        assert elements(body, 100, "Records") == lines
    assert elements(two, 100) == [two]


PIECES = [
    b'{"Records":[',
    b'{"a":1}',
    b'"x"',
    b",",
    b"]",
    b"}",
    b"\n",
    b"\r\n",
    b'"',
    b"{",
    b" ",
    b"\\",
]


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.sampled_from(PIECES), max_size=25),
    st.integers(0, 60),
    st.randoms(use_true_random=False),
)
def test_lines_are_the_same_however_the_stream_is_cut(
    parts: list[bytes], max_line: int, dice: random.Random
) -> None:
    data = b"".join(parts)
    whole, cut = Splitter(max_line, "Records"), Splitter(max_line, "Records")
    expected = whole.split(data) + whole.finish()

    found, rest = list[Line](), data
    while rest:
        size = dice.randint(1, 9)
        found += cut.split(rest[:size])
        rest = rest[size:]

    assert found + cut.finish() == expected
    assert cut.consumed == whole.consumed == len(data)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=25))
def test_every_character_of_an_element_is_kept(parts: list[bytes]) -> None:
    data = b"".join(parts).replace(b"\n", b"").replace(b"\r", b"")

    found = b"".join(opened(data, "Records"))

    for piece in (b"1", b"x", b"a"):
        assert found.count(piece) == data.count(piece)


@pytest.mark.parametrize("start", [b'{"a":', b'[{"a":', b'{"Records":[{"a":', b'{"a":' + b"[" * 70])
def test_a_text_that_is_never_closed_is_sought_once_and_not_once_a_quote(start: bytes) -> None:
    body = start + b'"\\' * 400_000  # a quadratic search would take an hour

    found = elements(body, len(body), "Records")

    assert b"".join(line for line in found if isinstance(line, bytes)) == body
    assert parse(body).reason == "parse"
