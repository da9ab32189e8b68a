-- title     = "{subject}: silent for {silent_minutes} minutes, {usual}{others}"
-- title_zh  = "{subject}：已静默 {silent_minutes} 分钟，{usual_zh}{others_zh}"
-- severity  = "medium"
-- tags      = ["health"]
-- why       = "A source that always sent has stopped. While it is silent nothing on it can be detected: no alert is not good news."
-- respond   = "Check whether the gate or agent behind it still runs, whether its log file was moved, and whether its pushes are refused. If every source is silent, look at gatewatch's own host and network first."
-- respond_zh = "检查其背后的网关或智能体是否仍在运行、日志文件是否被移动、推送是否被拒绝。若所有来源都静默，先检查 gatewatch 自身的主机和网络。"
-- quiet     = "A source that was switched off on purpose: remove it from the configuration. A source that sends rarely is given `factor` times its usual gap; one that sends in bursts, `slack` times the third longest gap of the day before. Its first quiet weekend may still be told: let it send heartbeats. One that was silent for as long at this time of day on both days before, as every night. One that is in gatewatch.toml and has never sent has `expected` to begin."
-- lookback  = "3 days"
-- gap       = "15 minutes"
-- needs     = []
-- hot       = "SELECT 1 WHERE date_trunc('minute', $until - INTERVAL '1 microsecond') >= $since"
-- clock     = true
-- of_source = true
-- [params]  # lookback >= the longest silence that is told (1 day) and twice the day before it, by which a source is known,
--           # and >= expected, the day that it is told for, and a day before it
-- silence   = { type = "interval", default = "10 minutes", min = "2 minutes", max = "12 hours" }
-- factor    = { type = "integer", default = 5, min = 1 }
-- slack     = { type = "number", default = 4.0, min = 1.0, max = 10.0 }
-- usual_after = { type = "integer", default = 20, min = 2 }
-- expected  = { type = "interval", default = "1 hour", min = "2 minutes", max = "12 hours" }

