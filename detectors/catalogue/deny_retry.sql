-- title     = "{subject}: {denials} denials in a row for {tool}"
-- title_zh  = "{subject}：{tool} 连续被拒 {denials} 次"
-- severity  = "high"
-- tags      = ["denials", "loops"]
-- why       = "The agent was told no and keeps trying the same tool. It is stuck in a loop, or it is working its way round its policy; either way it burns budget and nobody has stopped it."
-- respond   = "Open the trace and read the reason of the denials. Pause the agent if nobody attends it. If the call is legitimate, the policy lacks an entry: add it, and let the agent try again."
-- respond_zh = "打开调用链，阅读拒绝原因。若无人值守，暂停该智能体。若调用本身正当，则是策略缺少条目：补上后让智能体重试。"
-- quiet     = "A call that is denied, corrected and then allowed. An approval that nobody answered. Denials further apart than `within`."
-- lookback  = "1 hour"
-- gap       = "10 minutes"
-- needs     = ["agent", "tool", "decision"]
-- kinds     = ["tool_proposed", "tool_decided", "tool_executed", "approval_requested", "approval_decided"]
-- hot       = "SELECT 1 FROM calls WHERE ts >= $since AND ts < $until AND decision = 'deny'"
-- [params]  # the bounds keep lookback >= (denials - 1) x within, so that a slice sees all that a row depends on
-- denials   = { type = "integer", default = 3, min = 2, max = 7 }
-- within    = { type = "interval", default = "10 minutes", min = "1 second", max = "10 minutes" }

WITH hot AS (  -- a row ends with a denial that has as many behind it: only there is looked at what came in between
    SELECT DISTINCT tenant, subject, tool
    FROM (SELECT actor(agent, principal, session, trace_id, source) AS subject, coalesce(tenant, '') AS tenant, tool, ts
          FROM calls
          WHERE ts >= $since - $lookback AND ts < $until AND decision = 'deny'
            AND EXISTS (FROM calls WHERE ts >= $since AND ts < $until AND decision = 'deny'))
    QUALIFY ts >= $since AND ts - lag(ts, $denials - 1) OVER (PARTITION BY tenant, subject, tool ORDER BY ts) <= ($denials - 1) * $within
),
decided AS (
    SELECT h.tenant, h.subject, h.tool, c.ts, c.call_key, c.decision, c.reason, c.rule_ids, c.trace_id,
           coalesce(c.decided_by, c.event_ids[1]) AS event_id
    FROM calls c
    JOIN hot h ON h.tool = c.tool AND h.tenant = coalesce(c.tenant, '')
              AND h.subject = actor(c.agent, c.principal, c.session, c.trace_id, c.source)
    WHERE c.ts >= $since - $lookback AND c.ts < $until
      -- an approval that nobody answered, or that was called off, is no answer
      AND (c.decision = 'allow' OR (c.decision = 'deny' AND coalesce(c.reason_code, '') NOT IN ('expired', 'cancelled')))
),
linked AS (
    SELECT *, decision = 'deny'
              AND lag(decision) OVER in_time = 'deny'
              AND lag(ts) OVER in_time + $within >= ts AS goes_on
    FROM decided
    WINDOW in_time AS (PARTITION BY tenant, subject, tool ORDER BY ts, call_key)  -- call_key settles a tie
),
numbered AS (  -- a call that does not go on with a run begins the next one
    SELECT *, sum(CASE WHEN goes_on THEN 0 ELSE 1 END)
                  OVER (PARTITION BY tenant, subject, tool ORDER BY ts, call_key) AS run
    FROM linked
),
counted AS (  -- what each denial sees behind it, and no further than the lookback
    SELECT *, min(ts) OVER behind AS first_ts, count(*) OVER behind AS denials
    FROM numbered
    WHERE decision = 'deny'
    WINDOW behind AS (PARTITION BY tenant, subject, tool, run ORDER BY ts
                      RANGE BETWEEN $lookback PRECEDING AND CURRENT ROW)
),
shown AS (  -- the evidence: the last 20 of the run. Denials of one instant are one row, the last of them
    SELECT *, list({'ts': ts, 'event_id': event_id, 'reason': reason, 'rules': rule_ids, 'trace': trace_id})
                  OVER (PARTITION BY tenant, subject, tool, run ORDER BY ts, call_key
                        ROWS BETWEEN 19 PRECEDING AND CURRENT ROW) AS near
    FROM counted
    QUALIFY max(denials) OVER (PARTITION BY tenant, subject, tool, run) >= $denials
        AND row_number() OVER (PARTITION BY tenant, subject, tool, run, ts ORDER BY call_key DESC) = 1
),
fired AS (
    SELECT * REPLACE (list_filter(near, lambda x: x.ts >= first_ts) AS near)
    FROM shown
    WHERE denials >= $denials AND ts >= $since
)
SELECT subject, tenant, first_ts AS started_at, ts AS ended_at,
       list_sort(list_distinct(list_transform(near, lambda x: x.event_id))) AS event_ids,
       tool, denials, near[1].reason AS first_reason,
       list_sort(list_distinct(flatten(list_transform(near, lambda x: coalesce(x.rules, []))))) AS rules,
       list_sort(list_distinct(list_filter(list_transform(near, lambda x: x.trace), lambda x: x IS NOT NULL))) AS traces
FROM fired
