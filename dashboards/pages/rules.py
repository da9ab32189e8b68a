"""Stopping rules in force, and those that the miner proposes, with their backtest."""

from typing import Any, NamedTuple

import polars as pl
import streamlit as st

from dashboards import theme
from dashboards.client import Client
from dashboards.filters import Filters
from dashboards.flatten import flat
from dashboards.theme import Column

TITLE = "Rules"
ORDER = 50
LIMIT = 50

RULES = """
    SELECT rule_id, status, path, read_at, doc::VARCHAR AS doc, count(*) OVER () AS total
    FROM rules ORDER BY rule_id LIMIT 500
"""
PROPOSALS = """
    SELECT rule_id, state, made_at, branch, url, left(rule::VARCHAR, 20000) AS rule,
           left(evidence::VARCHAR, 20000) AS evidence, count(*) OVER () AS total
    FROM proposals
    ORDER BY list_position(['proposed', 'found', 'refused'], state), made_at DESC, rule_id
    LIMIT $limit::BIGINT
"""


WORDS = {  # of the backtest and of the evidence beside a rule, in a person's words
    "k": "incidents stopped in time",
    "stopped": "incidents stopped in time",
    "late": "incidents caught too late",
    "g": "good runs stopped wrongly",
    "good_stopped": "good runs stopped wrongly",
    "u": "unlabelled runs stopped",
    "unknown_fired": "unlabelled runs stopped",
    "p": "probability of this by chance",
    "families": "kinds of incident",
    "commits_after_match": "runs that acted after the match",
}


class Data(NamedTuple):
    rules: pl.DataFrame
    proposals: pl.DataFrame


def load(client: Client, filters: Filters) -> Data:
    return Data(client.sql(RULES), client.sql(PROPOSALS, limit=LIMIT))


def show(data: Data) -> None:
    theme.section("Proposals", _count(data.proposals))
    if data.proposals.is_empty():
        theme.empty("No proposal yet. Give alerts a verdict first, then run:", "gatewatch mine")
    for number, row in enumerate(data.proposals.iter_rows(named=True)):
        _proposal(row, opened=number < 5)
    theme.section("Rules", _count(data.rules))
    if data.rules.is_empty():
        theme.empty(
            "No rule has been read yet. To check a folder of rules:", "gatewatch rules check"
        )
        return
    theme.table(
        data.rules,
        (
            Column("Rule", ("rule_id",)),
            Column("Status", ("status",)),
            Column("File", ("path",)),
            Column("Read", ("read_at",)),
        ),
    )


def _proposal(row: dict[str, Any], *, opened: bool) -> None:
    with st.container(border=True):
        theme.banner(
            row["state"],
            row["rule_id"],
            (theme.moment(row["made_at"]), row["branch"] or "", row["url"] or ""),
        )
        if not opened:
            return
        left, right = st.columns(2)
        with left:
            theme.section("Rule")
            theme.pairs(flat(row["rule"]))
        with right:
            theme.section("Backtest")
            theme.pairs(worded(flat(row["evidence"])))


def _count(rows: pl.DataFrame) -> str:
    if rows.is_empty():
        return ""
    total = rows["total"].item(0)
    return f"{total:,}" if total == len(rows) else f"{len(rows):,} of {total:,}"


def worded(figures: dict[str, Any]) -> dict[str, Any]:
    """Figures under names that say what they count."""
    said = {}
    for name, value in figures.items():
        above, _, last = name.rpartition(".")
        word = WORDS.get(last, last.replace("_", " "))
        said[f"{above.replace('_', ' ')}: {word}" if above else word] = value
    return said
