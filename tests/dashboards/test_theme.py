"""Text from logs is text on the page, and nothing else writes HTML."""

import re
from datetime import UTC, datetime

import pytest

from dashboards import theme
from dashboards.flatten import flat
from tests.kit import ROOT

SOURCES = sorted((ROOT / "dashboards").rglob("*.py"))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<b>&\"'", "&lt;b&gt;&amp;&quot;&#x27;"),
        ("a\u202eb\u200bc\x1b[31m", "a\\u202eb\\u200bc\\u001b[31m"),
        ("two\nlines", "two\nlines"),
        ("x" * 2_001, "x" * 2_000 + " … (2,001 characters)"),
        ("连续被拒", "连续被拒"),
    ],
)
def test_text_is_shown_as_it_is_and_what_hides_is_shown_by_number(text: str, shown: str) -> None:
    assert theme.safe(text) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"),
        (True, "yes"),
        (1_204, "1,204"),
        (0.03125, "0.03125"),
        (1_820.5, "1,820"),
        (datetime(2026, 3, 10, 9, tzinfo=UTC), "2026-03-10 09:00:00"),
        (["a", 1], "a, 1"),
    ],
)
def test_values_read_as_a_person_writes_them(value: object, shown: str) -> None:
    assert theme.shown(value) == shown


def test_a_document_becomes_lines_and_a_huge_or_broken_one_stays_small() -> None:
    assert flat('{"a": {"b": [1, 2]}, "c": [{"d": null}]}') == {"a.b": [1, 2], "c.1.d": None}
    assert flat("{}") == {}
    assert flat("not JSON") == {"text": "not JSON"}
    assert flat("[" * 100_000) == {"text": "[" * 100_000}
    assert len(flat(str({f'"{n}"': n for n in range(500)}).replace("'", ""))) == 60


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_only_the_theme_writes_html_and_nobody_markdown_or_a_cache(path: object) -> None:
    text = path.read_text()  # type: ignore[attr-defined]
    banned = r"unsafe_allow|st\.(markdown|write|cache_data|cache_resource|latex|badge)\b"

    assert re.findall(banned, text) == []
    assert path.stem == "theme" or "st.html" not in text  # type: ignore[attr-defined]
