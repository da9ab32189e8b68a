-- title     = "{subject}: {calls} external calls in {window}, {against}"
-- title_zh  = "{subject}：{window}内对外调用 {calls} 次，{against_zh}"
-- severity  = "high"
-- why       = "An agent calls outside far more than it ever does. It may be sending data away, be stuck in a loop, or have been told by somebody else what to do."
-- respond   = "Look at which hosts the calls in the evidence went to and with what parameters. Pause the agent if you cannot explain them. If it is a planned batch, let it run and record the alert as expected."
-- respond_zh = "查看证据中的调用去了哪些主机、带了什么参数。无法解释就暂停该智能体。若是计划内的批处理，让它运行，并把告警记为符合预期。"
-- quiet     = "A batch job that starts, the first busy day after a quiet one. Fewer than `min_calls` calls are never a spike. Agents without a history are held against the fixed `cap`."
-- lookback  = "4 days 2 hours"
-- gap       = "15 minutes"
-- needs     = ["agent", "host or kind egress"]
-- [params]  # lookback >= 4 x baseline + 7 x window: the reference, its lowest level, that level's reference, who was there
-- window    = { type = "interval", default = "10 minutes", min = "1 minute", max = "15 minutes" }
-- baseline  = { type = "interval", default = "24 hours", min = "1 hour", max = "24 hours" }
-- factor    = { type = "integer", default = 5, min = 2 }
-- min_calls = { type = "integer", default = 20, min = 1 }
-- min_baseline = { type = "integer", default = 20, min = 1 }
-- cap       = { type = "integer", default = 200, min = 1 }
-- statistic = { type = "text", default = "median", choices = ["median", "mean"] }

