-- title     = "{subject}: {misses} lookups in a row found nothing, over {tools}"
-- title_zh  = "{subject}：连续 {misses} 次查询没有结果，涉及 {tools}"
-- severity  = "medium"
-- tags      = ["loops"]
-- why       = "One lookup after the other comes back empty and the agent goes on. It searches in the wrong place, for something that does not exist, or with a tool that lost its data; what it does next it does without knowing."
-- respond   = "Open the trace and compare what was asked with what you know to exist. If the tool should have found it, check its index and its rights. If the thing does not exist, stop the run before it acts on a guess, and tell whoever gave the task."
-- respond_zh = "打开调用链，对照查询内容与实际存在的数据。若本应查到，检查工具的索引和权限。若对象不存在，在它凭猜测行动之前停止运行，并告知任务发起人。"
-- quiet     = "A search that is widened and then finds something: that ends the run. Lookups of which nothing is known (no answer in the log, a time-out) neither count nor end it. Watchers of a queue or an inbox, by the tool's name, and what came back empty in `habit` hours of the day before the last 24 hours."
-- lookback  = "2 days 1 hour"
-- gap       = "15 minutes"
-- needs     = ["agent", "tool", "op", "kind tool_executed", "response or response_rows"]
-- inhibited_by = ["call_loop"]
-- kinds     = ["tool_executed"]
-- hot       = "SELECT 1 FROM events WHERE ts >= $since AND ts < $until AND kind = 'tool_executed' AND op = 'lookup' AND came_back_empty(status, error, response, response_rows, response_bytes)"
-- [params]
-- misses    = { type = "integer", default = 8, min = 2 }
-- within    = { type = "interval", default = "30 minutes", min = "1 minute", max = "1 hour" }
-- habit     = { type = "integer", default = 6, min = 1, max = 24 }

WITH pollers AS (  -- few tools have many calls; with `n` it is asked of a tool, not of each call
    SELECT tool
    FROM (SELECT tool, count(*) AS n FROM events
          WHERE ts >= $since - $within AND ts < $until AND kind = 'tool_executed' AND op = 'lookup' GROUP BY tool)
    WHERE CASE WHEN n > 0 THEN waits(tool) END
),
looked AS (
    SELECT coalesce(tenant, '') AS tenant, actor(agent, principal, session, trace_id, source) AS subject,
           coalesce(trace_id, session, '') AS run, agent, tool, ts, event_id, coalesce(call_id, event_id) AS call,
           came_back_empty(status, error, response, response_rows, response_bytes) AS empty
    FROM events
    WHERE ts >= $since - $within AND ts < $until AND kind = 'tool_executed' AND op = 'lookup'
      AND tool IS NOT NULL AND tool NOT IN (FROM pollers)
),
answered AS (
    SELECT l.*
    FROM looked l
    SEMI JOIN (SELECT tenant, subject, run FROM looked WHERE empty
               GROUP BY ALL HAVING count(*) >= $misses AND max(ts) >= $since) o USING (tenant, subject, run)
    WHERE l.empty IS NOT NULL
),
numbered AS (  -- an answer that is not empty ends a run of misses
    SELECT *, sum(CASE WHEN empty THEN 0 ELSE 1 END) OVER (PARTITION BY tenant, subject, run ORDER BY ts, event_id) AS stretch
    FROM answered
),
counted AS (  -- a call whose answer is told twice is one
    SELECT *, count(DISTINCT call) OVER behind AS misses, min(ts) OVER behind AS first_ts,
           list({'ts': ts, 'event_id': event_id, 'tool': tool})
               OVER (PARTITION BY tenant, subject, run, stretch ORDER BY ts, event_id ROWS BETWEEN 19 PRECEDING AND CURRENT ROW) AS near
    FROM numbered
    WHERE empty
    WINDOW behind AS (PARTITION BY tenant, subject, run, stretch ORDER BY ts RANGE BETWEEN $within PRECEDING AND CURRENT ROW)
    QUALIFY row_number() OVER (PARTITION BY tenant, subject, run, stretch, ts ORDER BY event_id DESC) = 1
),
fired AS (
    SELECT * REPLACE (list_filter(near, lambda x: x.ts >= first_ts) AS near)
    FROM counted
    WHERE misses >= $misses AND ts >= $since
),
hours AS (  -- in which hours the same tool found nothing before
    SELECT DISTINCT f.tenant, f.subject, f.tool, date_trunc('hour', e.ts) AS hour
    FROM events e
    JOIN (SELECT DISTINCT tenant, subject, tool FROM fired) f
        ON f.tenant = coalesce(e.tenant, '') AND f.tool = e.tool
       AND f.subject = actor(e.agent, e.principal, e.session, e.trace_id, e.source)
    WHERE e.ts >= $since - $lookback AND e.ts < $until AND e.kind = 'tool_executed' AND e.op = 'lookup'
      AND came_back_empty(e.status, e.error, e.response, e.response_rows, e.response_bytes)
),
habits AS (
    SELECT *, count(*) OVER (PARTITION BY tenant, subject, tool ORDER BY hour
                             RANGE BETWEEN INTERVAL '47 hours' PRECEDING AND INTERVAL '24 hours' PRECEDING) AS known
    FROM hours
)
SELECT f.subject, f.tenant, f.agent, f.first_ts AS started_at, f.ts AS ended_at,
       list_sort(list_distinct(list_transform(f.near, lambda x: x.event_id))) AS event_ids,
       f.misses, list_sort(list_distinct(list_transform(f.near, lambda x: x.tool))) AS tools, f.run
FROM fired f
LEFT JOIN habits h ON h.tenant = f.tenant AND h.subject = f.subject AND h.tool = f.tool AND h.hour = date_trunc('hour', f.ts)
WHERE coalesce(h.known, 0) < $habit
