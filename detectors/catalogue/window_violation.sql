-- title     = "{who}: {tool} {what}, at {local}"
-- title_zh  = "{who}：{tool} {what_zh}，当地时间 {local}"
-- severity  = "high"
-- tags      = ["policy"]
-- why       = "A tool ran at a time at which the policy does not allow it, approved or not: nobody is there to see what it does, and to stop it. A delete in the unattended hours is the act that costs most."
-- respond   = "Pause the agent now if it still runs. See in the evidence what was changed or deleted and whether it can be brought back. Then find out who let it run: the gate, an approver, or nobody. If the time is right after all, widen allowed_windows of this tool in the policy."
-- respond_zh = "若该智能体仍在运行，立即暂停。在证据中查看改动或删除了什么、能否恢复。再查明是谁放行：网关、审批人，还是无人决定。若该时间其实合理，在策略中放宽该工具的 allowed_windows。"
-- quiet     = "No policy file; a tool without allowed_windows that deletes nothing. Calls that were denied and not executed. A call that was allowed inside the window and ran inside it, however long it took. A wrong time zone in the policy: then everything seems to be at night."
-- lookback  = "10 minutes"
-- gap       = "1 hour"
-- needs     = ["agent", "tool", "status"]
-- kinds     = ["tool_proposed", "tool_decided", "tool_executed", "approval_requested", "approval_decided"]
-- hot       = "SELECT 1 FROM calls WHERE executed_at >= $since AND executed_at < $until AND last_ts >= $since AND ts < $until AND EXISTS (FROM policies) AND (regexp_matches(concat_ws(' ', tool, params), '(?i)delete|remove|drop|truncate|purge|destroy|erase|wipe|unlink|rm') OR EXISTS (FROM policies WHERE contains(doc::VARCHAR, 'allowed_windows')))"

-- Held against the newest policy, as hosts are. The time is that of the execution, on the wall clock of the policy's zone.
-- Of the calls of a subject within ten minutes of the clock the first is a row: a nightly job is one trouble.
WITH shut AS (  -- tools with windows, and the minutes that lie in none of them
    SELECT tool, m AS minute
    FROM (SELECT t ->> 'name' AS tool, arr(t -> '$.allowed_windows') AS windows
          FROM (SELECT unnest(arr(policy_doc() -> '$.tools')) AS t)
          WHERE json_type(t, '$.allowed_windows') = 'ARRAY')
    CROSS JOIN range(1440) AS minutes(m)
    WHERE len(list_filter(windows, lambda w: CASE WHEN clock_minute(w ->> 'start') < clock_minute(w ->> 'end')
        THEN m >= clock_minute(w ->> 'start') AND m < clock_minute(w ->> 'end')
        ELSE m >= clock_minute(w ->> 'start') OR m < clock_minute(w ->> 'end') END)) = 0
),
deleters AS (  -- few tools have many calls; with `n` it is asked of a tool, not of each call
    SELECT tool
    FROM (SELECT tool, count(*) AS n FROM calls WHERE last_ts >= $since - $lookback AND ts < $until GROUP BY tool)
    WHERE CASE WHEN n > 0 THEN deletes(tool, 'commit', NULL::JSON) END
),
ran AS (
    SELECT actor(agent, principal, session, trace_id, source) AS subject, coalesce(tenant, '') AS tenant, agent, tool, op, params,
           approver, call_key, trace_id, executed_at AS ts, executed_by, local_time(executed_at) AS wall,
           CASE WHEN decision = 'deny' THEN 'denied' WHEN approved_at IS NOT NULL THEN 'approved' WHEN decision = 'allow' THEN 'allowed' ELSE 'not decided' END AS gate
    FROM calls
    WHERE last_ts >= $since - $lookback AND ts < $until AND executed_at >= $since - $lookback AND executed_at < $until
      AND policy_doc() IS NOT NULL
      AND (tool IN (SELECT tool FROM shut) OR tool IN (FROM deleters) OR regexp_matches(params::VARCHAR, 'delete|drop|truncate', 'i'))
      AND (night_of(local_time(executed_at), unattended_minutes()) IS NOT NULL OR tool IN (SELECT tool FROM shut))
),
late AS (
    SELECT r.*, night_of(r.wall, unattended_minutes()) IS NOT NULL AND deletes(r.tool, r.op, r.params) AS deleted, s.tool IS NOT NULL AS outside
    FROM ran r
    LEFT JOIN shut s ON s.tool = r.tool AND s.minute = hour(r.wall) * 60 + minute(r.wall)
)
SELECT subject || ' · ' || coalesce(tool, '(no tool)') || CASE WHEN deleted THEN ' deleted while nobody attends' ELSE ' ran outside its hours' END AS subject,
       tenant, agent, ts AS started_at, ts AS ended_at, [executed_by] AS event_ids,
       CASE WHEN deleted THEN 'critical' ELSE 'high' END AS severity,
       late.subject AS who, tool, CASE WHEN deleted THEN 'deleted while nobody attends' ELSE 'ran outside its hours' END AS what,
       CASE WHEN deleted THEN '在无人值守时段执行了删除' ELSE '在允许的时段之外执行' END AS what_zh,
       strftime(wall, '%Y-%m-%d %H:%M') AS local, gate, approver, trace_id
FROM late
WHERE deleted OR outside
QUALIFY ts >= $since AND row_number() OVER (
    PARTITION BY tenant, late.subject, tool, deleted, time_bucket(INTERVAL '10 minutes', ts) ORDER BY ts, call_key) = 1
