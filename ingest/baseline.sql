-- What is usual for somebody, and what is far above it: one measure of minute_counts, in windows that slide by the minute.
-- Read after ingest/macros.sql. Used by detectors/catalogue/external_call_spike.sql and bulk_read.sql.

-- Bytes, rows or calls by the minute, for whom they are counted
CREATE OR REPLACE MACRO measured(p_measure, p_since, p_until) AS TABLE
  SELECT minute, coalesce(tenant, '') AS tenant, coalesce(subject, agent, '(no agent)') AS subject, agent,
         CASE p_measure WHEN 'external' THEN external WHEN 'rows_read' THEN rows_read WHEN 'bytes_read' THEN bytes_read END AS n
  FROM minute_counts
  WHERE minute >= p_since AND minute < p_until;

-- The same wall time so many weeks before
CREATE OR REPLACE MACRO weeks_before(p_ts, p_weeks, p_zone) AS timezone(p_zone, timezone(p_zone, p_ts) - to_days((7 * p_weeks)::INTEGER));

-- One row per window of somebody that is far above what is usual, and ends in [p_since, p_until). A window closes with each minute that has something
-- in it; below `p_floor` none is looked at. What is usual is, in this order,
-- 'season'  the windows within an hour of the same minute of the local week, one to four weeks before, from two different weeks at least;
-- 'day'     the buckets of the `p_day` that end one window before;
-- 'none'    nothing: then `p_cap` is the limit.
-- A window counts as zero where others sent something; it is absent where nobody did, the pipeline being down, or where its owner had not come yet.
-- Two passes keep trouble out, with no look at alerts. Of weeks, windows far above the second lowest week of at least three go: trouble becomes usual in
-- the fourth week at the earliest, and one quiet week makes no alarm. Of the day, buckets far above the lowest usual level of the day before go: two days. Nor is it
-- far above the day what came at this time of two of the three days before.
-- A window of an aligned grid stands for one that begins in between by its share of the two that it touches.
CREATE OR REPLACE MACRO far_above_usual(p_measure, p_since, p_until, p_lookback, p_window, p_day, p_factor, p_floor, p_enough, p_cap, p_statistic, p_warm_up, p_zone) AS TABLE
WITH clock AS MATERIALIZED (SELECT p_zone AS zone, epoch(p_window)::BIGINT AS width, (3600 // epoch(p_window))::BIGINT AS reach),
busy AS (  -- whoever could be far above at all
  SELECT tenant, subject
  FROM measured(p_measure, p_since - p_window, p_until)
  WHERE date_trunc('minute', p_until - INTERVAL '1 microsecond') >= p_since  -- else no minute ends in the range
  GROUP BY ALL HAVING sum(n) >= p_floor
),
own_sums AS MATERIALIZED (
  SELECT tenant, subject, time_bucket(p_window, minute) AS bucket, sum(n)::BIGINT AS n
  FROM measured(p_measure, p_since - 2 * p_window - INTERVAL '1 minute', p_until) SEMI JOIN busy USING (tenant, subject)
  GROUP BY ALL
),
owns AS MATERIALIZED (  -- no window that begins in the bucket holds more than it and the next; one of two that hold the floor holds half of it
  SELECT h.tenant, h.subject, h.own, coalesce(a.n, 0) + coalesce(b.n, 0) AS most
  FROM (SELECT DISTINCT tenant, subject, bucket - i * p_window AS own FROM own_sums, range(2) r(i) WHERE 2 * n >= p_floor) h
  LEFT JOIN own_sums a ON a.tenant = h.tenant AND a.subject = h.subject AND a.bucket = h.own
  LEFT JOIN own_sums b ON b.tenant = h.tenant AND b.subject = h.subject AND b.bucket = h.own + p_window
  WHERE most >= p_floor
),

-- 1. The same time of earlier weeks
placed_owns AS (
  SELECT o.own, time_bucket(p_window, weeks_before(o.own, w.k, c.zone)) AS bucket
  FROM (SELECT DISTINCT own FROM owns) o, clock c, range(1, 5) w(k)
),
wanted AS (
  SELECT DISTINCT bucket + j * p_window AS bucket
  FROM (SELECT DISTINCT bucket, unnest(generate_series(-reach - 1, reach + 2)) AS j FROM placed_owns, clock)
),
near_weeks AS NOT MATERIALIZED (  -- two hours are the most by which clocks are set
  SELECT *
  FROM (SELECT *, time_bucket(p_window, minute) AS bucket FROM measured(p_measure, p_since - p_lookback, p_until)) SEMI JOIN wanted USING (bucket)
  WHERE (minute >= p_since - INTERVAL '7 days' - INTERVAL '4 hours' AND minute < p_until - INTERVAL '7 days' + INTERVAL '4 hours')
     OR (minute >= p_since - INTERVAL '14 days' - INTERVAL '4 hours' AND minute < p_until - INTERVAL '14 days' + INTERVAL '4 hours')
     OR (minute >= p_since - INTERVAL '21 days' - INTERVAL '4 hours' AND minute < p_until - INTERVAL '21 days' + INTERVAL '4 hours')
     OR (minute >= p_since - INTERVAL '28 days' - INTERVAL '4 hours' AND minute < p_until - INTERVAL '28 days' + INTERVAL '4 hours')
),
week_sums AS (SELECT tenant, subject, bucket, sum(n)::BIGINT AS n FROM near_weeks GROUP BY ALL),
paired AS (  -- each bucket in which anybody sent something, and the next
  SELECT *, CASE WHEN lead(bucket) OVER in_time = bucket + p_window THEN lead(n) OVER in_time END AS n2
  FROM (SELECT p.tenant, p.subject, a.bucket, coalesce(s.n, 0) AS n
        FROM (SELECT DISTINCT tenant, subject FROM owns) p CROSS JOIN (SELECT DISTINCT bucket FROM week_sums) a
        LEFT JOIN week_sums s ON s.tenant = p.tenant AND s.subject = p.subject AND s.bucket = a.bucket)
  WINDOW in_time AS (PARTITION BY tenant, subject ORDER BY bucket)
),
around AS (  -- the lowest within reach of a window that begins in the bucket
  SELECT tenant, subject, bucket, min(n) OVER (PARTITION BY tenant, subject ORDER BY bucket RANGE BETWEEN INTERVAL '1 hour' + p_window PRECEDING
                                               AND INTERVAL '1 hour' + 2 * p_window FOLLOWING) AS low
  FROM paired
),
lowest AS (  -- who is not far above the quietest of these hours is asked no further, which spares most of the work
  SELECT o.tenant, o.subject, o.own, min(a.low) AS low
  FROM owns o
  JOIN placed_owns p ON p.own = o.own
  LEFT JOIN around a ON a.tenant = o.tenant AND a.subject = o.subject AND a.bucket = p.bucket
  GROUP BY ALL
  HAVING any_value(o.most) > p_factor * coalesce(min(a.low), 0)
),
closed AS (
  SELECT tenant, subject, agent, minute + INTERVAL '1 minute' AS ended_at, n,
         sum(n) OVER (PARTITION BY tenant, subject ORDER BY minute RANGE BETWEEN p_window - INTERVAL '1 minute' PRECEDING AND CURRENT ROW)::BIGINT AS total
  FROM (SELECT m.tenant, m.subject, min(m.agent) AS agent, m.minute, sum(m.n)::BIGINT AS n
        FROM measured(p_measure, p_since - p_window - INTERVAL '1 minute', p_until) m
        JOIN (SELECT tenant, subject, own AS bucket FROM lowest UNION SELECT tenant, subject, own + p_window FROM lowest) l
          ON l.tenant = m.tenant AND l.subject = m.subject AND l.bucket = time_bucket(p_window, m.minute)
        GROUP BY ALL)
),
looked_at AS (
  SELECT c.tenant, c.subject, c.agent, c.ended_at, c.total, l.low IS NOT NULL AS has_weeks
  FROM closed c JOIN lowest l ON l.tenant = c.tenant AND l.subject = c.subject AND l.own = time_bucket(p_window, c.ended_at - p_window)
  WHERE c.n > 0 AND c.total >= p_floor AND c.ended_at >= p_since AND c.ended_at < p_until AND c.total > p_factor * coalesce(l.low, 0)
),
suspects AS (SELECT DISTINCT tenant, subject FROM looked_at),
placed AS (
  SELECT began_at, bucket, epoch(then_at - bucket)::BIGINT AS shift, k
  FROM (SELECT o.began_at, w.k, weeks_before(o.began_at, w.k, c.zone) AS then_at, time_bucket(p_window, weeks_before(o.began_at, w.k, c.zone)) AS bucket
        FROM (SELECT DISTINCT ended_at - p_window AS began_at FROM looked_at WHERE has_weeks) o, clock c, range(1, 5) w(k))
),
days_seen AS (
  SELECT tenant, subject, minute::DATE AS day, min(minute) AS first
  FROM measured(p_measure, p_since - p_lookback, p_until) SEMI JOIN suspects USING (tenant, subject)
  WHERE EXISTS (FROM looked_at)
  GROUP BY ALL
),
came AS (  -- somebody has no usual number from before he came
  SELECT l.tenant, l.subject, l.day, min(d.first) AS first
  FROM (SELECT DISTINCT tenant, subject, ended_at::DATE AS day FROM looked_at) l
  JOIN days_seen d ON d.tenant = l.tenant AND d.subject = l.subject AND d.day <= l.day AND d.day >= l.day - 28
  GROUP BY ALL
),
known AS (
  SELECT l.*, c.first FROM looked_at l JOIN came c ON c.tenant = l.tenant AND c.subject = l.subject AND c.day = l.ended_at::DATE
),
weekly AS (
  SELECT l.tenant, l.subject, l.ended_at, p.k,
         list(CASE WHEN p.shift = 0 THEN a.n * c.width ELSE a.n * (c.width - p.shift) + a.n2 * p.shift END) AS refs,
         median(CASE WHEN p.shift = 0 THEN a.n * c.width ELSE a.n * (c.width - p.shift) + a.n2 * p.shift END) AS level
  FROM known l CROSS JOIN clock c
  JOIN placed p ON p.began_at = l.ended_at - p_window
  CROSS JOIN (SELECT unnest(generate_series(-reach, reach)) AS j FROM clock) j
  JOIN paired a ON a.tenant = l.tenant AND a.subject = l.subject AND a.bucket = p.bucket + j.j * p_window
  WHERE l.has_weeks AND a.bucket + p_window > l.first AND (p.shift = 0 OR a.n2 IS NOT NULL)
  GROUP BY ALL
),
seasons AS (
  SELECT tenant, subject, ended_at, list(refs) AS refs,
         CASE WHEN count(*) >= 3 THEN list_sort(list(level))[2] ELSE list_aggregate(flatten(list(refs)), 'median') END AS bound
  FROM weekly
  GROUP BY ALL HAVING count(*) >= 2 AND sum(len(refs)) >= p_enough
),
by_season AS (
  SELECT l.*, 'season' AS basis,
         list_transform(s.refs, lambda lam_w: list_filter(lam_w, lambda lam_r: lam_r < p_floor * c.width OR lam_r <= p_factor * s.bound)) AS refs
  FROM known l JOIN seasons s ON s.tenant = l.tenant AND s.subject = l.subject AND s.ended_at = l.ended_at, clock c
),

-- 2. The day before: it, the day that bounds it, the day that bounds that one, and the day in which one must have been there; or three days and an hour
rest AS (
  SELECT l.*, time_bucket(p_window, ended_at) - 3 * p_window AS newest  -- the start of the last bucket of its reference
  FROM known l ANTI JOIN seasons s ON s.tenant = l.tenant AND s.subject = l.subject AND s.ended_at = l.ended_at
),
of_day AS (SELECT DISTINCT tenant, subject FROM rest),
day_minutes AS NOT MATERIALIZED (
  SELECT * FROM measured(p_measure, p_since - p_lookback, p_until)
  WHERE minute >= p_since - greatest(4 * p_day, INTERVAL '98 hours') - 8 * p_window AND EXISTS (FROM rest)
),
day_alive AS (SELECT DISTINCT time_bucket(p_window, minute) AS bucket FROM day_minutes),
day_sums AS (
  SELECT tenant, subject, time_bucket(p_window, minute) AS bucket, sum(n)::BIGINT AS n
  FROM day_minutes SEMI JOIN of_day USING (tenant, subject)
  GROUP BY ALL
),
every AS (
  SELECT o.tenant, o.subject, t.bucket, d.n, a.bucket IS NOT NULL AS alive,
         max(d.bucket) OVER (PARTITION BY o.tenant, o.subject ORDER BY t.bucket RANGE BETWEEN p_day PRECEDING AND CURRENT ROW) IS NOT NULL AS known
  FROM of_day o
  CROSS JOIN (SELECT unnest(generate_series(time_bucket(p_window, min(newest) - greatest(4 * p_day, INTERVAL '98 hours') - 4 * p_window), max(newest), p_window)) AS bucket FROM rest) t
  LEFT JOIN day_alive a ON a.bucket = t.bucket
  LEFT JOIN day_sums d ON d.tenant = o.tenant AND d.subject = o.subject AND d.bucket = t.bucket
),
levels AS (SELECT tenant, subject, bucket, CASE WHEN alive AND known THEN coalesce(n, 0) END AS n FROM every),
first_pass AS (
  SELECT *, CASE WHEN count(n) OVER before < p_enough THEN NULL WHEN p_statistic = 'mean' THEN avg(n) OVER before ELSE median(n) OVER before END AS usual
  FROM levels
  WINDOW before AS (PARTITION BY tenant, subject ORDER BY bucket RANGE BETWEEN p_day + p_window PRECEDING AND 2 * p_window PRECEDING)
),
sound AS (
  SELECT tenant, subject, bucket,
         CASE WHEN n >= p_floor AND n > p_factor * min(usual) OVER (PARTITION BY tenant, subject ORDER BY bucket RANGE BETWEEN p_day PRECEDING AND CURRENT ROW)
              THEN NULL ELSE n END AS n
  FROM first_pass
),
second_pass AS (
  SELECT tenant, subject, bucket, count(n) OVER upto AS n, sum(n) OVER upto AS total, median(n) OVER upto AS middle
  FROM sound
  WINDOW upto AS (PARTITION BY tenant, subject ORDER BY bucket RANGE BETWEEN p_day - p_window PRECEDING AND CURRENT ROW)
),
over AS (
  SELECT r.*, p.n >= p_enough AND r.ended_at - r.first >= p_warm_up AS enough
  FROM rest r JOIN second_pass p ON p.tenant = r.tenant AND p.subject = r.subject AND p.bucket = r.newest
  WHERE CASE WHEN p.n < p_enough OR r.ended_at - r.first < p_warm_up THEN r.total >= p_cap
             WHEN p_statistic = 'mean' THEN r.total * p.n > p_factor * p.total
             ELSE r.total > p_factor * p.middle END
),
habits AS (  -- at this time of day it was at least half as much on two of the three days before: somebody begins work
  SELECT tenant, subject, ended_at
  FROM (SELECT o.tenant, o.subject, o.ended_at, d.d
        FROM (SELECT *, unnest(generate_series(newest - INTERVAL '1 hour', newest + INTERVAL '1 hour' + 4 * p_window, p_window)) AS place FROM over) o
        CROSS JOIN range(1, 4) d(d)
        JOIN levels v ON v.tenant = o.tenant AND v.subject = o.subject AND v.bucket = time_bucket(p_window, o.place - d.d * INTERVAL '24 hours')
        WHERE 2 * v.n >= o.total
        GROUP BY ALL)
  GROUP BY ALL HAVING count(*) >= 2
),
by_day AS (
  SELECT o.* EXCLUDE (newest, enough, place), CASE WHEN o.enough THEN 'day' ELSE 'none' END AS basis,
         [coalesce(list(s.n * c.width) FILTER (s.n IS NOT NULL), [])] AS refs
  FROM (SELECT *, unnest(generate_series(newest - p_day + p_window, newest, p_window)) AS place
        FROM over ANTI JOIN habits USING (tenant, subject, ended_at)) o CROSS JOIN clock c
  LEFT JOIN sound s ON o.enough AND s.tenant = o.tenant AND s.subject = o.subject AND s.bucket = o.place
  GROUP BY ALL
),

-- 3. The verdict, on whole numbers: exactly `p_factor` times is quiet. The median of the weeks' own medians, so that one odd week does not count for
-- the others; and how far from it the windows are by themselves: six times that, and a tenth of it, are nothing odd.
pooled AS (
  SELECT j.* EXCLUDE (refs), c.width, flatten(j.refs) AS refs,
         list_aggregate(list_transform(j.refs, lambda lam_w: list_aggregate(lam_w, 'median')), 'median') AS middle
  FROM (FROM by_season UNION ALL BY NAME FROM by_day) j, clock c
),
weighed AS (
  SELECT * EXCLUDE (middle), CASE WHEN p_statistic = 'mean' THEN list_aggregate(refs, 'avg') ELSE middle END AS middle,
         CASE WHEN p_statistic = 'mean' THEN 0 ELSE list_aggregate(list_transform(refs, lambda lam_r: abs(lam_r - middle)), 'median') END AS spread
  FROM pooled
)
SELECT tenant, subject, agent, ended_at, total, basis, middle / width AS usual,
       CASE WHEN middle IS NULL THEN p_cap
            ELSE greatest(p_floor, p_factor * middle / width, (middle + 6 * greatest(spread, middle / 10)) / width) END AS threshold
FROM weighed
WHERE CASE WHEN middle IS NULL THEN total >= p_cap
           WHEN p_statistic = 'mean' THEN total * width * len(refs) > p_factor * list_sum(refs)
           ELSE total * width > p_factor * middle AND total * width > middle + 6 * greatest(spread, middle / 10) END;
