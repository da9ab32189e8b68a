-- title     = "{subject}: {calls} external calls in {window}, {against}"
-- title_zh  = "{subject}：{window}内对外调用 {calls} 次，{against_zh}"
-- severity  = "high"
-- tags      = ["egress"]
-- why       = "An agent calls outside far more than it ever does. It may be sending data away, be stuck in a loop, or have been told by somebody else what to do."
-- respond   = "Look at which hosts the calls in the evidence went to and with what parameters: one host that first_seen or unlisted_egress names too is the worst sign, the agent's usual hosts with a growing page number the best. Pause the agent if you cannot explain them; resuming it undoes that. If it is a planned batch, let it run and record the alert as expected."
-- respond_zh = "查看证据中的调用去了哪些主机、带了什么参数：若主机同时出现在 first_seen 或 unlisted_egress 中，最可疑；若是常用主机、只是翻页，多半无害。无法解释就暂停该智能体，恢复运行即可撤销。若是计划内的批处理，让它运行，并把告警记为符合预期。"
-- quiet     = "A batch job that starts, a migration, the first busy day of a new duty: exempt the agent until its end. What comes at the same hour of each week is known after two weeks. Fewer than `min_calls` calls are never a spike. Agents without a history are held against the fixed `cap`."
-- lookback  = "29 days"
-- gap       = "15 minutes"
-- needs     = ["agent", "host or kind egress"]
-- hot       = "SELECT 1 FROM minute_counts WHERE minute >= $since - INTERVAL '1 minute' AND minute < $until - INTERVAL '1 minute' AND external > 0"
-- [params]  # lookback: four weeks, and the hour around them when clocks are set; 4 x baseline + 8 x window is less
-- window    = { type = "interval", default = "10 minutes", min = "1 minute", max = "15 minutes" }
-- baseline  = { type = "interval", default = "24 hours", min = "1 hour", max = "24 hours" }
-- factor    = { type = "integer", default = 5, min = 2 }
-- critical_factor = { type = "integer", default = 20, min = 2 }
-- min_calls = { type = "integer", default = 20, min = 1 }
-- min_baseline = { type = "integer", default = 20, min = 1 }
-- warm_up   = { type = "interval", default = "24 hours", min = "0 seconds", max = "7 days" }
-- cap       = { type = "integer", default = 200, min = 1 }
-- statistic = { type = "text", default = "median", choices = ["median", "mean"] }

-- What is usual, and how trouble is kept out of it: ingest/baseline.sql.
WITH fired AS (
    SELECT * FROM far_above_usual('external', $since, $until, $lookback, $window, $baseline, $factor, $min_calls, $min_baseline,
                                  $cap, $statistic, $warm_up, local_zone())
),
shown AS (  -- at most 20 events a minute can be among the last 20 of a window
    SELECT e.tenant, e.subject, e.ts, e.event_id, date_trunc('minute', e.ts) AS minute
    FROM (SELECT coalesce(tenant, '') AS tenant, counted_for(agent, principal, source) AS subject, ts, event_id
          FROM events
          WHERE ts >= $since - $window - INTERVAL '1 minute' AND ts < $until AND EXISTS (FROM fired)
            AND coalesce(decision, '') <> 'deny' AND coalesce(status, '') <> 'denied'
            AND (kind = 'egress' OR (kind = 'tool_executed' AND host IS NOT NULL))) e
    SEMI JOIN fired f ON f.tenant = e.tenant AND f.subject = e.subject
    QUALIFY row_number() OVER (PARTITION BY e.tenant, e.subject, date_trunc('minute', e.ts)
                               ORDER BY e.ts DESC, e.event_id DESC) <= 20
),
evidence AS (
    SELECT f.tenant, f.subject, f.ended_at, list_sort(list({'ts': s.ts, 'event_id': s.event_id}))[-20:] AS near
    FROM (SELECT *, unnest(generate_series(ended_at - $window, ended_at - INTERVAL '1 minute', INTERVAL '1 minute')) AS minute
          FROM fired) f
    JOIN shown s ON s.tenant = f.tenant AND s.subject = f.subject AND s.minute = f.minute
    GROUP BY ALL
)
SELECT f.subject, f.tenant, f.agent, f.ended_at - $window AS started_at, f.ended_at,
       coalesce(list_sort(list_transform(e.near, lambda x: x.event_id)), []::VARCHAR[]) AS event_ids,
       CASE WHEN f.usual = 0 THEN 'medium'  -- the first activity of a quiet agent: look, do not run
            WHEN f.total > $critical_factor * f.usual THEN 'critical' ELSE 'high' END AS severity,
       f.total AS calls, round(f.usual, 1) AS usual, round(f.total / nullif(f.usual, 0), 1) AS ratio, round(f.threshold, 1) AS threshold,
       CASE f.basis WHEN 'season' THEN 'this time of the week' WHEN 'day' THEN 'last 24 hours' ELSE 'none' END AS baseline_used,
       CASE f.basis WHEN 'season' THEN 'at this time of the week usually ' || format('{:g}', round(f.usual, 1))
                    WHEN 'day' THEN 'usually ' || format('{:g}', round(f.usual, 1))
                    ELSE 'new: no history to compare with' END AS against,
       CASE f.basis WHEN 'season' THEN '每周此时平时 ' || format('{:g}', round(f.usual, 1)) || ' 次'
                    WHEN 'day' THEN '平时 ' || format('{:g}', round(f.usual, 1)) || ' 次'
                    ELSE '新：没有可比的历史' END AS against_zh
FROM fired f
LEFT JOIN evidence e ON e.tenant = f.tenant AND e.subject = f.subject AND e.ended_at = f.ended_at
