# title     = "{subject}: {tool} was executed {how}"
# title_zh  = "{subject}：{tool} 在{how_zh}的情况下被执行"
# severity  = "critical"
# tags      = ["approvals", "bypass"]
# why       = "A person had to say yes to exactly this call, and it ran without that yes: nobody answered, the answer was no, it came too late, or it was for other parameters. Approving one customer's export is not approving all."
# respond   = "Compare what was asked for with what ran: both are in the evidence. Stop the agent if the answer was no or the parameters differ, and undo what the call did. If nobody answered, find out which gateway let it through without waiting. If your approvals are logged elsewhere, connect that log: the alert goes by itself."
# respond_zh = "对照申请内容与实际执行内容，两者都在证据里。若答复是拒绝或参数不同，停掉该智能体并撤销这次调用的效果。若无人答复，查清是哪个网关没有等待就放行。若审批记录在别处，把那份日志接进来，告警会自行撤回。"
# quiet     = "An approval whose yes came first and whose parameters were not logged. A gate that asked for approval and then allowed the same call itself. Two clocks that differ: a yes that seems to come after the execution. With `unanswered` as it is, a request that nobody answered, where neither its source nor its agent has had a yes in the log for a week: coding agents ask at the prompt, and no log sees the answer."
# lookback  = "7 days"
# gap       = "30 minutes"
# needs     = ["tool", "status", "decision or kind approval_requested", "call_id or approval_id or params_digest"]
# kinds     = ["tool_proposed", "tool_decided", "tool_executed", "approval_requested", "approval_decided"]
# hot       = "SELECT 1 FROM calls WHERE last_ts >= $since AND ts < $until AND executed_at IS NOT NULL AND (approval_requested_at IS NOT NULL OR approved_at IS NOT NULL OR approval_id IS NOT NULL OR approver IS NOT NULL OR reason_code IN ('rejected', 'expired', 'cancelled') OR (decision IS NULL AND executed_at >= $since AND params IS NOT NULL))"
# inhibited_by = ["denied_then_executed"]
# facts     = ["tool", "how", "how_zh", "asked_at", "answered_at", "approver", "asked_params", "params", "call_id", "trace_id"]
# [params]
# unanswered    = { type = "text", default = "where answers are logged", choices = ["where answers are logged", "always"] }
# answer_within = { type = "interval", default = "1 day", min = "1 minute", max = "1 day" }
# other_within  = { type = "interval", default = "1 hour", min = "1 minute", max = "1 day" }
"""What was executed, held against the approvals of it: the state machine of controls/approval.py.

SQL keeps what is in order out of it: an execution behind a yes, with no no and the same parameters.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from detectors.controls.approval import Event, State, covers, latest
from ingest.store import Db, fetch

# An execution and each word on its approval: in the events of its call, or under its approval id.
# Digests compare where both were made of parameters that name the same things, or by one source.
LINKED = """
    WITH hot AS (
        SELECT call_key, coalesce(tenant, '') AS tenant, tool, call_id, trace_id, event_ids, ts, last_ts,
               actor(agent, principal, session, trace_id, source) AS subject
        FROM calls
        WHERE executed_at IS NOT NULL AND last_ts >= $since AND ts < $until
          AND (approval_requested_at IS NOT NULL OR approved_at IS NOT NULL OR approval_id IS NOT NULL
               OR approver IS NOT NULL OR reason_code IN ('rejected', 'expired', 'cancelled'))
    ),
    steps AS (
        SELECT h.* EXCLUDE (event_ids, ts, last_ts), e.event_id, e.ts, e.kind, e.source, e.status,
               e.approval_id, e.decision, e.reason_code, e.approver, e.params, e.params_digest, e.truncated
        FROM (SELECT *, unnest(event_ids) AS event_id FROM hot) h
        JOIN events e USING (event_id)
        WHERE e.ts >= $since - $lookback AND e.ts < $until AND e.ts >= (SELECT min(ts) FROM hot)
    ),
    runs AS (
        SELECT *, CASE WHEN params IS NOT NULL AND NOT coalesce(truncated, false) THEN params_digest END AS exact
        FROM steps
        WHERE kind = 'tool_executed' AND coalesce(status, '') NOT IN ('denied', 'cancelled') AND ts >= $since
    ),
    words AS (
        SELECT call_key, tenant, NULL AS of_run, event_id, ts, kind, source, decision, reason_code, approver,
               params, params_digest, truncated
        FROM steps
        UNION ALL
        SELECT r.call_key, r.tenant, r.event_id, e.event_id, e.ts, e.kind, e.source, e.decision, e.reason_code, e.approver,
               e.params, e.params_digest, e.truncated
        FROM runs r
        JOIN events e ON e.approval_id = r.approval_id AND coalesce(e.tenant, '') = r.tenant
                     AND (e.source = r.source OR length(r.approval_id) >= 16)
        WHERE e.ts >= $since - $lookback AND e.ts < $until
          AND (e.kind IN ('approval_requested', 'approval_decided') OR e.decision = 'require_approval')
    ),
    named AS (
        SELECT DISTINCT r.tenant, r.subject, r.tool, r.call_id, r.trace_id, r.ts AS ran_at, r.event_id AS ran_by,
               r.params AS ran_params, w.event_id, w.ts, w.source, w.approver, w.params,
               CASE WHEN w.kind = 'approval_requested' OR w.decision = 'require_approval' THEN 'pending'
                    WHEN w.kind = 'approval_decided' AND w.decision = 'allow' THEN 'approved'
                    WHEN w.kind = 'approval_decided' AND w.decision = 'deny'
                    THEN CASE WHEN w.reason_code = 'expired' THEN 'expired' ELSE 'rejected' END
                    WHEN w.decision = 'allow' THEN 'allowed' END AS what,
               coalesce(r.exact, r.params_digest) AS ran_digest,
               CASE WHEN r.truncated OR w.truncated THEN NULL
                    WHEN r.exact IS NOT NULL AND w.params IS NOT NULL
                    THEN CASE WHEN list_has_any(json_keys(r.params), json_keys(w.params)) THEN w.params_digest END
                    WHEN r.params IS NULL AND w.params IS NULL AND r.source = w.source
                    THEN w.params_digest END AS digest
        FROM runs r
        JOIN words w ON w.call_key = r.call_key AND w.tenant = r.tenant
                    AND coalesce(w.of_run, r.event_id) = r.event_id
                    AND w.ts <= r.ts AND w.ts >= r.ts - $lookback
    ),
    asked AS (  -- a gate that allows what it has asked a person about knows the answer
        SELECT * EXCLUDE (what),
               CASE WHEN what <> 'allowed' THEN what
                    WHEN what = 'allowed' AND ts > first_asked THEN 'approved' END AS what
        FROM (SELECT *, min(CASE WHEN what = 'pending' THEN ts END)
                            OVER (PARTITION BY tenant, ran_by) AS first_asked FROM named)
    )
    SELECT tenant, subject, tool, call_id, trace_id, ran_at, ran_by, ran_params, ran_digest,
           list({'ts': ts, 'what': what, 'by': approver, 'digest': digest, 'event_id': event_id,
                 'source': source, 'params': params} ORDER BY ts, event_id) AS words
    FROM asked
    WHERE what IS NOT NULL
    GROUP BY ALL
    HAVING NOT bool_or(what = 'approved') OR bool_or(what IN ('rejected', 'expired'))
        OR bool_or(digest <> ran_digest) OR max(ts) - min(ts) >= $answer_within
