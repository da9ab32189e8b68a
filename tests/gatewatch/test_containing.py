"""Pauses over HTTP: who may order one, what is shown before and after, and what is refused."""

from datetime import timedelta
from typing import Any

import httpx
import pytest

from gatewatch.containing import length
from gatewatch.parts import utc_now
from ingest.config import ConfigError
from tests.dashboards.insert import put
from tests.kit_gates import KEY
from tests.kit_http import Asked

CONFIG = f"""
[containment.till]
type = "webhook"
webhook = "https://gate.example/gatewatch-FAKE0001"
secrets = ["{KEY}"]
expires = "30 minutes"

[containment.mail]
type = "webhook"
webhook = "https://mail.example/gatewatch-FAKE0002"
secrets = ["{KEY}"]
agents = ["mail*"]

[[tokens]]
name = "ann"
role = "operator"
token = "o"

[[tokens]]
name = "vic"
role = "viewer"
token = "v"
"""


def ask(there: Asked, path: str, who: str = "o", **body: Any) -> httpx.Response:
    headers = {"authorization": f"Bearer {who}"}
    if body:
        return there.http.post(path, json=body, headers=headers)
    return there.http.request("GET", path, headers=headers)


def test_an_operator_pauses_and_resumes_and_a_viewer_looks(there: Asked) -> None:
    made = ask(there, "/v1/pauses", actor="mei", target="a1", reason="odd", **{"for": "1h"})
    [row] = made.json()
    seen = ask(there, "/v1/pauses", "v").json()
    done = ask(there, f"/v1/pauses/{row['pause_id']}/resume", actor="bob", reason="fine").json()

    assert (row["gate"], row["kind"], row["name"], row["actor"], row["state"]) == (
        "till", "agent", "a1", "mei", "asked",
    )  # fmt: skip
    assert seen == [row]
    assert (done[0]["state"], done[0]["ended_by"], done[0]["ended_reason"]) == (
        "resuming", "bob", "fine",
    )  # fmt: skip


def test_an_alert_is_enough_and_the_gate_says_how_long(there: Asked) -> None:
    [row] = ask(there, "/v1/pauses", actor="mei", alert="al_7f3a").json()

    assert (row["name"], row["alert_id"]) == ("a1", "al_7f3a")
    [stored] = there.parts.rows("SELECT until - asked_at AS lasts FROM pauses")
    assert timedelta(minutes=29, seconds=58) < stored["lasts"] <= timedelta(minutes=30)
    assert ask(there, "/v1/pauses?alert=al_7f3a").json() == [row]
    assert ask(there, "/v1/pauses?alert=al_0").json() == []


def test_a_preview_says_who_would_be_asked_and_asks_nobody(there: Asked) -> None:
    told = ask(there, "/v1/pauses/preview", "v", target="a1").json()

    assert told["gates"] == [{"gate": "till", "where": "webhook at gate.example"}]
    assert (told["kind"], told["name"]) == ("agent", "a1")
    assert there.parts.rows("SELECT * FROM pauses") == []


@pytest.mark.parametrize(
    ("token", "body", "status", "says"),
    [
        ("v", {"actor": "vic", "target": "a1"}, 403, "the token 'vic' is a viewer's"),
        ("x", {"actor": "x", "target": "a1"}, 401, "no such token"),
        ("o", {"target": "a1"}, 400, "'actor' is missing"),
        ("o", {"actor": "mei"}, 400, "target: whom to pause"),
        ("o", {"actor": "mei", "target": "a2"}, 400, "no agent or trace 'a2' has been seen"),
        ("o", {"actor": "mei", "target": "a1", "for": "1 fortnight"}, 400, "no length of time"),
        ("o", {"actor": "mei", "target": "a1", "for": "90d"}, 400, "between a minute and 30 days"),
        ("o", {"actor": "mei", "target": "a1", "until": "soon"}, 400, "until: no time"),
        ("o", {"actor": "mei", "target": ["a1"]}, 400, "'target' is no text"),
        ("o", {"actor": "mei", "alert": "al_7f3b"}, 400, "Did you mean 'al_7f3a'?"),
    ],
)
def test_what_cannot_be_is_said(
    there: Asked, token: str, body: dict[str, Any], status: int, says: str
) -> None:
    answer = ask(there, "/v1/pauses", token, **body)

    assert (answer.status_code, says in answer.json()["error"]) == (status, True), answer.text
    assert there.parts.rows("SELECT * FROM pauses") == []


def test_a_resume_of_what_is_not_there_is_said(there: Asked) -> None:
    answer = ask(there, "/v1/pauses/pa_0/resume", actor="mei")

    assert (answer.status_code, answer.json()["error"]) == (400, "no pause 'pa_0'.")


def test_each_gate_that_serves_it_is_asked(there: Asked) -> None:
    put(there.parts.store, "events", event_id="e9", kind="tool_decided", source="gate",
        ledger_seq=2, ts=utc_now(), agent="mailer")  # fmt: skip

    rows = ask(there, "/v1/pauses", actor="mei", target="mailer").json()

    assert [row["gate"] for row in rows] == ["mail", "till"]


@pytest.mark.parametrize(
    ("text", "minutes"), [("90m", 90), ("1h", 60), ("2d", 2_880), ("1 hour", 60), (" 5m ", 5)]
)
def test_lengths_are_short_or_whole(text: str, minutes: int) -> None:
    assert length(text) == timedelta(minutes=minutes)


@pytest.mark.parametrize("text", ["", "h", "1.5h", "-1h", "1x", "9999999h"])
def test_what_is_no_length_is_said(text: str) -> None:
    with pytest.raises(ConfigError, match="no length of time: write 1h, or 1 hour"):
        length(text)
