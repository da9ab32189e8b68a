"""What fired, for whom, and since when; one of them in full below the list."""

from typing import NamedTuple

import polars as pl
import streamlit as st

from dashboards import export, theme
from dashboards.client import Client
from dashboards.filters import Filters
from dashboards.pages import alert
from detectors.story import stories

TITLE = "Alerts"
ORDER = 20

ALERTS = """
    SELECT alert_id, severity, left(CASE WHEN $language = 'zh' THEN title_zh ELSE title END, 300)
           AS title, left(subject, 200) AS subject, detector, status, started_at, ended_at,
           rows::BIGINT AS times, acked_by, verdict, tenant, about, count(*) OVER () AS total
    FROM alerts
    WHERE ((ended_at >= $since::TIMESTAMPTZ AND started_at < $until::TIMESTAMPTZ)
           OR status = 'open')
      AND ($agent::VARCHAR IS NULL OR subject = $agent OR list_contains(about, 'agent ' || $agent))
      AND (status = $status OR ($status::VARCHAR IS NULL AND status IN ('open', 'resolved')))
      AND ($severity::VARCHAR IS NULL OR severity = $severity)
      AND ($detector::VARCHAR IS NULL OR detector = $detector)
    ORDER BY status <> 'open', verdict IS NOT NULL,
             list_position(['critical', 'high', 'medium', 'low'], severity), ended_at DESC, alert_id
    LIMIT 1000
"""
DETECTORS = "SELECT DISTINCT detector FROM alerts ORDER BY detector LIMIT 200"
STATUSES = ("open", "resolved", "withdrawn", "merged")


class Data(NamedTuple):
    alerts: pl.DataFrame
    detectors: list[str]
    chosen: alert.Data | None


def load(client: Client, filters: Filters) -> Data:
    rows = client.sql(
        ALERTS,
        since=filters.since,
        until=filters.until,
        agent=filters.agent,
        language=filters.language,
        status=filters.status,
        severity=filters.severity,
        detector=filters.detector,
    )
    known = client.sql(DETECTORS)["detector"].to_list()
    told = stories(rows.to_dicts())
    story = pl.Series("story", [told.get(each) for each in rows["alert_id"]], dtype=pl.String)
    rows = rows.drop("about", "tenant").with_columns(story)
    return Data(rows, known, alert.load(client, filters) if filters.alert else None)


def show(data: Data) -> None:
    _boxes(data.detectors)
    if data.alerts.is_empty():
        theme.empty(
            "Nothing fired in this range. Widen it, or judge what is stored:",
            "gatewatch detect --dry-run",
        )
    else:
        _list(data.alerts)
    if data.chosen:
        alert.show(data.chosen)


def _boxes(detectors: list[str]) -> None:
    status, severity, detector = st.columns(3)
    status.selectbox(
        "Status", STATUSES, index=None, placeholder="Open and resolved", key="pick_status"
    )
    severity.selectbox(
        "Severity", theme.SEVERITIES, index=None, placeholder="All severities", key="pick_severity"
    )
    detector.selectbox(
        "Detector", detectors, index=None, placeholder="All detectors", key="pick_detector"
    )


def _list(rows: pl.DataFrame) -> None:
    total = rows["total"].item(0)
    count = (
        theme.count(total, "alert")
        if total == len(rows)
        else f"the first {len(rows):,} of {total:,}"
    )
    theme.section("Fired", f"{count}; select a row to see all of it")
    theme.chooser(rows.drop("total"), "alert", LABELS)
    st.download_button("Download as CSV", export.csv(rows.drop("total")), "alerts.csv", "text/csv")


LABELS = {
    "severity": "Severity",
    "title": "What",
    "subject": "Who",
    "detector": "Detector",
    "status": "Status",
    "started_at": "Since",
    "times": "Times",
    "acked_by": "Taken by",
    "verdict": "Verdict",
    "story": "Story",
}
