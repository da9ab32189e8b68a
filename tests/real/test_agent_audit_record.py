"""The real agent-audit-record, through the real SDK and exporter, to a running service."""

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from agent_audit_record import (
    ActorType,
    Cost,
    CostUnit,
    Decision,
    Emitter,
    Level,
    NotExecutedReason,
    Outcome,
    PrincipalType,
)
from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import (
    BatchLogRecordProcessor,
    ConsoleLogRecordExporter,
    InMemoryLogRecordExporter,
    SimpleLogRecordProcessor,
)
from opentelemetry.sdk.resources import Resource

from tests.kit_http import Running, running, until
from tests.real.kit_otel import otlp_json

CONFIG = """
[sources.audit]
adapter = "otlp_logs"
[sources.console]
adapter = "agent_audit_record"
"""
WASTED = Cost(amount=0.0012, currency="usd", unit=CostUnit.USD, wasted=True)
CALLS = [  # call, tool, op, decision, status, whether it ran, whether a person was asked
    ("approved-00000001", "refund", "commit", "allow", "ok", True, True),
    ("cancelled-0000001", "refund", "commit", "allow", "cancelled", False, False),
    ("lookup-0000000001", "lookup", "lookup", "allow", "error", True, False),
    ("unanswered-000001", "refund", "commit", "deny", None, False, False),
]
Row = dict[str, Any]


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with running(tmp_path, CONFIG) as found:
        yield found


def act(provider: LoggerProvider) -> None:
    """What a host of the package does: approvals that end in each way, and one agent in a loop."""
    emitter = Emitter(logger_provider=provider)

    def propose(action: str, operation: str, **more: Any) -> None:
        emitter.proposed(
            action_id=action, actor_id="a1", actor_type=ActorType.AGENT, target_system="crm",
            target_resource="Contact", target_operation=operation, level=Level.REQUEST,
            on_behalf_of="user-7", **more,
        )  # fmt: skip

    def decide(action: str, word: Decision, by: PrincipalType, **more: Any) -> None:
        emitter.decided(action_id=action, decision=word, principal_type=by, **more)

    propose("approved-00000001", "refund", arguments={"amount": 12.5}, declared_destructive=True)
    decide("approved-00000001", Decision.DEFER, PrincipalType.POLICY, policy_id="refund-over-10")
    decide(
        "approved-00000001", Decision.ALLOW, PrincipalType.HUMAN, principal_id="wang",
        reason="charged twice", latency_ms=8120, policy_id="refund-over-10", policy_version="7",
    )  # fmt: skip
    emitter.executed(action_id="approved-00000001", outcome=Outcome.SUCCESS, records_changed=1)

    propose("unanswered-000001", "refund", arguments={"amount": 30}, declared_destructive=True)
    decide(
        "unanswered-000001", Decision.TIMEOUT, PrincipalType.TIMEOUT, latency_ms=300_000,
        cost=WASTED,
    )  # fmt: skip
    propose("cancelled-0000001", "refund", arguments={"amount": 31}, declared_destructive=True)
    decide("cancelled-0000001", Decision.ALLOW, PrincipalType.HUMAN, principal_id="wang")
    emitter.executed(
        action_id="cancelled-0000001", outcome=Outcome.NOT_EXECUTED,
        not_executed_reason=NotExecutedReason.CANCELLED,
    )  # fmt: skip
    propose("lookup-0000000001", "lookup", arguments={"id": "c-9"}, declared_read_only=True)
    decide("lookup-0000000001", Decision.AUTO_ALLOW, PrincipalType.DEFAULT)
    emitter.executed(action_id="lookup-0000000001", outcome=Outcome.FAILURE)
    for page in range(4):
        propose(f"denied-{page}-00000001", "export_contacts", arguments={"page": page})
        decide(
            f"denied-{page}-00000001", Decision.DENY, PrincipalType.POLICY, policy_id="rule-17",
            reason="bulk export is for people", cost=WASTED,
        )  # fmt: skip


def provider() -> LoggerProvider:
    return LoggerProvider(resource=Resource.create({"service.name": "billing-agent"}))


def by_exporter(service: Running) -> None:
    """Protobuf, as the SDK is set up in every host."""
    host = provider()
    host.add_log_record_processor(
        BatchLogRecordProcessor(OTLPLogExporter(endpoint=f"{service.url}/v1/logs"))
    )
    act(host)
    assert host.force_flush()
    host.shutdown()


def by_json(service: Running) -> None:
    """The request that the exporter encodes, as OTLP/JSON."""
    memory, host = InMemoryLogRecordExporter(), provider()  # type: ignore[no-untyped-call]
    host.add_log_record_processor(SimpleLogRecordProcessor(memory))
    act(host)
    post(service, "/v1/logs", json.dumps(otlp_json(encode_logs(memory.get_finished_logs()))))


def by_console(service: Running) -> None:
    """What the SDK's console exporter prints, objects over many lines."""
    printed, host = io.StringIO(), provider()
    host.add_log_record_processor(SimpleLogRecordProcessor(ConsoleLogRecordExporter(out=printed)))
    act(host)
    host.shutdown()
    post(service, "/v1/ingest/console", printed.getvalue())


def post(service: Running, path: str, text: str) -> None:
    headers = {"content-type": "application/json"}
    answer = service.http.post(path, content=text.encode(), headers=headers)
    assert answer.status_code == 200, answer.text


ROADS = {"protobuf": by_exporter, "json": by_json, "console": by_console}


@pytest.mark.parametrize("road", ROADS)
def test_a_decision_tells_who_took_it_and_why_whatever_road_it_came_by(
    service: Running, road: str
) -> None:
    send: Callable[[Running], None] = ROADS[road]

    send(service)

    ends = service.rows(
        "SELECT call_id, decision, approver, reason_code, reason, latency_ms, rule_ids,"
        " policy_version FROM events WHERE kind = 'approval_decided' ORDER BY call_id"
    )
    assert [tuple(row.values()) for row in ends] == [
        ("approved-00000001", "allow", "wang", "approved", "charged twice", 8120.0,
         ["refund-over-10"], "7"),
        ("cancelled-0000001", "allow", "wang", "approved", None, None, None, None),
        ("unanswered-000001", "deny", None, "expired", None, 300_000.0, None, None),
    ]  # fmt: skip
    calls = service.rows(
        "SELECT call_id, agent, tool, op, target, decision, status, executed_at IS NOT NULL AS ran,"
        " approval_requested_at IS NOT NULL AS asked FROM calls"
        " WHERE NOT starts_with(call_id, 'denied') ORDER BY call_id"
    )
    assert [tuple(row.values()) for row in calls] == [
        (call, "a1", tool, op, "Contact", *rest) for call, tool, op, *rest in CALLS
    ]
    assert service.rows("SELECT count(*) AS n FROM quarantine") == [{"n": 0}]


def test_an_agent_that_retries_a_denied_action_raises_the_deny_retry_alert(
    service: Running,
) -> None:
    by_exporter(service)

    found = alerts(service)

    [alert] = [each for each in found if each["detector"] == "deny_retry"]
    facts = json.loads(alert["facts"])
    assert (alert["subject"], alert["severity"]) == ("a1", "high")
    assert (facts["tool"], facts["denials"]) == ("export_contacts", 4)


def alerts(service: Running) -> list[Row]:
    """The alerts of the service, once it has judged what came."""
    asked = "SELECT detector, subject, severity, facts FROM alerts WHERE detector = 'deny_retry'"
    until(lambda: [r for r in service.rows(asked) if json.loads(r["facts"])["denials"] == 4])
    found = service.rows(asked)
    assert isinstance(found, list)
    return found
