"""The real Concordat, driven by hand with the recorder around it."""

import inspect
import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from concordat import Agent, Budget, BudgetExceeded, ProtocolViolation, human, tool

from gatewatch.recorders.concordat import Recorder, protocol_as_json, record
from ingest.parse import parse
from tests.kit_command import ROOT, alert, gatewatch, landed


class Refunds(Agent):
    """Look the order up, have the refund approved, pay it."""

    final = ("done", "refused")
    budget = Budget(tool_calls=4)

    @tool(when="start", then="verified")
    def lookup(self, order_id: str) -> dict[str, Any]:
        return {"order_id": order_id, "paid": True}

    @human(when="verified", approve="approved", reject="refused")
    def approve_refund(self, amount: float) -> dict[str, float]:
        return {"amount": amount}

    @tool(when="approved", then="done")
    def refund(self, amount: float) -> str:
        if amount > 50:
            raise ValueError("the till holds no more than 50")
        return "R-1"


def below_100(step: str, request: Any) -> bool:
    return bool(request["amount"] < 100)


def recorded(to: Any, agent: type[Refunds] = Refunds) -> Any:
    return record(agent(below_100), to, approver="ops-1")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """What an agent leaves behind that wants to refund before it has asked anybody."""
    path = tmp_path / "logs" / "refunds.jsonl"
    eager = recorded(path)
    for amount in (12.5, 12.5, 10.0):
        with pytest.raises(ProtocolViolation):
            eager.refund(amount)
    eager.lookup("A-100")
    eager.approve_refund(amount=60)
    with pytest.raises(ValueError, match="no more than 50"):
        eager.refund(60)
    eager.refund(12.5)
    refused = recorded(path)
    refused.lookup("A-101")
    assert refused.approve_refund(900) is False
    return path


def test_an_agent_that_keeps_trying_what_its_state_forbids_raises_the_deny_retry_alert(
    log: Path,
) -> None:
    db = log.parent / "c.duckdb"

    landed(log, "concordat", db)
    found = alert("deny_retry", db)

    assert (found["subject"], found["facts"]["tool"]) == ("Refunds", "refund")
    assert found["facts"]["denials"] == 3


def test_a_call_of_it_is_one_call_with_its_approval_and_its_result(log: Path) -> None:
    db = log.parent / "c.duckdb"
    landed(log, "concordat", db)

    calls = gatewatch(
        "sql",
        "SELECT tool, decision, approver, status, executed_at IS NOT NULL AS ran FROM calls"
        " WHERE decision <> 'deny' OR tool <> 'refund' ORDER BY ts",
        db=db,
    )

    assert [tuple(each.values()) for each in calls] == [
        ("lookup", "allow", None, "ok", True),
        ("approve_refund", "allow", "ops-1", "ok", True),
        ("refund", "allow", None, "error", True),
        ("refund", "allow", None, "ok", True),
        ("lookup", "allow", None, "ok", True),
        ("approve_refund", "deny", "ops-1", "denied", False),
    ]
    assert alert("deny_retry", db)
    assert "denied_then_executed" not in {each["detector"] for each in gatewatch("detect", db=db)}


def test_a_budget_that_is_used_up_is_a_limit_hit(tmp_path: Path) -> None:
    agent = recorded(tmp_path / "log")
    agent.budget.tool_calls = 0
    with pytest.raises(BudgetExceeded):
        agent.lookup("A-100")
    landed(tmp_path / "log", "concordat", tmp_path / "c.duckdb")

    rows = gatewatch(
        "sql", "SELECT kind, budget_kind, status FROM events ORDER BY ts", db=tmp_path / "c.duckdb"
    )

    assert [tuple(each.values()) for each in rows] == [
        ("tool_decided", None, None),
        ("limit_hit", "tool_calls", "denied"),
    ]


def test_an_agent_goes_on_when_its_lines_cannot_be_written_and_the_log_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    lines: list[str] = []

    def emit(line: str) -> None:
        if '"decided"' in line:
            raise OSError("no space left on device")
        lines.append(line)

    with caplog.at_level(logging.WARNING):
        agent = recorded(emit)
        found = agent.lookup("A-100")

    assert found == {"order_id": "A-100", "paid": True}
    assert "a line of Refunds was lost (1 since the last): no space left" in caplog.text
    assert [(json.loads(line)["event"], json.loads(line)["lost"]) for line in lines] == [
        ("executed", 1)
    ]


class Strange:
    def __repr__(self) -> str:
        raise RuntimeError("no text of mine")


@pytest.mark.parametrize("given", [Strange(), {1: {2: Strange()}}, float("nan"), "\udcff", b"\0"])
def test_an_argument_that_is_no_json_is_written_down_all_the_same(given: object) -> None:
    lines: list[str] = []

    recorded(lines.append).lookup(given)

    assert [json.loads(line)["event"] for line in lines] == ["decided", "executed"]


def test_a_recorded_agent_is_to_others_what_it_was() -> None:
    plain, watched = Refunds(below_100), recorded(lambda line: None)

    assert isinstance(watched, Refunds)
    assert type(watched).__name__ == "Refunds"
    assert inspect.signature(watched.lookup) == inspect.signature(plain.lookup)
    assert [*watched.allowed_tools()] == [*plain.allowed_tools()] == ["lookup"]
    with pytest.raises(TypeError, match="order_id"):
        getattr(watched, "lookup")()  # noqa: B009 - a mistake that mypy would find
    assert protocol_as_json(watched.protocol) == {
        "initial": "start",
        "final": ["done", "refused"],
        "transitions": {
            "start": {"lookup": ["verified"]},
            "verified": {"approve_refund": ["approved", "refused"]},
            "approved": {"refund": ["done"]},
        },
    }


def test_an_agent_has_the_name_that_it_is_given_and_steps_within_its_own_methods_are_seen() -> None:
    class Eager(Refunds):
        def start(self) -> None:
            self.lookup("A-1")

    lines: list[str] = []

    record(Eager(below_100), lines.append, name="till-bot").start()

    seen = [json.loads(line) for line in lines]
    assert [(each["agent"], each["event"]) for each in seen] == [
        ("till-bot", "decided"),
        ("till-bot", "executed"),
    ]
    assert seen[0]["call_id"] == seen[1]["call_id"]


def test_the_recorder_needs_nothing_else_of_gatewatch() -> None:
    code = "import sys, gatewatch.recorders.concordat; print(*sorted(sys.modules))"

    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True
    ).stdout.split()

    ours = {name for name in found if name.split(".")[0] in {"gatewatch", "ingest", "detectors"}}
    assert ours == {"gatewatch", "gatewatch.recorders", "gatewatch.recorders.concordat"}
    assert not {"duckdb", "pyarrow", "msgspec", "httpx"} & set(found)
    assert Recorder.__module__ in ours


class Notes(Agent):
    final = ("closed",)

    @tool(when="start", then="start")
    def note(self, what: Any) -> Any:
        return what

    @tool(when="start", then="closed")
    def close(self) -> None:
        """No more notes."""


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def test_no_argument_makes_a_line_that_gatewatch_does_not_read() -> None:
    lines: list[str] = []
    agent = record(Notes(), lines.append)

    for what in (float("nan"), {"a": float("inf")}, nested(70), nested(500), "\ud800", "x" * 2**21):
        agent.note(what)

    read = [parse(line.encode()) for line in lines]
    assert len(read) == 12
    assert {each.reason for each in read} == {None}
    assert max(map(len, lines)) < 300_000
