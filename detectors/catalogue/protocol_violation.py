# title     = "{subject}: {tool} was executed although {because}"
# title_zh  = "{subject}：{because_zh}，{tool} 却被执行"
# severity  = "high"
# tags      = ["policy"]
# why       = "The agent has a typed protocol: which tool may come when, which steps a person takes, and when it is over. This call was executed where the protocol has no place for it. Either something runs past the protocol's own check, or what runs has another protocol than the one you gave."
# respond   = "Open the run and compare the call with what was allowed there. A step that only a person may take, or anything after the end, is urgent: pause the agent and undo it. If the agent was given new steps on purpose, put the new protocol into the folder of protocols: past runs are judged again by it."
# respond_zh = "打开这次运行，把调用与当时允许的步骤相比。只有人才能做的步骤、或结束之后的任何操作最为紧急：暂停智能体并撤销。若是有意给智能体加了新步骤，把新协议放进协议文件夹，过去的运行会按它重新判断。"
# quiet     = "An agent that no protocol names. A call that was refused or that failed: nothing changed. A call of which the log leaves open where it led: every possibility counts. A run of more than a day, whose beginning may not be in sight. A log that begins in the middle of a run can alarm once."
# lookback  = "4 days"
# gap       = "1 hour"
# needs     = ["agent", "tool", "status", "trace_id or session"]
# kinds     = ["tool_proposed", "tool_decided", "tool_executed", "approval_requested", "approval_decided"]
# facts     = ["tool", "because", "because_zh", "protocol", "states", "allowed", "params", "call_id", "trace_id"]
"""Runs held against the protocols in force: controls/protocol.py over the calls of an agent."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from detectors.controls.protocol import Protocol, Violation, check, step_of
from detectors.controls.protocol_files import decode
from ingest.store import Db, fetch

WHOLE = timedelta(days=1)  # a run that began longer ago may have begun before what is in sight
REACH = 500  # calls of a run that are followed: what lies further back leaves its state open
IN_FORCE = "SELECT doc FROM protocols ORDER BY loaded_at DESC, rowid DESC LIMIT 1"
AGENTS = """
    SELECT DISTINCT agent FROM calls
    WHERE executed_at >= $since AND executed_at < $until AND last_ts >= $since AND ts < $until
      AND agent IS NOT NULL
"""
CALLS = """
    WITH hot AS (
        SELECT DISTINCT coalesce(tenant, '') AS owner, agent,
               CASE WHEN $run = 'session' THEN coalesce(session, trace_id)
                    ELSE coalesce(trace_id, session) END AS run
        FROM calls
        WHERE executed_at >= $since AND executed_at < $until AND last_ts >= $since AND ts < $until
          AND list_contains($agents, agent)
    )
    SELECT h.owner AS tenant, c.agent, h.run, coalesce(c.executed_at, c.decided_at, c.ts) AS moment,
           c.tool, c.executed_at, c.executed_by, c.status, c.decision, c.reason_code,
           c.approval_requested_at, c.approved_at, c.approver, c.call_id, c.trace_id,
           c.params::VARCHAR AS params
    FROM calls c
    JOIN hot h ON h.agent = c.agent AND h.owner = coalesce(c.tenant, '')
              AND h.run = CASE WHEN $run = 'session' THEN coalesce(c.session, c.trace_id)
                               ELSE coalesce(c.trace_id, c.session) END
    WHERE c.last_ts >= $since - $lookback AND c.ts < $until AND c.tool IS NOT NULL
      AND moment >= $since - $lookback AND moment < $until
    ORDER BY h.owner, c.agent, h.run, moment, c.call_key
"""
# Where an execution led, by its own line.
LED = """
    SELECT event_id, attrs ->> 'to' AS led FROM events
    WHERE ts >= $low AND ts <= $high AND event_id IN (SELECT unnest($ids)) AND attrs IS NOT NULL
