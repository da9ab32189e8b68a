"""The real OpenTelemetry SDK and its OTLP exporters send to a running service."""

import gzip
import json
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from google.protobuf.json_format import MessageToDict  # type: ignore[import-untyped]
from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Status, StatusCode

from tests.kit_http import Running, running
from tests.real.kit_otel import otlp_json

TOKEN = {"authorization": "Bearer FAKE-otel-token"}
CONFIG = """
[sources.spans]
adapter = "otlp_spans"
[sources.logs]
adapter = "otlp_logs"
[[tokens]]
name = "otel"
role = "writer"
token = "FAKE-otel-token"
[[tokens]]
name = "wall"
role = "viewer"
token = "FAKE-wall-token"
"""
AGENT = Resource.create({"service.name": "billing-agent", "gen_ai.agent.id": "a1"})
CLAUDE: list[tuple[str, dict[str, Any]]] = [
    ("tool_decision", {"tool_name": "Bash", "tool_use_id": "toolu_0123456789a1",
                       "decision": "reject", "source": "hook"}),
    ("tool_decision", {"tool_name": "Write", "tool_use_id": "toolu_0123456789a2",
                       "decision": "accept", "source": "user_temporary",
                       "user.email": "dev@example.com"}),
    ("tool_result", {"tool_name": "Write", "tool_use_id": "toolu_0123456789a2",
                     "success": "true", "duration_ms": 31}),
    ("api_request", {"model": "model-x", "cost_usd": 0.05, "input_tokens": 1024,
                     "output_tokens": 256}),
]  # fmt: skip
REFUND = {"order_id": "A-100", "amount": 12.5}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("otlp")
    with pytest.MonkeyPatch.context() as patch, running(folder, CONFIG) as it:
        patch.setenv("NO_PROXY", "127.0.0.1")
        it.http.headers["authorization"] = "Bearer FAKE-wall-token"
        yield it


def act(provider: TracerProvider, session: str) -> None:
    """A run of an agent: it asks a model, calls a tool, fails with one, and is denied another."""
    tracer = provider.get_tracer("tests")
    with tracer.start_as_current_span("invoke_agent a1") as run:
        run.set_attributes(
            {"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": session}
        )
        with tracer.start_as_current_span("chat model-x") as chat:
            chat.set_attributes(
                {
                    "gen_ai.operation.name": "chat", "gen_ai.request.model": "model-x",
                    "gen_ai.usage.input_tokens": 600, "gen_ai.usage.output_tokens": 41,
                    "gen_ai.response.finish_reasons": ["tool_calls"],
                }
            )  # fmt: skip
        tools: list[tuple[str, dict[str, Any]]] = [
            ("refund.create", {"gen_ai.tool.call.arguments": json.dumps(REFUND)}),
            ("crm.lookup", {"error.type": "timeout", "server.address": "CRM.internal.example"}),
            ("crm.export_contacts", {"gen_ai.agent.tool.disposition": "deny"}),
        ]
        for number, (name, more) in enumerate(tools):
            with tracer.start_as_current_span(f"execute_tool {name}") as span:
                call = {"gen_ai.tool.name": name, "gen_ai.tool.call.id": f"call_{session}_{number}"}
                span.set_attributes(
                    {"gen_ai.operation.name": "execute_tool", "gen_ai.conversation.id": session}
                )
                span.set_attributes(call | more)
                if "error.type" in more:
                    span.set_status(Status(StatusCode.ERROR, "no answer"))


def asked(service: Running, session: str) -> list[dict[str, Any]]:
    """The calls of a session as they were stored, in the order in which they ended."""
    found = service.rows(
        "SELECT kind, agent, tool, call_id, status, decision, params, host, trace_id, latency_ms,"
        f" ts_quality FROM events WHERE session = '{session}' AND tool IS NOT NULL ORDER BY ts"
    )
    assert isinstance(found, list)
    return found


def holds(rows: list[dict[str, Any]], session: str) -> None:
    """What every road must tell of one run of the agent."""
    assert [(row["kind"], row["tool"], row["status"], row["decision"]) for row in rows] == [
        ("tool_executed", "refund.create", "ok", None),
        ("tool_executed", "crm.lookup", "timeout", None),
        ("tool_decided", "crm.export_contacts", None, "deny"),
    ]
    assert [row["call_id"] for row in rows] == [f"call_{session}_{n}" for n in range(3)]
    assert json.loads(rows[0]["params"]) == REFUND
    assert rows[1]["host"] == "crm.internal.example"
    assert {row["agent"] for row in rows} == {"a1"}
    assert {row["ts_quality"] for row in rows} == {"source"}
    assert len({row["trace_id"] for row in rows}) == 1