-- Times are the service's own: a source that replays old events is alive. Only minutes in which the service itself was
-- listening (it notes that under its own name) count as silent: while it was down nobody could be heard. With it, it
-- notes each source that is configured, with no lines.
WITH listening AS (
    SELECT DISTINCT minute FROM arrivals
    WHERE minute >= $since - $lookback AND minute < $until AND source = 'gatewatch'
),
configured AS (
    SELECT source, minute, lag(minute) OVER (PARTITION BY source ORDER BY minute) AS earlier
    FROM (SELECT DISTINCT source, minute FROM arrivals
          WHERE minute >= $since - $lookback AND minute < $until AND source <> 'gatewatch' AND lines = 0
            AND date_trunc('minute', $until - INTERVAL '1 microsecond') >= $since)
),
minutes AS (
    SELECT source, minute, max(last_event_id) AS event_id
    FROM arrivals
    WHERE minute >= $since - $lookback AND minute < $until AND source <> 'gatewatch' AND lines > 0
      AND date_trunc('minute', $until - INTERVAL '1 microsecond') >= $since  -- else no minute ends in the range
    GROUP BY ALL
),
spaced AS (
    SELECT *, lead(minute) OVER in_time AS next_minute,
           CASE WHEN lag(minute) OVER in_time >= minute - INTERVAL '1 day' THEN minute - lag(minute) OVER in_time END AS pause
    FROM minutes
    WINDOW in_time AS (PARTITION BY source ORDER BY minute)
),
stopped AS (  -- told for a day, then it is a fact
    SELECT source, minute AS last_minute, event_id,
           least(coalesce(next_minute, $until), minute + INTERVAL '1 day') AS through
    FROM spaced
    WHERE coalesce(next_minute, $until) > minute + $silence AND minute + INTERVAL '1 day' >= $since
),
habits AS (  -- what it did in the day before it stopped
    SELECT l.source, l.last_minute, l.event_id, l.through, median(epoch(s.pause) / 60) AS pause_minutes,
           -- two longer ones may have been failures that nobody should wait for again
           coalesce(list_reverse_sort(list(epoch(s.pause) / 60) FILTER (s.pause IS NOT NULL))[3], 0) AS long_minutes
    FROM stopped l
    JOIN spaced s ON s.source = l.source AND s.minute >= l.last_minute - INTERVAL '1 day' AND s.minute <= l.last_minute
    WHERE l.through >= $since
    GROUP BY ALL
    HAVING count(*) >= $usual_after
),
patience AS (
    SELECT *, greatest($silence, to_microseconds(($factor * pause_minutes * 60000000)::BIGINT),
                       to_microseconds((round($slack * long_minutes) * 60000000)::BIGINT)) AS normal
    FROM habits
),
quiet AS (  -- each whole minute after the longest silence that would be normal
    SELECT *, unnest(generate_series(
               greatest(
                   date_trunc('minute', last_minute + normal),
                   date_trunc('minute', $since - INTERVAL '1 microsecond')
               ) + INTERVAL '1 minute',
               through, INTERVAL '1 minute')) AS ended_at
    FROM patience
),
stopped_now AS (
    SELECT q.source, q.last_minute, q.event_id, q.pause_minutes, q.long_minutes, q.ended_at
    FROM quiet q
    JOIN listening now ON now.minute = q.ended_at - INTERVAL '1 minute'
    JOIN listening l ON l.minute >= q.last_minute AND l.minute < q.ended_at
    GROUP BY ALL
    HAVING count(*) * INTERVAL '1 minute' > any_value(q.normal)
),
as_ever AS (  -- it was silent for as long within an hour of this time, yesterday and the day before
    SELECT n.source, n.ended_at
    FROM stopped_now n
    CROSS JOIN (VALUES (INTERVAL '1 day'), (INTERVAL '2 days')) d (ago)
    JOIN spaced s ON s.source = n.source AND s.minute < n.ended_at - ago + INTERVAL '1 hour'
                 AND s.minute >= n.ended_at - $lookback AND s.next_minute > n.ended_at - ago - INTERVAL '1 hour'
                 AND s.next_minute <= n.last_minute AND s.next_minute - s.minute >= n.ended_at - n.last_minute
    GROUP BY ALL
    HAVING count(DISTINCT ago) = 2
),
hoped AS (  -- each minute of the day after the time in which a configured source should have sent something
    SELECT c.source, c.minute AS last_minute, unnest(generate_series(
               greatest(date_trunc('minute', c.minute + $expected), date_trunc('minute', $since - INTERVAL '1 microsecond')) + INTERVAL '1 minute',
               least(c.minute + $expected + INTERVAL '1 day', $until), INTERVAL '1 minute')) AS ended_at
    FROM configured c
    WHERE (c.earlier IS NULL OR c.earlier < c.minute - INTERVAL '1 day') AND c.minute + $expected + INTERVAL '1 day' >= $since
),
unheard AS (
    SELECT h.*
    FROM hoped h
    ANTI JOIN minutes m ON m.source = h.source AND m.minute >= h.last_minute - INTERVAL '1 day' AND m.minute < h.ended_at
),
never AS (
    SELECT h.source, h.last_minute, h.ended_at
    FROM unheard h
    JOIN configured now ON now.source = h.source AND now.minute = h.ended_at - INTERVAL '1 minute'
    JOIN listening l ON l.minute >= h.last_minute AND l.minute < h.ended_at
    GROUP BY ALL
    HAVING count(*) * INTERVAL '1 minute' > $expected
),
silent AS (
    SELECT n.* FROM stopped_now n
    ANTI JOIN as_ever a ON a.source = n.source AND a.ended_at = n.ended_at
    UNION ALL BY NAME
    SELECT source, last_minute, ended_at FROM never
),
together AS (
    SELECT ended_at, count(*) AS silent_sources
    FROM silent
    WHERE ended_at < $until
    GROUP BY ended_at
),
everybody AS (  -- nothing came from anybody: that is about us, not about them
    SELECT t.ended_at
    FROM together t
    ANTI JOIN minutes m ON m.minute < t.ended_at AND m.minute >= t.ended_at - $silence
    WHERE t.silent_sources >= 3
)
SELECT s.source AS subject, s.last_minute AS started_at, s.ended_at,
       list_filter([s.event_id], lambda x: x IS NOT NULL) AS event_ids,
       CASE WHEN e.ended_at IS NULL THEN 'medium' ELSE 'high' END AS severity,
       date_diff('minute', s.last_minute, s.ended_at) AS silent_minutes, round(s.pause_minutes, 1) AS usual_minutes,
       coalesce('it usually sends every ' || round(s.pause_minutes, 1), 'it is configured and has sent nothing') AS usual,
       coalesce('平时每 ' || round(s.pause_minutes, 1) || ' 分钟发送一次', '已配置但从未发送') AS usual_zh,
       s.long_minutes,
       e.ended_at IS NOT NULL AS nothing_at_all, t.silent_sources,
       CASE WHEN e.ended_at IS NULL THEN '' ELSE '; nothing comes from any source' END AS others,
       CASE WHEN e.ended_at IS NULL THEN '' ELSE '；所有来源都没有数据' END AS others_zh
FROM silent s
JOIN together t ON t.ended_at = s.ended_at
LEFT JOIN everybody e ON e.ended_at = s.ended_at