"""
BECAUSE = {
    "illegal": ("its protocol does not allow it there", "协议在此状态不允许它"),
    "final": ("the run was over", "该次运行已经结束"),
    "unknown": ("its protocol does not know it", "协议中没有它"),
    "human": ("only a person may take this step, and none did", "这一步只能由人来做，而无人做过"),
    "outcome": ("it may not lead where it led", "它不得进入所到的状态"),
}


def find(db: Db, since: datetime, until: datetime, *, lookback: timedelta) -> list[dict[str, Any]]:
    """One row per executed call that the protocol of its agent does not allow."""
    in_force = fetch(db, IN_FORCE)
    protocols = decode(in_force[0]["doc"]) if in_force else []
    span = {"since": since, "until": until}
    agents = [row["agent"] for row in fetch(db, AGENTS, **span)] if protocols else []
    found = []
    for protocol in protocols:
        own = [agent for agent in agents if protocol.holds_for(agent)]
        if own:
            rows = calls_of(db, **span, lookback=lookback, agents=own, run=protocol.run)
            found += list(_violations(protocol, rows, since, lookback))
    return found


def calls_of(db: Db, **bound: Any) -> list[dict[str, Any]]:
    """The calls of runs in which something was executed in the range, in order."""
    rows = fetch(db, CALLS, **bound)
    ran = {row["executed_by"]: row["executed_at"] for row in rows if row["executed_by"]}
    led: dict[str, str | None] = {}
    if ran:
        ends = {"low": min(ran.values()), "high": max(ran.values())}
        led = {row["event_id"]: row["led"] for row in fetch(db, LED, **ends, ids=list(ran))}
    return [row | {"to": led.get(row["executed_by"])} for row in rows]


def _violations(
    protocol: Protocol, rows: Sequence[dict[str, Any]], since: datetime, lookback: timedelta
) -> Iterator[dict[str, Any]]:
    runs: dict[tuple[str, str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        runs[row["tenant"], row["agent"], row["run"]].append(row)
    for calls in runs.values():
        for (low, known), last in _windows(calls, since, lookback).items():
            start = None if known else protocol.states
            steps = [step_of(calls[at], at) for at in range(low, last + 1)]
            for found in check(protocol, steps, start):
                at = found.step.tag
                if (
                    found.carried_out
                    and _judged(calls[at], since)
                    and _window(calls, at, lookback) == (low, known)
                ):
                    yield _row(protocol, found, calls[max(low, at - 4) : at + 1])


def _windows(
    calls: Sequence[dict[str, Any]], since: datetime, lookback: timedelta
) -> dict[tuple[int, bool], int]:
    """What each call that is judged sees of its run, and the last call that sees the same."""
    found: dict[tuple[int, bool], int] = {}
    for at, call in enumerate(calls):
        if _judged(call, since):
            found[_window(calls, at, lookback)] = at
    return found


def _judged(call: dict[str, Any], since: datetime) -> bool:
    return call["executed_at"] is not None and bool(call["executed_at"] >= since)


def _window(calls: Sequence[dict[str, Any]], at: int, lookback: timedelta) -> tuple[int, bool]:
    """The first call in sight of the one at `at`, and whether the run began with it."""
    moment = calls[at]["moment"]
    low = bisect_left(calls, moment - lookback, key=lambda each: each["moment"])
    known = moment - calls[low]["moment"] <= WHOLE and at - low < REACH
    return max(low, at - REACH), known


def _row(protocol: Protocol, found: Violation, calls: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """`calls`: the steps before it, and itself at the end."""
    call = calls[-1]
    english, chinese = BECAUSE[found.why]
    ids = {each["executed_by"] for each in calls if each["executed_by"]}
    return {
        **{key: call[key] for key in ("tenant", "agent", "tool", "params", "call_id", "trace_id")},
        "subject": call["agent"],
        "started_at": call["moment"],
        "ended_at": call["moment"],
        "event_ids": sorted(ids),
        "severity": "critical" if found.why in ("human", "final") else "high",
        "because": english,
        "because_zh": chinese,
        "protocol": protocol.name,
        "states": list(found.states),
        "allowed": list(found.allowed),
    }
