"""What is wrong now, worst first, and whether gatewatch itself can be believed."""

from datetime import datetime, timedelta
from typing import NamedTuple

import altair as alt
import polars as pl
import streamlit as st

from dashboards import theme
from dashboards.client import Client
from dashboards.filters import Filters
from dashboards.theme import Column

TITLE = "Now"
ORDER = 10
EVERY = 5

STALE = 300  # seconds without a good run; the live loop ticks every few seconds
SHORTEST = timedelta(minutes=30)  # that the chart shows
BARS = 120  # more would be thinner than the eye
STEPS = ("1 minute", "5 minutes", "15 minutes", "1 hour", "6 hours", "1 day", "7 days")
MINUTES = (1, 5, 15, 60, 360, 1_440, 10_080)

CLOCK = "%b %d %H:%M"
WHEN = "%Y-%m-%d %H:%M"

OPEN = """
    WITH worst AS (  -- ids first: of thousands that are open, a page reads a hundred titles
        SELECT alert_id, row_number() OVER (
            ORDER BY verdict IS NOT NULL,
                list_position(['critical', 'high', 'medium', 'low'], severity), ended_at DESC,
                alert_id) AS place
        FROM alerts
        WHERE status = 'open' AND ($agent::VARCHAR IS NULL OR subject = $agent
                                   OR list_contains(about, 'agent ' || $agent))
        ORDER BY place LIMIT 100
    )
    SELECT alert_id, severity, CASE WHEN $language = 'zh' THEN title_zh ELSE title END AS title,
           left(subject, 200) AS subject, detector, started_at, ended_at, rows::BIGINT AS times,
           coalesce(assigned_to, acked_by) AS acked_by, verdict
    FROM alerts JOIN worst USING (alert_id) ORDER BY place
"""
OPENED = """
    SELECT count(*) AS total, count(*) FILTER (severity = 'critical') AS critical,
           count(*) FILTER (acked_at IS NULL AND verdict IS NULL) AS nobodys
    FROM alerts
    WHERE status = 'open' AND ($agent::VARCHAR IS NULL OR subject = $agent
                               OR list_contains(about, 'agent ' || $agent))
"""
COUNTS = """
    SELECT (SELECT sum(events)::BIGINT FROM minute_counts WHERE minute >= $hour::TIMESTAMPTZ
            AND ($agent::VARCHAR IS NULL OR agent = $agent)) AS events,
           (SELECT sum(denied)::BIGINT FROM minute_counts WHERE minute >= $hour::TIMESTAMPTZ
            AND ($agent::VARCHAR IS NULL OR agent = $agent)) AS denied,
           (SELECT count(*) FROM quarantine WHERE received_at >= $hour::TIMESTAMPTZ) AS quarantined,
           (SELECT sum(quarantined)::BIGINT FROM sources) AS quarantined_ever,
           (SELECT count(*) FROM deliveries WHERE state = 'pending') AS owed,
           (SELECT count(*) FROM deliveries WHERE state = 'dead') AS dead,
           (SELECT count(DISTINCT pause_id) FROM pauses
            WHERE state IN ('confirmed', 'resuming', 'stuck')) AS paused,
           (SELECT count(DISTINCT pause_id) FROM pauses
            WHERE state IN ('asked', 'refused') AND until > $now::TIMESTAMPTZ) AS unpaused,
           (SELECT count(*) FROM judged) AS detectors,
           (SELECT count(*) FROM judged WHERE last_error IS NOT NULL) AS failing,
           (SELECT count(*) FROM judged WHERE last_error IS NULL
            AND last_success_at < $stale::TIMESTAMPTZ) AS stale
"""
SOURCES = """
    SELECT source, adapter, last_seen_at, last_event_at, lines::BIGINT AS lines,
           events::BIGINT AS events, quarantined::BIGINT AS quarantined,
           greatest(0, epoch($now::TIMESTAMPTZ) - epoch(last_seen_at)) AS quiet_for,
           epoch(last_seen_at) - epoch(last_event_at) AS lag, count(*) OVER () AS total
    FROM sources ORDER BY last_seen_at, source LIMIT 50
"""
FIRST = """
    SELECT min(minute) AS first FROM minute_counts WHERE minute >= $since::TIMESTAMPTZ
"""
RHYTHM = """
    SELECT time_bucket($step::INTERVAL, minute, TIMESTAMPTZ '2000-01-03 00:00:00Z') AS time,
           sum(events)::BIGINT AS events, sum(denied)::BIGINT AS denials
    FROM minute_counts
    WHERE minute >= $since::TIMESTAMPTZ AND minute <= $now::TIMESTAMPTZ
      AND ($agent::VARCHAR IS NULL OR agent = $agent)
    GROUP BY ALL ORDER BY time LIMIT 1000
"""


class Data(NamedTuple):
    open: pl.DataFrame
    counts: dict[str, int | None]
    sources: pl.DataFrame
    rhythm: pl.DataFrame  # time, events, denials: one row per step that holds events
    step: str
    since: datetime
    now: datetime


def load(client: Client, filters: Filters) -> Data:
    now, agent = filters.now, filters.agent
    hour, stale = now - timedelta(hours=1), now - timedelta(seconds=STALE)
    first = client.sql(FIRST, since=filters.since)["first"].item() or now
    since = min(first, now - SHORTEST)  # a young store fills the chart all the same
    step = pace(since, now)
    return Data(
        open=client.sql(OPEN, language=filters.language, agent=agent),
        counts={
            **client.sql(OPENED, agent=agent).row(0, named=True),
            **client.sql(COUNTS, hour=hour, stale=stale, agent=agent, now=now).row(0, named=True),
        },
        sources=client.sql(SOURCES, now=now),
        rhythm=client.sql(RHYTHM, step=step, since=since, now=now, agent=agent),
        step=step,
        since=since,
        now=now,
    )


