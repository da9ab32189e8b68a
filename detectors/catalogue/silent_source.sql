-- title     = "{subject}: silent for {silent_minutes} minutes, it usually sends every {usual_minutes}{others}"
-- title_zh  = "{subject}：已静默 {silent_minutes} 分钟，平时每 {usual_minutes} 分钟发送一次{others_zh}"
-- severity  = "medium"
-- why       = "A source that always sent has stopped. While it is silent nothing on it can be detected: no alert is not good news."
-- respond   = "Check whether the gate or agent behind it still runs, whether its log file was moved, and whether its pushes are refused. If every source is silent, look at gatewatch's own host and network first."
-- respond_zh = "检查其背后的网关或智能体是否仍在运行、日志文件是否被移动、推送是否被拒绝。若所有来源都静默，先检查 gatewatch 自身的主机和网络。"
-- quiet     = "A source that was switched off on purpose: remove it from the configuration. A source that sends rarely is given five times its usual gap."
-- lookback  = "3 days"
-- gap       = "15 minutes"
-- needs     = []
-- clock     = true
-- [params]  # lookback >= the longest silence that is told (1 day) and twice the day before it, by which a source is known
-- silence   = { type = "interval", default = "10 minutes", min = "2 minutes", max = "12 hours" }
-- factor    = { type = "integer", default = 5, min = 1 }
-- usual_after = { type = "integer", default = 20, min = 2 }

-- Times are the service's own: a source that replays old events is alive. Only minutes in which the service itself was
-- listening (it notes that under its own name) count as silent: while it was down nobody could be heard.
WITH listening AS (
    SELECT DISTINCT minute FROM arrivals
    WHERE minute >= $since - $lookback AND minute < $until AND source = 'gatewatch'
),
minutes AS (
    SELECT source, minute, max(last_event_id) AS event_id
    FROM arrivals
    WHERE minute >= $since - $lookback AND minute < $until AND source <> 'gatewatch'
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
    SELECT l.source, l.last_minute, l.event_id, l.through, median(epoch(s.pause) / 60) AS pause_minutes
    FROM stopped l
    JOIN spaced s ON s.source = l.source AND s.minute >= l.last_minute - INTERVAL '1 day' AND s.minute <= l.last_minute
    WHERE l.through >= $since
    GROUP BY ALL
    HAVING count(*) >= $usual_after
),
patience AS (
    SELECT *, greatest($silence, to_microseconds(($factor * pause_minutes * 60000000)::BIGINT)) AS normal
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
silent AS (
    SELECT q.source, q.last_minute, q.event_id, q.pause_minutes, q.ended_at
    FROM quiet q
    JOIN listening now ON now.minute = q.ended_at - INTERVAL '1 minute'
    JOIN listening l ON l.minute >= q.last_minute AND l.minute < q.ended_at
    GROUP BY ALL
    HAVING count(*) * INTERVAL '1 minute' > any_value(q.normal)
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
       e.ended_at IS NOT NULL AS nothing_at_all, t.silent_sources,
       CASE WHEN e.ended_at IS NULL THEN '' ELSE '; nothing comes from any source' END AS others,
       CASE WHEN e.ended_at IS NULL THEN '' ELSE '；所有来源都没有数据' END AS others_zh
FROM silent s
JOIN together t ON t.ended_at = s.ended_at
LEFT JOIN everybody e ON e.ended_at = s.ended_at
