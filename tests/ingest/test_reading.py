"""Lines read many at once are what they are when read one by one."""

from datetime import UTC, datetime

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest import reading
from ingest.batch import Line, Oversized
from ingest.parse import Parsed, parse, parse_text
from ingest.redact import Redactor
from ingest.segment import Entries, Entry, Marker, encode

REDACTOR = Redactor(b"k" * 32)
CUT = Oversized(b'{"a": "', 2_000_000, "0" * 64)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)
# Plain lines, and all that can hide among them: two values on a line, a value over two lines.
PIECES = st.sampled_from(
    [b"", b" ", b"{}", b'{"a":1}', b'{"a": 1}', b'{"a":1},{"b":2}', b'{"a":1}\n{"b":2}', b'{"a":"',
     b'"}', b"[1]", b"[1", b"1]", b"1", b'"x"', b'{"a":1,"a":2}', b'{"a":1.0}', b'{"a":1.00}',
     b'{"a":"\\u0000"}', b'{"a":"\\ud800"}', b'{"a":"\\u00e9"}', b"{\xff}", b'{"a":"\xff"}',
     b'{"a":NaN}', b"[" * 70 + b"]" * 70, b'{"a":' * 64 + b"1" + b"}" * 64,
     b'{"a":' * 65 + b"1" + b"}" * 65, b'{"a":"' + b"{" * 70 + b'"}', b'{"password":"FAKEabc12"}',
     b"\xef\xbb\xbf{}", b"\0\0{}", b'{"a":"a\\",\\"b"}', b"plain text", b"password=FAKEabc12"]
)  # fmt: skip
LINES = st.lists(
    PIECES | st.builds(lambda v: msgspec.json.encode({"v": v}), VALUES) | st.binary(max_size=9)
    | st.just(CUT),
    max_size=9,
)  # fmt: skip


def singly(line: Line, plain_text: bool) -> tuple[Entry, Parsed]:
    if isinstance(line, Oversized):
        text = f"a line of {line.length} bytes; sha256 {line.sha256}"
        return Entry(line), Parsed(None, (), text, "too_large")
    clean = REDACTOR.redact([line])[0]
    return Entry(*clean), (parse_text if plain_text else parse)(clean.raw)


def texts(found: reading.Lines) -> list[str | None]:
    return [doc.decode() if isinstance(doc, bytes) else doc for doc in found.docs]


@settings(deadline=None)
@given(LINES, st.booleans(), st.integers(0, 70))
def test_whatever_stands_beside_a_line_it_says_the_same(
    lines: list[Line], plain_text: bool, plain: int
) -> None:
    lines = [*lines, *[b'{"plain":true}'] * plain]
    alone = [singly(line, plain_text) for line in lines]
    kept = [(entry, its) for entry, its in alone if its.doc is not None or its.reason is not None]

    found = reading.read(lines, REDACTOR, plain_text)

    assert list(found.entries) == [entry for entry, _ in kept]
    assert texts(found) == [its.doc for _, its in kept]
    odd = {n: its for n, (_, its) in enumerate(kept) if its.doc is None or its.marks}
    assert found.odd == odd
    assert texts(reading.again(tuple(found.entries), plain_text)) == texts(found)


@settings(deadline=None)
@given(LINES)
def test_lines_in_columns_are_written_as_each_alone_would_be(lines: list[Line]) -> None:
    entries = Entries(lines, {n: ("a",) for n, line in enumerate(lines) if line == b"{}"})
    at, marker = datetime(2026, 3, 9, tzinfo=UTC), Marker("gate", "native")

    assert encode(entries, marker, at) == encode(tuple(entries), marker, at)
