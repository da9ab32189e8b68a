"""The board: navigation, sidebar, and one page at a time, kept honest when the service is away."""

import os
from collections.abc import Callable
from datetime import datetime
from types import ModuleType

import streamlit as st

from dashboards import pages, theme
from dashboards.client import TROUBLE, Client
from dashboards.filters import Filters, sidebar

LOOK_AGAIN = 5  # seconds until a page that got no answer asks again
URL = "http://127.0.0.1:8686"


def main() -> None:
    """Draw the page that the address names."""
    st.set_page_config(page_title="gatewatch", layout="wide", initial_sidebar_state="expanded")
    theme.apply()
    found = [pages.load(name) for name in pages.names()]
    found.sort(key=lambda page: page.ORDER)
    st.navigation([_entry(page, page is found[0]) for page in found]).run()


def _entry(page: ModuleType, first: bool) -> st.Page:
    name = page.__name__.rpartition(".")[2]
    seen = "hidden" if getattr(page, "HIDDEN", False) else "visible"
    return st.Page(_opener(page), title=page.TITLE, url_path=name, default=first, visibility=seen)  # type: ignore[arg-type]


def _opener(page: ModuleType) -> Callable[[], None]:
    def opened() -> None:
        client = _client()
        choice = sidebar(client)
        every = getattr(page, "EVERY", None) or (LOOK_AGAIN if _down() else None)
        st.fragment(run_every=every)(draw)(page, client, choice.filters)

    return opened


def draw(page: ModuleType, client: Client, filters_at: Callable[[datetime], Filters]) -> None:
    """Load and show one page, or say in one sentence why nothing is known."""
    try:
        filters = filters_at(client.health().now)
        data = page.load(client, filters)
    except TROUBLE as error:
        theme.heading(page.TITLE)
        last = f"No data since {theme.moment(client.answered)} UTC. " if client.answered else ""
        theme.trouble(
            str(error),
            f"{last}What goes on now is unknown. This page asks again "
            f"every {LOOK_AGAIN} s and comes back by itself.",
        )
        _turn(down=True)
        return
    theme.heading(page.TITLE, f"as of {theme.moment(filters.now)} UTC")
    page.show(data)
    _turn(down=False)


def _down() -> bool:
    return bool(st.session_state.get("down"))


def _turn(*, down: bool) -> None:
    """Run the whole board again when the service went or came back: timer and sidebar change."""
    if _down() != down:
        st.session_state["down"] = down
        st.rerun()


def _client() -> Client:
    """This session's own client: another viewer has another session, and another token."""
    if "client" not in st.session_state:
        url, token = os.environ.get("GATEWATCH_URL", URL), os.environ.get("GATEWATCH_TOKEN", "")
        st.session_state["client"] = Client(url, token)
    client: Client = st.session_state["client"]
    return client
