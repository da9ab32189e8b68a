-- title     = "{subject}: {requests} approval requests in {within} while nobody attends ({against}), {unattended_decisions} of them decided by no person"
-- title_zh  = "{subject}：无人值守时段 {within}内发起 {requests} 次审批（{against_zh}），其中 {unattended_decisions} 次无人审批"
-- severity  = "high"
-- tags      = ["approvals"]
-- why       = "Approval requests pile up at an hour when nobody is there to think about them. They will be waved through, bypassed or left to expire."
-- respond   = "See what is being asked for and by whom it was decided. If requests were bypassed or decided automatically, close that road first. Pause the agent until somebody is awake to decide."
-- respond_zh = "查看请求了什么、由谁裁决。若请求被绕过或自动通过，先关闭该通道。在有人值守、能够裁决之前，暂停该智能体。"
-- quiet     = "A release night or a migration with many planned approvals. Requests in attended hours. Fewer than `requests` of them."
-- lookback  = "9 days 2 hours"
-- gap       = "30 minutes"
-- needs     = ["agent", "kind approval_requested or approval_decided"]
-- hot       = "SELECT 1 FROM calls WHERE last_ts >= $since AND ts < $until AND coalesce(approval_requested_at, approved_at, decided_at) >= $since AND (approval_requested_at IS NOT NULL OR approved_at IS NOT NULL OR approval_id IS NOT NULL OR approver IS NOT NULL OR reason_code = 'expired')"
-- [params]  # the lookback holds the night that is judged and the seven before it
-- requests  = { type = "integer", default = 5, min = 1 }
-- within    = { type = "interval", default = "30 minutes", min = "1 minute", max = "1 hour" }
-- factor    = { type = "integer", default = 3, min = 1 }
-- min_baseline = { type = "integer", default = 20, min = 1 }
-- cap       = { type = "integer", default = 10, min = 1 }

WITH clock AS MATERIALIZED (SELECT local_zone() AS zone, unattended_minutes() AS minutes),
approvals AS (  -- when each call asked for approval; one that was decided without a request counts when it was decided
    SELECT coalesce(tenant, '') AS tenant, counted_for(agent, principal, source) AS subject, call_key,
           coalesce(approval_requested_at, approved_at,
                    CASE WHEN approval_id IS NOT NULL OR approver IS NOT NULL OR reason_code = 'expired' THEN decided_at END) AS ts,
           coalesce(decided_by, event_ids[1]) AS event_id,
           decision = 'allow' AND approver IS NULL
               AND regexp_matches(lower(concat_ws(' ', reason_code, reason)), '\b(bypass|auto)') AS nobody
    FROM calls
    WHERE last_ts >= $since - $within AND ts < $until
      AND (approval_requested_at IS NOT NULL OR approved_at IS NOT NULL OR approval_id IS NOT NULL
           OR approver IS NOT NULL OR reason_code = 'expired')
),
asked AS (
    SELECT a.*, night_of(timezone(c.zone, a.ts), c.minutes) AS night
    FROM approvals a, clock c
    WHERE ts >= $since - $within AND ts < $until
),
counted AS (
    SELECT *, count(*) OVER behind AS requests, min(ts) OVER behind AS first_ts,
           sum(CASE WHEN nobody THEN 1 ELSE 0 END) OVER behind AS unattended_decisions,
           list({'ts': ts, 'event_id': event_id}) OVER (PARTITION BY tenant, subject, night ORDER BY ts, call_key
                                                        ROWS BETWEEN 19 PRECEDING AND CURRENT ROW) AS near
    FROM asked
    WHERE night IS NOT NULL
    WINDOW behind AS (PARTITION BY tenant, subject, night ORDER BY ts RANGE BETWEEN $within PRECEDING AND CURRENT ROW)
    -- requests of one instant are one row, the last of them
    QUALIFY row_number() OVER (PARTITION BY tenant, subject, night, ts ORDER BY call_key DESC) = 1
),
many AS (SELECT * FROM counted WHERE requests >= $requests AND ts >= $since),
nights AS (SELECT DISTINCT tenant, subject, night FROM many),
minutes AS (  -- the unattended minutes in which anybody sent anything
    SELECT m.minute, time_bucket($within, m.minute) AS bucket, night_of(timezone(c.zone, m.minute), c.minutes) AS night
    FROM (SELECT DISTINCT minute FROM minute_counts
          WHERE minute >= $since - $lookback AND minute < $until
            AND minute >= (SELECT min(ts) FROM many) - $lookback) m,  -- none where nothing could fire
         clock c
),
buckets AS (SELECT DISTINCT night, bucket FROM minutes WHERE night IS NOT NULL),
own AS (
    SELECT s.tenant, s.subject, m.night, m.bucket, sum(c.approvals)::BIGINT AS approvals
    FROM minute_counts c
    JOIN (SELECT DISTINCT tenant, subject FROM nights) s
        ON s.tenant = coalesce(c.tenant, '') AND s.subject = coalesce(c.subject, c.agent, '(no agent)')
    JOIN minutes m ON m.minute = c.minute
    WHERE c.minute >= $since - $lookback AND c.minute < $until AND m.night IS NOT NULL
    GROUP BY ALL
),
seen AS (  -- an agent has no usual number from before it came
    SELECT n.tenant, n.subject, n.night, min(o.bucket) AS first_bucket
    FROM nights n
    JOIN own o ON o.tenant = n.tenant AND o.subject = n.subject AND o.night >= n.night - 7 AND o.night < n.night
    GROUP BY ALL
),
reference AS (  -- the seven nights before: zero where others sent something, absent where nobody did
    SELECT s.tenant, s.subject, s.night, coalesce(o.approvals, 0) AS approvals
    FROM seen s
    JOIN buckets b ON b.night >= s.night - 7 AND b.night < s.night AND b.bucket >= s.first_bucket
    LEFT JOIN own o ON o.tenant = s.tenant AND o.subject = s.subject AND o.night = b.night AND o.bucket = b.bucket
),
sound AS (  -- without the buckets that are themselves a surge
    SELECT *
    FROM reference
    QUALIFY NOT (approvals >= $requests
                 AND approvals > $factor * median(approvals) OVER (PARTITION BY tenant, subject, night))
),
usual AS (
    SELECT tenant, subject, night, count(*) AS n, median(approvals) AS middle
    FROM sound
    GROUP BY ALL
),
fired AS (
    SELECT m.* REPLACE (list_filter(m.near, lambda x: x.ts >= m.first_ts) AS near),
           CASE WHEN coalesce(u.n, 0) >= $min_baseline THEN u.middle END AS usual
    FROM many m
    LEFT JOIN usual u ON u.tenant = m.tenant AND u.subject = m.subject AND u.night = m.night
    WHERE CASE WHEN coalesce(u.n, 0) < $min_baseline THEN m.requests >= $cap
               ELSE m.requests > $factor * u.middle END
)
SELECT subject, tenant, first_ts AS started_at, ts AS ended_at,
       list_sort(list_distinct(list_transform(near, lambda x: x.event_id))) AS event_ids,
       requests, usual, unattended_decisions::BIGINT AS unattended_decisions,
       round(unattended_decisions / requests, 2) AS unattended_share, night,
       CASE WHEN usual IS NULL THEN 'new: no earlier nights to compare with' ELSE 'usually ' || format('{:g}', usual) END AS against,
       CASE WHEN usual IS NULL THEN '新：没有可比的夜晚' ELSE '平时 ' || format('{:g}', usual) || ' 次' END AS against_zh
FROM fired
