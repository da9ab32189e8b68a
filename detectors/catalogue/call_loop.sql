-- title     = "{subject}: {times} times {what} within {within}, with the same result"
-- title_zh  = "{subject}：{within}内 {what} 重复 {times} 次，结果相同"
-- severity  = "medium"
-- tags      = ["loops"]
-- why       = "The agent asks the same thing over and over and is told the same. It learns nothing by it, burns tokens and time, and will not stop by itself."
-- respond   = "Open the trace and read the result that it does not understand. Stop the run: no further call will change it. If it waits for something, let it wait longer between two looks; if the tool is broken, mend that first."
-- respond_zh = "打开调用链，看它没有理解的那个结果。停止这次运行：再调用也不会改变。若它在等待，拉长两次查询的间隔；若是工具坏了，先修工具。"
-- quiet     = "Polling until something is ready, and polling with results that change: a result that differs begins a new count. What waits (its tool's name or its result says so), and calls of which no result is known, are given `polls`. Commits: see repeated_commit. What was asked so in `habit` hours of the day before the last 24 hours."
-- lookback  = "2 days 1 hour"
-- gap       = "15 minutes"
-- needs     = ["agent", "tool", "params or params_digest", "kind tool_executed", "response or response_digest"]
-- inhibited_by = ["repeated_commit"]
-- kinds     = ["tool_proposed", "tool_decided", "tool_executed", "approval_requested", "approval_decided"]
-- hot       = "SELECT 1 FROM calls c JOIN calls p ON p.params_digest = c.params_digest AND p.tool = c.tool AND p.call_key <> c.call_key WHERE c.executed_at >= $since AND c.executed_at < $until AND p.executed_at >= $since - INTERVAL '1 hour' AND p.executed_at < $until"
-- [params]
-- times     = { type = "integer", default = 10, min = 2 }
-- polls     = { type = "integer", default = 50, min = 2 }
-- cycles    = { type = "integer", default = 5, min = 2, max = 50 }
-- within    = { type = "interval", default = "10 minutes", min = "10 seconds", max = "1 hour" }
-- habit     = { type = "integer", default = 6, min = 1, max = 24 }

