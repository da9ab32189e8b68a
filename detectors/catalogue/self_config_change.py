# title     = "{subject}: {what}{wider}"
# title_zh  = "{subject} 的设置：{what_zh}{wider_zh}"
# severity  = "high"
# tags      = ["config"]
# why       = "An agent that writes the settings it starts with decides itself what it may do from its next start on. It is also how an injected instruction outlives the session that it came in."
# respond   = "Compare the file with its last reviewed state (git diff) and put that back. Look in the trace for what the agent had read just before: a web page or a mail that told it to is an attack. Until that is clear, don't start the agent again. If a person asked for the change, record the alert as expected and make the file read-only for the agent."
# respond_zh = "将文件与最近一次审查过的状态对比（git diff）并恢复。在调用链中查看智能体在此之前读了什么：若是网页或邮件指使它这样做，就是攻击。查清之前不要再次启动该智能体。若是有人要求的更改，把告警记为符合预期，并将该文件对智能体设为只读。"
# quiet     = "Reading such a file. A file of the same name that is no settings file of an agent. An agent's notes and memory. What was refused is low: the gate held. A coding agent that was asked to write CLAUDE.md or AGENTS.md does so rightly: medium. Files named in `free`."
# lookback  = "0 seconds"
# gap       = "1 hour"
# needs     = ["agent", "config_object or params or target"]
# kinds     = ["config_changed", "tool_decided", "tool_executed"]
# hot       = "SELECT 1 FROM events WHERE ts >= $since AND ts < $until AND kind IN ('config_changed', 'tool_executed', 'tool_decided') AND coalesce(op, '') NOT IN ('lookup', 'verify')"
# facts     = ["what", "what_zh", "wider", "wider_zh", "widens", "object", "tool", "trace_id", "command"]
# [params]
# free      = { type = "text", default = "" }
"""Writes of what an agent is set up by, and starts of one without its permissions.

Flags and files are those of the command lines of coding agents as of 2026.
"""

import json
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from detectors.controls.widening import widened
from ingest.store import Db, fetch

# Few events name such a thing at all. What was read, and what failed, changed nothing.
FOUND = """
    SELECT coalesce(tenant, '') AS tenant, kind, ts, event_id, agent, tool, trace_id, config_object, target, decision, op,
           params::VARCHAR AS params, config_before::VARCHAR AS before, config_after::VARCHAR AS after,
           coalesce(agent, 'principal ' || principal) AS subject,
           CASE WHEN machine_account(principal) THEN regexp_replace(principal, '^.*(assumed-role/|role/|user/|serviceaccount:[^:]*:)', '') END AS account
    FROM events
    WHERE ts >= $since AND ts < $until AND kind IN ('config_changed', 'tool_executed', 'tool_decided')
      AND (agent IS NOT NULL OR machine_account(principal))
      AND coalesce(op, '') NOT IN ('lookup', 'verify')
      AND (kind <> 'config_changed' OR coalesce(decision, '') <> 'deny')
      AND (kind = 'tool_decided' OR coalesce(status, 'ok') = 'ok') AND (kind <> 'tool_decided' OR decision IN ('allow', 'deny'))
      AND NOT named_in(coalesce(config_object, target, ''), $free)
      AND (regexp_matches(lower(concat_ws(' ', config_object, target, params::VARCHAR)),
               'claude|agents\\.|\\.cursor|mcp\\.json|codex|gemini|copilot|windsurf|aider|system.?prompt|dangerous|yolo|full-auto|trust-all')
        OR (kind = 'config_changed' OR config_object IS NOT NULL OR op = 'commit')
           AND (contains(lower(concat_ws(' ', config_object, target)), lower(agent)) OR (agent IS NULL AND config_object IS NOT NULL)))
"""
SETTINGS = re.compile(
    r"(?:^|[/\\])(?:\.claude[/\\](?:settings(?:\.local)?\.json|hooks[/\\]|agents[/\\])|\.claude\.json"
    r"|\.?mcp\.json|managed-settings\.json|claude_desktop_config\.json|\.cursorrules|\.windsurfrules"
    r"|\.cursor[/\\](?:rules|mcp\.json|hooks)|\.codex[/\\](?:config\.toml|rules|hooks)"
    r"|\.gemini[/\\]settings\.json|\.aider\.conf\.yml)",
    re.IGNORECASE,
)
WORDS = re.compile(
    r"(?:^|[/\\])(?:claude(?:\.local)?\.md|agents(?:\.override)?\.md|gemini\.md"
    r"|copilot-instructions\.md|system[_-]?prompt[\w.-]*)$",
    re.IGNORECASE,
)
BYPASS = re.compile(
    r"(?:^|[\s;&|/\"'`(])(claude|codex|gemini|cursor-agent|aider|goose|opencode|copilot|qwen|amp|q)"
    r"\s[^;&|\n]{0,500}?(--dangerously-[a-z-]+|--allow-dangerously-[a-z-]+|--yolo|--full-auto"
    r"|--approval-mode[= ]yolo|--permission-mode[= ]bypassPermissions|--trust-all-tools"
    r"|--allow-all-tools|--yes-always|--ask-for-approval[= ]never|--sandbox[= ]danger-full-access)",
    re.IGNORECASE,
)
REDIRECTED = re.compile(r">>?\s*[\"']?([^\s\"'<>]+)")
PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", re.MULTILINE)
CHANGES_ALL = {"tee", "rm", "chmod", "truncate", "unlink"}  # what it is given; sed and perl with -i
CHANGES_LAST = {"cp", "mv", "ln", "install"}  # the last that it is given
PATHS = ("file_path", "path", "file", "filename", "target_file", "notebook_path")
COMMANDS = ("command", "cmd", "script", "code", "input", "patch")