"""
# An execution that no gate knows of, of a tool for which the same agent had approval asked for, and
# for other parameters. Where such executions were there before anybody asked, they are usual.
OTHERS = """
    WITH bare AS (
        SELECT DISTINCT coalesce(tenant, '') AS tenant, tool, source,
               actor(agent, principal, session, trace_id, source) AS subject
        FROM calls
        WHERE executed_at >= $since AND executed_at < $until AND last_ts >= $since AND ts < $until
          AND decision IS NULL AND approval_id IS NULL AND tool IS NOT NULL AND params IS NOT NULL
    ),
    of_bare AS (
        SELECT b.*, c.call_id, c.trace_id, c.params, c.params_digest AS digest, c.executed_by,
               c.executed_at, c.event_ids, coalesce(c.approval_requested_at, c.approved_at) AS asked_at,
               c.decision IS NULL AND c.approval_id IS NULL AND c.executed_at IS NOT NULL AS unasked
        FROM calls c
        JOIN bare b ON b.tool = c.tool AND b.source = c.source AND b.tenant = coalesce(c.tenant, '')
                   AND b.subject = actor(c.agent, c.principal, c.session, c.trace_id, c.source)
        WHERE c.last_ts >= $since - $lookback AND c.ts < $until AND c.params IS NOT NULL
    ),
    marks AS (
        SELECT *, asked_at AS ts, asked_at AS ask, NULL::TIMESTAMPTZ AS ran FROM of_bare
        UNION ALL
        SELECT *, executed_at, NULL, executed_at FROM of_bare WHERE unasked
    ),
    seen AS (
        SELECT *, min(ask) OVER behind AS first_ask, min(ran) OVER behind AS first_ran,
               max(ask) OVER same AS own_ask,
               max(CASE WHEN ask IS NOT NULL
                        THEN {'ts': ask, 'id': event_ids[1], 'params': params::VARCHAR} END)
                   OVER behind AS last_ask
        FROM marks
        WHERE ts >= $since - $lookback AND ts < $until
        WINDOW behind AS (PARTITION BY tenant, subject, tool, source ORDER BY ts
                          RANGE BETWEEN $lookback PRECEDING AND CURRENT ROW),
               same AS (PARTITION BY tenant, subject, tool, source, digest ORDER BY ts
                        RANGE BETWEEN $lookback PRECEDING AND CURRENT ROW)
    )
    SELECT s.subject, s.tenant, s.last_ask.ts AS started_at, s.ran AS ended_at,
           list_sort(list_distinct([s.last_ask.id, s.executed_by])) AS event_ids,
           'high' AS severity, s.tool, s.last_ask.ts AS asked_at, NULL::TIMESTAMPTZ AS answered_at,
           NULL::VARCHAR AS approver, s.last_ask.params AS asked_params,
           s.params::VARCHAR AS params, s.call_id, s.trace_id
    FROM seen s
    JOIN events e ON e.event_id = s.executed_by AND e.ts = s.ran AND e.ts >= $since AND e.ts < $until
    WHERE s.ran >= $since AND s.last_ask.ts >= s.ran - $other_within AND s.own_ask IS NULL
      AND list_has_any(json_keys(s.last_ask.params::JSON), json_keys(s.params))
      AND s.first_ran >= s.first_ask AND NOT coalesce(e.truncated, false)
