"""The guarded parser: any bytes in, one reading out."""

import hashlib
import json
import random
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.batch import Line, Oversized
from ingest.parse import BLANK, Parsed, Splitter, elements, parse, parse_text

FIXTURES = Path(__file__).parents[3] / "shared" / "cases" / "fixtures"


def lines(case: str) -> list[Parsed]:
    """What parse makes of a fixture's lines, blank ones left out."""
    [path] = FIXTURES.glob(f"{case}-*")
    found = [
        parse(line) for line in elements(path.read_bytes(), 1 << 20) if isinstance(line, bytes)
    ]
    return [each for each in found if each != BLANK]


def docs(case: str) -> list[dict[str, Any]]:
    return [json.loads(each.doc) for each in lines(case) if each.doc is not None]


def test_a_bad_escape_costs_its_own_line_only() -> None:
    assert [each.reason for each in lines("B013")] == [None, None, "parse", None, None]
    assert lines("B013")[2].error == "Invalid \\escape at character 122."


def test_text_after_the_object_is_refused_and_its_neighbours_are_not() -> None:
    assert [each["event_id"] for each in docs("B015")] == ["e00052", "e00054"]
    assert lines("B015")[1].reason == "parse"


def test_a_field_of_many_types_keeps_them() -> None:
    found = docs("B018")

    assert len(found) == 9
    assert [each["params"] for each in found[:5]] == [{"a": 1}, "a=1", ["a", 1], None, 7]
    assert found[8]["decision"] is False


def test_of_a_key_given_twice_the_last_wins_and_the_line_is_marked() -> None:
    first, second = lines("B020")

    assert (first.marks, second.marks) == (("duplicate_key",), ())
    assert (first.doc or "").count('"decision"') == 1
    assert docs("B020")[0]["decision"] == "allow"


@pytest.mark.parametrize(
    "raw",
    [
        rb'{"a":1,"a":1}',
        rb'{"a":"\"","a":2}',
        rb'{"a\\":1,"a\\":2}',
        rb'{"a":"\\\"","b":{"c":[{"d":1,"d":2}]}}',
        rb'{"a":1,"\u0061":2}',
        rb'{"a":"\u0022\u005c","a":2}',
        rb'{ "a" : "x" , "a" : "x" }',
        rb'{"\u0000":1,"\u2400":2}',
    ],
)
def test_a_key_given_twice_is_seen_behind_any_escape(raw: bytes) -> None:
    assert "duplicate_key" in parse(raw).marks


def test_every_digit_of_an_integer_stays() -> None:
    text = [each.doc or "" for each in lines("B021")]

    rows = [doc.partition('"row":')[2].partition("}")[0].strip('"') for doc in text]
    assert len(text) == 5
    assert len(set(rows)) == 4
    assert "18446744073709551616" in rows
    assert parse(b'{"a":-' + b"7" * 10_000 + b"}").doc == '{"a":-' + "7" * 10_000 + "}"


def test_what_is_no_number_is_refused_and_one_too_large_becomes_text() -> None:
    nan, infinity, large, plain = lines("B023")

    assert (nan.reason, nan.error) == ("parse", "NaN is not a JSON number.")
    assert infinity.reason == "parse"
    assert large.marks == ("number_as_text",)
    assert '"score":"1e999"' in (large.doc or "")
    assert '"score":1.5' in (plain.doc or "")


def test_lone_surrogates_and_bad_bytes_are_replaced_and_marked() -> None:
    assert [each.marks for each in lines("B024")] == [(), ("lone_surrogate",), ()]
    assert docs("B024")[1]["reason"] == "bad \ufffd byte"
    assert [each.marks for each in lines("B026")] == [(), ("lossy_utf8",), ()]
    assert docs("B026")[1]["agent"] == "ag\ufffd\ufffdent"
    assert parse(rb'{"a":"\ud83d\ude00"}').doc == '{"a":"\U0001f600"}'


def test_line_separators_of_unicode_do_not_end_a_line() -> None:
    assert [each["event_id"] for each in docs("B028")] == ["e00079", "e00080"]
    assert docs("B028")[0]["reason"] == "first\u2028second\u2029third\u0085end"


