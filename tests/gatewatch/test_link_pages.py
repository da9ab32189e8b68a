"""Links in messages: opening one does nothing, its button does one thing, and no other works."""

import logging
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from detectors.links import Links, Ticket
from gatewatch.parts import utc_now
from ingest.config import Secret
from tests.dashboards.insert import put
from tests.dashboards.rows import MARKUP
from tests.kit_gates import KEY, alert
from tests.kit_http import Asked

LINK_KEY = "FAKE-link-key-0001-0123456789abcdef"
CONFIG = f"""
[links]
url = "https://gatewatch.example"
key = "{LINK_KEY}"

[containment.till]
type = "webhook"
webhook = "https://gate.example/gatewatch-FAKE0001"
secrets = ["{KEY}"]

[receivers.ops]
type = "slack"
webhook = "https://hooks.slack.com/services/FAKE"

[receivers.chat]
type = "slack"
webhook = "https://hooks.slack.com/services/FAKE2"
language = "zh"

[[tokens]]
name = "ann"
role = "operator"
token = "o"
"""


def url(action: str = "ack", key: str = LINK_KEY, to: str = "ops", hours: float = 24) -> str:
    until = (utc_now() + timedelta(hours=hours)).replace(microsecond=0)
    links = Links("https://gatewatch.example", Secret(key), timedelta(hours=24))
    ticket = Ticket(action, "al_7f3a", to, until)
    return links.address(ticket).removeprefix("https://gatewatch.example")


def post(asked: Asked, path: str, **form: str) -> httpx.Response:
    return asked.http.post(path, data=form)


def state(asked: Asked) -> tuple[Any, ...]:
    [row] = asked.parts.rows("SELECT acked_by, (SELECT count(*) FROM pauses) AS pauses FROM alerts")
    return tuple(row.values())


@pytest.mark.parametrize("action", ["ack", "pause"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_opening_a_link_does_nothing_however_often(there: Asked, action: str, method: str) -> None:
    answers = [there.http.request(method, url(action)) for _ in range(3)]

    assert [each.status_code for each in answers] == [200] * 3
    assert state(there) == (None, 0)


def test_the_page_says_what_its_button_will_do_and_nothing_can_run_on_it(there: Asked) -> None:
    page = there.http.get(url("pause"))

    for words in ("Pause this agent", "agent a1", "till (webhook at gate.example)", "al_7f3a"):
        assert words in page.text
    assert "FAKE" not in page.text
    assert page.text.count("<form") == 1
    assert "<script" not in page.text
    headers = page.headers
    assert headers["content-security-policy"].startswith("default-src 'none';")
    assert (headers["referrer-policy"], headers["x-robots-tag"]) == (
        "no-referrer", "noindex, nofollow",
    )  # fmt: skip
    assert headers["cache-control"] == "no-store"


def test_the_button_acknowledges_with_the_receiver_and_a_name(there: Asked) -> None:
    answer = post(there, url(), name="  mei \u202e<b>")

    assert answer.status_code == 200
    assert state(there)[0] == "mei <U+202E><b> (link from ops)"
    assert "<b>" not in answer.text
    assert "acknowledged already" in post(there, url()).text
    assert state(there)[0] == "mei <U+202E><b> (link from ops)"


def test_without_a_name_the_receiver_stands_in_the_log(there: Asked) -> None:
    post(there, url())

    [row] = there.parts.rows("SELECT actor, action FROM operator_log WHERE action = 'ack'")
    assert row["actor"] == "link from ops"


def test_a_link_pauses_once(there: Asked) -> None:
    path = url("pause")
    first, second = post(there, path, name="mei"), post(there, path, name="mei")

    assert (first.status_code, second.status_code) == (202, 409)
    assert "This link has been used" in second.text
    [row] = there.parts.rows("SELECT * FROM pauses")
    assert (row["name"], row["actor"], row["alert_id"], row["state"]) == (
        "a1", "mei (link from ops)", "al_7f3a", "asked",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (lambda: url(key=LINK_KEY[::-1]), "This link is not ours"),
        (lambda: url(to="gone"), "This link is not ours"),
        (lambda: url("verdict"), "This link is not ours"),
        (lambda: url()[:-1], "This link is not ours"),
        (lambda: "/links/x", "This link is not ours"),
        (lambda: url(hours=-0.001), "This link is over"),
    ],
)
def test_a_forged_or_old_link_is_refused_and_logged_without_its_secret(
    there: Asked, made: Callable[[], str], says: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = made()
    with caplog.at_level(logging.WARNING, "gatewatch"):
        answers = [there.http.get(path), post(there, path)]

    assert [each.status_code for each in answers] == [403, 403]
    assert all(says in each.text for each in answers)
    assert state(there) == (None, 0)
    assert "links: refused" in caplog.text
    assert path not in caplog.text


def test_who_tries_many_is_slowed_down_and_a_good_link_still_works(there: Asked) -> None:
    answers = [there.http.get(f"/links/x{number}").status_code for number in range(12)]

    assert answers == [403] * 10 + [429] * 2
    assert there.http.get(url()).status_code == 200


def test_one_good_link_is_not_opened_without_end(there: Asked) -> None:
    path = url()

    assert [there.http.get(path).status_code for _ in range(31)] == [200] * 30 + [429]


def test_hostile_text_stays_text(there: Asked) -> None:
    with there.parts.store.writing() as db:
        db.execute("DELETE FROM alerts")
        db.execute("DELETE FROM events")
    alert(there, title=MARKUP, subject=MARKUP, agent=MARKUP)

    page = there.http.get(url("pause"))

    assert page.status_code == 200
    assert "<script" not in page.text
    assert "<img" not in page.text
    assert "<svg" not in page.text
    assert "\u202e" not in page.text


def test_a_page_speaks_the_language_of_its_message(there: Asked) -> None:
    page = there.http.get(url("pause", to="chat"))

    assert '<html lang="zh">' in page.text
    assert "暂停此智能体" in page.text
    assert "中 a1: 3 denials" in page.text


def test_a_body_that_is_too_large_does_nothing(there: Asked) -> None:
    assert post(there, url(), name="x" * 10_000).status_code == 413
    assert state(there) == (None, 0)


def test_an_alert_of_several_agents_is_not_paused_from_a_message(there: Asked) -> None:
    put(there.parts.store, "events", event_id="e2", kind="tool_decided", source="gate",
        ledger_seq=2, ts=utc_now(), agent="a2")  # fmt: skip
    with there.parts.store.writing() as db:
        db.execute("UPDATE alerts SET event_ids = ['e1', 'e2'], subject = 'host'")

    page = there.http.get(url("pause"))

    assert page.status_code == 409
    assert "al_7f3a is about 2 agents (a1, a2): say whom." in page.text


def test_a_merged_alert_leads_to_what_it_became_a_part_of(there: Asked) -> None:
    with there.parts.store.writing() as db:
        db.execute("UPDATE alerts SET status = 'merged', merged_into = 'al_8'")
    alert(there, alert_id="al_8")
    post(there, url())

    rows = there.parts.rows("SELECT alert_id FROM alerts WHERE acked_by IS NOT NULL")
    assert [row["alert_id"] for row in rows] == ["al_8"]


def test_where_nothing_is_signed_there_are_no_pages(tmp_path: Path) -> None:
    asked = Asked(tmp_path, "")

    assert asked.http.get(url()).status_code == 404
    asked.parts.close()
