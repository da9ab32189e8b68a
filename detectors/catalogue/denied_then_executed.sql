-- title     = "{subject}: {tool} was denied and executed all the same"
-- title_zh  = "{subject}：{tool} 已被拒绝，却仍被执行"
-- severity  = "critical"
-- tags      = ["bypass", "denials", "policy"]
-- why       = "A call that the gate refused was carried out. Either the agent has a road round the gate, or the gate's no is not enforced: every other denial in the log is in doubt too."
-- respond   = "Pause the agent now. Read what the call did and undo it if you can. Then find the road: whose account executed it, and through which gateway."
-- respond_zh = "立即暂停该智能体。查明这次调用做了什么，能撤销就撤销。再查通路：由哪个账号、经哪个网关执行。"
-- quiet     = "A denial that somebody overruled before the execution. Two clocks that differ: an execution that seems to come after its own denial by less than the skew between its sources."
-- lookback  = "1 day"
-- gap       = "10 minutes"
-- needs     = ["decision", "status", "call_id or params_digest"]
-- kinds     = ["tool_proposed", "tool_decided", "tool_executed", "approval_requested", "approval_decided"]
-- hot       = "SELECT 1 FROM calls WHERE last_ts >= $since AND ts < $until AND executed_at IS NOT NULL AND (denied_at IS NOT NULL OR (decision IS NULL AND executed_at >= $since AND executed_at < $until))"
-- [params]
-- within    = { type = "interval", default = "15 minutes", min = "1 second", max = "1 day" }

WITH mixed AS (  -- calls that were denied at some time and executed at some time: there should be few
    SELECT actor(agent, principal, session, trace_id, source) AS subject,
           coalesce(tenant, '') AS tenant, call_key, tool, call_id, trace_id, event_ids, ts, last_ts
    FROM calls
    WHERE denied_at IS NOT NULL AND executed_at IS NOT NULL AND last_ts >= $since AND ts < $until
),
steps AS (  -- what happened to them, one after the other
    SELECT b.* EXCLUDE (event_ids, ts, last_ts), e.event_id, e.ts, e.decision, e.reason,
           e.kind = 'tool_executed' AND coalesce(e.status, '') NOT IN ('denied', 'cancelled') AS ran
    FROM (SELECT *, unnest(event_ids) AS event_id FROM mixed) b
    JOIN events e USING (event_id)
    WHERE e.ts >= $since - $lookback AND e.ts < $until
      AND e.ts >= (SELECT min(ts) FROM mixed) AND e.ts <= (SELECT max(last_ts) FROM mixed)
),
overruled AS (  -- the last word before each execution was no
    SELECT x.subject, x.tenant, x.tool, x.call_id, x.trace_id, x.ts AS ran_at, x.event_id AS ran_by,
           max({'ts': d.ts, 'event_id': d.event_id, 'decision': d.decision, 'reason': d.reason}) AS word
    FROM steps x
    JOIN steps d ON d.tenant = x.tenant AND d.call_key = x.call_key
                AND d.decision IS NOT NULL AND d.ts <= x.ts AND d.ts >= x.ts - $lookback
    WHERE x.ran AND x.ts >= $since
    GROUP BY ALL
),
undecided AS (  -- executions that no gate knows of
    SELECT actor(agent, principal, session, trace_id, source) AS subject,
           coalesce(tenant, '') AS tenant, tool, params_digest, call_id, trace_id,
           executed_at AS ran_at, executed_by AS ran_by
    FROM calls
    WHERE executed_at >= $since AND executed_at < $until
      AND decision IS NULL AND tool IS NOT NULL AND params_digest IS NOT NULL
),
words AS (  -- what gates said of the same thing; of one instant, a yes counts
    SELECT actor(agent, principal, session, trace_id, source) AS subject,
           coalesce(tenant, '') AS tenant, tool, params_digest, decided_at,
           min({'decision': decision, 'event_id': decided_by, 'reason': reason}) AS word
    FROM calls
    WHERE decided_at >= $since - $within AND decided_at < $until AND decision IN ('allow', 'deny')
      AND tool IS NOT NULL AND params_digest IS NOT NULL
    GROUP BY ALL
),
unasked AS (
    SELECT u.*, w.decided_at, w.word
    FROM undecided u
    ASOF JOIN words w ON u.subject = w.subject AND u.tenant = w.tenant AND u.tool = w.tool
                     AND u.params_digest = w.params_digest AND u.ran_at >= w.decided_at
    WHERE w.decided_at >= u.ran_at - $within
)
SELECT subject, tenant, word.ts AS started_at, ran_at AS ended_at,
       list_sort(list_distinct([word.event_id, ran_by])) AS event_ids,
       tool, word.reason AS reason, call_id, trace_id, 'the same call' AS joined_by
FROM overruled
WHERE word.decision = 'deny'
UNION ALL
SELECT subject, tenant, decided_at, ran_at, list_sort([word.event_id, ran_by]),
       tool, word.reason, call_id, trace_id, 'the same agent, tool and parameters'
FROM unasked
WHERE word.decision = 'deny'