"""
# Who logs a yes at all, and when: many let people answer where no log sees it.
ANSWERS = """
    SELECT coalesce(tenant, '') AS tenant, source, ts,
           actor(agent, principal, session, trace_id, source) AS subject
    FROM events
    WHERE kind = 'approval_decided' AND decision = 'allow'
      AND ts >= $since - $lookback AND ts < $until
      AND (list_contains($sources, source)
           OR list_contains($subjects, actor(agent, principal, session, trace_id, source)))
    ORDER BY ts
"""
DAY = timedelta(days=1)  # parts of one call and its approval lie no further apart
HOW = {
    "pending": ("without an approval", "无人批准"),
    "rejected": ("after its approval was refused", "审批被拒"),
    "expired": ("after its approval had expired", "审批已过期"),
    "approved": ("with other parameters than were approved", "参数与批准的不同"),
}
SEVERITY = {"pending": "high", "rejected": "critical", "expired": "high", "approved": "high"}


def find(
    db: Db,
    since: datetime,
    until: datetime,
    *,
    lookback: timedelta,
    unanswered: str,
    answer_within: timedelta,
    other_within: timedelta,
) -> list[dict[str, Any]]:
    """One row per execution that no approval covers."""
    span = {"since": since, "until": until, "lookback": DAY}
    linked = fetch(db, LINKED, **span, answer_within=answer_within)
    held = [(run, row) for run in linked if (row := _held(run, answer_within))]
    open_ = [(run, row) for run, row in held if row["answered_at"] is None]
    found = [row for _, row in held if row["answered_at"] is not None]
    sources = sorted({each["source"] for run, _ in open_ for each in run["words"]})
    subjects = sorted({row["subject"] for _, row in open_})
    if open_:
        week = {**span, "lookback": lookback, "sources": sources, "subjects": subjects}
        answers = _Answers(fetch(db, ANSWERS, **week), lookback)
        for run, row in open_:
            known = answers.near(run, row["ended_at"])
            if known or unanswered == "always":
                found.append(row if known else row | {"severity": "medium"})
    others = fetch(db, OTHERS, **span, other_within=other_within)
    return found + [row | _how("approved") for row in others]


class _Answers:
    """When a yes was logged, by a source or for an agent."""

    def __init__(self, rows: Sequence[dict[str, Any]], lookback: timedelta) -> None:
        self._times: dict[tuple[str, str, str], list[datetime]] = defaultdict(list)
        self._lookback = lookback
        for each in rows:
            for kind in ("source", "subject"):
                self._times[each["tenant"], kind, each[kind]].append(each["ts"])

    def near(self, run: dict[str, Any], ts: datetime) -> bool:
        """Within the lookback before `ts`."""
        who = {("source", each["source"]) for each in run["words"]} | {("subject", run["subject"])}
        for kind, name in who:
            times = self._times.get((run["tenant"], kind, name), [])
            at = bisect_right(times, ts)
            if at and times[at - 1] >= ts - self._lookback:
                return True
        return False


def _held(run: dict[str, Any], answer_within: timedelta) -> dict[str, Any] | None:
    """The row of an execution, unless an approval covers it."""
    words = [
        Event(each["ts"], each["what"], each["by"], each["digest"], each["event_id"])
        for each in run["words"]
    ]
    approval = latest(words, run["ran_at"], answer_within)
    if covers(approval, run["ran_digest"]):
        return None
    asked = next((each for each in run["words"] if each["what"] == "pending"), run["words"][0])
    answered = approval.state != "pending"
    return {
        **{key: run[key] for key in ("subject", "tenant", "tool", "call_id", "trace_id")},
        "started_at": asked["ts"],
        "ended_at": run["ran_at"],
        "event_ids": sorted({asked["event_id"], approval.event_id, run["ran_by"]}),
        "severity": SEVERITY[approval.state],
        "asked_at": asked["ts"],
        "answered_at": approval.since if answered else None,
        "approver": approval.by,
        "asked_params": asked["params"],
        "params": run["ran_params"],
        **_how(approval.state),
    }


def _how(found: State) -> dict[str, str]:
    english, chinese = HOW[found]
    return {"how": english, "how_zh": chinese}
