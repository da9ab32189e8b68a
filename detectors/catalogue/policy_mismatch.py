# title     = "{who}: of {tool} the gate said {gate}, the policy says {policy} ({reason})"
# title_zh  = "{who}：对 {tool}，网关的决定是{gate_zh}，策略的决定是{policy_zh}（{step_zh}）"
# severity  = "high"
# tags      = ["policy"]
# why       = "The gate does not enforce the policy that you believe is in force: it lets pass what the policy forbids, or forbids what it allows. Every other decision of this gate is in doubt too."
# respond   = "Compare the gate's rule in the evidence with the policy's entry for this tool. If the gate let it pass, pause the agent, see what the call did and undo it. Then put the right rule into the gate, or the missing entry into the policy file."
# respond_zh = "将证据中网关的规则与策略中该工具的条目对比。若网关放行了不该放行的调用，先暂停该智能体，查明并撤销其后果。然后修正网关规则，或在策略文件中补上缺失的条目。"
# quiet     = "No policy file, or one that lists neither tools nor agents. A roll-out: for `settle` around a load, what either policy says is right. Limits, which limit_exceeded counts. A policy that nobody kept up to date: then the policy is what to mend."
# lookback  = "1 hour"
# gap       = "2 hours"
# needs     = ["agent", "tool", "decision"]
# kinds     = ["tool_proposed", "tool_decided", "tool_executed", "approval_requested", "approval_decided"]
# facts     = ["who", "tool", "gate", "gate_zh", "policy", "policy_zh", "reason", "step", "step_zh", "gate_reason", "trace_id"]
# [params]
# settle    = { type = "interval", default = "10 minutes", min = "0 seconds", max = "1 day" }
"""The gate's logged decisions held against the policy that was in force when they were made.

A row for the first call of a subject in each hour of the clock: a gate that differs does so all day.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from detectors.controls import replay
from detectors.controls.policy import Context, Decision, decide
from ingest.policy import Controls
from ingest.store import Db, fetch

CLASSES = """
    SELECT hash(agent, tool, shape, operations, tables, night, shut, deletes, said) AS key,
           agent, tool, shape, operations, tables, night, shut, deletes, said, min(ts) AS ts
    FROM policy_calls($since, $until, $zone, $night, $shut::STRUCT(tool VARCHAR, minutes INTEGER[])[],
                      $shaped::VARCHAR[], $granted::VARCHAR[])
    WHERE NOT by_limit
    GROUP BY ALL
"""
ROWS = """
    SELECT c.subject, c.tenant, c.agent, c.tool, c.ts, c.decided_by, c.gate_reason, c.trace_id, c.key
    FROM (SELECT *, hash(agent, tool, shape, operations, tables, night, shut, deletes, said) AS key
          FROM policy_calls($since, $until, $zone, $night,
                            $shut::STRUCT(tool VARCHAR, minutes INTEGER[])[],
                            $shaped::VARCHAR[], $granted::VARCHAR[])
          WHERE NOT by_limit) c
    JOIN (SELECT unnest($keys::UBIGINT[]) AS key, unnest($words::VARCHAR[]) AS words) k
        ON k.key = c.key
    QUALIFY row_number() OVER (
        PARTITION BY c.tenant, c.subject, c.tool, k.words,
                     CASE WHEN $thin THEN time_bucket(INTERVAL '1 hour', c.ts) ELSE c.ts END,
                     CASE WHEN $thin THEN '' ELSE c.call_key END
        ORDER BY c.ts, c.call_key) = 1