def test_an_escaped_nul_is_shown_and_tells_two_agents_apart() -> None:
    first, second = lines("B029")

    assert (first.marks, second.marks) == (("nul",), ())
    assert [each["agent"] for each in docs("B029")] == ["agent-a\u2400x", "agent-a"]


def test_blank_lines_are_nothing() -> None:
    assert len(lines("B034")) == len(docs("B034")) == 1
    assert parse(b"") == parse(b" \t\r") == BLANK


def test_a_hole_before_a_line_is_skipped_and_marked() -> None:
    assert parse(b"\0" * 5000 + b'{"a":1}') == Parsed('{"a":1}', ("nul",))


def test_a_byte_order_mark_is_skipped() -> None:
    assert parse(b'\xef\xbb\xbf{"a":1}').doc == '{"a":1}'


@pytest.mark.parametrize("raw", [b"[1]", b'"x"', b"7", b"null", b"x", b'{"a":1', b"{'a':1}", b"}{"])
def test_what_is_not_an_object_is_refused_with_a_sentence(raw: bytes) -> None:
    found = parse(raw)

    assert (found.doc, found.reason) == (None, "parse")
    assert (found.error or "").endswith(".")


def test_bad_bytes_that_are_no_json_either_are_refused_for_their_encoding() -> None:
    assert parse('{"a":1}'.encode("utf-16")).reason == "encoding"


@pytest.mark.parametrize(
    ("opening", "closing", "levels"),
    [(b'{"a":', b"}", 1), (b'{"a":["\\"{[",', b"]}", 2), (b'{"a":1,"b":', b"}", 1)],
)
def test_nesting_has_a_limit_and_no_depth_breaks_it(
    opening: bytes, closing: bytes, levels: int
) -> None:
    fits = 64 // levels

    assert parse(opening * fits + b"0" + closing * fits).doc is not None
    for many in (fits + 1, 2000, 100_000):
        found = parse(opening * many + b"0" + closing * many)
        assert found.error == "The line is nested deeper than 64 levels."
        assert parse(opening * many).reason == "parse"


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
PIECES = (
    b'{ } [ ] : , " \\ \\u d800 0000 \\ud83d \\ude00 1e999 -0 NaN "a" 1 \r \x00 \xff \xed \xa0\x80'
    b' null 9999999999999999999999999 {"a": "a":1 \\\\ \\" \\/'
).split(b" ")
HOSTILE = st.binary(max_size=60) | st.lists(st.sampled_from([*PIECES, b" "]), max_size=14).map(
    b"".join
)


@settings(max_examples=400, deadline=None)
@given(HOSTILE | HOSTILE.map(lambda inner: b'{"k":' + inner + b"}"))
def test_no_bytes_make_it_raise_and_what_it_gives_is_canonical(raw: bytes) -> None:
    found = parse(raw)

    assert found == parse(raw)
    if found.doc is None:
        assert (found.reason is None) == (found.error is None) == (found == BLANK)
        return
    assert "\0" not in found.doc
    assert found.doc.encode().decode() == found.doc
    assert parse(found.doc.encode()) == Parsed(found.doc)
    assert read_by_duckdb(found.doc) == json.loads(found.doc, parse_constant=refuse)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.text(), JSON, max_size=5), st.booleans(), st.sampled_from([None, 1]))
def test_what_other_programs_write_is_read_as_it_was_meant(
    value: dict[str, Any], ascii_only: bool, indent: int | None
) -> None:
    raw = json.dumps(value, ensure_ascii=ascii_only, indent=indent).encode()
    found = parse(raw)

    assert found.doc is not None
    read = json.loads(found.doc)
    if "nul" not in found.marks:
        assert (read, found.marks) == (value, ())
    assert read_by_duckdb(found.doc) == read


def refuse(name: str) -> Any:
    raise AssertionError(name)


