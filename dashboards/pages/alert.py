"""One alert: what happened, against what, why it matters, what to do, who was told."""

from datetime import datetime
from typing import Any, NamedTuple

import polars as pl
import streamlit as st

from dashboards import acting, catalogue, stopping, theme, told
from dashboards.client import Client
from dashboards.filters import Filters
from dashboards.flatten import flat
from dashboards.pages import trace
from dashboards.theme import Column
from detectors import story

TITLE = "Alert"
ORDER = 25
HIDDEN = True  # reached by its link, from a message or from Now

ALERT = """
    SELECT alert_id, detector, tenant, subject, severity, status, started_at, ended_at,
           rows::BIGINT AS times, CASE WHEN $language = 'zh' THEN title_zh ELSE title END AS title,
           left(facts::VARCHAR, 20000) AS facts, opened_at, resolved_at, merged_into, backfill,
           quiet_reason, about, acked_at, acked_by, assigned_to,
           verdict, verdict_reason, verdict_by, verdict_at
    FROM alerts WHERE alert_id = $alert LIMIT 1
"""
EVIDENCE = """
    WITH wanted AS (
        SELECT unnest(event_ids) AS event_id, started_at - INTERVAL 1 DAY AS early,
               ended_at + INTERVAL 1 DAY AS late
        FROM alerts WHERE alert_id = $alert
    )
    SELECT ts, event_id, agent, approver, kind, left(tool, 200) AS tool, op,
           left(params::VARCHAR, 600) AS params, left(host, 200) AS host, decision,
           array_to_string(rule_ids, ', ') AS rule, left(reason, 400) AS reason, status,
           left(error, 400) AS error, latency_ms, left(text, 600) AS text, trace_id,
           NULL::VARCHAR AS alert_id, NULL::VARCHAR AS alert_severity
    FROM events JOIN wanted USING (event_id)
    WHERE ts BETWEEN (SELECT min(early) FROM wanted) AND (SELECT max(late) FROM wanted)
    ORDER BY ts, ledger_seq LIMIT 100
"""


class Data(NamedTuple):
    alert: dict[str, Any] | None  # None: there is no such alert, or none was named
    asked: str | None
    facts: dict[str, Any]
    evidence: pl.DataFrame
    told: told.Told
    pauses: pl.DataFrame
    alerts: pl.DataFrame  # of the same story
    changes: pl.DataFrame  # of the hour before it
    now: datetime
    client: Client  # for the forms, nothing else


def load(client: Client, filters: Filters) -> Data:
    asked, nothing = filters.alert, pl.DataFrame()
    found = client.sql(ALERT, alert=asked, language=filters.language) if asked else nothing
    if asked is None or found.is_empty():
        untold = told.Told(nothing, nothing, "")
        return Data(
            None, asked, {}, nothing, untold, nothing, nothing, nothing, filters.now, client
        )
    row = found.row(0, named=True)
    tale = story.story(client, row)
    return Data(
        alert=row,
        asked=asked,
        facts=spoken(flat(row["facts"]), filters.language),
        evidence=client.sql(EVIDENCE, alert=asked),
        told=told.load(client, asked),
        pauses=stopping.load(client, asked),
        alerts=_together(tale["alerts"], filters.language),
        changes=pl.DataFrame(tale["changes"]),
        now=filters.now,
        client=client,
    )


def show(data: Data) -> None:
    if data.alert is None:
        known = f"There is no alert {data.asked}." if data.asked else "No alert is chosen."
        theme.empty(f"{known} Choose one on the page Alerts, or list them:", "gatewatch alerts")
        return
    _head(data.alert)
    left, right = st.columns([3, 2], gap="medium")
    with left:
        theme.section("Why and what to do")
        name = data.alert["detector"]
        theme.prose(
            ("Why it matters", catalogue.said(name, "why")),
            ("What to do", catalogue.said(name, "respond")),
            ("When it is nothing", catalogue.said(name, "quiet")),
        )
        acting.forms(data.alert, data.client, data.now)
    with right:
        theme.section("Found, and the thresholds", "as the catalogue sets them")
        theme.table(against(data.facts, catalogue.thresholds(name)), FOUND)
    stopping.show(data.pauses, data.alert["alert_id"], data.client)
    _evidence(data.evidence)
    told.show(data.told)
    _story(data)