def find(db: Db, since: datetime, until: datetime, *, free: str) -> list[dict[str, Any]]:
    """One row per event."""
    rows = fetch(db, FOUND, since=since, until=until, free=free)
    return [found for row in rows if (found := _row(row)) is not None]


def _row(row: dict[str, Any]) -> dict[str, Any] | None:
    params = _decoded(row["params"])
    params = params if isinstance(params, dict) else {}
    commands = [_text(params[key]) for key in COMMANDS if key in params]
    kind, thing = _what(row, params, commands)
    if kind is None:
        return None
    before = _decoded(row["before"]) or params.get("old_string")
    after = _decoded(row["after"]) or next(
        (params[key] for key in ("content", "new_string", "text") if key in params), None
    )
    widens = [] if kind == "start" else widened(before, after)
    severity = {"words": "medium"}.get(kind, "high")
    if widens:
        severity = "critical"
    denied = row["decision"] == "deny"
    english, chinese = TOLD[kind]
    return {
        "subject": row["subject"], "tenant": row["tenant"], "agent": row["agent"],
        "started_at": row["ts"], "ended_at": row["ts"], "event_ids": [row["event_id"]],
        "severity": "low" if denied else severity,
        "what": ("was refused: it " if denied else "") + english.format(thing),
        "what_zh": ("被拒绝：" if denied else "") + chinese.format(thing),
        "wider": f", which widens rights: {widens[0]}" if widens else "",
        "wider_zh": f"，且扩大了权限：{widens[0]}" if widens else "",
        "widens": widens, "object": thing, "tool": row["tool"], "trace_id": row["trace_id"],
        "command": commands[0][:300] if commands else None,
    }  # fmt: skip


TOLD = {
    "settings": ("writes an agent's settings, {}", "正在写入智能体的设置 {}"),
    "words": ("writes an agent's instructions, {}", "正在写入智能体的指令 {}"),
    "self": ("changes what is set for itself, {}", "正在更改针对自身的设置 {}"),
    "start": ("starts an agent without permissions, {}", "正在以绕过权限的方式启动智能体 {}"),
}


def _what(
    row: dict[str, Any], params: dict[str, Any], commands: list[str]
) -> tuple[str | None, str]:
    """Which of TOLD it is, and the thing; the first that holds."""
    for command in commands:
        if start := BYPASS.search(command):
            return "start", f"{start[1]} {start[2]}"
    named = [row["config_object"] or row["target"], *(params.get(key) for key in PATHS)]
    if commands and not row["config_object"]:
        named = []
    paths = [each for command in commands for each in _written(command)]
    paths += [each for each in named if isinstance(each, str)]
    for kind, pattern in (("settings", SETTINGS), ("words", WORDS)):
        for path in paths:
            if pattern.search(path):
                return kind, path
    names = [row["agent"], row["account"]]
    own = row["config_object"] or (row["target"] if row["op"] == "commit" else None)
    if own and any(_names(own, name) for name in names if name and len(name) > 1):
        return "self", own
    return None, ""


def _written(command: str) -> Iterator[str]:
    """The files that a shell command, or a patch, writes to: as well as can be told without a shell."""
    yield from PATCHED.findall(command)
    for part in re.split(r"[;&|\n]+", command):
        yield from REDIRECTED.findall(part)
        words = [word.strip("\"'") for word in part.split() if word != "sudo"]
        name = words[0].rpartition("/")[2] if words else ""
        in_place = name in ("sed", "perl") and any(re.match("-[a-z]*i", word) for word in words)
        if in_place or name in CHANGES_ALL:
            yield from words[1:]
        elif name in CHANGES_LAST:
            yield words[-1]


def _names(thing: str, name: str) -> bool:
    """Is the name a whole word of it? `a1` is one of agents/a1.yaml, and none of agents/a12."""
    word = re.escape(name.split("/")[0] if name.count("/") else name)
    return bool(re.search(rf"(?<![\w-]){word}(?![\w-])", thing, re.IGNORECASE))


def _decoded(text: str | None) -> Any:
    return None if text is None else json.loads(text)


def _text(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)
