-- title     = "{subject}: nobody answers, {what}"
-- title_zh  = "{subject}：无人审批，{what_zh}"
-- severity  = "medium"
-- tags      = ["approvals"]
-- why       = "Requests for approval pile up or run out and nobody answers. The agents stand still, or learn that no answer is an answer; and whoever comes back to the pile will wave it through."
-- respond   = "Find out who is to answer and whether the requests reach them: the channel, the shift, the rights. Answer the oldest and the risky ones one by one. If nobody can, pause the agent; approve nothing in bulk."
-- respond_zh = "查明应由谁审批、请求是否送达：渠道、班次、权限。先逐个处理最久的和高风险的。若无人可审，暂停该智能体；不要批量通过。"
-- quiet     = "A few requests that wait a little, a pile that is being worked off within `patience`. One that waited for a day is a fact and is not counted any more. A queue in which many agents wait for one answer each is told of as the source, not by agent."
-- lookback  = "1 day 4 hours"
-- gap       = "2 hours"
-- inhibited_by = ["silent_source"]
-- needs     = ["kind approval_requested", "kind approval_decided"]
-- clock     = true
-- kinds     = ["tool_proposed", "tool_decided", "tool_executed", "approval_requested", "approval_decided"]
-- hot       = "SELECT 1 WHERE time_bucket(INTERVAL '5 minutes', $until - INTERVAL '1 microsecond') >= $since UNION ALL SELECT 1 FROM calls WHERE last_ts >= $since AND ts < $until AND reason_code = 'expired'"
-- [params]  # lookback >= a day, after which a wait is no longer told, and `within`
-- waiting_for = { type = "integer", default = 5, min = 1 }
-- patience  = { type = "interval", default = "15 minutes", min = "1 minute", max = "12 hours" }
-- expiries  = { type = "integer", default = 5, min = 1 }
-- within    = { type = "interval", default = "2 hours", min = "5 minutes", max = "4 hours" }
-- queue     = { type = "integer", default = 20, min = 2 }

