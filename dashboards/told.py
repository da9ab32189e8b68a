"""Who was told of one alert, what is still owed and why, and what happened to it since."""

from typing import NamedTuple

import polars as pl
import streamlit as st

from dashboards import theme
from dashboards.client import Client, ServiceRefused
from dashboards.theme import Column
from detectors.whom_words import render

DELIVERIES = """
    SELECT receiver, kind, state, attempts::BIGINT AS attempts, created_at, done_at,
           CASE WHEN state = 'pending' THEN next_at END AS next_at, left(last_error, 300) AS detail,
           count(*) OVER () AS total
    FROM deliveries
    WHERE alert_id = $alert
       OR alert_id IN (SELECT storm_id FROM storm_members WHERE alert_id = $alert)
    ORDER BY created_at DESC, receiver LIMIT 100
"""
HISTORY = """
    SELECT ts, what, left(detail, 1000) AS detail, count(*) OVER () AS total
    FROM alert_events WHERE alert_id = $alert ORDER BY ts DESC, what LIMIT 200
"""
DELIVERED = (
    Column("Receiver", ("receiver", "kind")),
    Column("State", ("state",)),
    Column("Attempts", ("attempts",)),
    Column("Created, done", ("created_at", "done_at")),
    Column("Next try, last error", ("next_at", "detail")),
)
PAST = (Column("Time", ("ts",)), Column("What", ("what",)), Column("Detail", ("detail",)))


class Told(NamedTuple):
    deliveries: pl.DataFrame
    history: pl.DataFrame
    why: str  # who would be told now, and why; or why that is not known


def load(client: Client, alert_id: str) -> Told:
    try:
        why = render(client.route(alert_id))
    except ServiceRefused as error:
        why = str(error)
    told, past = (client.sql(sql, alert=alert_id) for sql in (DELIVERIES, HISTORY))
    return Told(told, past, why)


def show(data: Told) -> None:
    left, right = st.columns([3, 2], gap="medium")
    with left:
        states = data.deliveries["state"].to_list() if len(data.deliveries) else []
        owed, dead = states.count("pending"), states.count("dead")
        note = f"{owed} owed, {dead} given up" if states else ""
        theme.section("Who was told", note)
        if data.deliveries.is_empty():
            theme.empty(
                "Nobody is owed a message about it. To try a receiver:",
                "gatewatch test-send RECEIVER",
            )
        else:
            theme.table(data.deliveries, DELIVERED)
            _rest(data.deliveries)
        with st.expander("Who would be told now, and why"):
            theme.lines(data.why)
    with right:
        theme.section("History", "the newest first")
        if data.history.is_empty():
            theme.empty("Nothing has happened to it since it opened.")
        else:
            theme.table(data.history, PAST)
            _rest(data.history)


def _rest(rows: pl.DataFrame) -> None:
    """Say what a limit cut."""
    total = rows["total"].item(0)
    if total > len(rows):
        theme.empty(f"The newest {len(rows):,} of {total:,}.")
