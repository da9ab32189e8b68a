"""Who acts on the page, why, and what came of it: each action is the service's, in a name.

The service refuses what a token may not do; the page then says so, and that nothing was recorded.
"""

from collections.abc import Callable

import streamlit as st

from dashboards import theme
from dashboards.client import TROUBLE


def boxes(key: str) -> None:
    """A name and a reason, for every form of one alert."""
    name, reason = st.columns([1, 2])
    name.text_input("Your name", value=st.session_state.get("actor_kept", ""), key="actor")
    reason.text_input("Reason", key=f"reason_{key}")


def act(key: str, action: Callable[[str, str], object], done: str, place: str = "triage") -> bool:
    """Have the service do it, in the person's name and with the reason; say at one `place` of the
    page what came of it: what was `done`, by whom."""
    who = actor(key, place)
    if not who:
        return False
    try:
        action(who, reason(key))
    except TROUBLE as error:
        say(key, str(error), place=place)
        return False
    say(key, f"{done} by {who}.", good=True, place=place)
    return True


def actor(key: str, place: str = "triage") -> str:
    """Who acts. Without a name nothing is done, and the page says so."""
    who = str(st.session_state.get("actor", "")).strip()
    st.session_state["actor_kept"] = who
    if not who:
        say(key, "Say who you are: every action is logged with a name.", place=place)
    return who


def reason(key: str) -> str:
    return str(st.session_state.get(f"reason_{key}", "")).strip()


def say(key: str, sentence: str, *, good: bool = False, place: str = "triage") -> None:
    """What the page says of the last action on this alert, and where."""
    st.session_state["acted"] = (key, place, good, sentence)


def said(key: str, place: str = "triage") -> None:
    """Draw it."""
    about, where, good, sentence = st.session_state.get("acted", ("", "", False, ""))
    if (about, where) != (key, place):
        return
    if good:
        theme.done(sentence)
    else:
        theme.trouble(sentence, "Nothing was recorded.", lead="Not done.")