-- Whole five minutes are judged. At each, a request waits that is older than `patience` and was not answered by then.
WITH marks AS MATERIALIZED (  -- the first and the last of them in the range
    SELECT time_bucket(INTERVAL '5 minutes', $since - INTERVAL '1 microsecond') + INTERVAL '5 minutes' AS lo,
           time_bucket(INTERVAL '5 minutes', $until - INTERVAL '1 microsecond') AS hi
),
asked AS (
    SELECT coalesce(tenant, '') AS tenant, actor(agent, principal, session, trace_id, source) AS subject, source, agent, call_key,
           approval_requested_at AS asked_at, event_ids,
           least(approved_at, denied_at, executed_at, CASE WHEN decision IN ('allow', 'deny') THEN decided_at END,
                 CASE WHEN status IN ('denied', 'cancelled', 'timeout') THEN last_ts END) AS answered_at
    FROM calls
    WHERE last_ts >= $since - $lookback AND ts < $until
      AND approval_requested_at >= $since - INTERVAL '1 day' AND approval_requested_at < $until
),
pending AS (  -- `first_mark` and `last_mark`: between which it counts
    SELECT *, greatest(time_bucket(INTERVAL '5 minutes', asked_at + $patience) + INTERVAL '5 minutes', lo) AS first_mark,
           least(coalesce(time_bucket(INTERVAL '5 minutes', answered_at - INTERVAL '1 microsecond'), hi), time_bucket(INTERVAL '5 minutes', asked_at + INTERVAL '1 day'), hi) AS last_mark
    FROM asked, marks
    WHERE answered_at IS NULL OR answered_at > asked_at + $patience
),
steps AS (  -- how many more wait from a mark on, and the agents' totals at each mark at which they change
    SELECT tenant, subject, source, mark, sum(more)::BIGINT AS more
    FROM (SELECT tenant, subject, source, first_mark AS mark, 1 AS more FROM pending WHERE first_mark <= last_mark
          UNION ALL SELECT tenant, subject, source, last_mark + INTERVAL '5 minutes', -1 FROM pending WHERE first_mark <= last_mark)
    GROUP BY ALL
),
levels AS (
    SELECT tenant, subject, source, mark AS first_mark,
           lead(mark) OVER in_time - INTERVAL '5 minutes' AS last_mark,
           sum(more) OVER in_time AS waiting
    FROM steps
    WINDOW in_time AS (PARTITION BY tenant, subject, source ORDER BY mark)
),
marked AS (
    SELECT tenant, subject, source, unnest(generate_series(first_mark, last_mark, INTERVAL '5 minutes')) AS mark, waiting
    FROM levels
    WHERE waiting > 0 AND last_mark >= first_mark
),
by_agent AS (
    SELECT tenant, subject, mark, sum(waiting)::BIGINT AS waiting FROM marked GROUP BY ALL
),
piles AS (
    SELECT tenant, subject, subject AS who, mark, waiting, false AS shared FROM by_agent WHERE waiting > $waiting_for
    UNION ALL  -- each waits for little, all of them for much
    SELECT m.tenant, 'source ' || m.source, m.subject, m.mark, sum(m.waiting) OVER (PARTITION BY m.tenant, m.source, m.mark)::BIGINT, true
    FROM marked m
    JOIN by_agent a ON a.tenant = m.tenant AND a.subject = m.subject AND a.mark = m.mark
    WHERE a.waiting <= $waiting_for
    QUALIFY sum(m.waiting) OVER (PARTITION BY m.tenant, m.source, m.mark) > $queue
),
expiries AS (
    SELECT *, count(*) OVER behind AS expired, min(ts) OVER behind AS first_ts,
           list({'ts': ts, 'event_id': event_id}) OVER (PARTITION BY tenant, subject ORDER BY ts, call_key ROWS BETWEEN 19 PRECEDING AND CURRENT ROW) AS near
    FROM (SELECT coalesce(tenant, '') AS tenant, actor(agent, principal, session, trace_id, source) AS subject, agent, call_key,
                 decided_at AS ts, decided_by AS event_id
          FROM calls
          WHERE decided_at >= $since - $within AND decided_at < $until AND reason_code = 'expired')
    WINDOW behind AS (PARTITION BY tenant, subject ORDER BY ts RANGE BETWEEN $within PRECEDING AND CURRENT ROW)
    QUALIFY expired >= $expiries AND ts >= $since
        AND row_number() OVER (PARTITION BY tenant, subject, ts ORDER BY call_key DESC) = 1
),
requests AS (  -- the events that asked
    SELECT p.*, e.event_id
    FROM (SELECT *, unnest(event_ids) AS each FROM pending
          WHERE first_mark <= last_mark AND (tenant, subject) IN (SELECT (tenant, who) FROM piles)) p
    JOIN events e ON e.event_id = p.each AND e.ts = p.asked_at
    WHERE e.ts >= $since - INTERVAL '1 day' AND e.ts < $until AND (e.kind = 'approval_requested' OR e.decision = 'require_approval')
),
told AS (
    SELECT f.tenant, f.subject, f.mark, any_value(f.waiting) AS waiting, min(r.asked_at) AS first_ts,
           CASE WHEN NOT any_value(f.shared) THEN min(r.agent) END AS agent,
           list_transform(list_sort(list({'ts': r.asked_at, 'event_id': r.event_id}))[:20], lambda x: x.event_id) AS event_ids
    FROM piles f
    JOIN requests r ON r.tenant = f.tenant AND r.subject = f.who AND f.mark >= r.first_mark AND f.mark <= r.last_mark
         AND (NOT f.shared OR f.subject = 'source ' || r.source)
    GROUP BY ALL
)
SELECT subject, tenant, agent, first_ts AS started_at, mark AS ended_at, list_sort(list_distinct(event_ids)) AS event_ids,
       waiting, 0::BIGINT AS expired, date_diff('minute', first_ts, mark) AS oldest_minutes,
       waiting || ' approvals wait, the oldest for ' || date_diff('minute', first_ts, mark) || ' minutes' AS what,
       waiting || ' 个请求在等待，最久 ' || date_diff('minute', first_ts, mark) || ' 分钟' AS what_zh
FROM told
UNION ALL
SELECT subject, tenant, agent, first_ts, ts, list_sort(list_distinct(list_transform(list_filter(near, lambda x: x.ts >= first_ts), lambda x: x.event_id))),
       0, expired, NULL, expired || ' approvals ran out within ' || date_diff('minute', first_ts, ts) || ' minutes', date_diff('minute', first_ts, ts) || ' 分钟内 ' || expired || ' 个请求过期'
FROM expiries
