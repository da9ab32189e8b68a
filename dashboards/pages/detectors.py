"""Whether each detector runs, how far it has judged, and what it looks for."""

from datetime import datetime
from typing import Any, NamedTuple

import polars as pl
import streamlit as st

from dashboards import catalogue, theme
from dashboards.client import TROUBLE, Client
from dashboards.filters import Filters
from dashboards.pages.now import STALE
from dashboards.theme import Column

TITLE = "Detectors"
ORDER = 40

HEALTH = """
    WITH ranges AS (
        SELECT detector, max(until) FILTER (status = 'judged') AS judged_until,
               min(since) FILTER (late) AS due_since,
               left(string_agg(DISTINCT reason, '; ' ORDER BY reason) FILTER (late), 300)
                   AS due_reason
        FROM (SELECT *, status = 'due' AND since < $now::TIMESTAMPTZ - INTERVAL 5 SECOND AS late
              FROM judgements)
        GROUP BY detector
    ), told AS (
        SELECT detector, count(*) AS alerts, count(*) FILTER (status = 'open') AS open,
               count(*) FILTER (verdict = 'true') AS right_ones,
               count(*) FILTER (verdict IS NOT NULL AND verdict <> 'true') AS wrong_ones
        FROM alerts WHERE ended_at >= $since::TIMESTAMPTZ AND status NOT IN ('merged', 'withdrawn')
        GROUP BY detector
    )
    SELECT coalesce(judged.detector, ranges.detector, told.detector) AS detector,
           CASE WHEN last_error IS NOT NULL THEN 'failing'
                WHEN last_success_at IS NULL THEN 'never'
                WHEN epoch($now::TIMESTAMPTZ) - epoch(last_success_at) > $stale::DOUBLE THEN 'stale'
                ELSE 'ok' END AS health,
           left(last_error, 300) AS last_error, last_success_at,
           round(last_seconds, 3) AS last_seconds,
           runs::BIGINT AS runs, failures::BIGINT AS failures,
           judged_until, due_since, due_reason,
           alerts, open, right_ones, wrong_ones
    FROM judged FULL JOIN ranges USING (detector) FULL JOIN told USING (detector)
    ORDER BY list_position(['failing', 'stale', 'never', 'ok'], health), detector LIMIT 200
"""


class Data(NamedTuple):
    health: pl.DataFrame
    headers: dict[str, dict[str, Any]]
    since: datetime
    client: Client  # for the button, nothing else


def load(client: Client, filters: Filters) -> Data:
    rows = client.sql(HEALTH, now=filters.now, since=filters.since, stale=STALE)
    return Data(rows, catalogue.headers(), filters.since, client)


def show(data: Data) -> None:
    if data.health.is_empty():
        theme.empty(
            "No detector has judged anything yet. Start the service, or judge what is stored:",
            "gatewatch detect",
        )
    else:
        _health(data.health)
        _tuning(data)
    theme.section("What each looks for", f"{len(data.headers):,} in the catalogue")
    if not data.headers:
        theme.empty("The catalogue is empty. To check the set-up:", "gatewatch doctor")
    for name, header in data.headers.items():
        with st.expander(name):  # a file name of our own
            _describe(name, header)


def _health(rows: pl.DataFrame) -> None:
    theme.section("Health", "trouble first; alerts and verdicts of the chosen range")
    theme.table(
        rows,
        (
            Column("Detector", ("detector",)),
            Column("Health", ("health", "last_error")),
            Column("Last good run", ("last_success_at",)),
            Column("Seconds", ("last_seconds",)),
            Column("Runs", ("runs",)),
            Column("Failures", ("failures",)),
            Column("Judged up to", ("judged_until",)),
            Column("Due since", ("due_since", "due_reason")),
            Column("Alerts", ("alerts",)),
            Column("Open", ("open",)),
            Column("Found true", ("right_ones",)),
            Column("Not true", ("wrong_ones",)),
        ),
    )


def _tuning(data: Data) -> None:
    theme.section("Try other values", "over the chosen range; nothing is kept or changed")
    with st.form("tune", border=False):
        name, param, values, go = st.columns([2, 2, 3, 1], vertical_alignment="bottom")
        tunable = [each for each, header in data.headers.items() if header.get("params")]
        name.selectbox("Detector", tunable, key="tune_detector")
        param.text_input("Parameter", placeholder="each of them", key="tune_param")
        values.text_input("Values", placeholder="around today's: 2, 3, 4", key="tune_values")
        go.form_submit_button("Try", on_click=_tune, args=(data.client, data.since))
    tuned = st.session_state.get("tuned")
    if isinstance(tuned, str):
        theme.trouble(tuned, "Nothing was tried.", lead="Not done.")
    elif tuned is not None:
        theme.table(tuned, TUNED)


def _tune(client: Client, since: datetime) -> None:
    chosen = {key: str(st.session_state.get(f"tune_{key}") or "").strip() for key in ASKED}
    values = [each.strip() for each in chosen["values"].split(",") if each.strip()]
    try:
        st.session_state["tuned"] = client.tune(chosen["detector"], chosen["param"], values, since)
    except TROUBLE as error:
        st.session_state["tuned"] = str(error)


ASKED = ("detector", "param", "values")
TUNED = (
    Column("Parameter", ("param",)),
    Column("Value", ("value",)),
    Column("In force", ("in_force",)),
    Column("Alerts", ("alerts",)),
    Column("A day", ("per_day",)),
    Column("Subjects", ("subjects",)),
    Column("Found true", ("right",)),
    Column("Not true", ("wrong",)),
    Column("Precision", ("precision",)),
    Column("Confirmed and lost", ("lost",)),
)


def _describe(name: str, header: dict[str, Any]) -> None:
    left, right = st.columns([3, 2])
    with left:
        theme.prose(
            ("Title", str(header.get("title", name))),
            ("Why", catalogue.said(name, "why")),
            ("What to do", catalogue.said(name, "respond")),
            ("When it is nothing", catalogue.said(name, "quiet")),
        )
    with right:
        told = {"severity": header.get("severity"), "status": header.get("status", "stable")}
        theme.pairs(told | catalogue.thresholds(name))
        st.caption("Change a value in gatewatch.toml, table detectors.NAME.")
