"""The order in which a policy decides, case by case."""

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from detectors.controls.policy import Call, Context, decide, shut_minutes, unattended
from ingest.policy import Controls, Window, load
from tests.kit import ROOT

NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)
NIGHT = datetime(2026, 3, 10, 23, tzinfo=UTC)
EXAMPLE = load(ROOT.parent / "shared/examples/policy.json").controls
TOOLS: list[dict[str, Any]] = [
    {"name": "read", "action": "allow", "allowed_params": ["id", "filter.by", "page"],
     "forbidden_params": ["export_all", "page.raw"]},
    {"name": "free", "action": "allow"},
    {"name": "risky", "action": "allow", "risk_level": "high"},
    {"name": "critical", "action": "allow", "risk_level": "critical"},
    {"name": "never", "action": "deny"},
    {"name": "ask", "action": "require_approval"},
    {"name": "office", "action": "require_approval", "risk_level": "high",
     "forbidden_params": ["all"], "daily_limit": 2,
     "allowed_windows": [{"start": "09:00", "end": "18:00"}]},
    {"name": "late", "action": "allow", "allowed_windows": [{"start": "22:00", "end": "02:00"}]},
    {"name": "rows.delete", "action": "require_approval"},
    {"name": "mail.send", "action": "allow", "daily_limit": 5},
]  # fmt: skip
AGENTS: list[dict[str, Any]] = [
    {"agent": "narrow", "forbidden_tools": ["free", "unheard"],
     "allowed_tools": [{"name": "free"}, {"name": "read"},
                       {"name": "db.query", "allowed_operations": ["SELECT"],
                        "table_allowlist": ["customers", "orders"]}]},
    {"agent": "warned", "forbidden_tools": ["ask"]},
]  # fmt: skip
NOTHING = Context()
RATES = {"outbound_messages_per_day": 10, "recipients_per_message": 3}
BASE: dict[str, Any] = {"tools": TOOLS, "agents": AGENTS, "rate_limits": RATES}


def policy(**more: Any) -> Controls:
    return msgspec.convert({**BASE, **more}, Controls)


def call(tool: str | None, **more: Any) -> Call:
    return Call(**{"tool": tool, "at": NOON, "agent": "a1", **more})


def said(made: Call, context: Context = NOTHING, **more: Any) -> tuple[str, str]:
    found = decide(policy(**more), made, context)
    assert found.reason.strip()
    return found.action, found.step


@pytest.mark.parametrize(
    ("made", "context", "action", "step"),
    [
        (call("free"), {}, "allow", "allowed"),
        (call("free", agent=None), {}, "allow", "allowed"),
        (call("free", agent="unheard-of"), {}, "allow", "allowed"),
        (call("free", agent="narrow"), {}, "deny", "forbidden tool"),
        (call("unheard"), {}, "deny", "tool not listed"),
        (call(None), {}, "deny", "tool not listed"),
        (call(""), {}, "deny", "tool not listed"),
        (call("FREE"), {}, "deny", "tool not listed"),
        (call("risky", agent="narrow"), {}, "deny", "tool not listed"),
        (call("db.query"), {}, "deny", "tool not listed"),
        (call("db.query", agent="narrow"), {}, "allow", "allowed"),
        (call("never"), {}, "deny", "tool denied"),
        (call("critical"), {}, "deny", "critical risk"),
        (call("ask"), {}, "require_approval", "approval required"),
        (call("ask"), {"approved": True}, "allow", "allowed"),
        (call("ask", agent="warned"), {"approved": True}, "deny", "forbidden tool"),
        (call("risky"), {}, "allow", "allowed"),
        (call("risky", at=NIGHT), {}, "require_approval", "unattended risk"),
        (call("risky", at=NIGHT), {"approved": True}, "allow", "allowed"),
        (call("rows.delete", deletes=True), {"approved": True}, "allow", "allowed"),
        (call("rows.delete", deletes=True, at=NIGHT), {"approved": True},
         "deny", "unattended delete"),
        (call("office", at=NIGHT), {"approved": True}, "deny", "outside window"),
        (call("late", at=NIGHT), {}, "allow", "allowed"),
        (call("late"), {}, "deny", "outside window"),
    ],
)  # fmt: skip
def test_each_step_of_the_order_decides(
    made: Call, context: dict[str, Any], action: str, step: str
) -> None:
    assert said(made, Context(**context)) == (action, step)


