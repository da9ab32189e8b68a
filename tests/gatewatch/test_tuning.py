"""Backtests, other values and why-not, as a person asks for them: on a file, and of a service."""

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from gatewatch.parts import utc_now
from tests.gatewatch.test_cli import Shell, serving

DENIED = {"kind": "tool_call", "tool": "crm.export_contacts", "decision": "deny"}
BASE = {"global": {"default_action": "deny"}, "tools": []}


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def log(folder: Path, **agents: int) -> None:
    """So many denials a minute apart by each agent, the last of them an hour ago."""
    lines = []
    for agent, count in agents.items():
        for number in range(count):
            ts = utc_now() - timedelta(minutes=60 + number)
            doc = DENIED | {"ts": ts.isoformat(), "agent": agent, "event_id": f"{agent}{number}"}
            lines.append(json.dumps(doc) + "\n")
    (folder / "gate.jsonl").write_text("".join(lines))


def test_a_dry_run_with_another_value_counts_and_keeps_nothing(
    shell: Shell, tmp_path: Path
) -> None:
    log(tmp_path, a1=3, a2=5)
    shell("ingest", "gate.jsonl", "--db", "x.duckdb")
    words = ("detect", "--db", "x.duckdb", "--since", "30d", "--only", "deny_retry", "--dry-run")

    today = shell(*words, "--json").json
    other = shell(*words, "--set", "denials=4", "--json").json
    [counts] = shell(*words, "--set", "denials=4", "--counts", "--json").json
    shown = shell(*words, "--set", "denials=4").out

    assert sorted(row["subject"] for row in today) == ["a1", "a2"]
    assert [row["subject"] for row in other] == ["a2"]
    assert (counts["alerts"], counts["subjects"]) == (1, {"a2": 1})
    assert sum(counts["days"].values()) == 1
    assert "deny_retry: 1 alerts" in shown
    assert shell("alerts", "--all", "--db", "x.duckdb", "--json").json == []


def test_another_policy_is_tried_and_not_put_in_force(shell: Shell, tmp_path: Path) -> None:
    doc = {"ts": utc_now().isoformat(), "kind": "egress", "agent": "a1", "host": "b.example"}
    (tmp_path / "gate.jsonl").write_text(json.dumps(doc))
    narrow = BASE | {"egress": {"allowed_hosts": ["a.example"]}}
    (tmp_path / "narrow.json").write_text(json.dumps(narrow))
    shell("ingest", "gate.jsonl", "--db", "x.duckdb")
    words = ("detect", "--db", "x.duckdb", "--only", "unlisted_egress", "--dry-run", "--json")

    assert shell(*words).json == []
    told = shell(*words, "--policy", "narrow.json").json
    assert [row["subject"] for row in told["alerts"]] == ["a1 -> b.example"]
    kept = shell("sql", "SELECT count(*) AS n FROM policies", "--db", "x.duckdb", "--json")
    assert kept.json == [{"n": 0}]


def test_calls_that_another_policy_would_decide_otherwise_are_told(
    shell: Shell, tmp_path: Path
) -> None:
    call = {"ts": utc_now().isoformat(), "kind": "tool_call", "agent": "a1", "decision": "allow"}
    lines = [call | {"tool": tool, "event_id": tool} for tool in ("crm.get", "crm.export")]
    (tmp_path / "gate.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))
    narrow = {"tools": [{"name": "crm.get", "action": "allow"}]}
    (tmp_path / "narrow.json").write_text(json.dumps(narrow))
    shell("ingest", "gate.jsonl", "--db", "x.duckdb")
    words = ("detect", "--db", "x.duckdb", "--dry-run", "--policy", "narrow.json")

    told = shell(*words, "--json").json["what_if"]
    said = shell(*words).out

    assert told["against_log"] == {"allow -> deny": 1}
    assert [(each["agent"], each["tool"], each["calls"]) for each in told["changes"]] == [
        ("a1", "crm.export", 1)
    ]
    assert "Against the log: 1 allow -> deny." in said


def test_tuning_shows_alerts_a_day_and_precision(shell: Shell, tmp_path: Path) -> None:
    log(tmp_path, a1=3, a2=5)
    shell("ingest", "gate.jsonl", "--db", "x.duckdb")
    for row in shell("detect", "--db", "x.duckdb", "--only", "deny_retry", "--json").json:
        verdict = "true" if row["subject"] == "a2" else "false"
        shell("verdict", row["alert_id"], verdict, "--db", "x.duckdb")

    steps = shell("tune", "deny_retry", "--values", "3,5", "--param", "denials",
                  "--db", "x.duckdb", "--json").json  # fmt: skip

    assert [(s["value"], s["alerts"], s["precision"], s["lost"]) for s in steps] == [
        ("3", 2, 0.5, 0), ("5", 1, 1.0, 0),
    ]  # fmt: skip


MISTAKES = {
    ("detect", "--set", "denials=4"):
        "--set and --counts are for a --dry-run; values that are to hold stand in gatewatch.toml.",
    ("detect", "--dry-run", "--set", "denial=4"):
        "--set: nothing declares 'denial'. Did you mean 'denials'?",
    ("detect", "--dry-run", "--only", "deny_rety"):
        "--only: no detector 'deny_rety'. Did you mean 'deny_retry'?",
    ("tune", "deny_rety"): "no detector 'deny_rety'. Did you mean 'deny_retry'?",
    ("why-not", "deny_retry", "a1", "yesterday"):
        "TIME: 'yesterday' is no time. Write 2026-03-10T09:00:00Z, 2026-03-10 or 30d.",
}  # fmt: skip


@pytest.mark.parametrize("words", MISTAKES)
def test_a_mistake_is_one_sentence(words: tuple[str, ...], shell: Shell, tmp_path: Path) -> None:
    done = shell(*words, "--db", "x.duckdb")

    assert (done.code, done.out, done.err.strip()) == (2, "", MISTAKES[words])


@pytest.fixture
def served(shell: Shell, tmp_path: Path) -> Iterator[Shell]:
    log(tmp_path, a1=2)
    with serving(shell):
        yield shell


def test_a_running_service_answers_the_same_questions(served: Shell) -> None:
    for _ in range(50):
        if served("sql", "SELECT count(*) AS n FROM events", "--json").json == [{"n": 2}]:
            break

    found = served("detect", "--dry-run", "--set", "deny_retry.denials=2", "--json").json
    [two] = served("tune", "deny_retry", "--param", "denials", "--values", "2", "--json").json
    told = served("why-not", "deny_retry", "a1", "1h", "--json").json
    said = served("why-not", "deny_retry", "a1", "1h").out
    held = served("detect", "--dry-run", "--policy", "none.json")
    wrong = served("tune", "deny_retry", "--param", "denials", "--values", "99")

    assert [row["detector"] for row in found] == ["deny_retry"]
    assert two["alerts"] == 1
    assert told["near"] == [{"with": {"denials": "2"}, "is": {"denials": "3"}}]
    assert "It would have fired with denials = 2 (now 3)" in said
    assert held.code == 2
    assert "none.json: cannot be read" in held.err
    assert wrong.code == 1
    assert "99 is above the maximum, 7." in wrong.err
