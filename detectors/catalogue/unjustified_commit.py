# title     = "{subject}: {tool} was committed although {because}"
# title_zh  = "{subject}：{because_zh}，却仍执行了 {tool}"
# severity  = "high"
# tags      = ["commits", "stopping"]
# why       = "Something was changed at a point where the log itself says that the agent should not have acted: its gate had said abstain or clarify, the evidence disagreed, authority or inputs were missing, or what the change is about was looked up and not found. A run like this can end well and still be wrong."
# respond   = "Open the trace at this commit and read what was known just before it. Undo the change if the evidence does not carry it, and pause the agent if more of the same are waiting. If a person had decided it, the log lacks that decision. Mark a true case as an incident: the miner makes a stopping rule of such."
# respond_zh = "在调用链中打开这次提交，看之前已知些什么。若依据不足，撤销改动；若还有同类操作排队，先暂停该智能体。若其实是人决定的，则日志缺了这次决定。属实的请标为事故，规则挖掘会据此提出停止规则。"
# quiet     = "A log without stances, signals and answers of lookups says nothing here. A check that passed, a gate that then said act, or a word of the user, since. A tool that creates what was not found. With basis = all also every commit beyond the budgets and above the risk of the autonomy gate: many agents commit more than once a run."
# lookback  = "6 hours"
# gap       = "1 hour"
# needs     = ["trace_id or session", "op", "stance or signals or response or response_rows"]
# hot       = "SELECT 1 FROM events WHERE ts >= $since AND ts < $until AND kind = 'tool_executed' AND coalesce(op, 'commit') = 'commit' AND coalesce(trace_id, session) IS NOT NULL"
# inhibited_by = ["denied_then_executed"]
# facts     = ["tool", "because", "because_zh", "stance", "code", "params", "trace_id", "call_id"]
# [params]
# basis     = { type = "text", default = "evidence", choices = ["evidence", "all"] }
# gathers   = { type = "integer", default = 3, min = 0 }
# commits   = { type = "integer", default = 1, min = 1 }
"""Commits held against the autonomy gate: controls/autonomy.py over what the log says of the run.

SQL keeps only runs in which something was committed just now and the log has something to say.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from detectors.controls.autonomy import FACT_OF, Seen, State, decide, replay
from ingest.store import Db, fetch

REACH = 500  # events that a gate is taken to remember: what lies further back is forgotten
NOT_FOUND = r"not[ _]found|does ?n[o']t exist|no such|unknown (id|user|order)|\b404\b"
NOTHING = ("{}", '""', "null")
CREATES = re.compile(
    r"(^|[^a-z])(create|add|insert|register|new|invite|provision|upsert|open|put|write|book|issue)([^a-z]|$)"
)
# A run is a trace (else a session) of one agent. Its messages count for each agent in it.
EVENTS = """
    WITH done AS (
        SELECT DISTINCT coalesce(tenant, '') AS tenant, coalesce(trace_id, session) AS run
        FROM events
        WHERE kind = 'tool_executed' AND coalesce(op, 'commit') = 'commit' AND ts >= $since AND ts < $until
          AND coalesce(trace_id, session) IS NOT NULL
    ),
    kept AS (  -- runs of which the log has something to say
        SELECT DISTINCT coalesce(tenant, '') AS tenant, coalesce(trace_id, session) AS run
        FROM events
        WHERE ts >= $since - $lookback AND ts < $until AND EXISTS (FROM done)
          AND ($basis = 'all' OR stance IN ('clarify', 'abstain') OR list_has_any(signals, $facts)
               OR (kind = 'tool_executed' AND op <> 'commit'
                   AND (response_rows = 0 OR response::VARCHAR IN ('[]', '{}', '""', 'null')
                        OR (status = 'error' AND regexp_matches(error, $not_found, 'i')))))
    ),
    runs AS (
        SELECT * FROM done SEMI JOIN kept USING (tenant, run)
    ),
    joined AS (
        SELECT coalesce(c.tenant, '') AS tenant, k.run, c.call_key, c.tool, c.op, c.call_id, c.params,
               c.target, actor(c.agent, c.principal, c.session, c.trace_id, c.source) AS subject,
               unnest(c.event_ids) AS event_id
        FROM calls c
        JOIN runs k ON k.tenant = coalesce(c.tenant, '') AND k.run = coalesce(c.trace_id, c.session)
        WHERE c.last_ts >= $since - $lookback AND c.ts < $until
    )
    SELECT k.tenant, k.run, t.event_id, t.ts, t.kind, t.role, t.stance, t.signals,
           t.status, t.response_rows, t.response::VARCHAR AS response, t.attrs ->> 'risk_native' AS risk,
           regexp_matches(coalesce(t.error, ''), $not_found, 'i') AS not_found, t.trace_id,
           coalesce(t.tool, j.tool) AS tool, coalesce(t.op, j.op) AS op, j.call_id,
           coalesce(t.params, j.params)::VARCHAR AS params, coalesce(t.target, j.target) AS target,
           coalesce(j.subject, actor(t.agent, t.principal, t.session, t.trace_id, t.source)) AS subject
    FROM events t
    JOIN runs k ON k.tenant = coalesce(t.tenant, '') AND k.run = coalesce(t.trace_id, t.session)
    LEFT JOIN joined j ON j.tenant = k.tenant AND j.run = k.run AND j.event_id = t.event_id
    WHERE t.ts >= $since - $lookback AND t.ts < $until
    ORDER BY 1, 2, t.ts, t.event_id