-- A window closes with each minute that has calls in it. Its reference are the aligned buckets of the `baseline` that
-- end at least one window before it starts: zero where others sent something, absent where nobody did (the pipeline
-- was down) or where the agent had not been seen for a whole `baseline`.
-- Two passes keep trouble out of the reference. First each bucket is held against the lowest usual level of the
-- `baseline` before it; one that fires is left out. So a surge does not become usual by lasting.
WITH busy AS (  -- whoever could fire at all
    SELECT coalesce(tenant, '') AS tenant, coalesce(agent, '(no agent)') AS subject
    FROM minute_counts
    WHERE minute >= $since - $window AND minute < $until
      AND date_trunc('minute', $until - INTERVAL '1 microsecond') >= $since  -- else no minute ends in the range
    GROUP BY ALL
    HAVING sum(external) >= $min_calls
),
minutes AS (
    SELECT b.tenant, b.subject, m.minute, sum(m.external)::BIGINT AS calls
    FROM minute_counts m
    JOIN busy b ON b.tenant = coalesce(m.tenant, '') AND b.subject = coalesce(m.agent, '(no agent)')
    WHERE m.minute >= $since - $lookback AND m.minute < $until
    GROUP BY ALL
),
closed AS (
    SELECT tenant, subject, minute + INTERVAL '1 minute' AS ended_at,
           sum(calls) OVER (PARTITION BY tenant, subject ORDER BY minute
                            RANGE BETWEEN $window - INTERVAL '1 minute' PRECEDING AND CURRENT ROW)::BIGINT AS calls
    FROM minutes
    WHERE calls > 0 AND minute >= $since - $window - INTERVAL '1 minute'
),
high AS (
    SELECT *, time_bucket($window, ended_at) - 3 * $window AS newest  -- the start of the last bucket of its reference
    FROM closed
    WHERE calls >= $min_calls AND ended_at >= $since AND ended_at < $until
),
alive AS (
    SELECT DISTINCT time_bucket($window, minute) AS bucket
    FROM minute_counts
    WHERE minute >= $since - $lookback AND minute < $until AND EXISTS (FROM high)
),
bucketed AS (
    SELECT m.tenant, m.subject, time_bucket($window, m.minute) AS bucket, sum(m.calls)::BIGINT AS calls
    FROM minutes m
    SEMI JOIN high h ON h.tenant = m.tenant AND h.subject = m.subject
    GROUP BY ALL
),
every AS (
    SELECT s.tenant, s.subject, t.bucket, b.calls, a.bucket IS NOT NULL AS alive,
           max(b.bucket) OVER (PARTITION BY s.tenant, s.subject ORDER BY t.bucket
                               RANGE BETWEEN $baseline PRECEDING AND CURRENT ROW) IS NOT NULL AS known
    FROM (SELECT DISTINCT tenant, subject FROM high) s
    CROSS JOIN (SELECT unnest(generate_series(time_bucket($window, $since - $lookback), $until, $window)) AS bucket) t
    LEFT JOIN alive a ON a.bucket = t.bucket
    LEFT JOIN bucketed b ON b.tenant = s.tenant AND b.subject = s.subject AND b.bucket = t.bucket
),
levels AS (
    SELECT tenant, subject, bucket, CASE WHEN alive AND known THEN coalesce(calls, 0) END AS calls
    FROM every
),
first_pass AS (
    SELECT *, CASE WHEN count(calls) OVER before < $min_baseline THEN NULL
                   WHEN $statistic = 'mean' THEN avg(calls) OVER before
                   ELSE median(calls) OVER before END AS usual
    FROM levels
    WINDOW before AS (PARTITION BY tenant, subject ORDER BY bucket
                      RANGE BETWEEN $baseline + $window PRECEDING AND 2 * $window PRECEDING)
),
sound AS (
    SELECT tenant, subject, bucket,
           CASE WHEN calls >= $min_calls AND calls > $factor * min(usual) OVER (
                    PARTITION BY tenant, subject ORDER BY bucket RANGE BETWEEN $baseline PRECEDING AND CURRENT ROW)
                THEN NULL ELSE calls END AS calls
    FROM first_pass
),
second_pass AS (
    SELECT tenant, subject, bucket, count(calls) OVER upto AS n, sum(calls) OVER upto AS total,
           median(calls) OVER upto AS middle
    FROM sound
    WINDOW upto AS (PARTITION BY tenant, subject ORDER BY bucket
                    RANGE BETWEEN $baseline - $window PRECEDING AND CURRENT ROW)
),
fired AS (
    SELECT h.tenant, h.subject, h.ended_at, h.calls,
           CASE WHEN p.n >= $min_baseline
                THEN round(CASE WHEN $statistic = 'mean' THEN p.total / p.n ELSE p.middle END, 1) END AS usual
    FROM high h
    JOIN second_pass p ON p.tenant = h.tenant AND p.subject = h.subject AND p.bucket = h.newest
    WHERE CASE WHEN p.n < $min_baseline THEN h.calls >= $cap
               WHEN $statistic = 'mean' THEN h.calls * p.n > $factor * p.total  -- whole numbers: exactly `factor` times is quiet
               ELSE h.calls > $factor * p.middle END
),
shown AS (  -- at most 20 events a minute can be among the last 20 of a window
    SELECT e.tenant, e.subject, e.ts, e.event_id, date_trunc('minute', e.ts) AS minute
    FROM (SELECT coalesce(tenant, '') AS tenant, coalesce(agent, '(no agent)') AS subject, ts, event_id
          FROM events
          WHERE ts >= $since - $window - INTERVAL '1 minute' AND ts < $until
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
SELECT f.subject, f.tenant, f.ended_at - $window AS started_at, f.ended_at,
       coalesce(list_sort(list_transform(e.near, lambda x: x.event_id)), []::VARCHAR[]) AS event_ids,
       CASE WHEN f.usual = 0 THEN 'medium' ELSE 'high' END AS severity,  -- the first activity of a quiet agent: look, do not run
       f.calls, f.usual,
       CASE WHEN f.usual IS NULL THEN 'new: no history to compare with' ELSE 'usually ' || format('{:g}', f.usual) END AS against,
       CASE WHEN f.usual IS NULL THEN '新：没有可比的历史' ELSE '平时 ' || format('{:g}', f.usual) || ' 次' END AS against_zh
FROM fired f
LEFT JOIN evidence e ON e.tenant = f.tenant AND e.subject = f.subject AND e.ended_at = f.ended_at
