"""A person at the page of an alert: a real service, a real browser, and a gate that listens."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from ingest.store import memory_store
from tests.browser import Tab
from tests.dashboards.test_in_browser import started
from tests.kit_http import Running, lines, running, until
from tests.kit_listening import Listening, listening

OPERATOR, VIEWER, WRITER = (f"{role}-FAKE0001" for role in ("operator", "viewer", "writer"))
TOKENS = f"""
[[tokens]]
name = "ann"
role = "operator"
token = "{OPERATOR}"

[[tokens]]
name = "vic"
role = "viewer"
token = "{VIEWER}"

[[tokens]]
name = "gate"
role = "writer"
token = "{WRITER}"
"""


class Seat(NamedTuple):
    """Where the person sits: the browser, the address of the alert, and what stands behind it."""

    tab: Tab
    address: str
    service: Running
    gate: Listening
    folder: Path


@pytest.fixture
def seat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[Seat]:
    """With one open alert of the agent a1. The token of the page: `request.param`."""
    monkeypatch.setenv("GATEWATCH_TOKEN", request.param)
    with listening() as gate, running(tmp_path, gate.config + TOKENS) as service:
        service.http.headers["authorization"] = f"Bearer {OPERATOR}"
        sent = service.http.post(
            "/v1/events", content=lines(1, 2, 3), headers={"authorization": f"Bearer {WRITER}"}
        )
        assert sent.status_code == 200, sent.text
        until(lambda: service.rows("SELECT 1 FROM alerts WHERE detector = 'deny_retry'"))
        [row] = service.rows("SELECT alert_id FROM alerts WHERE detector = 'deny_retry'")
        with started(memory_store(), tmp_path, service.url) as board:
            address = f"{board.home}/alert?alert={row['alert_id']}"
            yield Seat(board.tab, address, service, gate, tmp_path)


def choose(tab: Tab, name: str) -> None:
    """Open one of the parts of the form."""
    part = "[...document.querySelectorAll('[role=tab]')].find(t => t.innerText.trim() === "
    assert tab.run(f"{part}{name!r}) ? ({part}{name!r}).click(), true) : false"), name


@pytest.mark.parametrize("seat", [OPERATOR], indirect=True)
def test_all_that_a_person_can_do_about_an_alert(seat: Seat) -> None:
    tab = seat.tab
    tab.open(seat.address, "Triage", "nobody has taken it", "Show whom it asks", "Same story")
    tab.wait("Who would be told now, and why", "Receivers: none is configured.")
    tab.type("Your name", "mei")
    tab.type("Reason", "looks odd")
    tab.click("Acknowledge")
    tab.wait("Acknowledged by mei.", "taken by mei")
    choose(tab, "Assign, comment")
    tab.type("Assign to", "bob")
    tab.click("Assign")
    tab.wait("Assigned to bob by mei.", "assigned to bob")
    tab.type("Comment", "asked the **owner**")
    tab.click("Add comment")
    tab.wait("Comment added by mei.", "asked the **owner**")
    choose(tab, "Silence")
    tab.click("Show what it hides")
    tab.wait("This silence would hide", "1 open alert", "detector deny_retry, subject a1")
    tab.picture(seat.folder / "silence.png")
    tab.click("Silence it")
    tab.wait("Silenced until")
    choose(tab, "Pause")
    tab.click("Show whom it asks")
    tab.wait("This would be asked", "agent a1", "till (webhook at 127.0.0.1)")
    before = list(seat.gate.till.seen)
    tab.picture(seat.folder / "ask.png")
    tab.click("Pause it")
    tab.wait("Pause ordered by mei.", "confirmed", '{"paused":true}')
    tab.picture(seat.folder / "paused.png")
    held = dict(seat.gate.till.paused)
    [pause] = held
    tab.click(f"End {pause}")
    tab.wait(f"End of {pause} ordered by mei.", "resumed")
    choose(tab, "Judge")
    tab.run("[...document.querySelectorAll('label')]"
            ".find(l => l.innerText.startsWith('False')).click()")  # fmt: skip
    tab.click("Give verdict")
    tab.wait("Verdict false recorded by mei.", "verdict false by mei: looks odd")
    tab.click("Reopen")
    text = tab.wait("Reopened by mei.", "nobody has taken it")

    assert "Traceback" not in text
    assert before == []
    assert [each["target"]["name"] for each in held.values()] == ["a1"]
    assert seat.gate.till.paused == {}
    log = seat.service.rows("SELECT actor, action FROM operator_log ORDER BY ledger_seq")
    assert [each["action"] for each in log if each["actor"] == "mei"] == [
        "ack", "assign", "comment", "silence", "pause", "resume", "verdict", "reopen",
    ]  # fmt: skip


@pytest.mark.parametrize("seat", [VIEWER], indirect=True)
def test_who_may_only_look_is_told_so_and_nothing_happens(seat: Seat) -> None:
    tab = seat.tab
    tab.open(seat.address, "Triage", "nobody has taken it", "Show whom it asks", "Same story")
    tab.type("Your name", "vic")
    tab.click("Acknowledge")
    tab.wait("Not done.", "the token 'vic' is a viewer's", "Nothing was recorded.")
    choose(tab, "Pause")
    tab.click("Show whom it asks")
    tab.wait("This would be asked")
    tab.click("Pause it")
    tab.wait("Not done.", "the token 'vic' is a viewer's")

    assert seat.gate.till.seen == []
    assert seat.service.rows("SELECT acked_by FROM alerts WHERE acked_by IS NOT NULL") == []
