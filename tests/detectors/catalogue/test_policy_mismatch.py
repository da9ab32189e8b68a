import json
import random
from datetime import timedelta
from typing import Any

import pytest

from detectors.detector import find
from tests.kit import Event, allowed, at, denied, events, judge, loaded, numbered, store

HOURS = [{"start": "09:00", "end": "10:00"}]
RULES = {
    "tools": [
        {"name": "x", "action": "require_approval", "forbidden_params": ["v"]},
        {"name": "y", "action": "allow"},
        {"name": "read", "action": "allow", "forbidden_params": ["export_all"]},
        {"name": "never", "action": "deny"},
        {"name": "office", "action": "allow", "allowed_windows": HOURS},
        {"name": "rows.delete", "action": "allow"},
    ],
    "agents": [
        {"agent": "reader", "allowed_tools": [
            {"name": "db.query", "allowed_operations": ["SELECT"], "table_allowlist": ["orders"]}]},
    ],
}  # fmt: skip


def columns(dice: random.Random) -> dict[str, Any]:
    return {"params": dice.choice([None, {"v": None}, {"w": [1, {"v": 2}]}])}


def said(found: list[Event], rules: dict[str, Any] = RULES) -> list[tuple[str, str, str]]:
    """How gate and policy differ, how bad it is, and which step of the policy decided."""
    rows = judge("policy_mismatch", found, rules)
    return [(row["subject"].split(" · ")[2], row["severity"], row["step"]) for row in rows]


def approved(clock: str, **columns: Any) -> list[Event]:
    """The gate asks at 08:50, and a person says yes."""
    own = {"call_id": "call-0123456789-1"} | columns
    asked = denied("08:50", decision="require_approval", **own)
    return asked + events("approval_decided", clock, decision="allow", approver="eva", **own)


def test_a_call_that_the_gate_allowed_and_the_policy_denies_fires() -> None:
    [found] = judge("policy_mismatch", allowed("09:00", tool="never"), RULES)

    assert found["subject"] == "a1 · never · allowed, though the policy denies"
    assert (found["severity"], found["gate"], found["policy"]) == ("high", "allow", "deny")
    assert found["reason"] == "never is denied"


@pytest.mark.parametrize(
    "calls",
    [
        allowed("09:00", tool="read", params={"id": 1}),
        denied("09:00", tool="never"),
        denied("09:00", tool="unheard"),
        denied("09:00", tool="x", decision="require_approval"),
        denied("09:00", tool="x"),  # stricter than to ask a person, but not other than no
        denied("09:00", tool="y", reason_code="rate_limit_exceeded"),
        denied("09:00", tool="read", decision="require_approval"),
        approved("09:00", tool="x"),
        approved("09:00", tool="read"),
        events("tool_executed", "09:00", tool="never", status="ok"),
        allowed("09:30", tool="office"),
        allowed("09:00", tool="rows.delete"),
    ],
)
def test_what_gate_and_policy_agree_on_is_quiet(calls: list[Event]) -> None:
    assert said(calls) == []


def test_it_is_quiet_without_a_policy_and_under_one_that_lists_nothing() -> None:
    assert judge("policy_mismatch", allowed("09:00")) == []
    assert said(allowed("09:00"), {"egress": {"allowed_hosts": []}}) == []