@pytest.mark.parametrize("compression", [Compression.NoCompression, Compression.Gzip])
def test_spans_of_the_real_exporter_arrive_in_protobuf(
    service: Running, compression: Compression
) -> None:
    session = f"protobuf-{compression.value}"
    exporter = OTLPSpanExporter(
        endpoint=f"{service.url}/v1/traces", headers=TOKEN, compression=compression
    )
    provider = TracerProvider(resource=AGENT)
    provider.add_span_processor(BatchSpanProcessor(exporter))

    act(provider, session)

    assert provider.force_flush()
    provider.shutdown()
    holds(asked(service, session), session)


def encoded(session: str) -> Any:
    """A run as the real exporter encodes it."""
    memory, provider = InMemorySpanExporter(), TracerProvider(resource=AGENT)
    provider.add_span_processor(SimpleSpanProcessor(memory))
    act(provider, session)
    return encode_spans(memory.get_finished_spans())


@pytest.mark.parametrize("ids", ["hex", "base64"])
def test_spans_of_the_real_encoder_arrive_in_json(service: Running, ids: str) -> None:
    session = f"json-{ids}"
    request = encoded(session)
    body = json.dumps(otlp_json(request) if ids == "hex" else MessageToDict(request)).encode()

    answer = httpx.post(
        f"{service.url}/v1/traces", content=gzip.compress(body), trust_env=False,
        headers=TOKEN | {"content-type": "application/json", "content-encoding": "gzip"},
    )  # fmt: skip

    assert (answer.status_code, answer.json()) == (200, {})
    holds(asked(service, session), session)


def test_an_export_that_is_sent_again_counts_once(service: Running) -> None:
    body = encoded("again").SerializeToString()
    headers = TOKEN | {"content-type": "application/x-protobuf"}

    for _ in range(2):
        answer = httpx.post(
            f"{service.url}/v1/traces", content=body, headers=headers, trust_env=False
        )
        assert (answer.status_code, answer.content) == (200, b"")

    holds(asked(service, "again"), "again")


def test_logs_of_the_real_exporter_arrive_with_their_decisions(service: Running) -> None:
    exporter = OTLPLogExporter(
        endpoint=f"{service.url}/v1/logs", headers=TOKEN, compression=Compression.Gzip
    )
    provider = LoggerProvider(resource=Resource.create({"service.name": "claude-code"}))
    provider.add_log_record_processor(BatchLogRecordProcessor(exporter))
    logger = provider.get_logger("com.anthropic.claude_code.events")
    now = time.time_ns()
    for number, (name, more) in enumerate(CLAUDE):
        logger.emit(
            LogRecord(
                timestamp=now + number * 1_000_000, severity_number=SeverityNumber.INFO,
                event_name=name, body=f"claude_code.{name}",
                attributes={"session.id": "logs-1", "event.sequence": number, **more},
            )
        )  # fmt: skip

    assert provider.force_flush()
    provider.shutdown()

    found = service.rows(
        "SELECT kind, tool, decision, approver, status, latency_ms, tokens_in,"
        " cost_usd::DOUBLE AS cost FROM events WHERE session = 'logs-1' ORDER BY ts"
    )
    assert [tuple(row.values()) for row in found] == [
        ("tool_decided", "Bash", "deny", None, None, None, None, None),
        ("approval_decided", "Write", "allow", "dev@example.com", None, None, None, None),
        ("tool_executed", "Write", None, None, "ok", 31.0, None, None),
        ("model_call", None, None, None, "ok", None, 1024, 0.05),
    ]
    calls = service.rows("SELECT tool, status FROM calls WHERE session = 'logs-1' ORDER BY ts")
    assert [tuple(row.values()) for row in calls] == [("Bash", None), ("Write", "ok")]


def test_a_body_that_is_no_export_is_refused_for_good_and_costs_nothing(service: Running) -> None:
    before = service.rows("SELECT count(*) AS n FROM events")

    answer = httpx.post(
        f"{service.url}/v1/traces", content=b"{}", trust_env=False,
        headers=TOKEN | {"content-type": "application/x-protobuf"},
    )  # fmt: skip

    assert answer.status_code == 400
    assert b"protobuf" in answer.content
    assert service.rows("SELECT count(*) AS n FROM events") == before
