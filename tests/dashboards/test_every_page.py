"""What every page owes its reader. A new file in dashboards/pages/ is covered on arrival."""

from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from dashboards import pages
from dashboards.client import Client
from dashboards.filters import Filters
from ingest.store import Store, memory_store
from tests.dashboards import rows, service
from tests.dashboards.insert import NOW

NAMES = pages.names()
LIMIT = 5_000_000  # bytes that one page may send (case B150)


def opened(name: str, store: Store, **asked: Any) -> AppTest:
    """One page alone, drawn from a store."""

    def script(name: str, client: "Client", filters: "Filters") -> None:
        from dashboards import board, pages

        board.draw(pages.load(name), client, lambda now: filters)

    client = service.client(store)
    try:
        page = AppTest.from_function(
            script,
            default_timeout=20,
            kwargs={"name": name, "client": client, "filters": Filters(NOW, **asked)},
        )
        return page.run()
    finally:
        client.close()


def text(page: AppTest) -> str:
    return "".join(each.proto.body for each in page.get("html"))


@pytest.mark.parametrize("name", NAMES)
def test_opens_on_nothing_shows_its_title_and_names_the_next_step(name: str) -> None:
    page = opened(name, memory_store())

    assert [each.value for each in page.exception] == []
    assert pages.load(name).TITLE in text(page)
    assert "gw-empty" in text(page)
    assert "<code>gatewatch " in text(page)


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("name", NAMES)
def test_opens_on_rows_full_of_markup_and_shows_them_as_text(name: str, language: str) -> None:
    asked = {"alert": rows.MARKUP, "trace": rows.MARKUP, "language": language}
    page = opened(name, rows.hostile(), **asked)

    assert [each.value for each in page.exception] == []
    assert pages.load(name).TITLE in text(page)
    assert "Unknown." not in text(page)
    assert "<script" not in text(page)
    assert "<img" not in text(page)
    assert "<svg" not in text(page)
    assert 'href="javascript' not in text(page)
    assert "\u202e" not in text(page)
    markdown = [each.value for each in (*page.markdown, *page.caption, *page.info, *page.error)]
    assert [each for each in markdown if "javascript" in each] == []


@pytest.mark.parametrize("name", NAMES)
def test_says_in_one_sentence_that_nothing_is_known_when_the_service_is_away(name: str) -> None:
    def script(name: str) -> None:
        from dashboards import board, pages
        from dashboards.client import Client
        from dashboards.filters import Filters

        board.draw(pages.load(name), Client("http://127.0.0.1:9", ""), Filters)

    page = AppTest.from_function(script, default_timeout=20, kwargs={"name": name}).run()

    assert [each.value for each in page.exception] == []
    assert "Unknown." in text(page)
    assert "does not answer" in text(page)
    assert "Traceback" not in text(page)
    assert "gw-tile" not in text(page)
