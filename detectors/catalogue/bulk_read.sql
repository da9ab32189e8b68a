-- title     = "{subject}: {total} {unit} read in {window}, {against}"
-- title_zh  = "{subject}：{window}内读取 {total} {unit_zh}，{against_zh}"
-- severity  = "high"
-- tags      = ["data"]
-- why       = "An agent reads far more than it ever does. Copying a whole customer list is what a stolen account, an injected instruction or a loop without an end looks like from the gate."
-- respond   = "Open the largest reads in the evidence: which table or list, asked for by whom, and where the trace goes next. A send, an upload or an egress after it is the bad case: pause the agent and revoke its access to that source; giving it back undoes that. A report or a migration that somebody planned is harmless: record the alert as expected."
-- respond_zh = "查看证据中最大的几次读取：读了哪张表或名单、由谁发起、之后调用链做了什么。其后若有发送、上传或外发，按泄露处理：暂停智能体，撤销其对该数据源的访问，恢复授权即可撤销。若是计划内的报表或迁移则无害，把告警记为符合预期。"
-- quiet     = "A monthly report, a migration, a first synchronisation: exempt the agent until its end. Who reads a few times a day, so that nothing is usual, may read `jobs` times as much as on its second busiest day of the four weeks before. Less than `min_rows` rows and `min_bytes` bytes in a window is never much. Logs that tell neither rows nor bytes show nothing here."
-- lookback  = "29 days"
-- gap       = "30 minutes"
-- needs     = ["agent", "response_rows or response_bytes"]
-- hot       = "SELECT 1 FROM minute_counts WHERE minute >= $since - INTERVAL '1 minute' AND minute < $until - INTERVAL '1 minute' AND (rows_read > 0 OR bytes_read > 0)"
-- [params]  # lookback: as in external_call_spike
-- window    = { type = "interval", default = "10 minutes", min = "1 minute", max = "15 minutes" }
-- baseline  = { type = "interval", default = "24 hours", min = "1 hour", max = "24 hours" }
-- factor    = { type = "integer", default = 10, min = 2 }
-- jobs      = { type = "integer", default = 3, min = 1 }
-- critical_factor = { type = "integer", default = 100, min = 2 }
-- min_rows  = { type = "integer", default = 1000, min = 1 }
-- min_bytes = { type = "integer", default = 10000000, min = 1 }
-- cap_rows  = { type = "integer", default = 20000, min = 1 }
-- cap_bytes = { type = "integer", default = 200000000, min = 1 }
-- min_baseline = { type = "integer", default = 20, min = 1 }
-- warm_up   = { type = "interval", default = "24 hours", min = "0 seconds", max = "7 days" }
-- statistic = { type = "text", default = "median", choices = ["median", "mean"] }

