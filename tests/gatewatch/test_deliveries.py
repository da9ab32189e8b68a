"""Dead letters over HTTP and by command: seen with their reason, and sent after all."""

import json
import socket
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from gatewatch.commands.deliveries import _span
from gatewatch.parts import open_parts, utc_now
from ingest.config import read_settings
from tests.kit_command import run
from tests.kit_http import Asked, lines, running, until
from tests.kit_sockets import service

TOKENS = """
[[tokens]]
name = "look"
role = "viewer"
token = "FAKE-look"
[[tokens]]
name = "act"
role = "operator"
token = "FAKE-act"
[receivers.ops]
type = "webhook"
webhook = "https://soc.example/hooks/FAKE0001"
"""
HOOK = """
[receivers.ops]
type = "webhook"
webhook = "http://127.0.0.1:{port}/FAKE-path"
allow_http = true
allow_private = true
"""
OWED = """
    INSERT INTO deliveries (delivery_id, receiver, alert_id, kind, severity, created_at, message,
        state, attempts, next_at, done_at, last_error)
    VALUES ($id, $receiver, 'al_1', 'open', 'high', $now, $message, $state, 1, $now, $now, $error)
"""
ERROR = "authError: HTTP 403 (look at: token)"


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[Asked]:
    client = Asked(tmp_path, TOKENS)
    with client.parts.store.writing() as db:
        for name, receiver, state, error in (
            ("dl_dead", "ops", "dead", ERROR), ("dl_gone", "old", "dead", "other: gone"),
            ("dl_owed", "ops", "pending", None), ("dl_done", "ops", "delivered", None),
        ):  # fmt: skip
            given = {"id": name, "receiver": receiver, "state": state, "error": error}
            text = '{"title": "its own text"}'
            db.execute(OWED, given | {"now": utc_now(), "message": text})
    yield client
    client.parts.close()


def get(asked: Asked, query: str = "", who: str = "FAKE-look") -> Any:
    headers = {"Authorization": f"Bearer {who}"}
    return asked.http.request("GET", f"/v1/deliveries{query}", headers=headers)


def post(asked: Asked, body: Any, who: str = "FAKE-act") -> Any:
    headers = {"Authorization": f"Bearer {who}"}
    return asked.http.post("/v1/deliveries/retry", json=body, headers=headers)


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ("", {"dl_dead", "dl_gone", "dl_owed"}),
        ("?state=dead&receiver=ops", {"dl_dead"}),
        ("?state=delivered&state=accepted", {"dl_done"}),
        ("?alert=al_1&state=dead&limit=1", {"dl_gone"}),
        ("?alert=al_2", set()),
    ],
)
def test_what_waits_and_was_given_up_is_listed(asked: Asked, query: str, ids: set[str]) -> None:
    answer = get(asked, query)

    assert {row["delivery_id"] for row in answer.json()["deliveries"]} == ids
    assert "its own text" not in answer.text  # not the messages themselves


def test_a_dead_letter_says_what_happened_and_what_to_do(asked: Asked) -> None:
    [row] = get(asked, "?state=dead&receiver=ops").json()["deliveries"]

    assert (row["label"], row["reason"]) == ("authError", "HTTP 403")
    assert row["hint"] == "The address or the token is not known there any more: make a new one."


@pytest.mark.parametrize("query", ["?state=deda", "?limit=0", "?limit=x", "?limit=99999"])
def test_a_question_that_makes_no_sense_is_refused(asked: Asked, query: str) -> None:
    assert get(asked, query).status_code == 400


@pytest.mark.parametrize(
    "body",
    [{"actor": "kim"}, {"ids": ["dl_dead"]}, {"actor": "kim", "all": False}, {"actor": " ",
     "all": True}, {"actor": "kim", "all": True, "receiver": "ops"}, {"actor": "kim", "id": "x"},
     {"actor": "kim", "ids": ["dl_done"]}, {"actor": "kim", "ids": ["dl_none"]}],
)  # fmt: skip
def test_a_request_that_names_nothing_or_too_much_is_refused(asked: Asked, body: Any) -> None:
    assert post(asked, body).status_code == 400
    assert len(get(asked, "?state=dead").json()["deliveries"]) == 2