def pace(since: datetime, until: datetime) -> str:
    """The finest step that draws the range in a readable number of bars."""
    minutes = (until - since) / timedelta(minutes=1)
    for step, size in zip(STEPS, MINUTES, strict=True):
        if minutes / size <= BARS:
            return step
    return "30 days"


def show(data: Data) -> None:
    _counters(data)
    _alerts(data.open, data.counts["total"] or 0)
    theme.section("Events and denials", f"per {data.step.removeprefix('1 ')}")
    if data.rhythm.is_empty():
        theme.empty("No event in this range. Widen it, or send some:", "gatewatch ingest PATH")
    else:
        st.altair_chart(chart(data), width="stretch")
    _sources(data.sources)


def _counters(data: Data) -> None:
    seen = data.counts
    opened, worst, nobodys = (seen[name] or 0 for name in ("total", "critical", "nobodys"))
    ill = (seen["failing"] or 0) + (seen["stale"] or 0)
    events, denied = seen["events"] or 0, seen["denied"] or 0
    quarantined, owed, dead = (seen[name] or 0 for name in ("quarantined", "owed", "dead"))
    theme.tiles(
        (
            "Open alerts",
            f"{opened:,}",
            f"{worst:,} critical, {nobodys:,} taken by nobody",
            "worst" if worst else "bad" if opened else "good",
        ),
        ("Events, last hour", f"{events:,}", f"{denied:,} denied", "calm"),
        (
            "Quarantined, last hour",
            f"{quarantined:,}",
            f"{seen['quarantined_ever'] or 0:,} ever",
            "warn" if quarantined else "good",
        ),
        (
            "Deliveries owed",
            f"{owed:,}",
            f"{dead:,} given up",
            "worst" if dead else "warn" if owed else "good",
        ),
        *_stopped(seen),
        (
            "Detectors",
            f"{seen['detectors'] or 0:,}",
            f"{seen['failing'] or 0:,} failing, {seen['stale'] or 0:,} stale",
            "bad" if ill else "good" if seen["detectors"] else "warn",
        ),
    )


def _stopped(seen: dict[str, int | None]) -> list[tuple[str, str, str, str]]:
    """Who is paused, where anybody is or should be."""
    paused, unpaused = seen["paused"] or 0, seen["unpaused"] or 0
    if not paused and not unpaused:
        return []
    tone = "worst" if unpaused else "warn"
    return [("Paused", f"{paused:,}", f"{unpaused:,} not confirmed", tone)]


def _alerts(rows: pl.DataFrame, total: int) -> None:
    if rows.is_empty():
        theme.section("Open alerts")
        theme.empty("Nothing is open. To judge what is stored again:", "gatewatch detect --dry-run")
        return
    note = f"{total:,}" if total == len(rows) else f"the worst {len(rows):,} of {total:,}"
    theme.section("Open alerts", f"{note}, worst first")
    theme.table(
        rows,
        (
            Column("Severity", ("severity",)),
            Column("What", ("title", "detector"), link="alert"),
            Column("Who", ("subject",)),
            Column("Since", ("started_at",)),
            Column("Last", ("ended_at",)),
            Column("Times", ("times",)),
            Column("Whose", ("acked_by", "verdict")),
        ),
    )


def _sources(rows: pl.DataFrame) -> None:
    theme.section("Sources", "the longest quiet first")
    if rows.is_empty():
        theme.empty("No source has sent a line yet.", "gatewatch ingest PATH --adapter native")
        return
    spans = [pl.col(name).map_elements(theme.age, pl.String) for name in ("quiet_for", "lag")]
    theme.table(
        rows.with_columns(spans),
        (
            Column("Source", ("source",)),
            Column("Adapter", ("adapter",)),
            Column("Last line", ("last_seen_at",)),
            Column("Quiet for", ("quiet_for",)),
            Column("Newest event", ("last_event_at",)),
            Column("Lag", ("lag",)),
            Column("Lines", ("lines",)),
            Column("Events", ("events",)),
            Column("Quarantined", ("quarantined",)),
        ),
    )


def chart(data: Data) -> alt.VConcatChart:
    """Two rows of bars over one time axis: denials are few, and must not drown in events."""
    size = timedelta(minutes=dict(zip(STEPS, MINUTES, strict=True)).get(data.step, 43_200))
    rows = data.rhythm.with_columns(stop=pl.col("time") + size)
    span = alt.Scale(domain=[data.since.isoformat(), data.now.isoformat()], type="utc")
    events = _bars(rows, span, "events", "#8b9bb4", labels=False)
    denials = _bars(rows, span, "denials", theme.COLOURS["high"], labels=True)
    both: alt.VConcatChart = alt.vconcat(events, denials, spacing=8).configure_view(stroke=None)
    return both


def _bars(
    rows: pl.DataFrame, span: alt.Scale, name: str, colour: str, *, labels: bool
) -> alt.Chart:
    along = alt.Axis(labels=labels, ticks=labels, grid=False, labelOverlap=True, format=CLOCK)
    up = alt.Axis(tickCount=3, tickMinStep=1, format="~s")
    drawn: alt.Chart = (
        alt.Chart(rows)
        .mark_rect(color=colour, clip=True)
        .encode(
            x=alt.X("time:T", title=None, scale=span, axis=along),
            x2="stop:T",
            y=alt.Y(f"{name}:Q", title=name.capitalize(), axis=up),
            y2=alt.datum(0),
            tooltip=[
                alt.Tooltip("time:T", timeUnit="utcyearmonthdatehoursminutes", format=WHEN),
                alt.Tooltip(f"{name}:Q", format=","),
            ],
        )
        .properties(height=90, width="container")
    )
    return drawn
