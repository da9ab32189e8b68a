-- title     = "{subject}: the same {tool} was sent {times} times within {within}, {after}"
-- title_zh  = "{subject}：{within}内同样的 {tool} 执行了 {times} 次，{after_zh}"
-- severity  = "high"
-- tags      = ["commits", "loops"]
-- why       = "A call that changes something was carried out again with the same parameters. After a time-out or an unclear error the first one may have taken effect: one payment becomes two, one message four."
-- respond   = "Look in the system behind the tool for how often it really happened, by the times in the evidence, and undo what is too much. Stop the agent if it goes on. If the caller may retry, give the call an idempotency key; if this is a job that is meant to repeat, exempt it."
-- respond_zh = "按证据中的时间，到工具背后的系统核实实际发生了几次，撤销多余的。若仍在继续，停止该智能体。若允许重试，给调用加幂等键；若本来就是重复作业，则列为豁免。"
-- quiet     = "A batch: other parameters, or another idempotency key, each time. A second try after a clear refusal (invalid, not found, declined, 4xx). Retries under one call id. Fewer than `times` repetitions that all went well. A job that did the same in `habit` different hours of the day before the last 24 hours. Shell commands of which only the tool's name says that they change anything."
-- lookback  = "2 days 1 hour"
-- gap       = "30 minutes"
-- needs     = ["agent", "tool", "params or params_digest", "status", "kind tool_executed"]
-- kinds     = ["tool_proposed", "tool_decided", "tool_executed", "approval_requested", "approval_decided"]
-- hot       = "SELECT 1 FROM calls WHERE executed_at >= $since AND executed_at < $until AND last_ts >= $since AND ts < $until AND op = 'commit' AND tool IS NOT NULL AND params_digest IS NOT NULL"
-- [params]  # a job that runs every `within` or more slowly never repeats itself
-- times     = { type = "integer", default = 3, min = 2 }
-- within    = { type = "interval", default = "15 minutes", min = "1 second", max = "1 hour" }
-- habit     = { type = "integer", default = 6, min = 1, max = 24 }

