"""Claude Code hooks: who decided, and what is the same call when it is told again."""

import pytest

from tests.ingest.adapters import kit
from tests.ingest.adapters.kit import Row

CALL = {"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": "toolu_01Aa"}


def hook(name: str, **fields: object) -> Row:
    return {"session_id": "s-1", "prompt_id": "p-1", "hook_event_name": name, **fields}


def read(*docs: Row) -> list[Row]:
    return kit.read("claude_hooks", docs)


def test_a_hook_that_is_told_again_is_the_same_event_and_another_hook_of_the_call_is_not() -> None:
    before = hook("PreToolUse", **CALL)
    after = hook("PostToolUse", **CALL, tool_response={"stdout": "README"})

    rows = read(before, after, before, after | {"_received_at": "2026-03-10T09:00:00Z"})

    assert rows[0]["event_id"] == rows[2]["event_id"] != rows[1]["event_id"]
    assert rows[1]["event_id"] == rows[3]["event_id"]
    assert {row["call_id"] for row in rows} == {"toolu_01Aa"}


def test_a_call_that_is_told_by_one_hook_and_decided_by_another_is_both() -> None:
    told = hook("PreToolUse", **CALL)
    decided = told | {"_decision": {"permissionDecision": "allow"}}

    rows = read(told, decided)

    assert [row["kind"] for row in rows] == ["tool_proposed", "tool_decided"]
    assert len({row["event_id"] for row in rows}) == 2


DECISIONS = [
    ({"permissionDecision": "ask"}, "require_approval"),
    ({"permissionDecision": "defer"}, None),
    ({"hookSpecificOutput": {"permissionDecision": "deny"}}, "deny"),
    ({"decision": "approve"}, "allow"),
    ({"decision": "block", "reason": "no"}, "deny"),
    ({"decision": {"behavior": "deny"}}, None),
    ("deny", "deny"),
    ({}, None),
    ([], None),
    (None, None),
]


def test_the_answer_of_a_hook_is_found_in_each_of_its_forms() -> None:
    rows = read(*(hook("PreToolUse", **CALL, _decision=answer) for answer, _ in DECISIONS))

    assert [row["decision"] for row in rows] == [decision for _, decision in DECISIONS]


def test_a_refusal_of_the_automatic_mode_is_a_decision_of_a_gate_and_not_of_a_person() -> None:
    [row] = read(hook("PermissionDenied", **CALL, reason="outside the project"))

    assert (row["kind"], row["decision"]) == ("tool_decided", "deny")
    assert (row["reason"], row["reason_code"], row["approver"]) == (
        "outside the project",
        None,
        None,
    )


def test_a_permission_that_a_hook_answers_is_an_answered_approval() -> None:
    asked = hook("PermissionRequest", tool_name="Bash", tool_input={"command": "ls"})
    answer = {"hookSpecificOutput": {"decision": {"behavior": "allow"}}}

    [open_one, answered] = read(asked, asked | {"_decision": answer})

    assert (open_one["kind"], open_one["call_id"]) == ("approval_requested", None)
    assert (answered["kind"], answered["decision"]) == ("approval_decided", "allow")
    assert answered["reason_code"] == "approved"


def test_parallel_subagents_are_told_apart() -> None:
    rows = read(
        *(hook("PostToolUse", **CALL, agent_id=n, agent_type="Explore") for n in ("x", "y"))
    )

    assert [(row["agent"], kit.attrs(row)["agent_id"]) for row in rows] == [
        ("Explore", "x"),
        ("Explore", "y"),
    ]


@pytest.mark.parametrize("name", ["Stop", "Notification", "SessionStart", "PermissionRequest"])
def test_what_has_no_call_and_no_time_is_never_taken_for_a_repetition(name: str) -> None:
    rows = read(hook(name), hook(name))

    assert len({row["event_id"] for row in rows}) == 2
    assert {row["native_id"] for row in rows} == {None}
