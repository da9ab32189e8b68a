-- title     = "{subject}: silent for {silent_minutes} minutes, it usually sends every {usual_minutes}{others}"
-- title_zh  = "{subject}：已静默 {silent_minutes} 分钟，平时每 {usual_minutes} 分钟发送一次{others_zh}"
-- severity  = "medium"
-- why       = "A source that always sent has stopped. While it is silent nothing on it can be detected: no alert is not good news."
-- respond   = "Check whether the gate or agent behind it still runs, whether its log file was moved, and whether its pushes are refused. If every source is silent, look at gatewatch's own host and network first."
-- quiet     = "A source that was switched off on purpose: remove it from the configuration. A source that sends rarely is given five times its usual gap."
-- lookback  = "3 days"
-- gap       = "15 minutes"
-- needs     = []
-- clock     = true
-- [params]  # lookback >= the longest silence that is told (1 day) and twice the day before it, by which a source is known
-- silence   = { type = "interval", default = "10 minutes", min = "2 minutes", max = "12 hours" }
-- factor    = { type = "integer", default = 5, min = 1 }
-- usual_after = { type = "integer", default = 20, min = 2 }

-- Times are the service's own: a source that replays old events is alive.
WITH minutes AS (
    SELECT source, minute, max(last_event_id) AS event_id
    FROM arrivals
    WHERE minute >= $since - $lookback AND minute < $until
    GROUP BY ALL
),
spaced AS (
    SELECT *, lead(minute) OVER in_time AS next_minute,
           CASE WHEN lag(minute) OVER in_time >= minute - INTERVAL '1 day' THEN minute - lag(minute) OVER in_time END AS pause
    FROM minutes
    WINDOW in_time AS (PARTITION BY source ORDER BY minute)
),
habits AS (
    SELECT source, minute AS last_minute, event_id,
           least(coalesce(next_minute, $until), minute + INTERVAL '1 day') AS through,  -- told for a day, then it is a fact
           count(*) OVER day_before AS active,
           median(epoch(pause) / 60) OVER day_before AS pause_minutes
    FROM spaced
    WINDOW day_before AS (PARTITION BY source ORDER BY minute RANGE BETWEEN INTERVAL '1 day' PRECEDING AND CURRENT ROW)
),
usual AS (SELECT * FROM habits WHERE active >= $usual_after AND through >= $since),
silent AS (  -- a row for each whole minute after the longest silence that would be normal
    SELECT source, last_minute, event_id, pause_minutes, unnest(generate_series(
               greatest(
                   date_trunc('minute', last_minute + greatest(
                       $silence, to_microseconds(($factor * pause_minutes * 60000000)::BIGINT))),
                   date_trunc('minute', $since - INTERVAL '1 microsecond')
               ) + INTERVAL '1 minute',
               through, INTERVAL '1 minute')) AS ended_at
    FROM usual
),
together AS (
    SELECT ended_at, count(*) AS silent_sources
    FROM silent
    WHERE ended_at < $until
    GROUP BY ended_at
),
everybody AS (  -- minutes in which not one usual source sent anything: that is about us, not about them
    SELECT t.ended_at, any_value(t.silent_sources) AS silent_sources
    FROM together t
    JOIN usual u ON u.last_minute < t.ended_at AND u.through >= t.ended_at
    WHERE t.silent_sources >= 3
    GROUP BY t.ended_at
    HAVING count(*) = any_value(t.silent_sources)
)
SELECT s.source AS subject, s.last_minute AS started_at, s.ended_at,
       list_filter([s.event_id], lambda x: x IS NOT NULL) AS event_ids,
       CASE WHEN e.ended_at IS NULL THEN 'medium' ELSE 'high' END AS severity,
       date_diff('minute', s.last_minute, s.ended_at) AS silent_minutes, round(s.pause_minutes, 1) AS usual_minutes,
       e.ended_at IS NOT NULL AS all_sources, t.silent_sources,
       CASE WHEN e.ended_at IS NULL THEN '' ELSE '; all ' || t.silent_sources || ' sources are silent' END AS others,
       CASE WHEN e.ended_at IS NULL THEN '' ELSE '；全部 ' || t.silent_sources || ' 个来源均已静默' END AS others_zh
FROM silent s
JOIN together t ON t.ended_at = s.ended_at
LEFT JOIN everybody e ON e.ended_at = s.ended_at
