"""The whole board in a real browser, against a service on a local port."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import pytest

from dashboards import pages
from dashboards.launch import command
from ingest.store import Store
from tests.browser import Tab, browser
from tests.dashboards import rows, service

ASKED = {"alert": "al_7f3a", "trace": "t-17"}
SAYS = {  # words that only the finished page shows
    "now": ("Open alerts", "a9: billing.refund ran although denied", "Sources"),
    "alerts": ("Fired", "Download as CSV"),
    "alert": ("a1: 3 denials in a row for crm.export_contacts", "Evidence", "no-bulk-export"),
    "trace": ("Steps", "crm.search", "approval_requested"),
    "detectors": ("Health", "silent_source", "failing"),
    "rules": ("Proposals", "empty_result", "incidents stopped"),
}


class Board(NamedTuple):
    tab: Tab
    home: str  # the board's address
    store: Store
    folder: Path  # for pictures


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Board]:
    with started(rows.example(), tmp_path_factory.mktemp("board")) as found:
        yield found


class started:  # noqa: N801 - reads as a verb where it is used
    """The board for one store, with a browser that looks at it."""

    def __init__(self, store: Store, folder: Path, url: str | None = None) -> None:
        self._store, self._folder, self._url, self._open = store, folder, url, ExitStack()

    def __enter__(self) -> Board:
        url = self._url or self._open.enter_context(service.serving(self._store))
        port = service.free_port()
        environment = {**os.environ, "GATEWATCH_URL": url}
        dashboard = subprocess.Popen(
            command(port), env=environment, cwd=self._folder, stdout=subprocess.DEVNULL
        )
        self._open.callback(dashboard.wait)
        self._open.callback(dashboard.terminate)
        service.listening(port)
        tab = self._open.enter_context(browser(self._folder / "profile", 1400, 1600))
        return Board(tab, f"http://127.0.0.1:{port}", self._store, self._folder)

    def __exit__(self, *_: object) -> None:
        self._open.close()


def visit(board: Board, name: str, asked: dict[str, str], *words: str) -> str:
    place = "" if name == "now" else name  # the first page is the board's own address
    query = f"?{name}={quote(asked[name], safe='')}" if name in asked else ""
    text = board.tab.open(f"{board.home}/{place}{query}", "as of 2026-03-10", *words)
    board.tab.picture(board.folder / f"{name}.png")
    return text


@pytest.mark.parametrize("name", pages.names())
def test_each_page_shows_its_content_without_a_trace_and_without_overflow(
    board: Board, name: str
) -> None:
    text = visit(board, name, ASKED, *SAYS[name])

    assert "Traceback" not in text
    assert "Exception" not in text
    assert "Unknown." not in text
    wide = "[document.documentElement, document.querySelector('[data-testid=stMain]')]"
    assert board.tab.run(f"{wide}.every(e => e.scrollWidth <= e.clientWidth)")


def test_the_menu_names_the_pages_and_hides_the_one_that_needs_a_link(board: Board) -> None:
    visit(board, "alerts", {}, "Fired")
    menu = board.tab.run("document.querySelector('[data-testid=stSidebarNav]').innerText")

    assert menu.split() == ["Now", "Alerts", "Trace", "Detectors", "Rules"]


def test_a_title_on_now_leads_to_its_alert_in_the_viewers_language(board: Board) -> None:
    visit(board, "now", {}, "a1: 3 denials")
    board.tab.run("[...document.querySelectorAll('[data-testid=stSidebar] button')]"
                  ".find(b => b.innerText.includes('中文')).click()")  # fmt: skip
    board.tab.wait("crm.export_contacts 连续被拒 3 次")
    board.tab.run("[...document.querySelectorAll('a')].find(a => a.innerText.includes('连续'))"
                  ".click()")  # fmt: skip

    board.tab.wait("Why it matters", "crm.export_contacts 连续被拒 3 次")


def test_a_row_of_the_list_opens_the_alert_below_it(board: Board) -> None:
    visit(board, "alerts", {}, "Fired", "denied_then_executed")
    x, y = board.tab.run(
        "(r => [r.x + 17, r.y + 52])(document.querySelector('[data-testid=stDataFrame] canvas')"
        ".getBoundingClientRect())"
    )
    board.tab.press(x, y)

    text = board.tab.wait("Why it matters", "denied_then_executed on a9")
    assert "Traceback" not in text
    board.tab.picture(board.folder / "alerts_chosen.png")


def test_acknowledging_and_judging_reach_the_service_with_name_and_reason(board: Board) -> None:
    visit(board, "alert", ASKED, "Triage")
    board.tab.click("Acknowledge")
    board.tab.wait("Say who you are")
    board.tab.type("Your name", "mei")
    board.tab.click("Acknowledge")
    board.tab.wait("Acknowledged by mei.")
    board.tab.type("Reason", "seen before :fire:")
    board.tab.run("[...document.querySelectorAll('label')]"
                  ".find(l => l.innerText.startsWith('Expected')).click()")  # fmt: skip
    board.tab.click("Give verdict")
    board.tab.wait("Verdict expected recorded by mei.", "seen before :fire:")

    [row] = board.store.rows("SELECT * FROM alerts WHERE alert_id = 'al_7f3a'")
    assert (row["acked_by"], row["verdict"], row["verdict_by"], row["verdict_reason"]) == (
        "mei", "expected", "mei", "seen before :fire:",
    )  # fmt: skip


def test_what_logs_say_never_becomes_part_of_the_page(tmp_path: Path) -> None:
    asked = {"alert": rows.MARKUP, "trace": rows.MARKUP}
    with started(rows.hostile(), tmp_path) as board:
        for name in pages.names():
            text = visit(board, name, asked)

            assert board.tab.run("document.title") == "gatewatch"
            inside = "[data-testid=stMain] :is(script, img[src=x], svg[onload], [onerror])"
            assert board.tab.run(f"document.querySelectorAll('{inside}').length") == 0
            links = "[...document.querySelectorAll('a')].map(a => a.getAttribute('href'))"
            assert [each for each in board.tab.run(links) if "javascript" in each[:12]] == []
            assert "Traceback" not in text
            assert "Unknown." not in text


def test_a_page_says_unknown_while_the_service_is_away_and_comes_back_by_itself(
    tmp_path: Path,
) -> None:
    store, port = rows.example(), service.free_port()
    with started(store, tmp_path, f"http://127.0.0.1:{port}") as board:
        for name, place in (("now", ""), ("rules", "rules")):
            before = board.tab.open(f"{board.home}/{place}", "Unknown.", "does not answer")
            with service.serving(store, port):
                board.tab.wait("as of 2026-03-10", *SAYS[name], gone="Unknown.")
            if name == "now":  # it refreshes by itself; the others when they are used
                after = board.tab.wait(
                    "No data since 2026-03-10 09:30:00 UTC", gone="billing.refund"
                )
                board.tab.picture(tmp_path / "away.png")
                assert "Traceback" not in before + after
