"""One trace step by step: what was tried, what the gate said and why, and how it ended."""

from typing import Any, NamedTuple

import polars as pl
import streamlit as st

from dashboards import theme
from dashboards.client import Client
from dashboards.filters import Filters
from dashboards.theme import Column

TITLE = "Trace"
ORDER = 30

TRACES = """
    SELECT trace_id, min(ts) AS started_at, max(ts) AS ended_at, count(*) AS steps,
           count(*) FILTER (decision = 'deny') AS denials,
           count(*) FILTER (status IN ('error', 'timeout')) AS errors,
           left(string_agg(DISTINCT agent, ', ' ORDER BY agent), 200) AS agents,
           count(*) OVER () AS total
    FROM events
    WHERE ts >= $since::TIMESTAMPTZ AND ts < $until::TIMESTAMPTZ AND trace_id IS NOT NULL
      AND ($agent::VARCHAR IS NULL OR agent = $agent)
    GROUP BY trace_id ORDER BY ended_at DESC, trace_id LIMIT 300
"""
SUMS = """
    SELECT count(*) AS steps, count(DISTINCT agent) AS agents, min(ts) AS first, max(ts) AS last,
           count(*) FILTER (decision = 'deny') AS denied,
           count(*) FILTER (status IN ('error', 'timeout')) AS failed,
           count(*) FILTER (kind = 'approval_requested') AS asked
    FROM events WHERE trace_id = $trace
"""
STEPS = """
    WITH marks AS (
        SELECT event_id, min_by(alert_id, place) AS alert_id, min_by(severity, place) AS severity
        FROM (SELECT unnest(event_ids) AS event_id, alert_id, severity,
                     list_position(['critical', 'high', 'medium', 'low'], severity) AS place
              FROM alerts WHERE status IN ('open', 'resolved'))
        GROUP BY event_id
    ), steps AS (
        SELECT * FROM events WHERE trace_id = $trace ORDER BY ts, ledger_seq LIMIT 500
    )
    SELECT row_number() OVER (ORDER BY ts, ledger_seq) AS step, ts, event_id, agent, approver,
           concat_ws(' by ', kind, left(role, 40)) AS kind, left(tool, 200) AS tool, op,
           left(params::VARCHAR, 600) AS params,
           left(host, 200) AS host, decision, array_to_string(rule_ids, ', ') AS rule,
           left(reason, 400) AS reason, status, left(error, 400) AS error, latency_ms,
           left(text, 600) AS text, marks.alert_id AS alert_id, marks.severity AS alert_severity
    FROM steps LEFT JOIN marks USING (event_id)
    ORDER BY step
"""
FAMILY = """
    SELECT DISTINCT CASE WHEN trace_id = $trace THEN 'parent' ELSE 'child' END AS kin,
           CASE WHEN trace_id = $trace THEN parent_trace_id ELSE trace_id END AS trace_id
    FROM events
    WHERE (trace_id = $trace AND parent_trace_id <> $trace)
       OR (parent_trace_id = $trace AND trace_id <> $trace)
    ORDER BY kin DESC, trace_id LIMIT 50
"""
COLUMNS = (
    Column("Time", ("ts",)),
    Column("Agent", ("agent",)),
    Column("Step", ("tool", "op", "kind")),
    Column("With", ("params", "host", "text")),
    Column("Gate", ("decision", "rule", "reason", "approver")),
    Column("Result", ("status", "latency_ms", "error")),
)


class Data(NamedTuple):
    asked: str | None
    traces: pl.DataFrame  # when none is asked for
    steps: pl.DataFrame  # of the one that is: the first 500
    sums: dict[str, Any]  # over all of its steps
    family: pl.DataFrame


def load(client: Client, filters: Filters) -> Data:
    asked, nothing = filters.trace, pl.DataFrame()
    if asked:
        steps, family = client.sql(STEPS, trace=asked), client.sql(FAMILY, trace=asked)
        sums = client.sql(SUMS, trace=asked).row(0, named=True)
        return Data(asked, nothing, steps, sums, family)
    bounds = {"since": filters.since, "until": filters.until}
    return Data(None, client.sql(TRACES, agent=filters.agent, **bounds), nothing, {}, nothing)


def show(data: Data) -> None:
    st.text_input(
        "Trace id",
        value=data.asked or "",
        key="trace_typed",
        on_change=_typed,
        placeholder="Paste one, or choose below",
    )
    if data.asked is None:
        _choose(data.traces)
    elif data.steps.is_empty():
        theme.empty(
            f"No event has the trace id {data.asked}. To look for it:",
            'gatewatch sql "SELECT DISTINCT trace_id FROM events"',
        )
    else:
        _steps(data.steps, data.sums, data.family)


def _typed() -> None:
    typed = str(st.session_state.get("trace_typed", "")).strip()
    if typed:
        st.query_params["trace"] = typed
    else:
        st.query_params.pop("trace", None)


def _choose(rows: pl.DataFrame) -> None:
    if rows.is_empty():
        theme.empty(
            "No trace in this range. Widen it, or read a log:",
            "gatewatch ingest PATH --adapter native",
        )
        return
    total = rows["total"].item(0)
    count = f"{total:,}" if total == len(rows) else f"the newest {len(rows):,} of {total:,}"
    theme.section("Traces", f"{count}; select a row to see its steps")
    theme.chooser(rows.drop("total"), "trace", LABELS)


def _steps(rows: pl.DataFrame, sums: dict[str, Any], family: pl.DataFrame) -> None:
    total, denied, asked = sums["steps"], sums["denied"], sums["asked"]
    span = (sums["last"] - sums["first"]).total_seconds() if sums["first"] else 0
    marked = rows["alert_id"].drop_nulls().n_unique()
    theme.tiles(
        ("Steps", f"{total:,}", f"by {theme.count(sums['agents'], 'agent')}", "calm"),
        ("Took", theme.age(span), f"from {theme.moment(sums['first'])}", "calm"),
        ("Denied", f"{denied:,}", f"{sums['failed']:,} failed", "bad" if denied else "good"),
        ("Approvals asked", f"{asked:,}", "", "warn" if asked else "calm"),
        ("Alerts", f"{marked:,}", "with a step in them", "bad" if marked else "good"),
    )
    if not family.is_empty():
        theme.section("Related traces")
        theme.table(family, (Column("Which", ("kin",)), Column("Trace", ("trace_id",), "trace")))
    theme.section(
        "Steps", "in order" if total == len(rows) else f"the first {len(rows):,} of {total:,}"
    )
    number, mark = Column("#", ("step",)), Column("Alert", ("alert_severity",), link="alert")
    theme.table(rows, (number, *COLUMNS, mark))


LABELS = {
    "trace_id": "Trace",
    "started_at": "Started",
    "ended_at": "Last step",
    "steps": "Steps",
    "denials": "Denials",
    "errors": "Errors",
    "agents": "Agents",
}
