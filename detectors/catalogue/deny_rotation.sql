-- title     = "{subject}: {denials} denials in {within}, over {tools}"
-- title_zh  = "{subject}：{within}内被拒 {denials} 次，涉及 {tools}"
-- severity  = "high"
-- tags      = ["denials", "loops"]
-- why       = "One task collects denials across tools or child agents. Each of them stays under the limit for one tool, but together they look for a way round the same no."
-- respond   = "Open the root trace and compare the targets of the denied calls. If they aim at the same thing, pause the task, its child agents included. If each denial is a separate honest mistake, fix the agent's tool list."
-- respond_zh = "打开根调用链，比较被拒调用的目标。若目标相同，暂停该任务及其子智能体。若每次都是互不相关的误用，修正该智能体的工具清单。"
-- quiet     = "A task that explores many tools it was never granted, for instance right after its tool list was cut. Denials further apart than `within`. One tool that one agent asks for in one trace: that is for deny_retry."
-- lookback  = "1 hour"
-- gap       = "10 minutes"
-- needs     = ["decision", "trace_id"]
-- inhibited_by = ["deny_retry"]
-- kinds     = ["tool_proposed", "tool_decided", "tool_executed", "approval_requested", "approval_decided"]
-- hot       = "SELECT 1 FROM calls WHERE ts >= $since AND ts < $until AND decision = 'deny'"
-- [params]  # a denial's root is looked for in the calls of the `lookback - within` before it
-- denials   = { type = "integer", default = 5, min = 2 }
-- within    = { type = "interval", default = "10 minutes", min = "1 second", max = "10 minutes" }

WITH RECURSIVE denials AS (
    SELECT coalesce(tenant, '') AS tenant, call_key, ts, trace_id, parent_trace_id, agent, tool,
           coalesce('session ' || session, 'agent ' || agent, 'principal ' || principal, 'source ' || source) AS otherwise,
           coalesce(decided_by, event_ids[1]) AS event_id
    FROM calls
    WHERE ts >= $since - $within AND ts < $until
      AND decision = 'deny' AND coalesce(reason_code, '') NOT IN ('expired', 'cancelled')
      AND EXISTS (FROM calls WHERE ts >= $since AND ts < $until AND decision = 'deny')  -- else no row can end here
),
above AS (  -- every trace that a denied call may hang below, at whatever time
    SELECT tenant, trace_id FROM denials WHERE trace_id IS NOT NULL
    UNION
    SELECT a.tenant, c.parent_trace_id
    FROM above a
    JOIN calls c ON c.trace_id = a.trace_id AND coalesce(c.tenant, '') = a.tenant
    WHERE c.ts >= $since - $lookback AND c.ts < $until AND c.parent_trace_id IS NOT NULL
),
links AS (  -- what the calls say about where their trace hangs; of one instant, one parent
    SELECT a.tenant, a.trace_id, c.ts, min(c.parent_trace_id) AS parent
    FROM calls c
    JOIN above a ON a.trace_id = c.trace_id AND a.tenant = coalesce(c.tenant, '')
    WHERE c.ts >= $since - $lookback AND c.ts < $until AND c.parent_trace_id <> c.trace_id
    GROUP BY ALL
),
marked AS (
    SELECT *, parent IS NOT DISTINCT FROM lag(parent) OVER in_time
              AND lag(ts) OVER in_time >= ts - ($lookback - $within) AS goes_on
    FROM links
    WINDOW in_time AS (PARTITION BY tenant, trace_id ORDER BY ts)
),
told AS (  -- the stretches of time in which one parent was the last that was named
    SELECT tenant, trace_id, parent, min(ts) AS since, max(ts) AS last_ts,
           lead(min(ts)) OVER (PARTITION BY tenant, trace_id ORDER BY min(ts)) AS until
    FROM (SELECT *, sum(CASE WHEN goes_on THEN 0 ELSE 1 END) OVER (PARTITION BY tenant, trace_id ORDER BY ts) AS stretch
          FROM marked)
    GROUP BY tenant, trace_id, parent, stretch
),
climb AS (  -- from trace to parent, by what was known at the time of the denial
    SELECT tenant, call_key, ts, trace_id AS root, [trace_id] AS path
    FROM denials
    WHERE trace_id IS NOT NULL
    UNION ALL
    SELECT c.tenant, c.call_key, c.ts, t.parent, list_append(c.path, t.parent)
    FROM climb c
    JOIN told t ON t.tenant = c.tenant AND t.trace_id = c.root
               AND t.since <= c.ts AND t.last_ts >= c.ts - ($lookback - $within) AND (t.until > c.ts OR t.until IS NULL)
    WHERE len(c.path) < 16 AND NOT list_contains(c.path, t.parent)
),
rooted AS (
    SELECT d.*, coalesce(r.root, d.otherwise) AS root
    FROM denials d
    LEFT JOIN (SELECT tenant, call_key, ts, arg_max(root, len(path)) AS root FROM climb GROUP BY ALL) r
        USING (tenant, call_key, ts)
),
counted AS (
    SELECT *,
           count(*) OVER behind AS denials, min(ts) OVER behind AS first_ts,
           min(coalesce(tool, '')) OVER behind <> max(coalesce(tool, '')) OVER behind
               OR min(coalesce(agent, '')) OVER behind <> max(coalesce(agent, '')) OVER behind
               OR min(coalesce(trace_id, '')) OVER behind <> max(coalesce(trace_id, '')) OVER behind AS in_turn,
           list({'ts': ts, 'event_id': event_id, 'tool': tool, 'agent': agent})
               OVER (PARTITION BY tenant, root ORDER BY ts, call_key
                     ROWS BETWEEN 19 PRECEDING AND CURRENT ROW) AS near
    FROM rooted
    WINDOW behind AS (PARTITION BY tenant, root ORDER BY ts RANGE BETWEEN $within PRECEDING AND CURRENT ROW)
    -- denials of one instant are one row, the last of them
    QUALIFY row_number() OVER (PARTITION BY tenant, root, ts ORDER BY call_key DESC) = 1
),
fired AS (
    SELECT * REPLACE (list_filter(near, lambda x: x.ts >= first_ts) AS near)
    FROM counted
    WHERE denials >= $denials AND in_turn AND ts >= $since
)
SELECT root AS subject, tenant, first_ts AS started_at, ts AS ended_at,
       list_sort(list_distinct(list_transform(near, lambda x: x.event_id))) AS event_ids,
       denials,
       list_sort(list_distinct(list_filter(list_transform(near, lambda x: x.tool), lambda x: x IS NOT NULL))) AS tools,
       list_sort(list_distinct(list_filter(list_transform(near, lambda x: x.agent), lambda x: x IS NOT NULL))) AS agents
FROM fired