WITH done AS (  -- two logs of one call are two sources: they do not add up
    SELECT coalesce(tenant, '') AS tenant, actor(agent, principal, session, trace_id, source) AS subject, source, tool,
           agent, executed_at AS ts, call_key, executed_by AS event_id, status, error, trace_id, params_digest,
           commit_key(params) AS own_key
    FROM calls
    WHERE executed_at > $since - $within AND executed_at < $until
      AND op = 'commit' AND tool IS NOT NULL AND params_digest IS NOT NULL
),
same AS (SELECT *, coalesce('key ' || own_key, params_digest) AS what FROM done),
again AS (
    SELECT s.*
    FROM same s
    SEMI JOIN (SELECT tenant, subject, source, tool, what FROM same GROUP BY ALL HAVING count(*) > 1 AND max(ts) >= $since) t
        USING (tenant, subject, source, tool, what)
),
near AS (  -- a shell command is a commit by guess: it counts where a log or the policy says what it is
    SELECT a.*, a.ts - lag(a.ts) OVER in_time < $within AS soon,
           status IS NULL OR status = 'timeout' OR (status = 'error' AND NOT coalesce(refused_clearly(error), false)) AS unclear
    FROM again a
    WINDOW in_time AS (PARTITION BY tenant, subject, source, tool, what ORDER BY ts, call_key)
),
counted AS (
    SELECT *, count(*) OVER behind AS times, min(ts) OVER behind AS first_ts,
           sum(CASE WHEN unclear THEN 1 ELSE 0 END) OVER behind - CASE WHEN unclear THEN 1 ELSE 0 END AS unclear_before,
           arg_min(CASE WHEN unclear THEN coalesce(status, 'unknown outcome') END, CASE WHEN unclear THEN ts END) OVER behind AS outcome,
           list({'ts': ts, 'event_id': event_id, 'trace': trace_id})
               OVER (PARTITION BY tenant, subject, source, tool, what ORDER BY ts, call_key
                     ROWS BETWEEN 19 PRECEDING AND CURRENT ROW) AS shown
    FROM near
    WINDOW behind AS (PARTITION BY tenant, subject, source, tool, what ORDER BY ts
                      RANGE BETWEEN $within - INTERVAL '1 microsecond' PRECEDING AND CURRENT ROW)
    -- calls of one instant are one row, the last of them
    QUALIFY row_number() OVER (PARTITION BY tenant, subject, source, tool, what, ts ORDER BY call_key DESC) = 1
),
many AS (
    SELECT * FROM counted
    WHERE ts >= $since AND times > 1 AND (unclear_before > 0 OR times >= $times)
),
guessed AS (  -- of shells alone, what is told of the call's own events
    SELECT m.event_id
    FROM many m
    JOIN events e ON e.event_id = m.event_id
    WHERE e.ts >= $since AND e.ts < $until AND runs_commands(m.tool) AND coalesce(e.op_basis, 'inferred') = 'inferred'
),
hours AS (  -- in which hours the same was done before
    SELECT DISTINCT m.tenant, m.subject, m.source, m.tool, m.what, date_trunc('hour', c.executed_at) AS hour
    FROM calls c
    JOIN (SELECT DISTINCT tenant, subject, source, tool, what FROM many) m
        ON m.tenant = coalesce(c.tenant, '') AND m.subject = actor(c.agent, c.principal, c.session, c.trace_id, c.source)
       AND m.source = c.source AND m.tool = c.tool
       AND m.what = coalesce('key ' || commit_key(c.params), c.params_digest)
    WHERE c.executed_at >= $since - $lookback AND c.executed_at < $until AND c.op = 'commit'
),
habits AS (
    SELECT *, count(*) OVER (PARTITION BY tenant, subject, source, tool, what ORDER BY hour
                             RANGE BETWEEN INTERVAL '47 hours' PRECEDING AND INTERVAL '24 hours' PRECEDING) AS known
    FROM hours
),
fired AS (
    SELECT m.* REPLACE (list_filter(m.shown, lambda x: x.ts >= m.first_ts) AS shown)
    FROM many m
    ANTI JOIN guessed g ON g.event_id = m.event_id
    LEFT JOIN habits h ON h.tenant = m.tenant AND h.subject = m.subject AND h.source = m.source AND h.tool = m.tool
                      AND h.what = m.what AND h.hour = date_trunc('hour', m.ts)
    WHERE coalesce(h.known, 0) < $habit
)
SELECT subject, tenant, agent, first_ts AS started_at, ts AS ended_at,
       list_sort(list_distinct(list_transform(shown, lambda x: x.event_id))) AS event_ids,
       CASE WHEN own_key IS NULL THEN 'high' ELSE 'low' END AS severity,  -- whoever honours the key does it once
       tool, times, unclear_before::BIGINT AS unclear_before, own_key IS NOT NULL AS idempotency_key,
       list_sort(list_distinct(list_filter(list_transform(shown, lambda x: x.trace), lambda x: x IS NOT NULL))) AS traces,
       CASE WHEN unclear_before = 0 THEN 'each time to the end'
            ELSE 'again after ' || CASE outcome WHEN 'timeout' THEN 'a time-out' WHEN 'error' THEN 'an unclear error' ELSE 'an unknown outcome' END
       END || CASE WHEN own_key IS NULL THEN '' ELSE ', under one idempotency key' END AS after,
       CASE WHEN unclear_before = 0 THEN '每次都已完成'
            ELSE CASE outcome WHEN 'timeout' THEN '超时' WHEN 'error' THEN '不明错误' ELSE '结果不明' END || '之后重发'
       END || CASE WHEN own_key IS NULL THEN '' ELSE '，使用同一幂等键' END AS after_zh
FROM fired
