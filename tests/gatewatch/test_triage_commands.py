"""The commands of triage: on the database itself, and through a service that holds it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kit_command import run
from tests.kit_http import lines, running, until


@pytest.fixture(params=["direct", "through a service"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """One with an alert of a1."""
    config = '[sources.gate]\nadapter = "native"\n'
    with running(tmp_path, config) as service:
        service.http.post("/v1/events", content=lines(1, 2, 3)).raise_for_status()
        until(lambda: service.rows("SELECT 1 FROM alerts"))
        if request.param != "direct":
            yield tmp_path
    if request.param == "direct":
        yield tmp_path


def said(folder: Path, *words: str) -> Any:
    done = run(*words, "--json", folder=folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_an_alert_is_taken_given_on_judged_and_taken_back(folder: Path) -> None:
    alert = said(folder, "alerts")[0]["alert_id"]

    acked = said(folder, "ack", alert, "--actor", "ann")
    assigned = said(folder, "assign", alert, "bob", "--actor", "ann", "--reason", "knows it")
    judged = said(folder, "verdict", alert, "true", "--actor", "bob", "--reason", "it did")
    said(folder, "comment", alert, "no: a drill", "--actor", "bob")
    again = said(folder, "reopen", alert, "--actor", "bob", "--reason", "a drill")
    whole = said(folder, "explain", alert)
    text = run("explain", alert, folder=folder).stdout

    assert (acked["acked_by"], assigned["assigned_to"]) == ("ann", "bob")
    assert (judged["verdict"], again["verdict"], again["acked_by"]) == ("true", None, None)
    history = [(each["what"], each["detail"]) for each in whole["history"]]
    assert ("comment", "bob: no: a drill") in history
    assert ("retaken", "bob: a drill") in history
    assert "Assigned to bob" in text
    assert "comment  bob: no: a drill" in text


def test_a_silence_from_its_preview_to_its_end(folder: Path) -> None:
    shown = said(folder, "silence", "--subject", "a*", "--preview")
    made = said(folder, "silence", "--subject", "a*", "--at-most", "high", "--for", "2 hours",
                "--reason", "a drill", "--actor", "ann")  # fmt: skip
    table = run("silences", folder=folder).stdout
    [ended] = said(folder, "silences", "--end", made["silence_id"], "--actor", "bob")

    assert (shown["open_count"], shown["open"][0]["subject"]) == (1, "a1")
    assert "subject=a* at_most=high" in table
    assert (ended["silence_id"], ended["ended_by"]) == (made["silence_id"], "bob")
    assert not ended["active"]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--subject", "a1", "--reason", "r"), "say until when: --until TIME, or --for '2 hours'."),
        (("--subject", "a1", "--for", "2 hours"), "reason"),
        (("--for", "2 hours", "--reason", "r"), "it would match everything"),
        (("--subject", "a1", "--for", "2 moons", "--reason", "r"), "is no length of time"),
        (("--subject", "a1", "--for", "40 days", "--reason", "r"), "30 days at most"),
        (("--detector", "deny_rety", "--preview"), "Did you mean 'deny_retry'?"),
    ],
)
def test_a_silence_that_is_none_is_refused_in_a_sentence(
    tmp_path: Path, words: tuple[str, ...], why: str
) -> None:
    done = run("silence", *words, "--db", str(tmp_path / "x.duckdb"), folder=tmp_path)

    assert done.returncode == 2
    assert why in " ".join(done.stderr.split())