@pytest.mark.parametrize(
    ("made", "context", "step"),
    [
        # two or more reasons at once: the earlier one in the order is told
        (call("unheard", agent="narrow"), {}, "forbidden tool"),
        (call("never", agent="narrow"), {}, "tool not listed"),
        (call("read", agent="narrow", params={"export_all": 1}), {"calls_in_minute": 99},
         "parameters"),
        (call("office", at=NIGHT, params={"all": 1}), {"tool_today": 9}, "parameters"),
        (call("office", at=NIGHT, deletes=True), {"tool_today": 9}, "outside window"),
        (call("rows.delete", at=NIGHT, deletes=True), {"calls_in_minute": 99},
         "unattended delete"),
        (call("ask"), {"calls_in_minute": 99}, "limit"),
        (call("risky", at=NIGHT), {"calls_of_task": 999}, "limit"),
        (call("office"), {"tool_today": 2}, "limit"),
        (call("db.query", agent="narrow", operations=("DROP",)), {"calls_in_minute": 99},
         "grant"),
    ],
)  # fmt: skip
def test_of_two_reasons_the_earlier_one_in_the_order_decides(
    made: Call, context: dict[str, Any], step: str
) -> None:
    assert said(made, Context(**context)) == ("deny", step)


def test_a_tool_that_needs_approval_is_told_so_before_its_risk_at_night() -> None:
    both = [{"name": "both", "action": "require_approval", "risk_level": "high"}]

    assert said(call("both", at=NIGHT), tools=both) == ("require_approval", "approval required")


def test_a_tool_that_is_denied_and_critical_is_denied_once() -> None:
    both = [{"name": "both", "action": "deny", "risk_level": "critical"}]

    assert said(call("both"), tools=both) == ("deny", "tool denied")


@pytest.mark.parametrize("action", ["allow", "require_approval"])
def test_what_is_not_listed_falls_under_the_default_and_under_nights_and_limits(
    action: str,
) -> None:
    default: dict[str, Any] = {"global": {"default_action": action}}
    told = "allowed" if action == "allow" else "approval required"

    assert said(call("unheard"), **default) == (action, told)
    assert said(call("unheard", at=NIGHT, deletes=True), **default)[1] == "unattended delete"
    assert said(call("unheard"), Context(calls_in_minute=30), **default) == ("deny", "limit")


@pytest.mark.parametrize(
    ("params", "fine"),
    [
        (None, True),
        ({}, True),
        ({"id": 7}, True),
        ({"id": {"any": {"depth": 1}}}, True),
        ({"other": 1}, False),
        ({"other": None}, True),
        ({"ID": 1}, False),
        ({"filter": {"by": "name"}}, True),
        ({"filter": {"by": "name", "all": True}}, False),
        ({"filter": "everything"}, False),
        ({"filter": [{"by": "x"}, {"all": 1}]}, False),
        ({"export_all": False}, False),
        ({"export_all": None}, True),
        ({"id": {"deep": [{"export_all": True}]}}, False),
        ({"id": [1, [{"export_all": True}]]}, False),
        ({"page": {"raw": 1}}, False),
        ({"page": {"size": 1}}, True),
        ([1, 2], True),
        ("export_all", True),
    ],
)
def test_parameters_are_looked_at_however_deep_they_stand(params: Any, fine: bool) -> None:
    expected = ("allow", "allowed") if fine else ("deny", "parameters")

    assert said(call("read", params=params)) == expected


@pytest.mark.parametrize(
    ("operations", "tables", "fine"),
    [
        (("SELECT",), ("customers",), True),
        (("select",), ("Orders", "CUSTOMERS"), True),
        (("SELECT",), ("customers", "salaries"), False),
        (("SELECT", "DELETE"), ("customers",), False),
        ((), (), True),
    ],
)
def test_a_grant_names_operations_and_tables(
    operations: tuple[str, ...], tables: tuple[str, ...], fine: bool
) -> None:
    made = call("db.query", agent="narrow", operations=operations, tables=tables)

    assert said(made) == (("allow", "allowed") if fine else ("deny", "grant"))


