-- title     = "{subject}: lines are missing: {said}"
-- title_zh  = "{subject}：有行缺失：{said_zh}"
-- severity  = "medium"
-- tags      = ["health"]
-- why       = "The source numbers or chains its lines, and some never came. What was in them nobody has judged: lost on the way, dropped when the gate was overloaded, or taken out by somebody."
-- respond   = "Look into quarantine first: a line that could not be read leaves a gap too. Then compare with the file or queue at the source. If the lines are there, send them again: the gap closes and this alert is withdrawn. If they are not there either, find out who may write to that file, and treat the time between as unseen."
-- respond_zh = "先查看隔离区：无法解析的行也会留下缺口。再与来源处的文件或队列核对。若行还在，重新发送：缺口补上后本告警自动撤回。若来源处也没有，查明谁能写该文件，并把这段时间视为未被监控。"
-- quiet     = "Lines out of order, and late ones within `late`. A numbering that begins again at 0 or 1. The first line that is seen of a stream. A source that sends only some of its numbers: more than a third of them have none before them. A pause longer than six hours: what came before it is not looked at."
-- lookback  = "7 hours"
-- gap       = "1 hour"
-- inhibited_by = ["silent_source"]
-- needs     = []
-- hot       = "SELECT 1 FROM events WHERE ts >= $since - INTERVAL '30 minutes' AND ts < $until - INTERVAL '1 minute' AND (contains(attrs::VARCHAR, 'seq') OR contains(attrs::VARCHAR, 'ordinal') OR contains(attrs::VARCHAR, 'prev_hash') OR contains(attrs::VARCHAR, chr(92)))"
-- [params]  # lookback >= 6 hours + 2 x late
-- late      = { type = "interval", default = "15 minutes", min = "1 minute", max = "30 minutes" }
-- min_missing = { type = "integer", default = 1, min = 1 }