FOUND = (Column("Fact", ("fact",)), Column("Found", ("found",)), Column("Default", ("threshold",)))


def spoken(facts: dict[str, Any], language: str) -> dict[str, Any]:
    """The facts in one language: a fact NAME_zh is NAME, said in Chinese."""
    chinese = {name.removesuffix("_zh"): facts[name] for name in facts if name.endswith("_zh")}
    plain = {name: value for name, value in facts.items() if not name.endswith("_zh")}
    return plain | chinese if language == "zh" else plain


def against(facts: dict[str, Any], thresholds: dict[str, Any]) -> pl.DataFrame:
    """Each fact beside the parameter of its name; then the parameters that no fact is named as."""
    names = [*facts, *(name for name in thresholds if name not in facts)]
    rows = [
        (name, *(theme.shown(each[name]) if name in each else "" for each in (facts, thresholds)))
        for name in names
    ]
    text = pl.String
    return pl.DataFrame(rows, {"fact": text, "found": text, "threshold": text}, orient="row")


def _head(alert: dict[str, Any]) -> None:
    times = [theme.moment(alert[name]) for name in ("started_at", "ended_at")]
    taken = f"taken by {alert['acked_by']} at {theme.moment(alert['acked_at'])}"
    judged = f"verdict {alert['verdict']} by {alert['verdict_by']}: {alert['verdict_reason']}"
    notes = [
        alert["status"],
        f"{alert['detector']} on {alert['subject']}",
        f"tenant {alert['tenant']}" if alert["tenant"] else "",
        f"{times[0]} to {times[1]} UTC",
        theme.count(alert["times"], "finding"),
        f"assigned to {alert['assigned_to']}" if alert["assigned_to"] else "",
        taken if alert["acked_by"] else "nobody has taken it" if not alert["verdict"] else "",
        judged if alert["verdict"] else "",
        f"merged into {alert['merged_into']}" if alert["merged_into"] else "",
        "over before it arrived: shown, not told" if alert["backfill"] else "",
        f"not told: {alert['quiet_reason']}" if alert["quiet_reason"] else "",
        alert["alert_id"],
    ]
    theme.banner(alert["severity"], alert["title"], notes)


def _evidence(rows: pl.DataFrame) -> None:
    theme.section(
        "Evidence", f"{theme.count(len(rows), 'event')} in order; at most 20 are kept per alert"
    )
    if rows.is_empty():
        theme.empty(
            "The events are not stored any more. The ledger may still hold them:",
            "gatewatch rebuild",
        )
    else:
        theme.table(rows, (*trace.COLUMNS, Column("Trace", ("trace_id",), link="trace")))


def _together(alerts: list[dict[str, Any]], language: str) -> pl.DataFrame:
    """Alerts of one story, titled in one language, with what they share as text."""
    return pl.DataFrame(
        [
            each
            | {"title": each["title_zh" if language == "zh" else "title"]}
            | {"shares": ", ".join(each["shares"]), "about": None}
            for each in alerts
        ]
    )


def _story(data: Data) -> None:
    left, right = st.columns([3, 2], gap="medium")
    with left:
        theme.section("Same story", "alerts that share a trace or an agent within an hour")
        if data.alerts.is_empty():
            theme.empty("It stands alone: no other alert names its agents or its traces.")
        else:
            theme.table(data.alerts, TOGETHER)
    with right:
        theme.section("What changed in the hour before")
        if data.changes.is_empty():
            theme.empty("No configuration, policy, tool or version changed.")
        else:
            theme.table(data.changes, CHANGED)


TOGETHER = (
    Column("Since", ("started_at",)),
    Column("Severity", ("severity",)),
    Column("What", ("title",)),
    Column("Shares", ("shares",)),
    Column("Alert", ("alert_id",), link="alert"),
)
CHANGED = (Column("Time", ("ts",)), Column("What", ("what",)), Column("Detail", ("says",)))
