"""What the person looks at: the sidebar's choices, and the address bar's."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import streamlit as st

from dashboards.client import TROUBLE, Client

EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
LATEST = datetime(9999, 1, 1, tzinfo=UTC)  # what a fast clock dates into the future is shown too
RANGES = {
    "1h": timedelta(hours=1),
    "24h": timedelta(days=1),
    "7d": timedelta(days=7),
    "all": None,
}
LANGUAGES = {"en": "English", "zh": "中文"}
AGENTS = """
    SELECT agent FROM minute_counts WHERE agent IS NOT NULL
    GROUP BY agent ORDER BY sum(events) DESC, agent LIMIT 500
"""


@dataclass(frozen=True)
class Filters:
    """One question's bounds. `[since, until)` in UTC; None means: all of them."""

    now: datetime
    since: datetime = EARLIEST
    until: datetime = LATEST
    agent: str | None = None
    language: str = "en"  # of titles: en | zh
    alert: str | None = None
    trace: str | None = None
    status: str | None = None
    severity: str | None = None
    detector: str | None = None
    page: int = 1  # of a long list


@dataclass(frozen=True)
class Choice:
    span: str
    language: str
    agent: str | None

    def filters(self, now: datetime) -> Filters:
        """The choice at this moment, with what the address bar and the page's own boxes say."""
        span = RANGES[self.span]
        return Filters(
            now=now,
            since=now - span if span else EARLIEST,
            agent=self.agent,
            language=self.language,
            alert=st.query_params.get("alert"),
            trace=st.query_params.get("trace"),
            status=st.session_state.get("pick_status"),
            severity=st.session_state.get("pick_severity"),
            detector=st.session_state.get("pick_detector"),
            page=st.session_state.get("pick_page") or 1,
        )


def sidebar(client: Client) -> Choice:
    """Draw the choices. A service that is down leaves the list of agents empty."""
    asked = st.query_params
    spans, languages = list(RANGES), list(LANGUAGES)
    with st.sidebar:
        span = st.segmented_control(
            "Time range",
            spans,
            default=_known(asked.get("range"), spans, "24h"),
            key="range",
            required=True,
            width="stretch",
        )
        agent = st.selectbox(
            "Agent", _agents(client), index=None, placeholder="All agents", key="agent"
        )
        language = st.segmented_control(
            "Titles",
            languages,
            default=_known(asked.get("language"), languages, "en"),
            format_func=LANGUAGES.__getitem__,
            key="language",
            required=True,
            width="stretch",
        )
        st.caption("All times are UTC.")
    return Choice(span or "24h", language or "en", agent)


def _agents(client: Client) -> list[str]:
    try:
        known = client.sql(AGENTS)["agent"].to_list()
    except TROUBLE:
        known = []
    chosen = st.session_state.get("agent")
    return known if chosen is None or chosen in known else [chosen, *known]


def _known(asked: str | None, known: list[str], default: str) -> str:
    return asked if asked in known else default
