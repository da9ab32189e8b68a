import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detectors.shorten import cut, fit, plain, squeeze, utf16, visible
from tests.kit_receivers import ROOT

FAMILY, FLAG, ACCENT = "👨‍👩‍👧‍👦", "🇨🇳", "e\u0301"
SIZES = {"bytes": lambda text: len(text.encode()), "chars": len, "utf16": utf16}
CASE = json.loads((ROOT.parent / "shared/cases/fixtures/B120-cut-mid-char.trunc.json").read_text())


@pytest.mark.parametrize("limit", CASE["limits"], ids=lambda limit: f"{limit['n']} {limit['unit']}")
@pytest.mark.parametrize("text", CASE["texts"], ids=range(len(CASE["texts"])))
def test_case_b120_a_cut_is_valid_and_within_the_limit(limit: dict[str, object], text: str) -> None:
    size, room = SIZES[str(limit["unit"])], int(str(limit["n"]))

    shown = cut(text, room, size)

    assert size(shown) <= room
    assert shown.encode().decode() == shown
    assert shown == text or shown.endswith("…")


@pytest.mark.parametrize("text", [FAMILY, FLAG, ACCENT, "👍🏽", "각"])
def test_a_visible_character_is_kept_or_dropped_whole(text: str) -> None:
    for room in range(1, 60):
        shown = cut("a" + text * 20, room)

        assert (shown.removesuffix("…")[1:]).replace(text, "") == ""


@given(st.text(), st.integers(0, 40))
def test_a_cut_never_grows_and_never_breaks(text: str, room: int) -> None:
    for size in SIZES.values():
        try:
            text.encode()
        except UnicodeEncodeError:
            return
        assert size(cut(text, room, size)) <= max(room, 0)


@given(st.text(), st.integers(3, 40))
def test_the_middle_goes_and_both_ends_stay(text: str, room: int) -> None:
    shown = squeeze(text, room)

    assert len(shown) <= room
    assert shown == text or "…" in shown


def test_controls_colours_and_reversed_text_do_not_arrive() -> None:
    assert plain("a\x1b[31mb\x1b[0m\nc\u202ed\x9b1m\u200b") == "ab cd 1m<U+200B>"
    assert visible("a\x1b[31m\nb\u202e") == "a\\x1b[31m\\nb<U+202E>"
    assert plain(FAMILY) == FAMILY


def test_a_list_that_does_not_fit_says_how_much_is_missing() -> None:
    rest = "{} of {}".format

    assert fit(["aa", "bb"], 2, 4, len, rest) == ["aa", "bb"]
    assert fit(["aa", "bb", "cc"], 3, 9, len, rest) == ["aa", "bb", "cc"]
    assert fit(["aaaa", "bb", "cc"], 9, 10, len, rest) == ["aaaa", "1 of 9"]