-- What is usual, and how trouble is kept out of it: ingest/baseline.sql.
WITH fired AS (  -- where both are far above, the rows are told
    SELECT *
    FROM (
        SELECT 'rows' AS unit, * FROM far_above_usual('rows_read', $since, $until, $lookback, $window, $baseline, $factor, $min_rows, $min_baseline,
                                                      $cap_rows, $statistic, $warm_up, local_zone())
        UNION ALL
        SELECT 'bytes', * FROM far_above_usual('bytes_read', $since, $until, $lookback, $window, $baseline, $factor, $min_bytes, $min_baseline,
                                               $cap_bytes, $statistic, $warm_up, local_zone()))
    QUALIFY row_number() OVER (PARTITION BY tenant, subject, ended_at ORDER BY unit DESC) = 1
),
past AS (  -- who usually reads nothing runs now and then: the largest window of each of its days before
    SELECT unit, tenant, subject, day, max(n) AS most
    FROM (SELECT unit, tenant, subject, minute::DATE AS day, time_bucket($window, minute) AS bucket, sum(n) AS n
          FROM (SELECT 'rows' AS unit, * FROM measured('rows_read', $since - $lookback, $until)
                UNION ALL SELECT 'bytes', * FROM measured('bytes_read', $since - $lookback, $until))
          SEMI JOIN (FROM fired WHERE usual = 0) USING (unit, tenant, subject)
          WHERE n > 0 AND EXISTS (FROM fired WHERE usual = 0)
          GROUP BY ALL)
    GROUP BY ALL
),
as_ever AS (  -- the second largest of the days, lest one theft makes the next one usual
    SELECT f.unit, f.tenant, f.subject, f.ended_at
    FROM fired f
    JOIN past p ON p.unit = f.unit AND p.tenant = f.tenant AND p.subject = f.subject AND p.day < f.ended_at::DATE AND p.day >= f.ended_at::DATE - 28
    WHERE f.usual = 0
    GROUP BY ALL
    HAVING any_value(f.total) <= $jobs * list_reverse_sort(list(p.most))[2]
),
reads AS (  -- the largest 20 of a minute: no more of them can be among the largest 20 of a window
    SELECT f.tenant, f.subject, f.unit, date_trunc('minute', e.ts) AS minute, e.tool, e.event_id,
           CASE f.unit WHEN 'rows' THEN e.response_rows ELSE e.response_bytes END AS amount
    FROM (SELECT coalesce(tenant, '') AS tenant, counted_for(agent, principal, source) AS subject, ts, event_id, tool, response_rows, response_bytes
          FROM events
          WHERE ts >= $since - $window - INTERVAL '1 minute' AND ts < $until AND kind = 'tool_executed' AND EXISTS (FROM fired)) e
    JOIN (SELECT DISTINCT tenant, subject, unit FROM fired) f ON f.tenant = e.tenant AND f.subject = e.subject
    WHERE amount > 0
    QUALIFY row_number() OVER (PARTITION BY f.tenant, f.subject, f.unit, date_trunc('minute', e.ts) ORDER BY amount DESC, e.event_id) <= 20
),
evidence AS (
    SELECT f.tenant, f.subject, f.ended_at,
           list_reverse_sort(list({'amount': r.amount, 'event_id': r.event_id, 'tool': r.tool}))[:20] AS largest
    FROM (SELECT *, unnest(generate_series(ended_at - $window, ended_at - INTERVAL '1 minute', INTERVAL '1 minute')) AS minute
          FROM fired) f
    JOIN reads r ON r.tenant = f.tenant AND r.subject = f.subject AND r.unit = f.unit AND r.minute = f.minute
    GROUP BY ALL
)
SELECT f.subject, f.tenant, f.agent, f.ended_at - $window AS started_at, f.ended_at,
       coalesce(list_sort(list_distinct(list_transform(e.largest, lambda x: x.event_id))), []::VARCHAR[]) AS event_ids,
       CASE WHEN f.usual = 0 THEN 'medium' WHEN f.total > $critical_factor * f.usual THEN 'critical' ELSE 'high' END AS severity,
       f.total, f.unit, CASE f.unit WHEN 'rows' THEN '行' ELSE '字节' END AS unit_zh, e.largest[1].tool AS tool,
       round(f.usual, 1) AS usual, round(f.total / nullif(f.usual, 0), 1) AS ratio, round(f.threshold, 1) AS threshold,
       CASE f.basis WHEN 'season' THEN 'this time of the week' WHEN 'day' THEN 'last 24 hours' ELSE 'none' END AS baseline_used,
       CASE f.basis WHEN 'season' THEN 'at this time of the week usually ' || format('{:g}', round(f.usual, 1))
                    WHEN 'day' THEN 'usually ' || format('{:g}', round(f.usual, 1))
                    ELSE 'new: no history to compare with' END AS against,
       CASE f.basis WHEN 'season' THEN '每周此时平时 ' || format('{:g}', round(f.usual, 1))
                    WHEN 'day' THEN '平时 ' || format('{:g}', round(f.usual, 1))
                    ELSE '新：没有可比的历史' END AS against_zh
FROM fired f
ANTI JOIN as_ever a ON a.unit = f.unit AND a.tenant = f.tenant AND a.subject = f.subject AND a.ended_at = f.ended_at
LEFT JOIN evidence e ON e.tenant = f.tenant AND e.subject = f.subject AND e.ended_at = f.ended_at
