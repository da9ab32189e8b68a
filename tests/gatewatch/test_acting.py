"""What people do about alerts, over HTTP: who may, what is answered, what a page builds on."""

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from dashboards.client import Client, ServiceRefused
from gatewatch.parts import utc_now
from tests.kit_http import Asked

TOKENS = """
[[tokens]]
name = "wall"
role = "viewer"
token = "v-token"
[[tokens]]
name = "ann"
role = "operator"
token = "o-token"
[sources.gate]
"""
OPERATOR = "o-token"


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[Asked]:
    """With one alert, of a1."""
    found = Asked(tmp_path, TOKENS)
    now = utc_now()
    with found.parts.store.writing() as db:
        for alert, subject in (("al_1", "a1"), ("al_2", "a2")):
            db.execute(
                "INSERT INTO alerts (alert_id, detector, tenant, subject, severity, status, rows,"
                " started_at, ended_at, title, title_zh, facts, event_ids, opened_at, backfill,"
                " tellings) VALUES (?, 'deny_retry', '', ?, 'high', 'open', 1, ?, ?, 't', 't',"
                " '{}', [], ?, false, 0)",
                [alert, subject, now, now, now],
            )
    yield found
    found.parts.close()


def client(asked: Asked, token: str = OPERATOR) -> Client:
    """The dashboard's."""

    def reply(request: httpx.Request) -> httpx.Response:
        answer = asked.http.request(
            request.method, request.url.raw_path.decode(), content=request.content,
            headers={key: request.headers[key] for key in ("authorization", "content-type")},
        )  # fmt: skip
        return httpx.Response(answer.status_code, content=answer.content)

    return Client("http://localhost", token, httpx.MockTransport(reply))


def alert(asked: Asked, alert_id: str = "al_1") -> dict[str, Any]:
    return asked.parts.rows("SELECT * FROM alerts WHERE alert_id = $id", id=alert_id)[0]


def post(asked: Asked, path: str, token: str = OPERATOR, **body: Any) -> httpx.Response:
    headers = {"Authorization": f"Bearer {token}"}
    return asked.http.post(path, content=json.dumps(body), headers=headers)


def test_the_road_of_an_alert_as_the_dashboard_takes_it(asked: Asked) -> None:
    page = client(asked)

    page.ack("al_1", "ann", "on it")
    page.assign("al_1", "bob", "ann")
    page.comment("al_1", "is this the drill?", "bob")
    page.verdict("al_1", "true", "bob", "it was not")
    judged = alert(asked)
    page.reopen("al_1", "bob", "it was")
    page.assign("al_1", "", "bob")

    row = alert(asked)
    assert (judged["acked_by"], judged["assigned_to"], judged["verdict"]) == ("ann", "bob", "true")
    assert (row["acked_by"], row["assigned_to"], row["verdict"]) == (None, None, None)
    said = asked.parts.rows("SELECT what, detail FROM alert_events ORDER BY rowid")
    assert [(each["what"], each["detail"]) for each in said] == [
        ("acked", "ann: on it"),
        ("assigned", "ann: bob"),
        ("comment", "bob: is this the drill?"),
        ("verdict", "bob: true: it was not"),
        ("retaken", "bob: it was"),
        ("assigned", "bob: nobody"),
    ]


def test_a_silence_is_previewed_made_listed_and_ended(asked: Asked) -> None:
    page, until = client(asked), utc_now() + timedelta(hours=2)

    shown = page.preview({"subject": "a*"})
    made = page.silence({"subject": "a1", "at_most": "high"}, until, "ann", "a drill")
    listed = page.silences()
    page.end_silence(made["silence_id"], "bob")
    after = page.silences()

    assert (shown["open_count"], shown["week_count"]) == (2, 2)
    assert [row["silence_id"] for row in listed] == [made["silence_id"]]
    assert listed[0]["active"]
    assert datetime.fromisoformat(listed[0]["expires_at"]) == until
    assert (after[0]["active"], after[0]["ended_by"]) == (False, "bob")


def test_a_person_who_may_only_look_sees_silences_and_changes_nothing(asked: Asked) -> None:
    page, before = client(asked, "v-token"), asked.parts.ledger.seq

    assert page.silences() == []
    assert page.preview({"subject": "a1"})["open_count"] == 1
    for refused in (
        lambda: page.ack("al_1", "eve", ""),
        lambda: page.reopen("al_1", "eve", ""),
        lambda: page.assign("al_1", "eve", "eve"),
        lambda: page.comment("al_1", "x", "eve"),
        lambda: page.silence({"subject": "a1"}, utc_now() + timedelta(hours=1), "eve", "x"),
        lambda: page.end_silence("si_1", "eve"),
    ):
        with pytest.raises(ServiceRefused, match="viewer"):
            refused()
    assert asked.parts.ledger.seq == before


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("/v1/alerts/al_1/assign", {"to": "bob"}, "'actor' is missing."),
        ("/v1/alerts/al_1/assign", {"actor": "a", "to": "x\ny"}, "is no name"),
        ("/v1/alerts/al_1/assign", {"actor": "a", "to": 7}, "'to' is no text."),
        ("/v1/alerts/al_1/comment", {"actor": "a", "text": " "}, "'text' is missing."),
        ("/v1/alerts/al_1/comment", {"actor": "a", "text": "x" * 4_001}, "longer than 4000"),
        ("/v1/alerts/al_1/verdict", {"actor": "a", "verdict": "treu"}, "Did you mean 'true'?"),
        ("/v1/alerts/al_11/reopen", {"actor": "a"}, "no alert 'al_11'. Did you mean 'al_1'?"),
        ("/v1/silences", {"actor": "a", "reason": "r", "until": "soon"}, "'until' is no time"),
        ("/v1/silences", {"actor": "a", "until": "2026-12-01"}, "'reason' is missing."),
        ("/v1/silences", {"actor": "a", "reason": "r", "until": "2001-01-01T00:00:00Z",
                          "subject": "a"}, "is over"),
        ("/v1/silences", {"actor": "a", "reason": "r", "until": "2001-01-01T00:00:00Z"},
         "it would match everything"),
        ("/v1/silences/preview", {}, "it would match everything"),
        ("/v1/silences/preview", {"severity": "bad"}, "Invalid enum value"),
        ("/v1/silences/si_1/end", {"actor": "a"}, "no silence 'si_1' is in force."),
    ],
)  # fmt: skip
def test_what_is_asked_wrong_is_refused_in_a_sentence_and_kept_nowhere(
    asked: Asked, path: str, body: dict[str, Any], said: str
) -> None:
    before = asked.parts.ledger.seq

    answer = post(asked, path, **body)

    assert answer.status_code == 400
    assert said in answer.json()["error"]
    assert asked.parts.ledger.seq == before


def test_a_silence_may_be_deleted_as_it_is_ended(asked: Asked) -> None:
    until = (utc_now() + timedelta(hours=1)).isoformat()
    made = post(asked, "/v1/silences", actor="a", reason="r", until=until, subject="a1").json()

    answer = asked.http.request(
        "DELETE", f"/v1/silences/{made['silence_id']}", content='{"actor": "bob"}',
        headers={"Authorization": "Bearer o-token"},
    )  # fmt: skip

    assert answer.json()["ended_by"] == "bob"
