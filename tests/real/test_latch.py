"""The real latch-agent as a hook: what it refuses, and its failing open, are found in its log."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.kit_command import alert, gatewatch, landed

POLICY = """
defaultAction: allow
rules:
  - match: {tool: Bash}
    action: ask
  - match: {tool: 'mcp__crm__export_.*'}
    action: deny
  - match: {tool: 'mcp__crm__refund_create'}
    action: browser
"""
EXPORT = {"tool_name": "mcp__crm__export_contacts", "tool_input": {"all": True}}
REFUND = {"tool_name": "mcp__crm__refund_create", "tool_input": {"amount": 12.5}}


def hook(folder: Path) -> "subprocess.Popen[str]":
    """The command that a client of the gate runs before each tool call."""
    environment = {**os.environ, "AGENT_2FA_DIR": str(folder), "AGENT_2FA_CLIENT": "claude-code"}
    return subprocess.Popen(
        [str(Path(sys.executable).with_name("latch")), "hook"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, env=environment | {"BROWSER": "true"},
    )  # fmt: skip


def asked(folder: Path, call: dict[str, Any]) -> str:
    """What the gate answers to one call."""
    answer, _ = hook(folder).communicate(json.dumps(call), timeout=60)
    return str(json.loads(answer)["hookSpecificOutput"]["permissionDecision"])


def answered(folder: Path, call: dict[str, Any], decision: str) -> str:
    """What it answers to a call about which a person is asked, in a browser."""
    with hook(folder) as gate:
        assert gate.stdin
        assert gate.stderr
        assert gate.stdout
        gate.stdin.write(json.dumps(call))
        gate.stdin.close()
        said = ""
        while not (url := re.search(r"Approval URL: (\S+)", said)):
            line = gate.stderr.readline()
            assert line, said
            said += line
        with httpx.Client(trust_env=False) as person:
            answer = person.post(f"{url[1]}/decide", json={"decision": decision})
        assert answer.status_code == 200
        return str(json.loads(gate.stdout.read())["hookSpecificOutput"]["permissionDecision"])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "policy.yaml").write_text(POLICY, encoding="utf-8")
    return tmp_path


def test_a_tool_that_is_refused_three_times_raises_the_deny_retry_alert(folder: Path) -> None:
    db, log = folder / "latch.duckdb", folder / "audit.jsonl"
    assert asked(folder, {"tool_name": "Read", "tool_input": {"file_path": "/a"}}) == "allow"
    assert [asked(folder, EXPORT) for _ in range(3)] == ["deny"] * 3

    landed(log, "latch", db)
    found = alert("deny_retry", db)

    # its log names no agent and no session: all that it refuses is one source's
    assert (found["subject"], found["facts"]["tool"]) == ("source latch", "export_contacts")
    assert found["facts"]["rules"] == ["mcp__crm__export_.*"]


def test_the_answers_of_people_are_approvals_and_a_question_to_the_client_is_one_asked_for(
    folder: Path,
) -> None:
    db, log = folder / "latch.duckdb", folder / "audit.jsonl"
    assert answered(folder, REFUND, "approve") == "allow"
    assert answered(folder, REFUND, "deny") == "deny"
    assert asked(folder, {"tool_name": "Bash", "tool_input": {"command": "ls"}}) == "ask"
    landed(log, "latch", db)

    rows = gatewatch(
        "sql", "SELECT kind, tool, decision, reason_code FROM events ORDER BY ts", db=db
    )

    assert [tuple(each.values()) for each in rows] == [
        ("approval_decided", "refund_create", "allow", "approved"),
        ("approval_decided", "refund_create", "deny", "rejected"),
        ("tool_decided", "Bash", "require_approval", None),
    ]


def test_a_hook_that_fails_lets_the_call_through_and_carries_the_signal(folder: Path) -> None:
    db, log = folder / "latch.duckdb", folder / "audit.jsonl"
    assert asked(folder, {"no": "tool"}) == "allow"
    landed(log, "latch", db)

    [row] = gatewatch("sql", "SELECT tool, decision, signals FROM events", db=db)

    assert row == {"tool": None, "decision": "allow", "signals": ["fail_open"]}
