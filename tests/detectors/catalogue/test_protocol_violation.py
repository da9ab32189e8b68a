import inspect
import json
import random
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from concordat import Agent, ProtocolViolation, human, tool

from detectors import detector
from detectors.controls.protocol import Human, Protocol, check, step_of
from detectors.controls.protocol_files import load, of_concordat
from gatewatch.recorders.concordat import record
from ingest.batch import Batch
from ingest.land import Lander
from ingest.ledger import Ledger
from ingest.redact import Redactor
from ingest.store import Db, fetch, memory_store
from tests.kit import Event, at, events, executed, judge, loaded

NAME = "protocol_violation"
REFUNDS = Protocol(
    "refunds",
    "start",
    ("done", "refused"),
    {
        "start": {"lookup": ("verified",)},
        "verified": {"approve": ("approved", "refused")},
        "approved": {"refund": ("done",)},
    },
    {"approve": Human("approved", "refused")},
    ("a1", "refund-*"),
    ("think",),
)
OTHER = Protocol("x", "a", ("b",), {"a": {"x": ("a", "b"), "y": ("a",)}}, {}, ("*",))
RULES = {"protocols": [OTHER]}


def columns(dice: random.Random) -> dict[str, Any]:
    return {"attrs": dice.choice([None, {"to": "a"}, {"to": "b"}, {"to": "c"}])}


def ran(tool: str, clock: str, **more: Any) -> list[Event]:
    return executed(clock, **{"tool": tool, "call_id": f"call-of-{tool}-at-{clock}"} | more)


def told(*found: list[Event], protocol: Protocol = REFUNDS) -> list[str]:
    rows = judge(NAME, [each for some in found for each in some], {"protocols": [protocol]})
    return [f"{row['tool']}: {row['because']}" for row in rows]


def approved(clock: str, decision: str = "allow", **more: Any) -> list[Event]:
    """A person's step that ended with this answer."""
    base = {"tool": "approve", "call_id": f"call-of-approve-at-{clock}", "trace_id": "t-1"} | more
    asked = events("approval_requested", clock, decision="require_approval", **base)
    answer = events("approval_decided", clock, decision=decision, **base | {"approver": "wang"})
    status = "ok" if decision == "allow" else "denied"
    return asked + answer + events("tool_executed", clock, status=status, **base)


GOOD = ran("lookup", "09:00") + approved("09:01") + ran("refund", "09:02")


def test_a_call_out_of_its_place_fires() -> None:
    found = ran("lookup", "09:00") + ran("refund", "09:01")

    [row] = judge(NAME, found, {"protocols": [REFUNDS]})

    assert (row["subject"], row["tool"], row["severity"]) == ("a1", "refund", "high")
    assert (row["states"], row["allowed"]) == (["verified"], ["approve"])
    assert row["protocol"] == "refunds"
    assert (row["ended_at"], row["event_ids"]) == (at("09:01"), ["e00000", "e00001"])


def test_a_run_by_its_protocol_and_a_run_of_nobodys_protocol_are_quiet() -> None:
    assert told(GOOD) == []
    assert told(ran("refund", "09:00", agent="a2")) == []
    assert judge(NAME, ran("refund", "09:00")) == []


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (ran("lookup", "09:03"), "lookup: the run was over"),
        (ran("wire", "09:00:30"), "wire: its protocol does not know it"),
    ],
)
def test_what_comes_after_the_end_and_an_unknown_tool_fire(more: list[Event], why: str) -> None:
    assert why in told(GOOD, more)


def test_a_persons_step_that_no_person_took_fires() -> None:
    why = "approve: only a person may take this step, and none did"

    assert told(ran("lookup", "09:00"), ran("approve", "09:01")) == [why]
    own = events("approval_decided", "09:01", tool="approve", decision="allow", approver="a1",
                 call_id="call-of-approve-at-09:01", trace_id="t-1")  # fmt: skip
    assert told(ran("lookup", "09:00"), own, ran("approve", "09:01")) == [why]


def test_after_a_persons_no_the_run_is_over_so_the_next_call_fires() -> None:
    found = told(ran("lookup", "09:00"), approved("09:01", "deny"), ran("refund", "09:02"))

    assert found == ["refund: the run was over"]


def test_a_call_that_changed_nothing_or_is_ignored_is_quiet() -> None:
    for quiet in (
        ran("refund", "08:59", status="denied"),
        ran("refund", "08:59", status="error"),
        events("tool_decided", "08:59", tool="refund", decision="deny", trace_id="t-1"),
        ran("think", "08:59"),
    ):
        rows = told(quiet, GOOD)
        assert [each for each in rows if "think" in each or "lookup" in each] == []
    assert told(ran("think", "08:59"), GOOD) == []


def test_other_runs_agents_and_tenants_do_not_add_up() -> None:
    """The refund of one run is not carried by the lookup of another, so it fires."""
    other = [{"trace_id": "t-2"}, {"agent": "refund-2"}, {"tenant": "acme"}]
    for each in other:
        found = told(ran("lookup", "09:00", **each), ran("refund", "09:01"))
        assert found == ["refund: its protocol does not allow it there"]