-- Numbers (attrs seq, event.sequence, ordinal) are counted per stream: the session, else the source. One that is missing
-- in a session while another session of the source used it, and not the one after it, is of a numbering across sessions.
-- A row stands `late` after the line that follows the gap: by then what is only out of order has come.
WITH near AS (
    SELECT source, coalesce(session, '') AS stream, ts, event_id,
           try_cast(coalesce(attrs ->> '$.seq', attrs ->> '$."event.sequence"', attrs ->> '$.ordinal') AS BIGINT) AS n,
           attrs ->> '$.prev_hash' AS prev_hash, attrs ->> '$.entry_hash' AS own_hash
    FROM events
    WHERE ts >= $since - 3 * $late AND ts < $until AND attrs IS NOT NULL
),
numbered AS (SELECT * FROM near WHERE n IS NOT NULL),
buckets AS (  -- almost all of them are whole, and go on where the one before ended: then there is nothing to look for
    SELECT source, time_bucket($late, ts) AS bucket, min(n) AS low, max(n) AS high,
           count(*) = max(n) - min(n) + 1 AND count(DISTINCT n) = count(*) AS whole
    FROM numbered
    GROUP BY ALL
),
doubtful AS (
    SELECT * FROM (SELECT *, lag(bucket) OVER in_time = bucket - $late AND lag(whole) OVER in_time
                             AND lag(high) OVER in_time = low - 1 AS goes_on
                   FROM buckets WINDOW in_time AS (PARTITION BY source ORDER BY bucket))
    WHERE NOT whole OR NOT coalesce(goes_on, false)
),
spread AS (  -- equal buckets, so that a number meets only the lines of its time
    SELECT n.*, d.bucket
    FROM numbered n
    JOIN (SELECT source, bucket, unnest([bucket - $late, bucket, bucket + $late]) AS near FROM doubtful) d
      ON d.source = n.source AND d.near = time_bucket($late, n.ts)
),
arrived AS (
    SELECT n.source, n.stream, n.n, n.ts, min(n.event_id) AS event_id, d.bucket
    FROM numbered n
    JOIN doubtful d ON d.source = n.source AND d.bucket = time_bucket($late, n.ts)
    WHERE n.ts >= $since - $late AND n.ts < $until - $late AND n.n > 1 AND (NOT d.whole OR n.n = d.low)
    GROUP BY ALL
),
unled AS (
    SELECT j.* FROM arrived j
    ANTI JOIN spread b ON b.source = j.source AND b.stream = j.stream AND b.n = j.n - 1 AND b.bucket = j.bucket
                      AND b.ts BETWEEN j.ts - $late AND j.ts + $late
),
across AS (
    SELECT u.*, b.stream AS other
    FROM unled u
    JOIN spread b ON b.source = u.source AND b.n = u.n - 1 AND b.bucket = u.bucket AND b.ts BETWEEN u.ts - $late AND u.ts + $late
),
elsewhere AS (
    SELECT a.* FROM across a
    ANTI JOIN spread c ON c.source = a.source AND c.stream = a.other AND c.n = a.n AND c.bucket = a.bucket
                      AND c.ts BETWEEN a.ts - $late AND a.ts + $late
),
suspects AS (
    SELECT u.* FROM unled u
    ANTI JOIN elsewhere e ON e.source = u.source AND e.stream = u.stream AND e.n = u.n AND e.ts = u.ts
),
shared AS (  -- a number that two streams use is of each alone
    SELECT s.* FROM suspects s
    SEMI JOIN spread b ON b.source = s.source AND b.stream <> s.stream AND b.n = s.n AND b.bucket = s.bucket
                      AND b.ts BETWEEN s.ts - $late AND s.ts + $late
),
close_by AS (  -- what its stream sent shortly before and after; if the number is of the whole source, what that sent
    SELECT s.source, s.stream, s.n, s.ts, s.event_id, l.stream = s.stream AS own, l.stream AS other_stream, l.n AS other_n, l.ts AS other_ts, l.event_id AS other_id
    FROM suspects s
    LEFT JOIN shared h ON h.source = s.source AND h.stream = s.stream AND h.n = s.n AND h.ts = s.ts
    JOIN spread l ON l.source = s.source AND l.bucket = s.bucket AND l.ts BETWEEN s.ts - $late AND s.ts + $late
                 AND (l.stream = s.stream OR h.ts IS NULL)
),
slow AS (
    SELECT s.* FROM suspects s
    ANTI JOIN close_by c ON c.source = s.source AND c.stream = s.stream AND c.n = s.n AND c.ts = s.ts AND c.own AND c.other_n < s.n
),
before AS (  -- where it had paused, what the source sent in the hours before; `place` counts back from the pause
    SELECT s.source, s.stream, s.n, s.ts, s.event_id, l.stream = s.stream AS own, l.stream AS other_stream, l.n AS other_n, l.ts AS other_ts, l.event_id AS other_id,
           row_number() OVER (PARTITION BY s.source, s.stream, s.n, s.ts ORDER BY l.ts DESC, l.event_id) AS place
    FROM (SELECT *, unnest(generate_series(time_bucket(INTERVAL '1 hour', ts - ($lookback - $late)), ts, INTERVAL '1 hour')) AS hour FROM slow) s
    JOIN (SELECT source, coalesce(session, '') AS stream, ts, event_id, time_bucket(INTERVAL '1 hour', ts) AS hour,
                 try_cast(coalesce(attrs ->> '$.seq', attrs ->> '$."event.sequence"', attrs ->> '$.ordinal') AS BIGINT) AS n
          FROM events
          SEMI JOIN slow ON slow.source = events.source
          WHERE ts >= $since - $lookback AND ts < $until AND attrs IS NOT NULL AND EXISTS (FROM slow)) l
      ON l.source = s.source AND l.hour = s.hour AND l.ts < s.ts - $late AND l.ts >= s.ts - ($lookback - $late)
    WHERE l.n IS NOT NULL
    QUALIFY own OR place <= 300
),
numbered_across AS (  -- there numbers went on from stream to stream, and none was used twice: it is of the whole source
    SELECT source, stream, n, ts
    FROM before
    WHERE place <= 300
    GROUP BY ALL
    HAVING count(DISTINCT other_n) = len(list_distinct(list({'n': other_n, 'stream': other_stream})))
       AND len(list_filter(list_zip(list_sort(list_distinct(list({'n': other_n, 'stream': other_stream})))[:-2], list_sort(list_distinct(list({'n': other_n, 'stream': other_stream})))[2:]),
                           lambda x: x[2].n = x[1].n + 1 AND x[2].stream <> x[1].stream)) >= 3
),
sent AS (
    SELECT *, max(other_ts) FILTER (own AND other_n IN (0, 1) AND other_ts <= ts) OVER of_one AS begun_at,
           min(other_ts) FILTER (own AND other_n IN (0, 1) AND other_ts > ts) OVER of_one AS over_at
    FROM (SELECT *, 0 AS place FROM close_by
          UNION ALL BY NAME
          SELECT b.* FROM before b
          LEFT JOIN numbered_across a ON a.source = b.source AND a.stream = b.stream AND a.n = b.n AND a.ts = b.ts
          WHERE CASE WHEN a.ts IS NULL THEN b.own ELSE b.place <= 300 END)
    WINDOW of_one AS (PARTITION BY source, stream, n, ts)
),
known AS (  -- of the same numbering: the number before, and all that it used
    SELECT *, max(other_n) FILTER (other_n < n) OVER (PARTITION BY source, stream, n, ts) AS low
    FROM sent
    WHERE other_ts >= coalesce(begun_at, other_ts) AND (over_at IS NULL OR other_ts < over_at)
),
holes AS (
    SELECT source, stream, n, ts, event_id, low, n - low - 1 AS missing, min({'ts': other_ts, 'id': other_id}) FILTER (other_n = low) AS last,
           list_sort(list_distinct(list(other_n))) AS numbers,
           len(list_filter(list_zip(numbers[:-2], numbers[2:]), lambda x: x[2] > x[1] + 1)) AS holes,
           list_sort(list_distinct(list({'n': other_n, 'stream': other_stream}))) AS pairs
    FROM known
    WHERE low IS NOT NULL
    GROUP BY source, stream, n, ts, event_id, low
    -- the first line of a stream tells of a gap only where numbers go on from stream to stream, and none is used twice
    HAVING bool_or(own AND other_n < n) OR (len(pairs) = len(numbers) AND
        len(list_filter(list_zip(pairs[:-2], pairs[2:]), lambda x: x[2].n = x[1].n + 1 AND x[2].stream <> x[1].stream)) >= 3)
),
chained AS (
    SELECT source, min(stream) AS stream, prev_hash, min(ts) AS ts, min(event_id) AS event_id
    FROM near
    WHERE ts >= $since - $late AND ts < $until - $late AND regexp_matches(prev_hash, '[1-9a-f]')
    GROUP BY source, prev_hash, ts
),
linked AS (
    SELECT source, ts, event_id, attrs ->> '$.entry_hash' AS own_hash
    FROM events
    SEMI JOIN (SELECT c.source FROM chained c
               ANTI JOIN near b ON b.source = c.source AND b.own_hash = c.prev_hash AND b.ts BETWEEN c.ts - $late AND c.ts + $late) u
      ON u.source = events.source
    WHERE ts >= $since - $lookback AND ts < $until AND attrs ->> '$.entry_hash' IS NOT NULL
),
torn AS (
    SELECT c.source, c.stream, c.ts, c.event_id, l.ts AS low_ts, l.event_id AS low_id
    FROM (SELECT c.* FROM chained c
          ANTI JOIN linked b ON b.source = c.source AND b.own_hash = c.prev_hash AND b.ts BETWEEN c.ts - ($lookback - $late) AND c.ts + $late) c
    ASOF JOIN (SELECT source, ts, min(event_id) AS event_id FROM linked GROUP BY ALL) l ON l.source = c.source AND c.ts > l.ts
    WHERE l.ts >= c.ts - ($lookback - $late)
)
SELECT source AS subject, least(last.ts, ts) AS started_at, ts + $late AS ended_at, list_sort([last.id, event_id]) AS event_ids,
       stream, missing,
       missing || ' missing between ' || low || ' and ' || n || CASE WHEN stream = '' THEN '' ELSE ' of ' || stream END AS said,
       CASE WHEN stream = '' THEN '' ELSE stream || ' 的' END || low || ' 与 ' || n || ' 之间缺少 ' || missing || ' 个' AS said_zh
FROM holes
WHERE missing >= $min_missing AND NOT (holes >= 3 AND holes * 3 > len(numbers))
UNION ALL
SELECT source, low_ts, ts + $late, list_sort([low_id, event_id]), stream, NULL,
       'a line follows one that never came, by its chain of hashes', '哈希链断开：某行之前的一行从未到达'
FROM torn
