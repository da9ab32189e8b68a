-- title     = "{subject}: {used} where the policy allows {allowed}"
-- title_zh  = "{subject}：已用 {used}，策略只允许 {allowed}"
-- severity  = "medium"
-- why       = "More went through than the policy allows: calls, messages, recipients or money. The gate does not count, or the agent has a road round it, and nothing else will stop it."
-- respond   = "Pause the agent if nobody attends it, and see in the evidence what it did with the surplus. If the work is legitimate, raise the limit in the policy and in the gate. If the gate should have refused, find out why it did not count."
-- respond_zh = "若无人值守，先暂停该智能体，并在证据中查看超出部分做了什么。若工作正当，同时在策略和网关中提高限额。若网关本应拒绝，查明它为何没有计数。"
-- quiet     = "No policy file, or no such limit in it. Exactly as much as is allowed. Calls that were denied and not executed. A first planned batch: write its limit into the policy beforehand."
-- lookback  = "26 hours"
-- gap       = "10 minutes"
-- needs     = ["agent", "decision or status"]
-- kinds     = ["tool_proposed", "tool_decided", "tool_executed", "approval_requested", "approval_decided", "egress", "model_call"]

-- A minute, an hour and the 24 hours of a task slide; the time exactly one width before is outside. Days are days of the
-- policy's zone. What happens at one instant is ordered by call, so that it is exactly the 31st call that is one too many.
-- A row for the use that passes the limit and for further ones; of those within ten seconds the first: a runaway agent
-- must not make as many rows as calls.
WITH uses AS (
    SELECT u.*, l.allowed, l.width
    FROM limit_uses($since - $lookback, $since, $until, policy_doc(), local_zone()) u
    JOIN policy_limits(policy_doc()) l ON l.lim = u.lim
),
buckets AS (
    SELECT lim, tenant, subject, about, time_bucket(width, ts) AS bucket, width, allowed, sum(amount) AS amount
    FROM uses
    GROUP BY ALL
),
busy AS (  -- the only stretches in which more than allowed can lie within one width
    SELECT lim, tenant, subject, about, unnest([bucket, bucket - width]) AS bucket
    FROM (SELECT *, sum(amount) OVER (PARTITION BY lim, tenant, subject, about ORDER BY bucket
                                      RANGE BETWEEN width PRECEDING AND CURRENT ROW) AS most FROM buckets)
    WHERE most > allowed
),
near AS (
    SELECT u.*
    FROM uses u
    SEMI JOIN busy b ON b.lim = u.lim AND b.tenant = u.tenant AND b.subject = u.subject AND b.about = u.about
                    AND b.bucket = time_bucket(u.width, u.ts)
),
counted AS (
    SELECT *,
           sum(amount) OVER behind - coalesce(sum(amount) OVER others, 0) AS used, min(ts) OVER behind AS first_ts,
           list({'ts': ts, 'event_id': event_id}) OVER (
               PARTITION BY lim, tenant, subject, about ORDER BY ts, call_key, event_id
               ROWS BETWEEN 19 PRECEDING AND CURRENT ROW) AS shown
    FROM near
    WINDOW behind AS (PARTITION BY lim, tenant, subject, about ORDER BY ts
                      RANGE BETWEEN width - INTERVAL '1 microsecond' PRECEDING AND CURRENT ROW),
           others AS (PARTITION BY lim, tenant, subject, about, ts ORDER BY call_key, event_id
                      ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING)
),
over_it AS (
    SELECT *
    FROM counted
    WHERE used > allowed
    QUALIFY row_number() OVER (PARTITION BY lim, tenant, subject, about, time_bucket(INTERVAL '10 seconds', ts)
                               ORDER BY ts, call_key, event_id) = 1
)
SELECT subject || ' · ' || lim AS subject, tenant, agent, first_ts AS started_at, ts AS ended_at,
       list_sort(list_distinct(list_transform(list_filter(shown, lambda x: x.ts >= first_ts), lambda x: x.event_id))) AS event_ids,
       CASE WHEN lim IN ('tool_calls_per_minute', 'tool_calls_per_task', 'external_requests_per_hour') THEN 'medium' ELSE 'high' END AS severity,
       lim AS limit_name, nullif(about, '') AS about,
       rtrim(rtrim(used::VARCHAR, '0'), '.') AS used, rtrim(rtrim(allowed::VARCHAR, '0'), '.') AS allowed
FROM over_it
WHERE ts >= $since