@pytest.mark.parametrize(
    ("made", "word", "limit"),
    [
        (call("free"), "calls_in_minute", 30),
        (call("free"), "calls_of_task", 300),
        (call("free", external=True), "external_in_hour", 50),
        (call("mail.send", message=True), "messages_today", 10),
        (call("mail.send"), "tool_today", 5),
        (call("free"), "cost_today_usd", Decimal(100)),
    ],
)
def test_a_limit_is_the_number_that_still_goes_through(made: Call, word: str, limit: Any) -> None:
    just = {word: limit - 1}  # this call is the last one that the limit has room for
    used, over = {word: limit}, {word: limit + 1}

    assert said(made, Context(**just)) == ("allow", "allowed")
    assert said(made, Context(**used)) == ("deny", "limit")
    assert said(made, Context(**over)) == ("deny", "limit")


def test_the_30th_call_of_a_minute_goes_through_and_the_31st_does_not() -> None:
    calls = [said(call("free"), Context(calls_in_minute=before))[0] for before in (28, 29, 30)]

    assert calls == ["allow", "allow", "deny"]


def test_limits_of_what_a_call_is_not_do_not_touch_it() -> None:
    spent = Context(external_in_hour=99, messages_today=99)

    assert said(call("free", recipients=99), spent) == ("allow", "allowed")


def test_a_message_has_only_so_many_recipients() -> None:
    made = call("mail.send", message=True, recipients=3)

    assert said(made) == ("allow", "allowed")
    assert said(replace(made, recipients=4)) == ("deny", "limit")


def test_a_budget_of_nothing_and_a_limit_of_none_allow_nothing() -> None:
    assert said(call("free"), budgets={"daily_cost_limit_usd": 0}) == ("deny", "limit")
    assert said(call("free"), rate_limits={"tool_calls_per_minute": 0}) == ("deny", "limit")


@pytest.mark.parametrize(
    ("clock", "night"),
    [
        ("2026-06-03T21:59:59-04:00", False),
        ("2026-06-03T22:00:00-04:00", True),
        ("2026-06-04T07:59:59.999999-04:00", True),
        ("2026-06-04T08:00:00-04:00", False),
        ("2026-03-08T06:59:59+00:00", True),  # 01:59:59 EST
        ("2026-03-08T07:00:00+00:00", True),  # 03:00:00 EDT: the hour between does not exist
        ("2026-03-08T11:59:59+00:00", True),  # 07:59:59 EDT
        ("2026-03-08T12:00:00+00:00", False),  # 08:00:00 EDT, an hour earlier than the day before
        ("2026-11-01T05:30:00+00:00", True),  # 01:30 the first time
        ("2026-11-01T06:30:00+00:00", True),  # 01:30 the second time
        ("2026-11-01T13:00:00+00:00", False),  # 08:00:00 EST
    ],
)
def test_the_night_is_that_of_the_policys_zone_and_half_open(clock: str, night: bool) -> None:
    new_york = policy(**{"global": {"timezone": "America/New_York"}})

    assert unattended(new_york, datetime.fromisoformat(clock)) is night


def test_the_minutes_outside_windows_are_those_in_which_a_tool_is_shut() -> None:
    assert shut_minutes([Window("00:00", "24:00")]) == []
    assert shut_minutes([Window("22:00", "02:00")]) == list(range(120, 22 * 60))
    assert len(shut_minutes([])) == 24 * 60


@pytest.mark.parametrize(
    ("made", "action", "step"),
    [
        (call("crm.query_contact", params={"contact_id": 1}), "allow", "allowed"),
        (call("crm.query_contact", params={"contact_id": 1, "export_all": True}),
         "deny", "parameters"),
        (call("crm.export_contacts", at=datetime(2026, 3, 10, 1, tzinfo=UTC)),
         "require_approval", "approval required"),  # 09:00 in Shanghai
        (call("crm.export_contacts", at=datetime(2026, 3, 10, 10, tzinfo=UTC)),
         "deny", "outside window"),  # 18:00 in Shanghai
        (call("database.execute_delete"), "deny", "tool denied"),
        (call("database.query", agent="data-query-agent", operations=("SELECT",),
              tables=("orders",)), "allow", "allowed"),
        (call("payment.transfer", agent="data-query-agent"), "deny", "forbidden tool"),
        (call("crm.query_contact", agent="data-query-agent"), "deny", "tool not listed"),
    ],
)  # fmt: skip
def test_the_example_policy_decides(made: Call, action: str, step: str) -> None:
    found = decide(EXAMPLE, made)

    assert (found.action, found.step) == (action, step)