def test_only_operators_send_after_all_and_it_is_logged(asked: Asked) -> None:
    assert get(asked, who="FAKE-none").status_code == 401
    assert post(asked, {"actor": "kim", "all": True}, "FAKE-look").status_code == 403

    done = post(asked, {"actor": "kim", "all": True}).json()
    again = post(asked, {"actor": "kim", "ids": ["dl_dead"]}).json()

    assert done["retried"] == ["dl_dead"]
    assert [each["delivery_id"] for each in done["left"]] == ["dl_gone"]
    assert again == {"retried": [], "left": []}
    log = asked.parts.rows("SELECT actor, action, subject FROM operator_log")
    assert log == [{"actor": "kim", "action": "retry", "subject": "dl_dead"}]


def test_the_journey_of_a_dead_letter(tmp_path: Path) -> None:
    refuse = [True]

    def answer(connection: socket.socket, _: bytes) -> None:
        status = b"403 Forbidden" if refuse[0] else b"204 No Content"
        connection.sendall(b"HTTP/1.1 " + status + b"\r\ncontent-length: 0\r\n\r\n")

    with service(answer) as (port, heard), running(tmp_path, HOOK.format(port=port)) as here:
        config = "--config", tmp_path / "gatewatch.toml"
        here.http.post("/v1/events", content=lines(1, 2, 3))
        until(lambda: bool(here.http.get("/v1/deliveries?state=dead").json()["deliveries"]))
        tried = run("test-send", "--all", *config, folder=tmp_path)
        seen = run("deliveries", "--dead", *config, folder=tmp_path)
        refuse[0] = False
        done = run("deliveries", "retry", "--receiver", "ops", "--json", *config, folder=tmp_path)
        until(lambda: not here.http.get("/v1/deliveries").json()["deliveries"])
        good = run("test-send", "ops", "--json", *config, folder=tmp_path)

    assert (tried.returncode, good.returncode) == (1, 0)
    assert "outcome: refused" in tried.stdout
    assert "advice: The address or the token is not known" in tried.stdout
    assert json.loads(good.stdout)["outcome"] == "delivered"
    assert "dead" in seen.stdout
    assert "authError" in seen.stdout
    assert "make a new one" in seen.stderr
    assert len(json.loads(done.stdout)["retried"]) >= 1
    assert b'"kind":"open"' in heard[0]
    everything = seen.stdout + seen.stderr + tried.stdout + tried.stderr + good.stdout
    assert "FAKE-path" not in everything


def test_a_start_gives_up_what_is_owed_to_a_receiver_that_is_gone(tmp_path: Path) -> None:
    """Else it would wait for ever, and nobody would know."""
    (tmp_path / "gatewatch.toml").write_text('redact_key = "redact.key"\n')
    parts = open_parts(read_settings(tmp_path / "gatewatch.toml"))
    with parts.store.writing() as db:
        given = {"id": "dl_1", "receiver": "old", "state": "pending", "error": None}
        db.execute(OWED, given | {"now": utc_now(), "message": "{}"})
    parts.close()

    with running(tmp_path) as here:
        until(lambda: here.http.get("/v1/deliveries?state=dead").json()["deliveries"])
        [row] = here.http.get("/v1/deliveries").json()["deliveries"]

    assert (row["state"], row["receiver"]) == ("dead", "old")
    assert "no receiver of this name is configured any more" in row["reason"]
    assert "1 messages to receivers that are not configured" in (tmp_path / "serve.err").read_text()


def test_without_a_service_the_file_itself_is_asked(tmp_path: Path) -> None:
    (tmp_path / "gatewatch.toml").write_text("")

    none = run("deliveries", "--json", folder=tmp_path)
    both = run("deliveries", "--dead", "--all", folder=tmp_path)
    unnamed = run("deliveries", "retry", folder=tmp_path)
    nothing = run("deliveries", "retry", "--all", folder=tmp_path)

    assert json.loads(none.stdout) == []
    assert (both.returncode, unnamed.returncode) == (2, 2)
    assert "name one of them" in both.stderr
    assert "Name ids, or --receiver, or --all." in unnamed.stderr
    assert nothing.stdout.startswith("Nothing of that was given up;")


@pytest.mark.parametrize(("seconds", "text"), [(59, "59 s"), (150, "2 min"), (90_000, "25 h")])
def test_ages_are_said_in_the_largest_unit_that_says_enough(seconds: int, text: str) -> None:
    now = utc_now()

    assert _span(now - timedelta(seconds=seconds), now) == text