@pytest.mark.parametrize(
    ("calls", "words", "severity", "step"),
    [
        (allowed("09:00", tool="x"), "allowed without approval", "high", "approval required"),
        (denied("09:00", tool="y"), "denied, though the policy allows", "low", "allowed"),
        (allowed("09:00", tool="unheard"), "allowed, though the policy denies", "medium",
         "tool not listed"),
        (allowed("08:59:59", tool="office"), "allowed, though the policy denies", "high",
         "outside window"),
        (allowed("10:00", tool="office"), "allowed, though the policy denies", "high",
         "outside window"),
        (approved("10:00", tool="office"), "approved, though the policy denies", "high",
         "outside window"),
        (allowed("07:59:59", tool="rows.delete"), "allowed, though the policy denies", "critical",
         "unattended delete"),
        (allowed("09:00", tool="read", params={"q": [1, {"export_all": True}]}),
         "allowed, though the policy denies", "high", "parameters"),
        (denied("09:00", tool="never", decision="require_approval"),
         "left to a person, though the policy denies", "medium", "tool denied"),
        (allowed("09:00", agent="reader", tool="db.query",
                 params={"sql": "SELECT * FROM orders o JOIN salaries s USING (id)"}),
         "allowed, though the policy denies", "high", "grant"),
        (allowed("09:00", agent="reader", tool="db.query",
                 params={"operation": "update", "table": "orders"}),
         "allowed, though the policy denies", "high", "grant"),
    ],
)  # fmt: skip
def test_each_way_to_differ_fires(calls: list[Event], words: str, severity: str, step: str) -> None:
    assert said(calls) == [(words, severity, step)]


def test_an_approval_that_a_person_refused_was_the_gates_question_and_is_quiet() -> None:
    asked = denied("08:50", tool="x", decision="require_approval", call_id="call-0123456789-1")
    no = events("approval_decided", "09:00", tool="x", decision="deny", approver="eva",
                call_id="call-0123456789-1")  # fmt: skip

    assert said(asked + no) == []


def test_what_the_grant_names_is_quiet_and_so_is_what_the_log_does_not_tell() -> None:
    fine = [{"sql": "select 1 from orders"}, {"operation": "SELECT", "table": "Orders"}, None, {}]

    assert (
        said([e for p in fine for e in allowed("09:00", agent="reader", tool="db.query", params=p)])
        == []
    )


def test_of_the_calls_of_an_hour_the_first_fires() -> None:
    calls = allowed("09:00:01", "09:59:59", "10:00", "10:30", tool="never")
    other = allowed("09:00:05", tool="never", agent="a2") + allowed(
        "09:00:05", tool="never", tenant="acme"
    )

    found = judge("policy_mismatch", calls + other, RULES)

    assert [(row["ended_at"], row["agent"], row["tenant"]) for row in found] == [
        (at("09:00:01"), "a1", ""),
        (at("09:00:05"), "a1", "acme"),
        (at("09:00:05"), "a2", ""),
        (at("10:00"), "a1", ""),
    ]


@pytest.mark.parametrize(
    ("clock", "fires"),
    [
        ("09:00", False),  # long before the second policy was loaded
        ("11:49:59", False),
        ("12:05", False),  # gate and policy file need not change at the same second
        ("12:10", True),
        ("15:00", True),
    ],
)
def test_a_decision_is_held_against_the_policy_of_its_time(clock: str, fires: bool) -> None:
    db = store(numbered(allowed(clock, tool="y")), RULES)
    newer = json.dumps({"tools": [{"name": "y", "action": "deny"}]})
    db.execute("INSERT INTO policies VALUES ('v2', ?, 'p', ?)", [at("12:00"), newer])
    each = loaded("policy_mismatch", db)

    rows = find(each, db, at("08:00"), at("16:00"))

    assert bool(rows) is fires
    assert rows == [
        r
        for h in range(8, 16)
        for r in find(each, db, at(f"{h:02}:00"), at(f"{h:02}:00") + timedelta(hours=1))
    ]


def test_around_a_load_what_neither_policy_says_still_fires() -> None:
    db = store(numbered(allowed("12:01", "12:02", tool="never")), RULES)
    newer = json.dumps({"tools": [{"name": "never", "action": "deny"}]})
    db.execute("INSERT INTO policies VALUES ('v2', ?, 'p', ?)", [at("12:00"), newer])

    rows = find(loaded("policy_mismatch", db), db, at("08:00"), at("16:00"))

    assert [row["ended_at"] for row in rows] == [at("12:01")]
