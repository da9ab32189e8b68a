-- title     = "{subject}: {tool} was executed without any decision, though {decided} of {usual_of} before it had one"
-- title_zh  = "{subject}：{tool} 未经任何决策即被执行，而此前 {usual_of} 次中有 {decided} 次有决策"
-- severity  = "high"
-- tags      = ["bypass", "policy"]
-- why       = "The calls of this agent and tool are decided by a gate, and this one was not. The gate is down and its users go on without it, or there is a road round it. Whatever runs there is controlled by nobody."
-- respond   = "See whether the gate still answers and whether its log still arrives. If it is down, stop the agent: it must not run uncontrolled. If the gate is up, compare account and host of this execution with those that were decided: that is the road round it. If only lines are missing, send them; the alert goes by itself."
-- respond_zh = "先看闸门是否还在应答、它的日志是否还在到达。若已宕机，停掉该智能体，不得无管控运行。若闸门正常，把这次执行的账号和主机与有决策的执行相比，差别就是绕行的通路。若只是日志缺行，补送即可，告警会自行撤回。"
-- quiet     = "A log that never holds decisions, or not for this tool. A tool of which only some calls are decided: less than `share` percent. A decision that is logged up to `late` after the execution. Decisions whose log arrives later than that: the alert is withdrawn then."
-- lookback  = "1 day"
-- gap       = "30 minutes"
-- needs     = ["tool", "decision", "status", "call_id"]
-- kinds     = ["tool_proposed", "tool_decided", "tool_executed", "approval_requested", "approval_decided"]
-- hot       = "SELECT 1 FROM calls WHERE last_ts >= $since - INTERVAL '1 hour' AND ts < $until AND executed_at >= $since - INTERVAL '1 hour' AND tool IS NOT NULL AND coalesce(least(decided_at, denied_at, approval_requested_at, approved_at) > executed_at, true)"
-- inhibited_by = ["denied_then_executed"]
-- [params]  # late < lookback, so that executions of the past are seen with the same allowance
-- usual     = { type = "integer", default = 5, min = 1 }
-- share     = { type = "integer", default = 90, min = 1, max = 100 }
-- late      = { type = "interval", default = "15 minutes", min = "0 seconds", max = "1 hour" }

WITH new AS (  -- no decision by the end of the allowance, which is when a row ends
    SELECT call_key, actor(agent, principal, session, trace_id, source) AS subject, coalesce(tenant, '') AS tenant,
           tool, executed_at AS ran_at, decision, event_ids
    FROM calls
    WHERE executed_at >= $since - $late AND executed_at < $until - $late AND tool IS NOT NULL
      AND last_ts >= $since - $late AND ts < $until
      AND coalesce(least(decided_at, denied_at, approval_requested_at, approved_at) > executed_at + $late, true)
),
spoken AS (  -- of calls that were decided again later: the first decision is only in their events
    SELECT n.call_key, n.ran_at
    FROM (SELECT call_key, ran_at, unnest(event_ids) AS event_id FROM new WHERE decision IS NOT NULL) n
    JOIN events e USING (event_id)
    WHERE e.decision IS NOT NULL AND e.ts <= n.ran_at + $late AND e.ts >= n.ran_at + $late - $lookback
      AND e.ts >= $since - $lookback AND e.ts < $until
),
hot AS (
    SELECT DISTINCT tenant, subject, tool FROM new ANTI JOIN spoken USING (call_key, ran_at)
),
of_hot AS (
    SELECT h.tenant, h.subject, h.tool, c.call_key, c.op, c.status, c.source, c.call_id, c.trace_id, c.executed_by,
           c.params_digest, c.decision, c.executed_at AS ran_at, c.decided_at,
           least(c.decided_at, c.denied_at, c.approval_requested_at, c.approved_at) AS said_at
    FROM calls c
    JOIN hot h ON h.tool = c.tool AND h.tenant = coalesce(c.tenant, '')
              AND h.subject = actor(c.agent, c.principal, c.session, c.trace_id, c.source)
    WHERE c.last_ts >= $since - $lookback AND c.ts < $until
),
spare AS (
    SELECT tenant, subject, tool, said_at, decided_at, params_digest
    FROM of_hot
    WHERE decision <> 'deny' AND decided_at >= $since - 2 * $late AND coalesce(ran_at > said_at + $late, true)
),
ran AS (
    SELECT *, coalesce(said_at <= ran_at + $late, false) AS decided
    FROM of_hot
    WHERE ran_at >= $since - $lookback AND ran_at < $until
),
counted AS (
    SELECT *, count(*) FILTER (WHERE NOT decided) OVER (PARTITION BY tenant, subject, tool ORDER BY ran_at) AS so_far
    FROM ran
),
behind AS (  -- what lies behind each execution; `before_last`: undecided ones up to the last that was decided
    SELECT *, count(*) FILTER (WHERE decided) OVER seen AS decided_n, max(ran_at) FILTER (WHERE decided) OVER seen AS last_decided_at,
           max(so_far) FILTER (WHERE decided) OVER seen
               - (so_far - count(*) FILTER (WHERE NOT decided) OVER seen) AS before_last
    FROM counted
    WINDOW seen AS (PARTITION BY tenant, subject, tool ORDER BY ran_at
                    RANGE BETWEEN $lookback - $late PRECEDING AND CURRENT ROW)
),
fired AS (
    SELECT *, decided_n + before_last AS usual_of
    FROM behind
    WHERE NOT decided AND ran_at >= $since - $late AND ran_at < $until - $late
      AND decided_n >= $usual AND 100 * decided_n >= $share * (decided_n + before_last)
)
SELECT f.subject, f.tenant, f.ran_at AS started_at, f.ran_at + $late AS ended_at, [f.executed_by] AS event_ids,
       CASE WHEN f.op = 'commit' THEN 'high' ELSE 'medium' END AS severity,
       f.tool, f.op, f.status, f.decided_n AS decided, f.usual_of, f.last_decided_at, f.source, f.call_id, f.trace_id
FROM fired f
ANTI JOIN spoken USING (call_key, ran_at)
WHERE NOT EXISTS (  -- a yes that lost its call's id: to the same parameters, and nothing was done on it
    FROM spare y
    WHERE y.tenant = f.tenant AND y.subject = f.subject AND y.tool = f.tool
      AND (y.said_at BETWEEN f.ran_at - $late AND f.ran_at + $late OR y.decided_at BETWEEN f.ran_at - $late AND f.ran_at + $late)
      AND coalesce(y.params_digest = f.params_digest, true))
