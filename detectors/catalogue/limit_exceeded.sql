-- title     = "{subject}: {used} where the policy allows {allowed}"
-- title_zh  = "{subject}：已用 {used}，策略只允许 {allowed}"
-- severity  = "medium"
-- tags      = ["budget", "policy"]
-- why       = "More went through than the policy allows: calls, messages, recipients or money. The gate does not count, or the agent has a road round it, and nothing else will stop it."
-- respond   = "Pause the agent if nobody attends it, and see in the evidence what it did with the surplus. If the work is legitimate, raise the limit in the policy and in the gate. If the gate should have refused, find out why it did not count."
-- respond_zh = "若无人值守，先暂停该智能体，并在证据中查看超出部分做了什么。若工作正当，同时在策略和网关中提高限额。若网关本应拒绝，查明它为何没有计数。"
-- quiet     = "No policy file, or no such limit in it. Exactly as much as is allowed. Calls that were denied and not executed. A first planned batch: write its limit into the policy beforehand."
-- lookback  = "27 hours"
-- gap       = "10 minutes"
-- needs     = ["agent", "decision or status"]
-- kinds     = ["tool_proposed", "tool_decided", "tool_executed", "approval_requested", "approval_decided", "egress", "model_call"]
-- hot       = "SELECT 1 WHERE EXISTS (FROM policies) AND (EXISTS (FROM calls WHERE last_ts >= $since AND ts < $until AND (executed_at >= $since OR decision = 'allow')) OR EXISTS (FROM events WHERE ts >= $since AND ts < $until AND (kind = 'egress' OR cost_usd > 0)))"

-- A minute, an hour and the 24 hours of a task slide; the time exactly one width before is outside. Days are days of the
-- policy's zone. What happens at one instant is ordered by call, so that it is exactly the 31st call that is one too many.
-- A row for the use that passes the limit and for further ones; of those within ten seconds the first: a runaway agent
-- must not make as many rows as calls.
WITH over_it AS (
    SELECT *
    FROM over_limits($since - $lookback, $since - INTERVAL '10 seconds', $until, policy_doc(), local_zone())
    QUALIFY row_number() OVER (PARTITION BY lim, tenant, subject, about, day, time_bucket(INTERVAL '10 seconds', ts)
                               ORDER BY ts, call_key, event_id) = 1
)
SELECT subject || ' · ' || lim || CASE WHEN lim = 'daily_limit' THEN ' of ' || about ELSE '' END AS subject, tenant, agent,
       first_ts AS started_at, ts AS ended_at,
       list_sort(list_distinct(list_transform(list_filter(shown, lambda x: x.ts >= first_ts), lambda x: x.event_id))) AS event_ids,
       CASE WHEN lim IN ('tool_calls_per_minute', 'tool_calls_per_task', 'external_requests_per_hour') THEN 'medium' ELSE 'high' END AS severity,
       lim AS limit_name, nullif(about, '') AS about, day,
       regexp_replace(used::VARCHAR, '\.?0+$', '') AS used, regexp_replace(allowed::VARCHAR, '\.?0+$', '') AS allowed
FROM over_it
WHERE ts >= $since
