-- title     = "{subject}: {calls} more calls after {limit_name} was hit, without a pause"
-- title_zh  = "{subject}：触及限额（{limit_name}）后又发起 {calls} 次调用，没有暂停"
-- severity  = "medium"
-- tags      = ["budget", "loops"]
-- why       = "The agent was told that a limit or a budget is used up, and must pause. It goes on instead: it ignores its gate's no, or looks for work that the gate does not count."
-- respond   = "Pause the agent or its trace: it does not pause by itself. See which of the calls in the evidence went through, and stop the task if it does again what was refused. If the limit was too low for honest work, raise it, and teach the agent to wait."
-- respond_zh = "该智能体不会自行暂停，请暂停它或其调用链。查看证据中哪些调用仍被放行；若它在重复被拒的事，终止任务。若限额对正当工作太低，调高限额，并让智能体学会等待。"
-- quiet     = "Calls that were under way when the limit was hit: `grace` of them. An agent that waits for `pause`, and one that only tries the refused call again, is retrying later, as it should."
-- lookback  = "20 minutes"
-- gap       = "10 minutes"
-- needs     = ["agent", "kind limit_hit or reason_code"]
-- kinds     = ["tool_proposed", "tool_decided", "tool_executed", "approval_requested", "approval_decided", "limit_hit"]
-- hot       = "SELECT 1 FROM events WHERE ts >= $since - INTERVAL '10 minutes' AND ts < $until AND kind = 'limit_hit' UNION ALL SELECT 1 FROM calls WHERE last_ts >= $since - INTERVAL '10 minutes' AND ts < $until AND decision = 'deny' AND reason_code IS NOT NULL"
-- [params]  # lookback >= 2 x within: the calls after a hit, and the hits that those may repeat
-- grace     = { type = "integer", default = 3, min = 0, max = 50 }
-- pause     = { type = "interval", default = "1 minute", min = "1 second", max = "10 minutes" }
-- within    = { type = "interval", default = "10 minutes", min = "1 second", max = "10 minutes" }

-- A row for each further call of a run: calls after the hit, none later than `pause` after the one before. A call is
-- there when it is first heard of. What merely repeats a call that a limit refused is counted neither way.
WITH hits AS (  -- who was told no by a limit, and when
    SELECT coalesce(tenant, '') AS tenant, actor(agent, principal, session, trace_id, source) AS subject, ts, event_id,
           coalesce(budget_kind, reason_code, reason, 'a limit') AS limit_name, NULL AS tool, NULL AS digest, NULL AS call_key
    FROM events
    WHERE ts >= $since - $lookback AND ts < $until AND kind = 'limit_hit'
    UNION ALL
    SELECT coalesce(tenant, ''), actor(agent, principal, session, trace_id, source), decided_at, decided_by,
           reason_code, tool, coalesce(params_digest, ''), call_key
    FROM calls
    WHERE last_ts >= $since - $lookback AND ts < $until AND decided_at >= $since - $lookback AND decided_at < $until
      AND decision = 'deny' AND limit_code(reason_code)
),
tries AS (
    SELECT coalesce(c.tenant, '') AS tenant, actor(c.agent, c.principal, c.session, c.trace_id, c.source) AS subject, c.agent, c.ts, c.call_key,
           CASE WHEN c.decided_at = c.ts THEN c.decided_by ELSE c.event_ids[1] END AS event_id, c.tool, coalesce(c.params_digest, '') AS digest, least(c.executed_at, CASE WHEN c.decision = 'allow' THEN c.decided_at END) AS passed_at
    FROM calls c
    WHERE c.ts >= $since - $lookback AND c.ts < $until AND EXISTS (FROM hits)
),
made AS (  -- what is no repetition
    SELECT t.*
    FROM tries t
    SEMI JOIN hits h ON h.tenant = t.tenant AND h.subject = t.subject
    WHERE NOT EXISTS (FROM hits r WHERE r.tenant = t.tenant AND r.subject = t.subject AND r.tool = t.tool AND r.digest = t.digest
                                    AND r.call_key <> t.call_key AND r.ts <= t.ts AND r.ts >= t.ts - $within)
),
steps AS (  -- hits and calls, one after the other; of one instant the hit comes last, for the calls were made before it
    SELECT tenant, subject, NULL AS agent, ts, event_id, '' AS call_key, limit_name, true AS hit, NULL::TIMESTAMPTZ AS passed_at FROM hits
    UNION ALL
    SELECT tenant, subject, agent, ts, event_id, call_key, NULL, false, passed_at FROM made
),
linked AS (
    SELECT *, ts > lag(ts) OVER in_time + $pause AS rested
    FROM steps
    WINDOW in_time AS (PARTITION BY tenant, subject ORDER BY ts, hit, call_key, event_id)
),
runs AS (
    SELECT *, sum(CASE WHEN rested THEN 1 ELSE 0 END) OVER (PARTITION BY tenant, subject ORDER BY ts, hit, call_key, event_id) AS run
    FROM linked
),
counted AS (  -- since the first hit of the last `within`
    SELECT *,
           min(CASE WHEN hit THEN ts END) OVER behind AS hit_at,
           arg_min(CASE WHEN hit THEN {'limit_name': limit_name, 'event_id': event_id} END, CASE WHEN hit THEN {'ts': ts, 'event_id': event_id} END) OVER behind AS first_hit,
           list({'ts': ts, 'event_id': event_id, 'hit': hit, 'passed': passed_at IS NOT NULL AND passed_at <= ts}) OVER behind AS near
    FROM runs
    WINDOW behind AS (PARTITION BY tenant, subject, run ORDER BY ts RANGE BETWEEN $within PRECEDING AND CURRENT ROW)
),
fired AS (
    SELECT *, list_sort(list_filter(near, lambda x: NOT x.hit AND x.ts > hit_at)) AS after
    FROM counted
    WHERE NOT hit AND ts >= $since AND ts > hit_at
    QUALIFY row_number() OVER (PARTITION BY tenant, subject, ts ORDER BY call_key DESC) = 1  -- calls of one instant are one row
)
SELECT subject, tenant, agent, hit_at AS started_at, ts AS ended_at,
       list_sort(list_distinct(list_append(list_transform(after, lambda x: x.event_id)[-19:], first_hit.event_id))) AS event_ids,
       CASE WHEN len(list_filter(after, lambda x: x.passed)) > 0 THEN 'high' ELSE 'medium' END AS severity,
       len(after) AS calls, first_hit.limit_name AS limit_name
FROM fired
WHERE len(after) > $grace