def read_by_duckdb(doc: str) -> Any:
    """The document rebuilt from what DuckDB takes out of it, one value after the other."""
    tree = "SELECT fullkey, type, atom, key, id, parent FROM json_tree($1::JSON) ORDER BY id"
    values: dict[int, Any] = {}
    for _, kind, atom, key, ident, parent in duckdb.execute(tree, [doc]).fetchall():
        value: Any = {"OBJECT": {}, "ARRAY": []}.get(kind) if kind in ("OBJECT", "ARRAY") else None
        if value is None and kind != "NULL":
            value = json.loads(atom)
        values[ident] = value
        above = values.get(parent) if parent is not None else None
        if isinstance(above, list):
            above.append(value)
        elif isinstance(above, dict):
            above[key] = value
    return values[min(values)]


CHUNKED = st.binary(max_size=60) | st.text("ab\r\n", max_size=60).map(str.encode)


@settings(max_examples=300, deadline=None)
@given(CHUNKED, st.integers(0, 12), st.randoms(use_true_random=False))
def test_lines_are_the_same_however_the_stream_is_cut(
    data: bytes, max_line: int, dice: random.Random
) -> None:
    whole = Splitter(max_line)
    expected = [*whole.feed(data), (0, whole.finish())]

    parts = Splitter(max_line)
    found: list[tuple[int, Line | None]] = []
    rest = data
    while rest:
        cut = dice.randint(0, 9)
        found += parts.feed(rest[:cut])
        rest = rest[cut:]

    assert [*found, (0, parts.finish())] == expected
    assert [at for at, _ in expected[:-1]] == [i + 1 for i, byte in enumerate(data) if byte == 10]


def test_a_line_over_the_limit_leaves_its_head_its_length_and_its_digest() -> None:
    splitter = Splitter(max_line=1000)
    found = [line for _ in range(50) for _, line in splitter.feed(b"x" * 100)]
    found += [line for _, line in splitter.feed(b"\nshort\n")]

    long, short = found

    assert isinstance(long, Oversized)
    assert long == Oversized(b"x" * 1024, 5000, hashlib.sha256(b"x" * 5000).hexdigest())
    assert short == b"short"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"a":1}\n{"b":2}\r\n\n', [b'{"a":1}', b'{"b":2}', b""]),
        (b'\xef\xbb\xbf[{"a":1},\n {"a":1,"a":2}]\n', [b'{"a":1}', b'{"a":1,"a":2}']),
        (b'[{"a":NaN},{"b":"],[\\""},{"c":1}]', [b'{"a":NaN}', b'{"b":"],[\\""}', b'{"c":1}']),
        (b'[{"a":"\xff"}, 7]', [b'{"a":"\xff"}', b"7"]),
        (b'{\n  "a": 1\n}\n', [b'{   "a": 1 }']),
        (b'{\n"a":1\n}\n{\n"b":"}"}', [b'{ "a":1 }', b'{ "b":"}"}']),
        (b'{"a":1}{"b":2}', [b'{"a":1}', b'{"b":2}']),
        (b'{"a":\nNaN}x', [b'{"a":', b"NaN}x"]),
        (b'[{"a":1}\n{"b":1}', [b'[{"a":1}', b'{"b":1}']),
        (b"[]", []),
        (b"", []),
    ],
)
def test_a_body_is_an_array_or_objects_or_lines(body: bytes, expected: list[bytes]) -> None:
    assert elements(body, 1000) == expected


def test_an_element_over_the_limit_is_measured() -> None:
    small, large = elements(b'[{"a":1},{"a":"' + b"x" * 99 + b'"}]', 50)

    assert small == b'{"a":1}'
    assert isinstance(large, Oversized)
    assert large.length == 107


def test_what_had_to_be_changed_in_a_text_line_is_said_as_of_any_other() -> None:
    assert parse_text(b"plain") == Parsed('{"text":"plain"}')
    assert parse_text(b"a\0b") == Parsed('{"text":"a\u2400b"}', ("nul",))
    assert parse_text(b"a\xffb") == Parsed('{"text":"a\ufffdb"}', ("lossy_utf8",))
    assert parse_text(b"a\0\xff").marks == ("lossy_utf8", "nul")
