"""Pauses on the page of an alert: who would be asked, what was answered, and letting go again."""

from functools import partial
from typing import Any

import polars as pl
import streamlit as st

from dashboards import theme
from dashboards.client import TROUBLE, Client
from dashboards.person import act, actor, said, say
from dashboards.theme import Column

SPANS = {
    "": "As the gate says",
    "15m": "15 minutes",
    "1h": "1 hour",
    "4h": "4 hours",
    "1d": "1 day",
}
LOOK = 2  # seconds between looks at a gate that has not answered yet
OPEN = ("asked", "confirmed", "refused", "resuming", "stuck")
PAUSES = """
    SELECT pause_id, gate, kind, left(name, 200) AS name, state, until, status,
           left(answer, 400) AS answer, left(actor, 200) AS actor, left(reason, 300) AS reason,
           asked_at, left(ended_by, 200) AS ended_by, count(*) OVER () AS total
    FROM pauses p
    WHERE alert_id = $alert OR (state IN ('asked', 'confirmed', 'resuming', 'stuck') AND EXISTS (
        SELECT 1 FROM alerts a WHERE a.alert_id = $alert
            AND (p.name = a.subject OR list_contains(a.about, p.kind || ' ' || p.name))))
    ORDER BY asked_at DESC, pause_id, gate LIMIT 20
"""
SHOWN = (
    Column("Gate", ("gate",)),
    Column("State", ("state",)),
    Column("Whom", ("name", "kind")),
    Column("Until", ("until",)),
    Column("Answer", ("status", "answer")),
    Column("Ordered by", ("actor", "reason")),
    Column("Pause", ("pause_id",)),
)


def load(client: Client, alert_id: str) -> pl.DataFrame:
    """Pauses because of an alert, and those of its agents that stand."""
    return client.sql(PAUSES, alert=alert_id)


def form(alert: dict[str, Any], client: Client) -> None:
    """Inside the form of an alert: whom, and for how long."""
    key = alert["alert_id"]
    about = [each for each in alert["about"] or () if each.startswith(("agent ", "trace "))]
    whom, span = st.columns([2, 1])
    whom.selectbox("Whom", ["", *about], format_func=_whom, key=f"whom_{key}")
    span.selectbox("For how long", list(SPANS), format_func=SPANS.__getitem__, key=f"stop_{key}")
    st.form_submit_button("Show whom it asks", on_click=_plan, args=(client, key))


def _whom(about: str) -> str:
    return theme.visible(about)[:100] or "The alert's agent"


def _plan(client: Client, key: str) -> None:
    """Who would be asked is shown before anybody is."""
    if not actor(key):
        return
    asked = {"alert": key, "for": st.session_state.get(f"stop_{key}", "")}
    if whom := st.session_state.get(f"whom_{key}", ""):
        asked["kind"], _, asked["target"] = whom.partition(" ")
    try:
        told = client.pause_preview(asked)
    except TROUBLE as error:
        say(key, str(error))
        return
    st.session_state["stopping"] = (key, asked, told)
    st.session_state.pop("acted", None)


def question(key: str, client: Client) -> None:
    """The question after that: really?"""
    about, asked, told = st.session_state.get("stopping", ("", {}, {}))
    if about != key:
        return
    gates = ", ".join(f"{each['gate']} ({each['where']})" for each in told["gates"])
    theme.section("This would be asked")
    theme.pairs(
        {
            "Pause": f"{told['kind']} {told['name']}",
            "Until": f"{told['until'][:19].replace('T', ' ')} UTC",
            "Asked is": gates,
        }
    )
    yes, no, _ = st.columns([1, 1, 2])
    yes.button("Pause it", on_click=_pause, args=(client, key, asked), type="primary")
    no.button("Leave it running", on_click=lambda: st.session_state.pop("stopping", None))


def _pause(client: Client, key: str, asked: dict[str, str]) -> None:
    st.session_state.pop("stopping", None)
    act(key, lambda who, why: client.pause(asked, who, why),
        "Pause ordered")  # fmt: skip


def show(rows: pl.DataFrame, key: str, client: Client) -> None:
    """What each gate answered. While one has not, the part looks again by itself."""
    if rows.is_empty():
        return
    waits = _waits(rows)
    st.fragment(run_every=LOOK if waits else None)(_shown)(rows, key, client, waits)


def _waits(rows: pl.DataFrame) -> bool:
    return not rows.filter(pl.col("state").is_in(["asked", "resuming"])).is_empty()


def _shown(rows: pl.DataFrame, key: str, client: Client, again: bool) -> None:
    theme.section("Pauses", "what each gate answered")
    if again:
        try:
            rows = load(client, key)
        except TROUBLE as error:
            theme.trouble(str(error), "What the gates answer is unknown.")
            return
        if not _waits(rows):
            st.rerun()  # the whole page, which then has nothing to wait for
    theme.table(rows, SHOWN)
    standing = rows.filter(pl.col("state").is_in(OPEN)).unique("pause_id", maintain_order=True)
    for pause in standing["pause_id"]:  # its id alone: a label is Markdown, and names are from logs
        if st.button(f"End {pause}", key=f"end_{pause}"):
            act(key, partial(client.resume, pause), f"End of {pause} ordered", "pauses")
            st.rerun()  # the whole page: what the gates answer is to be looked for
    said(key, "pauses")
