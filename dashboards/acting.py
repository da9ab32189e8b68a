"""The forms by which a person acts on one alert: triage, assignment, comments, silences, pauses.

What hides or stops something is shown before it is done.
"""

from datetime import datetime, timedelta
from typing import Any

import polars as pl
import streamlit as st

from dashboards import stopping, theme
from dashboards.client import TROUBLE, Client
from dashboards.person import act, actor, boxes, reason, said, say
from dashboards.theme import Column
from detectors.silences import exactly

VERDICTS = {
    "true": "True: real trouble",
    "false": "False: the detector is wrong",
    "expected": "Expected: this is how it should be",
    "accepted": "Accepted: real, and the risk is taken",
}
SPANS = {
    "1 hour": timedelta(hours=1),
    "4 hours": timedelta(hours=4),
    "1 day": timedelta(days=1),
    "1 week": timedelta(weeks=1),
}
MATCHERS = {
    "both": "This detector on this subject",
    "subject": "Everything on this subject",
    "detector": "Everything of this detector",
}
HIDDEN = (
    Column("Severity", ("severity",)),
    Column("What", ("title", "detector")),
    Column("Who", ("subject",)),
)
FIRST = 20  # of the alerts that a silence would hide: so many are shown


def forms(alert: dict[str, Any], client: Client, now: datetime) -> None:
    """All forms of one alert, and below them what came of the last one."""
    theme.section("Triage", "every action is logged with your name")
    key = alert["alert_id"]
    with st.form("triage", border=False, enter_to_submit=False):
        boxes(key)
        judge, assign, hush, stop = st.tabs(["Judge", "Assign, comment", "Silence", "Pause"])
        with judge:
            _judging(alert, client)
        with assign:
            _assigning(key, client)
        with hush:
            _hushing(alert, client, now)
        with stop:
            stopping.form(alert, client)
    said(key)
    _hushed(key, client)
    stopping.question(key, client)


def _judging(alert: dict[str, Any], client: Client) -> None:
    key = alert["alert_id"]
    st.radio(
        "Verdict", list(VERDICTS), format_func=VERDICTS.__getitem__, index=None,
        key=f"verdict_{key}",
    )  # fmt: skip
    ack, verdict, again = st.columns(3)
    ack.form_submit_button(
        "Acknowledge", on_click=_acknowledge, args=(client, key), width="stretch"
    )
    verdict.form_submit_button(
        "Give verdict", on_click=_judge, args=(client, key), type="primary", width="stretch"
    )
    again.form_submit_button(
        "Reopen", on_click=_reopen, args=(client, key), width="stretch",
        disabled=not (alert["acked_by"] or alert["verdict"]),
    )  # fmt: skip


def _assigning(key: str, client: Client) -> None:
    to, words = st.columns([1, 2])
    to.text_input("Assign to", key=f"to_{key}", help="Empty: to nobody.")
    words.text_input("Comment", key=f"comment_{key}")
    assign, comment, _ = st.columns(3)
    assign.form_submit_button("Assign", on_click=_assign, args=(client, key), width="stretch")
    comment.form_submit_button(
        "Add comment", on_click=_comment, args=(client, key), width="stretch"
    )


def _hushing(alert: dict[str, Any], client: Client, now: datetime) -> None:
    key = alert["alert_id"]
    what, span = st.columns([2, 1])
    what.selectbox("Of what", list(MATCHERS), format_func=MATCHERS.__getitem__, key=f"of_{key}")
    span.selectbox("For", list(SPANS), key=f"span_{key}")
    st.form_submit_button("Show what it hides", on_click=_preview, args=(client, alert, now))


def _acknowledge(client: Client, key: str) -> None:
    act(key, lambda who, why: client.ack(key, who, why), "Acknowledged")


def _reopen(client: Client, key: str) -> None:
    act(key, lambda who, why: client.reopen(key, who, why), "Reopened")


def _judge(client: Client, key: str) -> None:
    verdict = st.session_state.get(f"verdict_{key}")
    if actor(key) and not (verdict and reason(key)):
        say(key, "A verdict needs one of the four words, and a reason.")
    elif verdict:
        act(
            key,
            lambda who, why: client.verdict(key, verdict, who, why),
            f"Verdict {verdict} recorded",
        )


def _assign(client: Client, key: str) -> None:
    to = str(st.session_state.get(f"to_{key}", "")).strip()
    act(key, lambda who, why: client.assign(key, to, who, why), f"Assigned to {to or 'nobody'}")


def _comment(client: Client, key: str) -> None:
    words = str(st.session_state.get(f"comment_{key}", "")).strip()
    if actor(key) and not words:
        say(key, "Write the comment first.")
    elif act(key, lambda who, _: client.comment(key, words, who), "Comment added"):
        st.session_state[f"comment_{key}"] = ""


def _preview(client: Client, alert: dict[str, Any], now: datetime) -> None:
    """What a silence would hide is shown before it is made."""
    key = alert["alert_id"]
    if not actor(key):
        return
    if not reason(key):
        say(key, "A silence needs a reason: somebody will ask while it hides something.")
        return
    of, span = st.session_state[f"of_{key}"], SPANS[st.session_state[f"span_{key}"]]
    wanted = {
        name: exactly(alert[name]) for name in ("detector", "subject") if of in ("both", name)
    }
    try:
        told = client.preview(wanted)
    except TROUBLE as error:
        say(key, str(error))
        return
    st.session_state["hushing"] = (key, wanted, now + span, told)
    st.session_state.pop("acted", None)


def _hushed(key: str, client: Client) -> None:
    """The question after a preview: really?"""
    about, wanted, until, told = st.session_state.get("hushing", ("", {}, None, {}))
    if about != key:
        return
    what = ", ".join(f"{name} {value}" for name, value in wanted.items())
    note = (
        f"{theme.count(told['open_count'], 'open alert')}, and {told['week_count']:,} of those of"
        f" the last seven days: {what}, until {theme.moment(until)} UTC"
    )
    theme.section("This silence would hide", note)
    if told["open"]:
        names = [name for column in HIDDEN for name in column.parts]
        rows = [{name: str(row[name]) for name in names} for row in told["open"][:FIRST]]
        theme.table(pl.DataFrame(rows), HIDDEN)
    yes, no, _ = st.columns([1, 1, 2])
    yes.button("Silence it", on_click=_silence, args=(client, key, wanted, until), type="primary")
    no.button("Leave it", on_click=lambda: st.session_state.pop("hushing", None))


def _silence(client: Client, key: str, wanted: dict[str, str], until: datetime) -> None:
    st.session_state.pop("hushing", None)
    act(key, lambda who, why: client.silence(wanted, until, who, why),
        f"Silenced until {theme.moment(until)} UTC")  # fmt: skip