def test_a_run_can_be_a_session() -> None:
    of_session = [
        ran("lookup", "09:00", trace_id="t-1", session="s-1"),
        approved("09:01", trace_id="t-2", session="s-1"),
        ran("refund", "09:02", trace_id="t-3", session="s-1"),
    ]
    by_session = Protocol(
        REFUNDS.name, REFUNDS.initial, REFUNDS.final, REFUNDS.transitions, REFUNDS.human,
        REFUNDS.agents, run="session",
    )  # fmt: skip

    assert told(*of_session, protocol=by_session) == []
    assert told(*of_session) != []


def test_a_run_that_began_within_a_day_fires_and_a_longer_one_is_quiet() -> None:
    """A day and a second back the beginning may be out of sight: the run can be anywhere."""
    for clock, fires in (("2026-03-09T09:00:00", True), ("2026-03-09T08:59:59", False)):
        assert bool(told(ran("think", clock), ran("refund", "09:00"))) is fires


def test_a_long_run_is_judged_like_a_short_one_so_it_fires_once() -> None:
    loop = Protocol("loop", "a", ("b",), {"a": {"x": ("a",), "y": ("b",)}}, {}, ("a1",))
    start = at("2026-03-08T00:00:00")
    found = [
        each
        for number in range(700)
        for each in events("tool_executed", start + timedelta(minutes=number), tool="x",
                           status="ok", trace_id="t-1", call_id=f"call-number-{number:06}")
    ]  # fmt: skip
    wrong = events("tool_executed", start + timedelta(minutes=300, seconds=1), tool="z",
                   status="ok", trace_id="t-1", call_id="call-of-the-wrong-one")  # fmt: skip

    assert told(found, wrong, protocol=loop) == ["z: its protocol does not know it"]


class Till(Agent):
    final = ("paid", "kept")

    @tool(when="start", then={True: "checked", False: "kept"})
    def look(self, found: bool = True) -> bool:
        return found

    @human(when="checked", approve="agreed", reject="kept")
    def agree(self) -> str:
        return "12 USD"

    @tool(when="agreed", then="paid")
    def pay(self, works: bool = True) -> None:
        if not works:
            raise ValueError("the till is closed")


class Hasty(Agent):
    """What runs in production: it pays without asking."""

    final = ("paid",)

    @tool(when="start", then="checked")
    def look(self) -> None: ...

    @tool(when="checked", then="paid")
    def pay(self) -> None: ...


def recorded(folder: Path, lines: list[str], protocol: str) -> Db:
    """The lines of real agents, landed by the whole road, and the protocol of a real class."""
    made, ledger = memory_store(), Ledger(folder / "ledger")
    lander = Lander(made, ledger, Redactor(b"key"))
    place = folder / "protocols"
    place.mkdir()
    (place / "till.toml").write_text(f'concordat = "{__name__}:{protocol}"\nagents = ["*"]\n')
    put = load(place)
    detail = {"version": put.version, "path": str(place), "doc": put.doc}
    now = max(datetime.fromisoformat(json.loads(each)["ts"]) for each in lines)
    lander.record("protocols", "test", put.version, detail, now)
    lander.land(Batch("till", "concordat", [each.encode() for each in lines]), now)
    ledger.close()
    with made.writing() as db:
        pass
    return db


def found_in(db: Db) -> list[dict[str, Any]]:
    [span] = fetch(db, "SELECT min(ts) AS since, max(ts) AS until FROM events")
    until = span["until"] + timedelta(seconds=1)
    return detector.find(loaded(NAME, db), db, span["since"], until)


def test_sessions_of_the_real_concordat_are_quiet_and_its_refusals_are_those_that_are_found(
    tmp_path: Path,
) -> None:
    dice = random.Random("till")  # noqa: S311 - no secret
    lines: list[str] = []
    for _ in range(25):
        agent = record(Till(lambda step, request: dice.random() < 0.7), lines.append, "ops-1")
        for _ in range(12):
            name = dice.choice(["look", "agree", "pay"])
            with suppress(ProtocolViolation, ValueError):
                getattr(agent, name)(*([dice.random() < 0.8] if name != "agree" else []))
    db = recorded(tmp_path, lines, "Till")

    # the detector's own reading of the log, attempts included
    run = loaded(NAME, db).run
    assert inspect.isfunction(run)
    span = {"since": at("2000-01-01T00:00:00"), "until": at("2090-01-01T00:00:00")}
    reads = {"lookback": timedelta(days=1), "agents": ["Till"], "run": "trace"}
    rows = run.__globals__["calls_of"](db, **span, **reads)
    runs: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        runs.setdefault(row["run"], []).append(row)
    refused = {
        json.loads(line)["call_id"] for line in lines if json.loads(line).get("decision") == "deny"
    }
    protocol = of_concordat(f"{__name__}:Till", "here")
    wrong = {
        each.step.tag
        for calls in runs.values()
        for each in check(protocol, [step_of(call, call["call_id"]) for call in calls])
    }
    assert wrong == refused
    assert len(refused) > 50
    assert found_in(db) == []


def test_an_agent_that_runs_by_another_protocol_than_the_one_in_force_fires(tmp_path: Path) -> None:
    lines: list[str] = []
    hasty = record(Hasty(), lines.append)
    hasty.look()
    hasty.pay()

    [found] = found_in(recorded(tmp_path, lines, "Till"))

    assert (found["subject"], found["tool"]) == ("Hasty", "pay")
    assert (found["states"], found["allowed"]) == (["checked"], ["agree"])
