"""JSON values become lines in any chunking; what breaks off costs nothing beyond itself."""

import json
from hashlib import sha256

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.batch import Line, Oversized
from ingest.documents import Documents

VALUES = st.dictionaries(
    st.text(max_size=3),
    st.recursive(
        st.none() | st.integers() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
        max_leaves=6,
    ),
    max_size=4,
)


def cut(data: bytes, size: int, max_line: int = 1000, envelope: str | None = None) -> list[Line]:
    cutter, found = Documents(max_line, envelope), list[Line]()
    for at in range(0, len(data), size):
        found += cutter.split(data[at : at + size])
        assert cutter.consumed + cutter.pending == at + len(data[at : at + size])
    return found + cutter.finish()


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (b'[\n  {"a": 1},\n  {"a": 2}\n]\n', [b'{"a": 1}', b'{"a": 2}']),
        (b'{\n"a": 1}\n{\n"a": 2\n}', [b'{ "a": 1}', b'{ "a": 2 }']),
        (b'{"a":1}{"a":2}', [b'{"a":1}', b'{"a":2}']),
        (b'\xef\xbb\xbf{"a":1}\r\n\r\n[{"b":2}]', [b'{"a":1}', b'{"b":2}']),
        (b'[1, "x,y", {"a":"]}\\""}, null]', [b"1", b'"x,y"', b'{"a":"]}\\""}', b"null"]),
        (b'{"a":[\n{"b":1},\n{"b":2}\n]}', [b'{"a":[ {"b":1}, {"b":2} ]}']),
        (b"no object [at all]\n{}", [b"no object [at all]", b"{}"]),
        # broken off: in an object, in a string, by a bracket that closes another one
        (b'{"a": {"b"\n{"a":2}\n', [b'{"a": {"b"', b'{"a":2}']),
        (b'{"a": 1,\n{"a":2}\n', [b'{"a": 1,', b'{"a":2}']),
        (b'{"a": "x\n{"a":2}', [b'{"a": "x', b'{"a":2}']),
        (b'{"a":[1}\n{"b":2}\n', [b'{"a":[1}', b'{"b":2}']),
        (b'{"a": [1,\n2', [b'{"a": [1,', b"2"]),
        (b" \n , ] ", []),
    ],
)
def test_values_are_lines_wherever_the_chunks_end(
    text: bytes, lines: list[bytes], size: int
) -> None:
    assert cut(text, size) == lines


@settings(max_examples=60, deadline=None)
@given(st.lists(VALUES, max_size=5), st.sampled_from([None, 1, 2]), st.booleans(), st.data())
def test_every_object_comes_out_as_it_went_in(
    docs: list[dict[str, object]], indent: int | None, array: bool, data: st.DataObject
) -> None:
    texts = [json.dumps(doc, indent=indent) for doc in docs]
    text = f"[{','.join(texts)}]" if array else "\n".join(texts)

    found = cut(text.encode(), data.draw(st.integers(1, 40)), max_line=100_000)

    assert [json.loads(line) for line in found if isinstance(line, bytes)] == docs


@pytest.mark.parametrize("size", [1, 10, 10_000])
def test_a_value_over_the_limit_is_measured_and_its_neighbours_arrive(size: int) -> None:
    long = b'{"x": ["' + b"y" * 3000 + b'", {"z": "}"}]}'

    first, big, last = cut(b'[{"a":1},' + long + b',{"a":2}]', size)

    assert (first, last) == (b'{"a":1}', b'{"a":2}')
    assert big == Oversized(long[:1024], len(long), sha256(long).hexdigest())


def test_an_envelope_over_many_lines_gives_a_line_for_each_element() -> None:
    text = json.dumps({"Records": [{"a": 1}, {"a": 2}], "x": 1}, indent=2).encode()

    found = [json.loads(line) for line in cut(text, 10, envelope="Records")
             if isinstance(line, bytes)]  # fmt: skip

    assert found == [{"Records": [{"a": 1}], "x": 1}, {"Records": [{"a": 2}], "x": 1}]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from([b"{", b"}", b"[", b"]", b'"', b"\\", b",", b"\n", b"a", b"\xef"])),
       st.integers(1, 5))  # fmt: skip
def test_any_bytes_in_any_chunks_give_the_same_and_lose_nothing_but_separators(
    parts: list[bytes], size: int
) -> None:
    text = b"".join(parts)

    whole, found = cut(text, len(text) or 1), cut(text, size)

    assert found == whole
    kept = b"".join(line for line in found if isinstance(line, bytes))
    for letter in (b"{", b"}", b'"', b"\\", b"a", b"\xef"):
        assert kept.count(letter) == text.count(letter)