"""
WORDS = {  # (the gate's, the policy's): how they differ, and how bad that is
    ("allow", "deny"): ("allowed, though the policy denies", "high"),
    ("allow", "require_approval"): ("allowed without approval", "high"),
    ("approved", "deny"): ("approved, though the policy denies", "high"),
    ("require_approval", "deny"): ("left to a person, though the policy denies", "medium"),
    ("deny", "allow"): ("denied, though the policy allows", "low"),
}
SAID_ZH = {"allow": "放行", "deny": "拒绝", "require_approval": "须审批", "approved": "审批通过"}
STEPS_ZH = {  # of the policy's order of evaluation
    "forbidden tool": "对该智能体禁用的工具",
    "tool not listed": "工具不在清单中",
    "tool denied": "工具被拒绝",
    "critical risk": "风险为严重",
    "parameters": "参数不被允许",
    "grant": "超出授权的操作或表",
    "outside window": "不在允许的时段",
    "unattended delete": "无人值守时段禁止删除",
    "limit": "限额已用尽",
    "approval required": "须审批",
    "unattended risk": "无人值守时段的高风险须审批",
    "allowed": "未被禁止",
}
HOUR = 3600  # seconds
WORST = ("critical risk", "unattended delete")


def find(
    db: Db, since: datetime, until: datetime, *, lookback: timedelta, settle: timedelta
) -> list[dict[str, Any]]:
    if not _firsts(db, since, until, settle):
        return []  # nothing new: the rest of the hour need not be looked at
    return [row for row in _firsts(db, since - lookback, until, settle) if row["ended_at"] >= since]


def _firsts(db: Db, since: datetime, until: datetime, settle: timedelta) -> list[dict[str, Any]]:
    """The first row of each subject in each hour."""
    first: dict[tuple[str, str, int], dict[str, Any]] = {}
    for start, stop, policies in _stretches(db, since, until, settle):
        found = [_differing(db, start, stop, each, thin=len(policies) == 1) for each in policies]
        for key, row in found[0].items():
            if all(key in other for other in found[1:]):
                place = row["tenant"], row["subject"], int(row["ended_at"].timestamp() // HOUR)
                if place not in first or _age(row) < _age(first[place]):
                    first[place] = row
    return list(first.values())


def _age(row: dict[str, Any]) -> tuple[datetime, list[str]]:
    return row["ended_at"], row["event_ids"]


def _stretches(
    db: Db, since: datetime, until: datetime, settle: timedelta
) -> Iterator[tuple[datetime, datetime, list[Controls]]]:
    """Stretches of time, and whose word counts there: around a load, both policies'."""
    spans = replay.in_force(db)
    loads = [span.since for span in spans[1:]]
    edges = {edge for load in loads for edge in (load - settle, load + settle)}
    inner = sorted(edge for edge in edges if since < edge < until)
    for start, stop in zip([since, *inner], [*inner, until], strict=True):
        held = [
            span.controls
            for span in spans
            if (span is spans[0] or span.since - settle <= start)
            and (span is spans[-1] or span.until + settle > start)
        ]
        if start < stop and held and all(each.tools or each.agents for each in held):
            yield start, stop, held


def _differing(
    db: Db, since: datetime, until: datetime, policy: Controls, thin: bool
) -> dict[tuple[str, str], dict[str, Any]]:
    """The calls on which gate and policy differ, by the event that decided and how they differ."""
    given = {"since": since, "until": until, **replay.lens(policy)}
    ruled: dict[int, tuple[str, Decision, str, str]] = {}
    for row in fetch(db, CLASSES, **given):
        decision = decide(policy, replay.call(row), Context(approved=row["said"] == "approved"))
        if told := WORDS.get((row["said"], decision.action)):
            ruled[row["key"]] = (row["said"], decision, *told)
    if not ruled:
        return {}
    given |= {"keys": list(ruled), "words": [each[2] for each in ruled.values()], "thin": thin}
    return {
        (row["decided_by"], words): _told(row, said, decision, words, severity)
        for row in fetch(db, ROWS, **given)
        for said, decision, words, severity in [ruled[row["key"]]]
    }


def _told(
    row: dict[str, Any], said: str, decision: Decision, words: str, severity: str
) -> dict[str, Any]:
    """A row. What no list names is less than what a list forbids: the list may be behind."""
    if decision.step == "tool not listed":
        severity = "medium" if severity == "high" else "low"
    elif decision.step in WORST and severity == "high":
        severity = "critical"
    return {
        "subject": f"{row['subject']} · {row['tool'] or '(no tool)'} · {words}",
        "started_at": row["ts"],
        "ended_at": row["ts"],
        "event_ids": [row["decided_by"]],
        "severity": severity,
        **{key: row[key] for key in ("tenant", "agent", "tool", "gate_reason", "trace_id")},
        "who": row["subject"],
        "gate": said,
        "gate_zh": SAID_ZH[said],
        "policy": decision.action,
        "policy_zh": SAID_ZH[decision.action],
        "reason": decision.reason,
        "step": decision.step,
        "step_zh": STEPS_ZH[decision.step],
    }
