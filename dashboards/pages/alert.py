"""One alert: what happened, against what, why it matters, what to do, who was told."""

from typing import Any, NamedTuple

import polars as pl
import streamlit as st

from dashboards import catalogue, theme
from dashboards.client import TROUBLE, Client
from dashboards.filters import Filters
from dashboards.flatten import flat
from dashboards.pages import trace
from dashboards.theme import Column
from detectors import story

TITLE = "Alert"
ORDER = 25
HIDDEN = True  # reached by its link, from a message or from Now

VERDICTS = {
    "true": "True: real trouble",
    "false": "False: the detector is wrong",
    "expected": "Expected: this is how it should be",
    "accepted": "Accepted: real, and the risk is taken",
}
ALERT = """
    SELECT alert_id, detector, tenant, subject, severity, status, started_at, ended_at,
           rows::BIGINT AS times, CASE WHEN $language = 'zh' THEN title_zh ELSE title END AS title,
           left(facts::VARCHAR, 20000) AS facts, opened_at, resolved_at, merged_into, backfill,
           quiet_reason, about, acked_at, acked_by, verdict, verdict_reason, verdict_by, verdict_at
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
DELIVERIES = """
    SELECT receiver, kind, state, attempts::BIGINT AS attempts, created_at, done_at,
           CASE WHEN state = 'pending' THEN next_at END AS next_at, left(last_error, 300) AS detail
    FROM deliveries WHERE alert_id = $alert ORDER BY created_at, receiver LIMIT 100
"""
HISTORY = """
    SELECT ts, what, left(detail, 300) AS detail
    FROM alert_events WHERE alert_id = $alert ORDER BY ts, what LIMIT 200
"""


class Data(NamedTuple):
    alert: dict[str, Any] | None  # None: there is no such alert, or none was named
    asked: str | None
    facts: dict[str, Any]
    evidence: pl.DataFrame
    deliveries: pl.DataFrame
    history: pl.DataFrame
    alerts: pl.DataFrame  # of the same story
    changes: pl.DataFrame  # of the hour before it
    client: Client  # for the two buttons, nothing else


def load(client: Client, filters: Filters) -> Data:
    asked, nothing = filters.alert, pl.DataFrame()
    if asked is None:
        return Data(None, None, {}, nothing, nothing, nothing, nothing, nothing, client)
    found = client.sql(ALERT, alert=asked, language=filters.language)
    row = found.row(0, named=True) if len(found) else None
    told = story.story(client, row) if row else {"alerts": [], "changes": []}
    return Data(
        alert=row,
        asked=asked,
        facts=spoken(flat(row["facts"]), filters.language) if row else {},
        evidence=client.sql(EVIDENCE, alert=asked),
        deliveries=client.sql(DELIVERIES, alert=asked),
        history=client.sql(HISTORY, alert=asked),
        alerts=_together(told["alerts"], filters.language),
        changes=pl.DataFrame(told["changes"]),
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
        _triage(data.alert, data.client)
    with right:
        theme.section("Found, and the thresholds", "as the catalogue sets them")
        theme.table(against(data.facts, catalogue.thresholds(name)), FOUND)
    _evidence(data.evidence)
    _story(data)
    _told(data)


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
        taken if alert["acked_by"] else "nobody has taken it" if not alert["verdict"] else "",
        judged if alert["verdict"] else "",
        f"merged into {alert['merged_into']}" if alert["merged_into"] else "",
        "over before it arrived: shown, not told" if alert["backfill"] else "",
        f"not told: {alert['quiet_reason']}" if alert["quiet_reason"] else "",
        alert["alert_id"],
    ]
    theme.banner(alert["severity"], alert["title"], notes)


def _triage(alert: dict[str, Any], client: Client) -> None:
    theme.section("Triage")
    key = alert["alert_id"]
    with st.form("triage", border=False):
        name, reason = st.columns([1, 2])
        name.text_input("Your name", value=st.session_state.get("actor_kept", ""), key="actor")
        reason.text_input("Reason", key=f"reason_{key}")
        st.radio(
            "Verdict",
            list(VERDICTS),
            format_func=VERDICTS.__getitem__,
            index=None,
            key=f"verdict_{key}",
        )
        ack, verdict, _ = st.columns([1, 1, 2])
        ack.form_submit_button(
            "Acknowledge", on_click=_acknowledge, args=(client, key), width="stretch"
        )
        verdict.form_submit_button(
            "Give verdict", on_click=_judge, args=(client, key), type="primary", width="stretch"
        )
    about, good, sentence = st.session_state.get("triaged", ("", False, ""))
    if about == key and good:
        theme.done(sentence)
    elif about == key:
        theme.trouble(sentence, "Nothing was recorded.", lead="Not done.")


def _acknowledge(client: Client, alert_id: str) -> None:
    actor, reason = _signed(alert_id)
    if actor:
        try:
            client.ack(alert_id, actor, reason)
        except TROUBLE as error:
            return _say(alert_id, str(error))
        _say(alert_id, f"Acknowledged by {actor}.", good=True)
    return None


def _judge(client: Client, alert_id: str) -> None:
    actor, reason = _signed(alert_id)
    verdict = st.session_state.get(f"verdict_{alert_id}")
    if not actor:
        return None
    if not verdict or not reason:
        return _say(alert_id, "A verdict needs one of the four words, and a reason.")
    try:
        client.verdict(alert_id, verdict, actor, reason)
    except TROUBLE as error:
        return _say(alert_id, str(error))
    return _say(alert_id, f"Verdict {verdict} recorded for {actor}.", good=True)


def _signed(alert_id: str) -> tuple[str, str]:
    """Who acts and why. Without a name nothing is done, and the page says so."""
    actor = str(st.session_state.get("actor", "")).strip()
    st.session_state["actor_kept"] = actor
    if not actor:
        _say(alert_id, "Say who you are: every action is logged with a name.")
    return actor, str(st.session_state.get(f"reason_{alert_id}", "")).strip()


def _say(alert_id: str, sentence: str, *, good: bool = False) -> None:
    st.session_state["triaged"] = (alert_id, good, sentence)


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


def _told(data: Data) -> None:
    left, right = st.columns([3, 2], gap="medium")
    with left:
        theme.section("Deliveries")
        if data.deliveries.is_empty():
            theme.empty(
                "Nobody is owed a message about it. To try a receiver:",
                "gatewatch test-send RECEIVER",
            )
        else:
            theme.table(data.deliveries, DELIVERED)
    with right:
        theme.section("History")
        if data.history.is_empty():
            theme.empty("Nothing has happened to it since it opened.")
        else:
            theme.table(data.history, PAST)


TOGETHER = (
    Column("Since", ("started_at",)),
    Column("Severity", ("severity",)),
    Column("What", ("title",)),
    Column("Shares", ("shares",)),
    Column("Alert", ("alert_id",), link="alert"),
)
CHANGED = (Column("Time", ("ts",)), Column("What", ("what",)), Column("Detail", ("says",)))
DELIVERED = (
    Column("Receiver", ("receiver", "kind")),
    Column("State", ("state",)),
    Column("Attempts", ("attempts",)),
    Column("Created, done", ("created_at", "done_at")),
    Column("Next try, last error", ("next_at", "detail")),
)
PAST = (Column("Time", ("ts",)), Column("What", ("what",)), Column("Detail", ("detail",)))
