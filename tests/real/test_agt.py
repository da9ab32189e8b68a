"""The real agent-governance-toolkit: each of the records it writes, and its public demo audits."""

import json
import logging
import warnings
from pathlib import Path
from typing import Any

import pytest

from tests.kit_command import ROOT, alert, gatewatch, landed

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of the packages that it imports
    from agent_os.audit_logger import GovernanceAuditLogger, JsonlFileBackend
    from agent_os.integrations.base import GovernancePolicy
    from agent_os.mcp_gateway import ApprovalStatus, MCPGateway
    from agentmesh.governance.approval import ApprovalDecision, CallbackApproval
    from agentmesh.governance.audit import AuditLog
    from agentmesh.governance.audit_backends import FileAuditSink
    from agentmesh.governance.govern import GovernanceConfig, GovernanceDenied, GovernedCallable

DEMOS = ROOT.parent / "shared" / "data" / "agt_audit_samples"
POLICY = """
apiVersion: governance.toolkit/v1
name: till
version: "7"
default_action: allow
rules:
  - name: no-exports
    condition: "action.type == 'crm.export_contacts'"
    action: deny
    description: bulk export is for people
  - name: refunds-are-seen
    condition: "action.type == 'refund.create'"
    action: require_approval
"""


def seen_by_ops(request: Any) -> ApprovalDecision:
    return ApprovalDecision(
        approved=request.context["amount"]["value"] < 100, approver="ops-1", reason="seen"
    )


class Gated:
    """A governed function whose audit goes into a signed file."""

    def __init__(self, folder: Path) -> None:
        config = GovernanceConfig(
            policy=POLICY, agent_id="billing-bot", approval_handler=CallbackApproval(seen_by_ops)
        )
        self.log = folder / "signed.jsonl"
        self.audit = AuditLog(sink=FileAuditSink(self.log, b"k" * 32))
        self.call = GovernedCallable(lambda **_: "done", config)
        self.call._audit = self.audit  # the wrapper has no option for where its audit goes

    def ask(self, action: str, **more: Any) -> bool:
        try:
            self.call(action=action, **more)
        except GovernanceDenied:
            return False
        return True


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)


@pytest.fixture
def gated(tmp_path: Path) -> Gated:
    """What a governed agent leaves behind that loops on a denied call, and is refused a refund."""
    made = Gated(tmp_path)
    assert made.ask("crm.lookup", id="c-9")
    assert not any(made.ask("crm.export_contacts", page=page) for page in range(3))
    assert made.ask("refund.create", amount=12.5)
    assert not any(made.ask("refund.create", amount=amount) for amount in (900, 901))
    return made


def test_an_agent_that_loops_on_a_denied_call_raises_the_deny_retry_alert(gated: Gated) -> None:
    db = gated.log.parent / "agt.duckdb"

    landed(gated.log, "agt", db)
    found = alert("deny_retry", db)  # the only one: two refused refunds are two denials, not four

    assert (found["subject"], found["facts"]["tool"]) == ("billing-bot", "crm.export_contacts")
    assert (found["facts"]["denials"], found["facts"]["rules"]) == (3, ["no-exports"])


def test_an_approval_keeps_who_answered(gated: Gated) -> None:
    db = gated.log.parent / "agt.duckdb"
    landed(gated.log, "agt", db)

    rows = gatewatch(
        "sql",
        "SELECT reason_code, approver, tool FROM events"
        " WHERE kind = 'approval_decided' ORDER BY ts",
        db=db,
    )

    assert [tuple(each.values()) for each in rows] == [
        ("approved", "ops-1", "refund.create"),
        ("rejected", "ops-1", "refund.create"),
        ("rejected", "ops-1", "refund.create"),
    ]


def test_its_cloud_events_say_the_same_as_its_signed_lines(gated: Gated, tmp_path: Path) -> None:
    log, db = tmp_path / "cloud.json", tmp_path / "cloud.duckdb"
    log.write_text(json.dumps(gated.audit.export_cloudevents(), indent=1), encoding="utf-8")
    said = (
        "SELECT native_id, kind, ts, agent, tool, decision, reason, rule_ids, approver FROM events"
    )

    landed(log, "agt", db)
    landed(gated.log, "agt", tmp_path / "agt.duckdb")

    assert gatewatch("sql", f"{said} ORDER BY ts", db=db) == gatewatch(
        "sql", f"{said} ORDER BY ts", db=tmp_path / "agt.duckdb"
    )
    assert alert("deny_retry", db)["facts"]["denials"] == 3


class Sink:
    """Where the MCP gateway's audit goes."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def record(self, entry: dict[str, Any]) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")


def test_its_mcp_gateway_is_read_with_parameters_and_approvals(tmp_path: Path) -> None:
    log, db = tmp_path / "mcp.jsonl", tmp_path / "mcp.duckdb"
    gate = MCPGateway(
        GovernancePolicy(name="till"), denied_tools=["delete_db"], sensitive_tools=["refund"],
        approval_callback=lambda agent, tool, given: ApprovalStatus.APPROVED,
        audit_sink=Sink(log),
    )  # fmt: skip
    unattended = MCPGateway(
        GovernancePolicy(name="till"), sensitive_tools=["refund"], audit_sink=Sink(log)
    )
    assert not any(gate.intercept_tool_call("a1", "delete_db", {"n": n})[0] for n in range(3))
    assert gate.intercept_tool_call("a1", "refund", {"amount": 12.5})[0]
    assert not unattended.intercept_tool_call("a1", "refund", {"amount": 12.5})[0]
    gate.intercept_tool_response("a1", "refund", "R-1")

    landed(log, "agt", db)
    rows = gatewatch(
        "sql", "SELECT kind, tool, decision, params FROM events ORDER BY ts OFFSET 3", db=db
    )

    assert alert("deny_retry", db)["facts"]["tool"] == "delete_db"
    assert [tuple(each.values()) for each in rows] == [
        ("approval_decided", "refund", "allow", '{"amount":12.5}'),
        ("approval_requested", "refund", "require_approval", '{"amount":12.5}'),
        ("tool_decided", None, "allow", None),
    ]


def test_its_jsonl_logger_is_read_once_it_has_been_flushed(tmp_path: Path) -> None:
    log, db = tmp_path / "gov.jsonl", tmp_path / "gov.duckdb"
    audit, backend = GovernanceAuditLogger(), JsonlFileBackend(log)
    audit.add_backend(backend)
    for page in range(3):
        audit.log_decision(
            "a1", "crm.export_contacts", "deny", "for people", 0.4, page=page, tenant="t-1"
        )
    backend.close()

    landed(log, "agt", db)

    assert alert("deny_retry", db)["subject"] == "a1"


def test_the_audits_of_its_public_demos_are_read_whole(tmp_path: Path) -> None:
    db = tmp_path / "demos.duckdb"

    counts = gatewatch("ingest", *sorted(DEMOS.glob("*.json")), "--adapter", "agt", db=db)
    kinds = gatewatch(
        "sql", "SELECT kind, decision, count(*) AS n FROM events GROUP BY ALL ORDER BY n", db=db
    )

    assert (counts["lines"], counts["events"], counts["quarantined"]) == (137, 137, 0)
    assert {(each["kind"], each["decision"]): each["n"] for each in kinds} == {
        ("approval_requested", "require_approval"): 1,
        ("tool_decided", "deny"): 10,
        ("other", None): 35,
        ("tool_decided", "allow"): 91,
    }