"""
BECAUSE = {
    "said_abstain": ("its gate had said abstain", "闸门已判定放弃"),
    "said_clarify": ("its gate had said clarify", "闸门已要求先澄清"),
    "conflicting_evidence": ("the evidence disagrees", "证据互相矛盾"),
    "no_authority": ("the authority for it is missing", "缺少授权"),
    "inputs_are_the_users": (
        "inputs that only the user has are missing",
        "缺少只有用户才能提供的信息",
    ),
    "no_target": ("what it is about was looked up and not found", "目标查询过但不存在"),
    "risk_is_high": ("the risk is high", "风险过高"),
    "risk_of_a_commit": ("the risk is too high for a change", "风险高于可改动的限度"),
    "commits_used_up": ("its budget of changes was used up", "改动次数已用完"),
    "not_verified": ("nothing was verified", "尚未核实"),
}
EVIDENCE = frozenset(list(BECAUSE)[:6])  # the others are of budgets and risk


def find(
    db: Db,
    since: datetime,
    until: datetime,
    *,
    lookback: timedelta,
    basis: str,
    gathers: int,
    commits: int,
) -> list[dict[str, Any]]:
    """One row per executed commit where the gate would not have said act."""
    known = {"facts": sorted(FACT_OF), "not_found": NOT_FOUND, "basis": basis}
    rows = fetch(db, EVENTS, since=since, until=until, lookback=lookback, **known)
    found = []
    for trail, at in _commits(rows, since):
        reach = trail[at]["ts"] - lookback
        first = next(n for n, each in enumerate(trail) if each["ts"] >= reach)
        window = trail[max(first, at + 1 - REACH) : at + 1]
        state, _ = list(replay(map(_seen, window)))[-1]
        if basis == "evidence":  # no budget, no risk: a log rarely tells of them what a gate knew
            state = replace(state, risk=0.0, gathers=0, verified=1, commits=0)
        told = decide(state, "commit", gathers, commits)
        code = f"said_{state.said}" if state.said in ("clarify", "abstain") else told.code
        if code in BECAUSE:
            found.append(_row(code, state, window))
    return found


def _commits(
    rows: Sequence[dict[str, Any]], since: datetime
) -> Iterator[tuple[list[dict[str, Any]], int]]:
    """Each commit that was executed from `since` on: its agent's events of the run, and its place."""
    runs: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        runs[row["tenant"], row["run"]].append(row)
    for events in runs.values():
        for who in sorted({each["subject"] for each in events if _executed(each)}):
            own = [each for each in events if each["subject"] == who or _users(each)]
            for at, each in enumerate(own):
                if each["op"] == "commit" and _executed(each) and each["ts"] >= since:
                    yield own, at


def _executed(row: dict[str, Any]) -> bool:
    return row["kind"] == "tool_executed" and row["status"] not in ("denied", "cancelled")


def _users(row: dict[str, Any]) -> bool:
    return bool(row["kind"] == "message" and row["role"] == "user")


def _seen(row: dict[str, Any]) -> Seen:
    """A row of the log in the words of the autonomy gate."""
    ids = frozenset(_ids(row["params"]))
    target = frozenset({row["target"]} if row["target"] else ())
    gone = row["status"] == "error" and row["not_found"]
    nothing = gone or (row["status"] in (None, "ok") and row["response"] in NOTHING)
    none = row["response_rows"] == 0 or row["response"] == "[]"
    if row["op"] == "commit":
        about = frozenset() if CREATES.search((row["tool"] or "").lower()) else ids | target
    else:  # a list that is empty says only of a target that the log names that it is not there
        about = target if none and not nothing else ids or target
    return Seen(
        op=row["op"],
        executed=_executed(row),
        passed=row["status"] in (None, "ok") and not nothing and not none,
        empty=nothing or none,
        signals=frozenset(row["signals"] or ()),
        stance=row["stance"],
        risk=_risk(row["risk"]),
        user=_users(row),
        about=about,
    )


def _ids(params: str | None) -> Iterator[str]:
    """The values among the arguments that can name one thing: texts and numbers with a digit."""
    waiting = [json.loads(params)] if params else []
    while waiting:
        match waiting.pop():
            case dict() as each:
                waiting.extend(each.values())
            case list() as each:
                waiting.extend(each)
            case (str() | int()) as each if not isinstance(each, bool):
                text = str(each)
                if len(text) >= 3 and any(sign.isdigit() or sign == "@" for sign in text):
                    yield text


def _risk(text: str | None) -> float | None:
    """The risk as R2.4 means it, a number from 0 to 1. Words are of a tool, not of a trajectory."""
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if 0 <= value <= 1 else None


def _row(code: str, state: State, window: Sequence[dict[str, Any]]) -> dict[str, Any]:
    commit = window[-1]
    telling = [each for each in window if _tells(each)] or [commit]
    english, chinese = BECAUSE[code]
    return {
        **{
            key: commit[key]
            for key in ("subject", "tenant", "tool", "params", "trace_id", "call_id")
        },
        "started_at": telling[-1]["ts"],
        "ended_at": commit["ts"],
        "event_ids": sorted({each["event_id"] for each in (*telling[-5:], commit)}),
        "severity": "medium" if code not in EVIDENCE else "high",
        "because": english,
        "because_zh": chinese,
        "code": code,
        "stance": state.said,
    }


def _tells(row: dict[str, Any]) -> bool:
    seen = _seen(row)
    told = seen.stance in ("clarify", "abstain") or not FACT_OF.keys().isdisjoint(seen.signals)
    return told or (seen.executed and seen.op != "commit" and seen.empty)
