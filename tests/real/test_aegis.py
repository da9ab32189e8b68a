"""The real agent-aegis, its rows exported and its webhook pointed at a real service."""

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aegis.adapters.base import BaseExecutor
from aegis.core.action import Action
from aegis.core.policy import Policy, PolicyDecision
from aegis.core.result import Result, ResultStatus
from aegis.runtime.approval import ApprovalHandler
from aegis.runtime.audit import AuditLogger
from aegis.runtime.audit_logging import LoggingAuditLogger
from aegis.runtime.audit_webhook import WebhookAuditLogger
from aegis.runtime.engine import Runtime

from tests.kit_command import alert, gatewatch, landed
from tests.kit_http import Running, running, until

POLICY = Policy.from_dict(
    {
        "version": "1",
        "defaults": {"risk_level": "low", "approval": "auto"},
        "rules": [
            {"name": "no-exports", "match": {"type": "export_contacts"}, "risk_level": "critical",
             "approval": "block"},
            {"name": "refunds-are-seen", "match": {"type": "refund"}, "risk_level": "high",
             "approval": "approve"},
        ],
    }
)  # fmt: skip
CONFIG = """
[sources.aegis]
adapter = "aegis"

[[tokens]]
name = "aegis"
role = "writer"
source = "aegis"
agent = "billing-bot"
token = "a-token-of-a-writer-0001"

[[tokens]]
name = "ops"
role = "operator"
token = "a-token-of-ops-000000001"
"""


class Crm(BaseExecutor):
    async def execute(self, action: Action) -> Result:
        if action.params.get("order_id") == "A-404":
            return Result(action, ResultStatus.FAILED, error="no such order")
        return Result(action, ResultStatus.SUCCESS, data={"refund_id": "R-1"})


class Ops(ApprovalHandler):
    async def request_approval(self, decision: PolicyDecision) -> bool:
        return bool(decision.action.params["amount"] < 100)


def drive(audit: Any) -> None:
    """An agent that looks up, exports three times in vain, and asks for two refunds."""

    async def run() -> None:
        runtime = Runtime(
            executor=Crm(), policy=POLICY, approval_handler=Ops(), audit_logger=audit,
            session_id="conv-7", agent_id="billing-bot",
        )  # fmt: skip
        await runtime.run_one(Action("lookup", "crm", params={"order_id": "A-100"}))
        for page in range(3):
            await runtime.run_one(Action("export_contacts", "crm", params={"page": page}))
        for amount in (12.5, 900):
            await runtime.run_one(Action("refund", "crm", params={"amount": amount}))
        await runtime.run_one(Action("lookup", "crm", params={"order_id": "A-404"}))

    asyncio.run(run())


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    """What `aegis audit --format jsonl` gives."""
    with contextlib.closing(AuditLogger(tmp_path / "aegis_audit.db")) as audit:
        drive(audit)
        audit.export_jsonl(tmp_path / "aegis.jsonl")
    return tmp_path / "aegis.jsonl"


def test_an_agent_that_loops_on_a_blocked_action_raises_the_deny_retry_alert(
    exported: Path,
) -> None:
    db = exported.parent / "aegis.duckdb"

    counts = landed(exported, "aegis", db, events=12)
    found = alert("deny_retry", db)

    assert counts["lines"] == 7
    assert (found["subject"], found["facts"]["tool"]) == ("billing-bot", "export_contacts")
    assert found["facts"]["rules"] == ["no-exports"]


def test_a_row_is_one_call_from_its_decision_to_its_result(exported: Path) -> None:
    db = exported.parent / "aegis.duckdb"
    landed(exported, "aegis", db, events=12)

    calls = gatewatch(
        "sql",
        "SELECT tool, decision, status, executed_at IS NOT NULL AS ran, params FROM calls"
        " WHERE tool <> 'export_contacts' ORDER BY ts",
        db=db,
    )

    assert [tuple(each.values()) for each in calls] == [
        ("lookup", "allow", "ok", True, '{"order_id":"A-100"}'),
        ("refund", "allow", "ok", True, '{"amount":12.5}'),
        ("refund", "deny", None, False, '{"amount":900}'),
        ("lookup", "allow", "error", True, '{"order_id":"A-404"}'),
    ]
    assert "denied_then_executed" not in {each["detector"] for each in gatewatch("detect", db=db)}


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Running]:
    with running(tmp_path, CONFIG) as found:
        found.http.headers["authorization"] = "Bearer a-token-of-ops-000000001"
        yield found


def test_its_webhook_posts_to_the_service_and_the_alert_follows(service: Running) -> None:
    drive(
        WebhookAuditLogger(
            f"{service.url}/v1/ingest/aegis",
            headers={"Authorization": "Bearer a-token-of-a-writer-0001"},
        )
    )

    until(lambda: service.rows("SELECT 1 FROM alerts WHERE detector = 'deny_retry'"))
    [found] = service.rows("SELECT subject FROM alerts WHERE detector = 'deny_retry'")
    [counts] = service.rows("SELECT lines, events, quarantined FROM sources")

    # the webhook names no agent; the token says whose lines these are
    assert found == {"subject": "billing-bot"}
    assert counts == {"lines": 7, "events": 12, "quarantined": 0}


def test_its_logging_lines_have_no_id_and_are_read_all_the_same(tmp_path: Path) -> None:
    audit = LoggingAuditLogger()
    drive(audit)
    audit.export_jsonl(tmp_path / "log.jsonl")

    landed(tmp_path / "log.jsonl", "aegis", tmp_path / "log.duckdb", events=12)

    assert alert("deny_retry", tmp_path / "log.duckdb")["subject"] == "session conv-7"
