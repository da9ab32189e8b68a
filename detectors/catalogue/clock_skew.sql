-- title     = "{subject}: its clock is {seconds} seconds {direction}{ours}"
-- title_zh  = "{subject}：时钟{direction_zh} {seconds} 秒{ours_zh}"
-- severity  = "medium"
-- tags      = ["health"]
-- why       = "The times in this source's lines are wrong. What it says of before and after, of windows and of nights is wrong by as much, and so is what detectors make of it beside other sources."
-- respond   = "On that host, compare `date -u` with a clock that you trust and see whether its time service runs (chronyc tracking, w32tm /query /status). Do not read its lines against those of other sources until it is set right. If every source is off by the same, it is gatewatch's own host whose clock is wrong. If it is behind, make sure first that its lines don't simply take that long."
-- respond_zh = "在该主机上将 `date -u` 与可信时钟对比，检查时间同步服务是否运行（chronyc tracking、w32tm /query /status）。校准之前，不要拿它的行与其他来源对照。若所有来源偏差相同，出错的是 gatewatch 自身主机的时钟。若显示为落后，先排除只是传输耗时。"
-- quiet     = "Lines that take long: a clock is behind only if even the fastest of each minute is late, and by the same. A file read in afterwards: what comes an hour late says nothing about a clock. One line with a wrong time among right ones. Fewer lines than `lines` in ten minutes."
-- lookback  = "10 minutes"
-- gap       = "1 hour"
-- needs     = []
-- hot       = "SELECT 1 WHERE time_bucket(INTERVAL '10 minutes', $until - INTERVAL '1 microsecond') >= $since"
-- [params]
-- ahead     = { type = "interval", default = "1 minute", min = "1 second", max = "1 hour" }
-- behind    = { type = "interval", default = "2 minutes", min = "10 seconds", max = "1 hour" }
-- steady    = { type = "interval", default = "5 seconds", min = "0 seconds", max = "10 minutes" }
-- lines     = { type = "integer", default = 3, min = 1 }

-- Windows of ten minutes by the times that the lines claim. A line tells of a clock if it came within an hour of its time;
-- one that claims a later time still was stored at its arrival, with what it claimed beside it (see ingest/adapter.py).
WITH told AS (
    SELECT source, floored(ts, INTERVAL '10 minutes') + INTERVAL '10 minutes' AS ended_at, ts, ingested_at,
           CASE WHEN ts_quality = 'receiver' AND list_contains(signals, 'clock_skew') THEN epoch_us(ingested_at) - epoch_us(try_cast(attrs ->> '$.ts_claimed' AS TIMESTAMPTZ))
                WHEN ts_quality = 'source' THEN epoch_us(ingested_at) - epoch_us(ts) END AS wait
    FROM events
    WHERE ts >= $since - $lookback AND ts < $until AND ingested_at IS NOT NULL
      -- else no window ends in the range
      AND time_bucket(INTERVAL '10 minutes', $until - INTERVAL '1 microsecond') >= $since
),
minutes AS MATERIALIZED (  -- of each minute of arrival, the fastest line
    SELECT source, ended_at, floored(ingested_at, INTERVAL '1 minute') AS minute, count(*) AS lines, min(wait) AS low,
           count(*) FILTER (wait < -epoch_us($ahead)) AS early, min(ts) AS first_ts
    FROM told
    WHERE wait <= 3600000000 AND ended_at >= $since AND ended_at < $until
    GROUP BY ALL
),
windows AS MATERIALIZED (
    SELECT source, ended_at, sum(lines)::BIGINT AS lines, count(*) AS minutes, min(low) AS low, max(low) AS high,
           2 * sum(early) > sum(lines) AS ahead, min(first_ts) AS first_ts, quantile_disc(low, 0.5) AS usual
    FROM minutes
    GROUP BY ALL
),
off AS (
    SELECT *, count(*) OVER (PARTITION BY ended_at) AS sources,
           ahead OR (minutes >= 3 AND low > epoch_us($behind) AND high - low <= epoch_us($steady)) AS wrong
    FROM windows
    WHERE lines >= $lines
),
wrong AS (
    SELECT * FROM (SELECT *, bool_and(wrong) OVER (PARTITION BY ended_at) AS every FROM off) WHERE wrong
),
shown AS (
    SELECT w.source, w.ended_at, list_sort(list(e.event_id ORDER BY e.ts, e.event_id)[:20]) AS event_ids
    FROM wrong w
    JOIN events e ON e.source = w.source AND time_bucket(INTERVAL '10 minutes', e.ts) + INTERVAL '10 minutes' = w.ended_at
    WHERE e.ts >= $since - $lookback AND e.ts < $until
    GROUP BY ALL
)
SELECT source AS subject, first_ts AS started_at, ended_at, event_ids,
       CASE WHEN ahead THEN 'medium' ELSE 'low' END AS severity,
       round(abs(usual) / 1000000)::BIGINT AS seconds, lines, sources,
       CASE WHEN ahead THEN 'ahead' ELSE 'behind, or its lines always take that long' END AS direction,
       CASE WHEN ahead THEN '快了' ELSE '慢了（或传输总要这么久）' END AS direction_zh,
       CASE WHEN every AND sources >= 3 THEN ', as all others: is it ours?' ELSE '' END AS ours,
       CASE WHEN every AND sources >= 3 THEN '，其他来源也一样：可能是本机时钟' ELSE '' END AS ours_zh
FROM wrong
JOIN shown USING (source, ended_at)
