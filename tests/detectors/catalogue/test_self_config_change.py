import random
from typing import Any

import pytest

from tests.kit import Event, events, executed, judge


def columns(dice: random.Random) -> dict[str, Any]:
    return {
        "config_object": dice.choice([None, "agents/a1.yaml", "agents/a2.yaml", "b"]),
        "params": dice.choice([None, {"file_path": "CLAUDE.md"}, {"command": "codex --yolo"}]),
        "op": dice.choice([None, "lookup", "commit"]),
    }


def change(name: str, **columns: Any) -> list[Event]:
    return events("config_changed", "09:00", **{"config_object": name} | columns)


def wrote(path: str, **columns: Any) -> list[Event]:
    base = {"tool": "Write", "op": "commit", "params": {"file_path": path, "content": "x"}}
    return executed("09:00", **base | columns)


def ran(command: str | list[str], **columns: Any) -> list[Event]:
    base = {"tool": "Bash", "op": "commit", "params": {"command": command}}
    return executed("09:00", **base | columns)


@pytest.mark.parametrize("name", ["agents/a1.yaml", "A1", "policy:a1:tools", "a1.json"])
def test_an_object_that_names_the_agent_fires_and_that_of_another_is_quiet(name: str) -> None:
    [found] = judge("self_config_change", change(name))

    assert (found["subject"], found["object"], found["severity"]) == ("a1", name, "high")
    other = name.lower().replace("a1", "a12")
    assert judge("self_config_change", change(other)) == []


@pytest.mark.parametrize(
    "path",
    [".claude/settings.json", "/home/x/.claude/settings.local.json", ".mcp.json", ".cursor/rules/a",
     "C:\\work\\.claude\\settings.json", ".codex/config.toml", ".cursorrules"],
)  # fmt: skip
def test_an_agents_settings_file_fires_high(path: str) -> None:
    [found] = judge("self_config_change", wrote(path))

    assert (found["severity"], found["object"]) == ("high", path)
    assert judge("self_config_change", change(path))


@pytest.mark.parametrize("path", ["CLAUDE.md", "src/AGENTS.md", "prompts/system_prompt.txt"])
def test_an_agents_instructions_fire_medium(path: str) -> None:
    [found] = judge("self_config_change", wrote(path))

    assert found["severity"] == "medium"


@pytest.mark.parametrize(
    "path",
    ["settings.json", "docs/claude.md.txt", "claude/readme.md", "src/codex/config.toml",
     ".claude/projects/x/memory/MEMORY.md", "my-agents.md"],
)  # fmt: skip
def test_other_files_are_quiet(path: str) -> None:
    assert judge("self_config_change", wrote(path)) == []


def test_reading_it_is_quiet() -> None:
    assert judge("self_config_change", wrote("CLAUDE.md", op="lookup")) == []
    assert (
        judge("self_config_change", ran("cat CLAUDE.md | grep x; ls .claude/settings.json")) == []
    )


@pytest.mark.parametrize(
    "command",
    ["echo x >> CLAUDE.md", "sed -i s/a/b/ .claude/settings.json", "cat a | tee -a AGENTS.md",
     "cp /tmp/x '.mcp.json'", "*** Update File: AGENTS.md\n+x"],
)  # fmt: skip
def test_a_shell_command_that_writes_it_fires(command: str) -> None:
    assert judge("self_config_change", ran(command))


@pytest.mark.parametrize(
    "command",
    ["claude -p hi --dangerously-skip-permissions", ["codex", "exec", "--yolo", "x"],
     "cd x && codex --full-auto 'do it'", "gemini --approval-mode=yolo",
     "/usr/bin/claude --permission-mode bypassPermissions"],
)  # fmt: skip
def test_a_start_without_permissions_fires(command: str | list[str]) -> None:
    [found] = judge("self_config_change", ran(command))

    assert (found["severity"], found["what"][:33]) == ("high", "starts an agent without permissio")


@pytest.mark.parametrize(
    "command", ["claude -p hi", "grep -r -- --yolo docs", "git commit -m 'no --yolo in codex'"]
)
def test_a_start_with_permissions_and_words_about_it_are_quiet(command: str) -> None:
    assert judge("self_config_change", ran(command)) == []


def test_more_rights_for_itself_fire_critical() -> None:
    before, after = {"permissions": {"allow": ["a"]}}, {"permissions": {"allow": ["a", "b"]}}

    [found] = judge("self_config_change", change("a1", config_before=before, config_after=after))

    assert (found["severity"], found["widens"]) == ("critical", ["permissions.allow gains b"])
    content = '{"defaultMode": "bypassPermissions"}'
    params = {"file_path": ".claude/settings.json", "content": content}
    [found] = judge("self_config_change", wrote("", params=params))
    assert found["severity"] == "critical"


def test_what_the_gate_refused_fires_low() -> None:
    no = events("tool_decided", "09:00", tool="Write", decision="deny", op="commit",
                params={"file_path": ".claude/settings.json"})  # fmt: skip

    [found] = judge("self_config_change", no)

    assert (found["severity"], found["what"][:12]) == ("low", "was refused:")


def test_what_failed_and_what_a_person_did_is_quiet() -> None:
    assert judge("self_config_change", wrote("CLAUDE.md", status="error")) == []
    assert judge("self_config_change", wrote("CLAUDE.md", agent=None, principal="ann")) == []


def test_a_role_that_changes_itself_fires_and_another_role_is_quiet() -> None:
    role = {"agent": None, "principal": "arn:aws:sts::123456789012:assumed-role/crm/i-1"}

    assert judge("self_config_change", change("iam/crm", **role))
    assert judge("self_config_change", change("iam/crm-2", **role)) == []


def test_files_that_an_agent_may_write_are_quiet() -> None:
    assert judge("self_config_change", change("CLAUDE.md"), free="claude.md") == []
