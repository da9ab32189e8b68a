-- title     = "{subject}: changed {changes} times {span}"
-- title_zh  = "{subject}：{span_zh}已变更 {changes} 次"
-- severity  = "medium"
-- tags      = ["config"]
-- why       = "The same configuration is changed again and again within a day. Somebody, or an agent, is trying settings out on a live system, or two of them undo each other's work."
-- respond   = "Compare the contents in the evidence: a value that goes back and forth means two writers. Find out who they are and whether an agent may write this object at all. Put it back to the last approved content."
-- respond_zh = "比较证据中的内容：来回变化的值说明有两个写入者。查明是谁，以及智能体是否有权写入该对象。恢复到最近一次经审批的内容。"
-- quiet     = "A write that changes nothing. The first write of an object that was not seen in the day before. A day of planned roll-outs. Fewer than `hourly` changes in an hour that are not too many for their day."
-- lookback  = "50 hours"
-- gap       = "12 hours"
-- needs     = ["config_object", "config_after"]
-- kinds     = ["config_changed"]
-- hot       = "SELECT 1 FROM events WHERE ts >= $since AND ts < $until AND kind = 'config_changed'"
-- [params]
-- most      = { type = "integer", default = 3, min = 1 }
-- hourly    = { type = "integer", default = 4, min = 2 }

WITH hot AS (SELECT DISTINCT config_object FROM events WHERE ts >= $since AND ts < $until AND kind = 'config_changed'),
writes AS (
    SELECT coalesce(tenant, '') AS tenant, config_object AS subject, ts, event_id, native_id, agent,
           try_cast(coalesce(attrs ->> 'seq', params ->> 'seq') AS BIGINT) AS seq,
           nullif(config_after::VARCHAR, 'null') AS content, nullif(config_before::VARCHAR, 'null') AS stated,
           local_day(ts) AS day
    FROM events
    WHERE ts >= $since - $lookback AND ts < $until AND kind = 'config_changed' AND config_object IN (FROM hot)
      AND coalesce(decision, '') <> 'deny' AND coalesce(status, 'ok') NOT IN ('denied', 'cancelled', 'error')
),
linked AS (
    SELECT *, last_value(content IGNORE NULLS) OVER earlier AS known,
              last_value(CASE WHEN content IS NOT NULL THEN ts END IGNORE NULLS) OVER earlier AS known_at
    FROM writes
    WINDOW earlier AS (PARTITION BY tenant, subject ORDER BY ts, seq NULLS FIRST, native_id NULLS FIRST, event_id
                       ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
),
effective AS (  -- what was known is remembered for the lookback less the longest day there is
    SELECT *
    FROM linked
    WHERE content IS NULL
       OR content <> CASE WHEN known_at >= ts - ($lookback - INTERVAL '26 hours') THEN known ELSE stated END
),
counted AS (  -- of the local day so far, and of the hour before, which a day's end does not cut; of one instant, in their order
    SELECT *, count(*) OVER so_far AS daily, min(ts) OVER so_far AS day_ts, min(ts) OVER hour AS hour_ts,
           count(*) OVER hour - count(*) OVER at_once + row_number() OVER in_turn AS in_hour,
           list({'ts': ts, 'event_id': event_id, 'content': content, 'agent': agent}) OVER (
               PARTITION BY tenant, subject ORDER BY ts, seq NULLS FIRST, native_id NULLS FIRST, event_id
               ROWS BETWEEN 19 PRECEDING AND CURRENT ROW) AS near
    FROM effective
    WINDOW so_far AS (PARTITION BY tenant, subject, day ORDER BY ts, seq NULLS FIRST, native_id NULLS FIRST, event_id
                      ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW),
           hour AS (PARTITION BY tenant, subject ORDER BY ts RANGE BETWEEN INTERVAL '1 hour' PRECEDING AND CURRENT ROW),
           at_once AS (PARTITION BY tenant, subject, ts),
           in_turn AS (PARTITION BY tenant, subject, ts ORDER BY seq NULLS FIRST, native_id NULLS FIRST, event_id)
),
fired AS (
    SELECT * REPLACE (list_filter(near, lambda x: x.ts >= first_ts) AS near)
    FROM (SELECT *, CASE WHEN daily > $most THEN day_ts ELSE hour_ts END AS first_ts FROM counted)
    WHERE (daily > $most OR in_hour >= $hourly) AND ts >= $since
)
SELECT subject, tenant, first_ts AS started_at, ts AS ended_at,
       list_sort(list_distinct(list_transform(near, lambda x: x.event_id))) AS event_ids,
       CASE WHEN daily > $most THEN daily ELSE in_hour END AS changes, day,
       CASE WHEN daily > $most THEN 'on ' || day ELSE 'within an hour' END AS span,
       CASE WHEN daily > $most THEN day || ' 当天' ELSE '一小时内' END AS span_zh,
       list_sort(list_distinct(list_filter(list_transform(near, lambda x: left(x.content, 200)), lambda x: x IS NOT NULL))) AS contents,
       list_sort(list_distinct(list_filter(list_transform(near, lambda x: x.agent), lambda x: x IS NOT NULL))) AS agents
FROM fired
