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
    WITH listed AS (  -- the ids of one page first: titles and subjects are read for these alone
        SELECT alert_id, count(*) OVER () AS total, row_number() OVER (
            ORDER BY status <> 'open', verdict IS NOT NULL,
                list_position(['critical', 'high', 'medium', 'low'], severity), ended_at DESC,
                alert_id) AS place
        FROM alerts
        WHERE ((ended_at >= $since::TIMESTAMPTZ AND started_at < $until::TIMESTAMPTZ)
               OR status = 'open')
          AND ($agent::VARCHAR IS NULL OR subject = $agent
               OR list_contains(about, 'agent ' || $agent))
          AND (status = $status OR ($status::VARCHAR IS NULL AND status IN ('open', 'resolved')))
          AND ($severity::VARCHAR IS NULL OR severity = $severity)
          AND ($detector::VARCHAR IS NULL OR detector = $detector)
        ORDER BY place LIMIT $rows::BIGINT OFFSET $skip::BIGINT
    )
    SELECT alert_id, severity, left(CASE WHEN $language = 'zh' THEN title_zh ELSE title END, 300)
           AS title, left(subject, 200) AS subject, detector, status, started_at, ended_at,
           rows::BIGINT AS times, coalesce(assigned_to, acked_by) AS acked_by, verdict, tenant,
           about, total
    FROM alerts JOIN listed USING (alert_id) ORDER BY place
"""
ROWS = 200  # of one page of the list
DETECTORS = "SELECT DISTINCT detector FROM alerts ORDER BY detector LIMIT 200"
STATUSES = ("open", "resolved", "withdrawn", "merged")


class Data(NamedTuple):
    alerts: pl.DataFrame
    total: int
    page: int
    detectors: list[str]
    chosen: alert.Data | None


def load(client: Client, filters: Filters) -> Data:
    page, rows = filters.page, _page(client, filters, filters.page)
    if rows.is_empty() and page > 1:  # a narrower choice has fewer pages
        page, rows = 1, _page(client, filters, 1)
    total = rows["total"].item(0) if len(rows) else 0
    known = client.sql(DETECTORS)["detector"].to_list()
    told = stories(rows.to_dicts())
    story = pl.Series("story", [told.get(each) for each in rows["alert_id"]], dtype=pl.String)
    rows = rows.drop("about", "tenant", "total").with_columns(story)
    chosen = alert.load(client, filters) if filters.alert else None
    return Data(rows, total, page, known, chosen)


def _page(client: Client, filters: Filters, page: int) -> pl.DataFrame:
    names = ("since", "until", "agent", "language", "status", "severity", "detector")
    wanted = {name: getattr(filters, name) for name in names}
    return client.sql(ALERTS, **wanted, rows=ROWS, skip=(page - 1) * ROWS)


def show(data: Data) -> None:
    _boxes(data.detectors)
    if data.alerts.is_empty():
        theme.empty(
            "Nothing fired in this range. Widen it, or judge what is stored:",
            "gatewatch detect --dry-run",
        )
    else:
        _list(data)
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


def _list(data: Data) -> None:
    rows, pages = data.alerts, -(-data.total // ROWS)
    first = (data.page - 1) * ROWS + 1
    part = f"{first:,} to {first + len(rows) - 1:,} of " if pages > 1 else ""
    theme.section(
        "Fired", f"{part}{theme.count(data.total, 'alert')}; select a row to see all of it"
    )
    theme.chooser(rows, "alert", LABELS)
    left, right, _ = st.columns([1, 1, 3], vertical_alignment="bottom")
    left.download_button("Download as CSV", export.csv(rows), "alerts.csv", "text/csv")
    if pages > 1:
        right.number_input("Page", 1, pages, key="pick_page", help=f"of {pages:,}")


LABELS = {
    "severity": "Severity",
    "title": "What",
    "subject": "Who",
    "detector": "Detector",
    "status": "Status",
    "started_at": "Since",
    "times": "Times",
    "acked_by": "Whose",
    "verdict": "Verdict",
    "story": "Story",
}
