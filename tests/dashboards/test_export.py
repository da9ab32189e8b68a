"""CSV that an auditor can open without running what an agent wrote (case B155)."""

import csv
import io
import json

import polars as pl

from dashboards import export
from tests.dashboards.insert import NOW

SHARED = "shared/cases/fixtures/B155-csv-formula.jsonl"


def read(frame: pl.DataFrame) -> list[list[str]]:
    return list(csv.reader(io.StringIO(export.csv(frame).decode(), newline="")))[1:]


def test_text_that_looks_like_a_formula_is_defused_and_a_negative_number_is_not() -> None:
    from tests.kit import ROOT

    lines = [json.loads(line) for line in (ROOT.parent / SHARED).read_text().splitlines()]
    frame = pl.DataFrame(
        {"reason": [each["reason"] for each in lines],
         "latency": [each.get("latency_s") for each in lines]}
    )  # fmt: skip

    cells = read(frame)

    assert [cell for cell, _ in cells[:-1] if not cell.startswith("'")] == []
    assert cells[-1] == ["", "-1.5"]


def test_plain_text_times_and_lists_stay_what_they_are() -> None:
    frame = pl.DataFrame(
        {"who": ["a1"], "ts": [NOW], "ids": [["e1", "e2"]], "text": ['say "no", a']}
    )

    assert read(frame) == [["a1", "2026-03-10T09:30:00Z", "e1, e2", 'say "no", a']]


def test_hidden_characters_do_not_smuggle_a_formula_in() -> None:
    cells = read(pl.DataFrame({"text": ["\u200b=1", " =1", "\ufeff=1", "＝1"]}))

    assert [cell[0] for [cell] in cells] == ["'"] * 4
