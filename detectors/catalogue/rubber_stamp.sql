-- title     = "{subject}: {approvals} approvals in {within}, half of them within {wait_seconds} seconds, none refused; {against}"
-- title_zh  = "{subject}：{within}内批准 {approvals} 次，一半在 {wait_seconds} 秒内，无一拒绝；{against_zh}"
-- severity  = "medium"
-- tags      = ["approvals"]
-- why       = "Somebody approves faster than the requests can be read, and refuses none. The approval is then a formality: what an agent asks for, it gets, and the log says that a person looked."
-- respond   = "Read the requests in the evidence as if you were to decide them, the risky ones first, and undo what should not have passed. Talk to the approver: too many requests, or a button that is too near? If a program approves under that name, take the name away from it."
-- respond_zh = "把证据中的请求当作由您裁决来重读，先看高风险的，撤销不该通过的。与审批人沟通：是请求太多，还是按钮太顺手？若是程序以此名义审批，收回该账号。"
-- quiet     = "One list approved at once is one act. Requests of which the log does not say when they were made are left out, and so are answers before their request (two clocks). An approver who refuses now and then. A planned release with many like requests: record it as expected."
-- lookback  = "15 days 2 hours"
-- gap       = "1 hour"
-- needs     = ["approver", "kind approval_requested", "kind approval_decided"]
-- kinds     = ["tool_proposed", "tool_decided", "tool_executed", "approval_requested", "approval_decided"]
-- hot       = "SELECT 1 FROM calls WHERE last_ts >= $since AND ts < $until AND approved_at >= $since AND approved_at < $until AND approver IS NOT NULL"
-- [params]  # lookback >= the 14 days before the day of the row, and twice `within`
-- approvals = { type = "integer", default = 10, min = 2 }
-- within    = { type = "interval", default = "30 minutes", min = "1 minute", max = "1 hour" }
-- seconds   = { type = "integer", default = 3, min = 1, max = 60 }
-- factor    = { type = "integer", default = 10, min = 2 }
-- min_baseline = { type = "integer", default = 20, min = 1 }

