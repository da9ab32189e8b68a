"""The real gatehouse-ai gate, driven by a scripted agent: its own audit log gives the alert."""

import json
import os
import subprocess
import sys
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from gatehouse import AgentSpec, ApprovalQueue, AuditLog, AutonomyTier, Gate, PolicyEngine, Registry

ROOT = Path(__file__).parents[2]
POLICY = """
version: 7
tools: {crm.lookup: {mutating: false}}
rules:
  - {id: lookups, tools: [crm.lookup], disposition: allow}
  - id: rule-17
    tools: [crm.export_contacts]
    disposition: deny
    reason: bulk export is for people
  - {id: refunds-are-seen, tools: [refund.create], disposition: require_approval}
"""
TOOLS = ["crm.export_contacts", "crm.lookup", "refund.create"]


class Gated:
    """A gate with its log and its approval queue in one folder, and one agent before it."""

    def __init__(self, folder: Path) -> None:
        (folder / "policy.yaml").write_text(POLICY, encoding="utf-8")
        self.audit = folder / "gatehouse-audit.jsonl"
        log = AuditLog(self.audit)
        self.queue = ApprovalQueue(folder / "approvals", log)
        a1 = AgentSpec(
            id="a1", owner="ops@example.test", tier=AutonomyTier.GOVERNED, allowed_tools=TOOLS
        )
        engine = PolicyEngine.from_file(folder / "policy.yaml")
        self.gate = Gate(Registry(agents=[a1]), engine, log, self.queue)

    def ask(self, tool: str, **params: Any) -> str:
        """One call of the agent. Returns the id of the approval that it waits for, or ''."""
        judged = self.gate.evaluate("a1", tool, params, session_id="conv-7")
        return judged.approval_request_id or ""


@pytest.fixture
def audit(tmp_path: Path) -> Path:
    """What an agent leaves behind that loops on a denied call and asks for approvals."""
    gated = Gated(tmp_path)
    gated.ask("crm.lookup", id="c-9")
    for page in range(4):
        gated.ask("crm.export_contacts", export_all=True, page=page)
    gated.queue.approve(gated.ask("refund.create", amount=12.5), by="wang", note="charged twice")
    gated.queue.deny(gated.ask("refund.create", amount=900), by="wang", note="not ours: ask first")
    gated.queue.default_ttl = timedelta(0)
    gated.ask("refund.create", amount=30)
    assert gated.queue.pending() == []  # who looks writes the expiry down
    return gated.audit


def gatewatch(*words: str | Path, db: Path) -> Any:
    """What a command prints with --json."""
    command = [sys.executable, "-m", "gatewatch", *map(str, words), "--db", str(db), "--json"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=db.parent, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_an_agent_that_loops_on_a_denied_call_raises_the_deny_retry_alert(audit: Path) -> None:
    db = audit.parent / "audit.duckdb"

    landed = gatewatch("ingest", audit, "--adapter", "gatehouse", db=db)
    found = gatewatch("detect", db=db)

    lines = len(audit.read_bytes().splitlines())
    assert (landed["lines"], landed["events"], landed["quarantined"]) == (lines, lines, 0)
    [alert] = [each for each in found if each["detector"] == "deny_retry"]
    assert (alert["subject"], alert["severity"]) == ("a1", "high")
    assert (alert["facts"]["tool"], alert["facts"]["denials"]) == ("crm.export_contacts", 4)
    assert len(alert["event_ids"]) == 4


def test_an_approval_keeps_how_it_ended_and_who_ended_it(audit: Path) -> None:
    db = audit.parent / "audit.duckdb"
    gatewatch("ingest", audit, "--adapter", "gatehouse", db=db)

    ends = gatewatch(
        "sql", "SELECT reason_code, approver FROM events WHERE kind = 'approval_decided'", db=db
    )

    assert Counter((each["reason_code"], each["approver"]) for each in ends) == {
        ("approved", "wang"): 1,
        ("rejected", "wang"): 1,
        ("expired", None): 1,
    }


def test_a_log_that_is_read_again_after_it_grew_gives_only_what_is_new(audit: Path) -> None:
    db = audit.parent / "audit.duckdb"
    first = gatewatch("ingest", audit, "--adapter", "gatehouse", db=db)
    with audit.open("a", encoding="utf-8") as log:
        line = json.loads(audit.read_text(encoding="utf-8").splitlines()[0])
        log.write(json.dumps(line | {"event_id": "0" * 31 + "1"}) + "\n")

    again = gatewatch("ingest", audit, "--adapter", "gatehouse", db=db)

    assert (again["events"], again["duplicates"]) == (1, first["events"])
