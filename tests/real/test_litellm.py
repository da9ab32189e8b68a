"""The real LiteLLM: its generic API callback posts to a running service, as a proxy would."""

import os
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from gatewatch.parts import Parts, open_parts
from gatewatch.service import Service
from ingest.config import read_settings
from ingest.store import fetch

CONFIG = """
redact_key = "redact.key"
[service]
port = {port}
[sources.litellm]
adapter = "litellm"
[[tokens]]
name = "litellm"
role = "writer"
source = "litellm"
token = "FAKE-litellm-token"
"""
# What an agent does through LiteLLM in a minute. `mock_response` is LiteLLM's own: nothing is sent.
AGENT = """
import asyncio
import litellm
from litellm.integrations.generic_api.generic_api_callback import GenericAPILogger
from litellm.proxy._types import LiteLLM_AuditLogs, LitellmTableNames
from litellm.proxy.management_helpers import audit_logs

class WithAuditLog(GenericAPILogger):  # as docs/sources/litellm.md has it
    async def async_log_audit_log_event(self, audit_log):
        self.log_queue.append(audit_log)

KEY = {"user_api_key_alias": "a1", "user_api_key_user_id": "wang", "user_api_key_team_id": "t-1",
       "session_id": "conv-7"}
GUARD = {"guardrail_name": "pii-mask", "guardrail_mode": "pre_call", "duration": 0.02}
ASKED = {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "Export all contacts"}]}
CALL = {"id": "call_0123456789abcdef", "type": "function",
        "function": {"name": "crm_export_contacts", "arguments": '{"page": 1}'}}

async def ask(metadata=KEY, **options):
    try:
        await litellm.acompletion(**ASKED, metadata=metadata, **options)
    except litellm.exceptions.RateLimitError:
        pass
    except litellm.exceptions.BudgetExceededError:
        pass

def guarded(status):
    return KEY | {"standard_logging_guardrail_information": [GUARD | {"guardrail_status": status}]}

async def raise_budget():
    entry = LiteLLM_AuditLogs(
        id="la-1", updated_at="2026-03-10T09:00:00Z", changed_by="wang", changed_by_api_key="88dc",
        action="updated", table_name=LitellmTableNames.KEY_TABLE_NAME, object_id="key-1",
        before_value='{"max_budget": 1}', updated_values='{"max_budget": 100}')
    await audit_logs._dispatch_audit_log_to_callbacks(entry)

async def main():
    logger = WithAuditLog()
    litellm.callbacks = litellm.audit_log_callbacks = [logger]
    await ask(mock_response="Done.")
    await ask(mock_response="", mock_tool_calls=[CALL])
    await ask(mock_response="litellm.RateLimitError")
    await ask(mock_response="masked", metadata=guarded("guardrail_intervened"))
    await ask(mock_response="litellm.RateLimitError", metadata=guarded("guardrail_intervened"))
    litellm.max_budget, litellm._current_cost = 1.0, 5.0
    await ask(mock_response="too late")
    await raise_budget()
    while len(logger.log_queue) < 7:
        await asyncio.sleep(0.05)
    await logger.flush_queue()

asyncio.run(asyncio.wait_for(main(), 60))
"""


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Parts]:
    """A service that has been sent what the agent did."""
    folder = tmp_path_factory.mktemp("litellm")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    (folder / "gatewatch.toml").write_text(CONFIG.format(port=port), encoding="utf-8")
    opened = open_parts(read_settings(folder / "gatewatch.toml"))
    service = Service(opened)
    service.start()
    try:
        _run_agent(folder, f"{service.url}/v1/ingest/litellm")
        yield opened
    finally:
        service.stop()


def _run_agent(folder: Path, endpoint: str) -> None:
    environment = {
        **os.environ,
        "GENERIC_LOGGER_ENDPOINT": endpoint,
        "GENERIC_LOGGER_HEADERS": "Authorization=Bearer FAKE-litellm-token",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # the package's own price list, not the net's
        "NO_PROXY": "127.0.0.1",
    }
    done = subprocess.run(
        [sys.executable, "-c", AGENT], cwd=folder, env=environment, capture_output=True, text=True,
        timeout=90, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def rows(parts: Parts, kind: str) -> list[dict[str, Any]]:
    with parts.store.reading() as db:
        return fetch(db, "SELECT * FROM events WHERE kind = $kind ORDER BY ts, event_id", kind=kind)


def test_every_payload_is_an_event_and_none_is_in_quarantine(parts: Parts) -> None:
    with parts.store.reading() as db:
        kinds = fetch(db, "SELECT kind, count(*) AS n FROM events GROUP BY kind")
        quarantined = fetch(db, "SELECT * FROM quarantine")

    assert Counter({row["kind"]: row["n"] for row in kinds}) == {
        "model_call": 5,
        "tool_proposed": 1,
        "tool_decided": 2,
        "limit_hit": 1,
        "config_changed": 1,
    }
    assert quarantined == []


def test_a_model_call_says_who_paid_how_much_for_what(parts: Parts) -> None:
    first = rows(parts, "model_call")[0]

    assert (first["agent"], first["principal"], first["tenant"]) == ("a1", "wang", "t-1")
    assert (first["model"], first["status"], first["text"]) == ("gpt-4o-mini", "ok", "Done.")
    assert first["session"] == "conv-7"
    assert first["cost_usd"] > Decimal(0)
    assert first["tokens_in"] > 0
    assert first["tokens_out"] > 0
    assert first["latency_ms"] > 0
    assert abs(first["ts"].timestamp() - time.time()) < 600
    assert first["ts_quality"] == "source"


def test_a_call_that_failed_keeps_its_error(parts: Parts) -> None:
    failed = [row for row in rows(parts, "model_call") if row["status"] == "error"]

    assert [row["signals"] for row in failed] == [["throttled"]]
    assert "RateLimitError" in failed[0]["error"]


def test_a_tool_call_in_the_answer_is_proposed(parts: Parts) -> None:
    [call] = rows(parts, "tool_proposed")

    assert (call["tool"], call["params"]) == ("crm_export_contacts", '{"page":1}')
    assert (call["agent"], call["call_id"]) == ("a1", "call_0123456789abcdef")


def test_a_guardrail_that_masked_allowed_and_one_before_a_failure_denied(parts: Parts) -> None:
    masked, stopped = rows(parts, "tool_decided")

    assert (masked["decision"], masked["signals"]) == ("allow", ["changed"])
    assert (stopped["decision"], stopped["rule_ids"]) == ("deny", ["pii-mask"])
    assert masked["decision_ms"] == 20


def test_a_budget_that_ran_out_is_a_limit(parts: Parts) -> None:
    [limit] = rows(parts, "limit_hit")

    assert (limit["decision"], limit["budget_kind"]) == ("deny", "budget")
    assert (limit["budget_limit"], limit["budget_spent"]) == (1, 5)


def test_an_entry_of_the_audit_log_is_a_change_of_the_configuration(parts: Parts) -> None:
    [change] = rows(parts, "config_changed")

    assert (change["principal"], change["status"]) == ("wang", "ok")
    assert change["config_object"] == "LiteLLM_VerificationToken/key-1"
    assert change["config_after"] == '{"max_budget": 100}'