-- Fast is a median wait below `seconds`; or below five times that, where it is `factor` times shorter than the approver's
-- own or, without one, the others' usual wait of the 14 days before the day (in UTC).
WITH answers AS (
    SELECT coalesce(tenant, '') AS tenant, approver AS subject, source, approval_id, call_key, tool, agent,
           coalesce(approved_at, decided_at) AS ts, approved_at IS NOT NULL AS approved,
           CASE WHEN approval_requested_at IS NOT NULL
                THEN epoch_us(coalesce(approved_at, decided_at)) - epoch_us(approval_requested_at) END AS wait_us,
           coalesce(risk IN ('high', 'critical'), false) AS risky,
           coalesce(lower(approver) IN (lower(principal), lower(agent)), false) AS own_request,
           CASE WHEN decided_at = coalesce(approved_at, decided_at) THEN decided_by ELSE event_ids[1] END AS event_id
    FROM calls
    WHERE last_ts >= $since - 2 * $within AND ts < $until AND approver IS NOT NULL
      AND (approved_at IS NOT NULL OR (decision = 'deny' AND coalesce(reason_code, '') NOT IN ('expired', 'cancelled')))
),
acts AS (  -- a list that is approved at once, or under one approval, is one act; the slowest of its waits counts
    SELECT tenant, subject, ts, bool_and(approved) AS approved, bool_or(risky) AS risky, bool_or(own_request) AS own_request,
           max(CASE WHEN wait_us >= 0 THEN wait_us END) AS wait_us, max(wait_us) < 0 AS backwards, min(event_id) AS event_id,
           list_sort(list_distinct(list_filter(list(tool), lambda x: x IS NOT NULL))) AS tools
    FROM (SELECT * FROM answers WHERE ts >= $since - 2 * $within AND ts < $until
          QUALIFY approval_id IS NULL
               OR coalesce(lag(ts) OVER (PARTITION BY tenant, subject, source, approval_id ORDER BY ts, call_key) < ts - $within, true)
               OR ts = lag(ts) OVER (PARTITION BY tenant, subject, source, approval_id ORDER BY ts, call_key))
    GROUP BY ALL
),
counted AS (
    SELECT *, count(*) OVER behind AS approvals, sum(CASE WHEN approved THEN 0 ELSE 1 END) OVER behind AS refusals,
           count(wait_us) OVER behind AS timed, median(wait_us) OVER behind AS middle_us, min(ts) OVER behind AS first_ts,
           sum(CASE WHEN backwards THEN 1 ELSE 0 END) OVER behind AS backwards_n,
           bool_or(risky) OVER behind AS any_risky, bool_or(own_request) OVER behind AS any_own,
           list({'ts': ts, 'event_id': event_id, 'tools': tools}) OVER (PARTITION BY tenant, subject ORDER BY ts ROWS BETWEEN 19 PRECEDING AND CURRENT ROW) AS near
    FROM acts
    WINDOW behind AS (PARTITION BY tenant, subject ORDER BY ts RANGE BETWEEN $within PRECEDING AND CURRENT ROW)
),
quick AS (
    SELECT *, ts::DATE AS day
    FROM counted
    WHERE timed >= $approvals AND refusals = 0 AND ts >= $since AND middle_us < 5 * $seconds * 1000000
),
history AS (  -- who answered how in the 14 days before; requests without a wait say nothing here
    SELECT coalesce(tenant, '') AS tenant, approver, coalesce(approved_at, decided_at) AS ts, approved_at IS NOT NULL AS approved,
           epoch_us(coalesce(approved_at, decided_at)) - epoch_us(approval_requested_at) AS wait_us
    FROM calls
    WHERE last_ts >= $since - $lookback AND ts < $until AND EXISTS (FROM quick) AND approver IS NOT NULL
      AND coalesce(approved_at, decided_at) >= approval_requested_at
      AND (approved_at IS NOT NULL OR (decision = 'deny' AND coalesce(reason_code, '') NOT IN ('expired', 'cancelled')))
),
usual AS (
    SELECT q.tenant, q.subject, q.day,
           count(*) FILTER (h.approver = q.subject) AS own_n, median(h.wait_us) FILTER (h.approver = q.subject) AS own_us,
           avg(h.approved::INTEGER) FILTER (h.approver = q.subject) AS own_rate,
           count(*) FILTER (h.approver <> q.subject) AS team_n, median(h.wait_us) FILTER (h.approver <> q.subject) AS team_us,
           avg(h.approved::INTEGER) FILTER (h.approver <> q.subject) AS team_rate
    FROM (SELECT DISTINCT tenant, subject, day FROM quick) q
    JOIN history h ON h.tenant = q.tenant AND h.ts::DATE >= q.day - 14 AND h.ts::DATE < q.day
    GROUP BY ALL
),
held AS (
    SELECT q.* REPLACE (list_filter(q.near, lambda x: x.ts >= q.first_ts) AS near),
           CASE WHEN u.own_n >= $min_baseline THEN u.own_us END AS own_us, CASE WHEN u.own_n >= $min_baseline THEN u.own_rate END AS own_rate,
           CASE WHEN u.team_n >= $min_baseline THEN u.team_us END AS team_us, CASE WHEN u.team_n >= $min_baseline THEN u.team_rate END AS team_rate
    FROM quick q
    LEFT JOIN usual u ON u.tenant = q.tenant AND u.subject = q.subject AND u.day = q.day
),
worded AS (
    SELECT *, round(own_us / 1000000, 1) AS own_usual_seconds, round(team_us / 1000000, 1) AS team_usual_seconds,
           coalesce(own_us, team_us) AS usual_us
    FROM held
    WHERE middle_us < $seconds * 1000000 OR middle_us * $factor < coalesce(own_us, team_us)
)
SELECT subject, tenant, first_ts AS started_at, ts AS ended_at,
       list_sort(list_distinct(list_transform(near, lambda x: x.event_id))) AS event_ids,
       CASE WHEN any_risky OR any_own THEN 'high' ELSE 'medium' END AS severity,
       approvals, round(middle_us / 1000000, 1) AS wait_seconds, any_risky AS high_risk_among_them, any_own AS own_requests_among_them,
       round((approvals - timed) / approvals, 2) AS wait_unknown_share, backwards_n::BIGINT AS answered_before_asked,
       own_usual_seconds, round(own_rate, 2) AS own_usual_rate, team_usual_seconds, round(team_rate, 2) AS team_usual_rate,
       list_sort(list_distinct(flatten(list_transform(near, lambda x: x.tools)))) AS tools,
       CASE WHEN own_us IS NOT NULL THEN 'usually ' || format('{:g}', own_usual_seconds) || ' seconds'
            WHEN team_us IS NOT NULL THEN 'others take ' || format('{:g}', team_usual_seconds) || ' seconds'
            ELSE 'new: no earlier answers to compare with' END AS against,
       CASE WHEN own_us IS NOT NULL THEN '平时 ' || format('{:g}', own_usual_seconds) || ' 秒'
            WHEN team_us IS NOT NULL THEN '其他人 ' || format('{:g}', team_usual_seconds) || ' 秒'
            ELSE '新：没有可比的记录' END AS against_zh
FROM worded