-- `run` is where it loops: the trace, else the session. Agents that work side by side on one question are not a loop.
WITH done AS NOT MATERIALIZED (  -- read again for the few that repeat anything
    SELECT coalesce(tenant, '') AS tenant, actor(agent, principal, session, trace_id, source) AS subject,
           coalesce(trace_id, session, '') AS run, tool, params_digest, agent, op,
           executed_at AS ts, call_key, executed_by AS event_id, status, error,
           hash(coalesce(tenant, ''), actor(agent, principal, session, trace_id, source), coalesce(trace_id, session, '')) AS whose
    FROM calls
    WHERE executed_at >= $since - $within AND executed_at < $until AND tool IS NOT NULL AND params_digest IS NOT NULL
),
often AS MATERIALIZED (  -- who repeats anything at all: of one thing `times`, of two things `cycles`
    SELECT whose
    FROM (SELECT whose, hash(tool, params_digest) AS asked, count(*) AS n, max(ts) AS last_ts, bool_and(coalesce(op, '') = 'commit') AS commits
          FROM done GROUP BY ALL HAVING count(*) >= least($times, $polls, $cycles))
    GROUP BY ALL
    HAVING max(last_ts) >= $since
       AND (count(*) > 1 OR max(CASE WHEN commits THEN 0 ELSE n END) >= least($times, $polls))
),
results AS (
    SELECT d.* EXCLUDE (error, whose),
           coalesce(e.response_digest, md5(e.response::VARCHAR), 'error ' || d.error) AS result,
           waits(d.tool) OR coalesce(regexp_matches(lower(left(e.response::VARCHAR, 2000)),
               '\b(pending|queued|running|in[ _-]?progress|processing|waiting|not[ _-]?ready|starting|scheduled)\b'), false) AS waiting
    FROM done d
    SEMI JOIN often o USING (whose)
    LEFT JOIN (SELECT event_id, response_digest, response FROM events
               WHERE ts >= $since - $within AND ts < $until AND kind = 'tool_executed' AND EXISTS (FROM often)) e
        ON e.event_id = d.event_id
),
steps AS (
    SELECT *, hash(tool, params_digest, status, result) AS step,
           result IS DISTINCT FROM lag(result) OVER in_time OR status IS DISTINCT FROM lag(status) OVER in_time AS anew
    FROM results
    WINDOW in_time AS (PARTITION BY tenant, subject, run, tool, params_digest ORDER BY ts, call_key)
),
numbered AS (
    SELECT *, sum(CASE WHEN anew THEN 1 ELSE 0 END)
                  OVER (PARTITION BY tenant, subject, run, tool, params_digest ORDER BY ts, call_key) AS stretch,
           CASE WHEN step = lag(step) OVER whole THEN 0  -- the same call in a row is counted by itself
                WHEN step = lag(step, 2) OVER whole THEN 2 WHEN step = lag(step, 3) OVER whole THEN 3
                WHEN step = lag(step, 4) OVER whole THEN 4 END AS back
    FROM steps
    WINDOW whole AS (PARTITION BY tenant, subject, run ORDER BY ts, call_key)
),
counted AS (
    SELECT *, count(*) OVER behind AS times, min(ts) OVER behind AS first_ts,
           list({'ts': ts, 'event_id': event_id})
               OVER (PARTITION BY tenant, subject, run, tool, params_digest, stretch ORDER BY ts, call_key
                     ROWS BETWEEN 19 PRECEDING AND CURRENT ROW) AS near
    FROM numbered
    WINDOW behind AS (PARTITION BY tenant, subject, run, tool, params_digest, stretch ORDER BY ts
                      RANGE BETWEEN $within PRECEDING AND CURRENT ROW)
    QUALIFY times >= least($times, $polls)
        AND row_number() OVER (PARTITION BY tenant, subject, run, tool, params_digest, stretch, ts ORDER BY call_key DESC) = 1
),
circled AS (  -- `back` calls ago the same, and so for all but the first time round
    SELECT *, lag(ts, (back * $cycles - 1)::INTEGER) OVER whole AS first_ts,
           list({'ts': ts, 'event_id': event_id, 'tool': tool, 'back': back, 'waiting': waiting})
               OVER (PARTITION BY tenant, subject, run ORDER BY ts, call_key ROWS BETWEEN 199 PRECEDING AND CURRENT ROW) AS near
    FROM numbered
    WINDOW whole AS (PARTITION BY tenant, subject, run ORDER BY ts, call_key)
    QUALIFY back > 0 AND first_ts >= ts - $within
),
fired AS (
    SELECT tenant, subject, run, agent, tool, params_digest, event_id, first_ts, ts, times, 1 AS length, [tool] AS tools,
           list_filter(near, lambda x: x.ts >= first_ts) AS near, waiting OR result IS NULL AS patient, result IS NOT NULL AS known
    FROM counted
    WHERE coalesce(op, '') <> 'commit' AND times >= CASE WHEN waiting OR result IS NULL THEN $polls ELSE $times END
    UNION ALL
    SELECT tenant, subject, run, agent, tool, params_digest, event_id, first_ts, ts, $cycles, back,
           list_sort(list_distinct(list_transform(near[-back:], lambda x: x.tool))),
           list_transform(near[-least(20, back * $cycles):], lambda x: {'ts': x.ts, 'event_id': x.event_id}), result IS NULL, result IS NOT NULL
    FROM circled
    WHERE len(list_filter(near[-(back * ($cycles - 1)):], lambda x: x.back = back)) = back * ($cycles - 1)
      AND len(list_filter(near[-back:], lambda x: x.waiting)) = 0
),
hours AS (  -- in which hours the same was asked before
    SELECT DISTINCT f.tenant, f.subject, f.tool, f.params_digest, date_trunc('hour', c.executed_at) AS hour
    FROM calls c
    JOIN (SELECT DISTINCT tenant, subject, tool, params_digest FROM fired WHERE ts >= $since) f
        ON f.tenant = coalesce(c.tenant, '') AND f.subject = actor(c.agent, c.principal, c.session, c.trace_id, c.source)
       AND f.tool = c.tool AND f.params_digest = c.params_digest
    WHERE c.executed_at >= $since - $lookback AND c.executed_at < $until
),
habits AS (
    SELECT *, count(*) OVER (PARTITION BY tenant, subject, tool, params_digest ORDER BY hour
                             RANGE BETWEEN INTERVAL '47 hours' PRECEDING AND INTERVAL '24 hours' PRECEDING) AS known_hours
    FROM hours
)
SELECT f.subject, f.tenant, f.agent, f.first_ts AS started_at, f.ts AS ended_at,
       list_sort(list_distinct(list_transform(f.near, lambda x: x.event_id))) AS event_ids,
       CASE WHEN f.patient THEN 'low' ELSE 'medium' END AS severity,
       f.times, f.length AS cycle, f.tools, array_to_string(f.tools, ' + ') AS what, f.known AS result_known, f.run
FROM fired f
LEFT JOIN habits h ON h.tenant = f.tenant AND h.subject = f.subject AND h.tool = f.tool
                  AND h.params_digest = f.params_digest AND h.hour = date_trunc('hour', f.ts)
WHERE f.ts >= $since AND coalesce(h.known_hours, 0) < $habit
