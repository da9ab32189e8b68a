from typing import Any

import pytest

from detectors.controls.widening import widened


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ({"allowed_tools": ["a"]}, {"allowed_tools": ["a", "b"]}, "allowed_tools gains b"),
        ({"permissions": {"deny": ["x", "y"]}}, {"permissions": {"deny": ["x"]}},
         "permissions.deny loses y"),
        ({"approval": True}, {"approval": False}, "approval is off"),
        ({"audit": {"enabled": "on"}}, {"audit": {"enabled": "off"}}, "audit.enabled is off"),
        ({"log_level": "INFO"}, {"log_level": "error"}, "log_level becomes error"),
        ({"logLevel": "debug"}, {"logLevel": "off"}, "logLevel becomes off"),
        ({"default_action": "deny"}, {"default_action": "allow"}, "default_action becomes allow"),
        ({}, {"dangerouslySkip": True}, "dangerouslySkip is on"),
        ("default", "bypassPermissions", "it becomes bypasspermissions"),
        (None, {"defaultMode": "bypassPermissions"}, "defaultMode becomes bypasspermissions"),
        ({"hosts": ["a"]}, {"hosts": ["*"]}, "hosts becomes *"),
        ('approval_policy = "on-request"', 'approval_policy = "never"', "approval_policy is off"),
        ("audit: true\nlimit: 1", "audit: false\nlimit: 1", "audit is off"),
    ],
)  # fmt: skip
def test_what_gives_more_rights_is_named(before: Any, after: Any, why: str) -> None:
    assert widened(before, after) == [why]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"limit": 10}, {"limit": 500}),
        ({"allowed_tools": ["a", "b"]}, {"allowed_tools": ["a"]}),
        ({"allowed_tools": ["a", "b"]}, {"allowed_tools": ["b", "a"]}),
        ({"allowed_tools": ["a"]}, {"allowed_tools": ["b"]}),
        ({"deny": ["x"]}, {"deny": ["x", "y"]}),
        ({"approval": False}, {"approval": True}),
        ({"approval": False}, {"approval": False, "limit": 1}),
        ({"log_level": "error"}, {"log_level": "info"}),
        ({"default_action": "allow"}, {"default_action": "deny"}),
        ({"bypass": True}, {"bypass": False}),
        (None, {"allowed_tools": ["a"]}),
        (None, None),
        ("limit: 10\n", "limit: 99\n"),
        ("some words", "other words"),
    ],
)
def test_what_gives_no_more_is_not(before: Any, after: Any) -> None:
    assert widened(before, after) == []


def test_the_tree_may_be_of_any_depth_and_the_reasons_are_few() -> None:
    deep: Any = {"audit": False}
    for _ in range(500):
        deep = [deep]

    assert widened(None, deep) == []
    assert len(widened(None, {f"audit{n}": False for n in range(50)})) == 10
