-- title     = "{subject}: {outcome}, and the host is not on the list"
-- title_zh  = "{subject}：{outcome_zh}，且主机不在允许列表中"
-- severity  = "high"
-- tags      = ["egress", "policy"]
-- why       = "An agent reaches for an address that the policy does not list. This is how data leaves, and how instructions come in."
-- respond   = "Find out what was sent and who told the agent about this address. If it was allowed or executed, block the host at the gateway first. If the address is legitimate, add it to egress.allowed_hosts."
-- respond_zh = "查明发送了什么、是谁让智能体访问该地址。若已放行或已执行，先在网关处封禁该主机。若地址正当，把它加入 egress.allowed_hosts。"
-- quiet     = "A policy without a list of hosts: then nothing is unlisted. A denied attempt is only low: the gate held."
-- lookback  = "0 seconds"
-- gap       = "1 hour"
-- needs     = ["host"]
-- kinds     = ["egress", "tool_proposed", "tool_decided", "tool_executed", "approval_requested", "approval_decided"]
-- hot       = "SELECT 1 FROM events WHERE ts >= $since AND ts < $until AND kind = 'egress' AND EXISTS (FROM policies) UNION ALL SELECT 1 FROM calls WHERE ts >= $since AND ts < $until AND host IS NOT NULL AND EXISTS (FROM policies)"

WITH attempts AS (
    SELECT tenant, agent, principal, session, trace_id, source, ts, host, tool, event_id,
           decision = 'deny' OR status IN ('denied', 'cancelled') AS refused, false AS ran
    FROM events
    WHERE ts >= $since AND ts < $until AND kind = 'egress' AND egress_listed()
    UNION ALL
    SELECT tenant, agent, principal, session, trace_id, source, ts, host, tool, coalesce(executed_by, decided_by, event_ids[1]),
           executed_at IS NULL AND decision = 'deny', executed_at IS NOT NULL
    FROM calls
    WHERE ts >= $since AND ts < $until AND host IS NOT NULL AND egress_listed()
      AND (executed_at IS NOT NULL OR decision IN ('allow', 'deny'))
),
unlisted AS (  -- an address that no reader can make out is on no list
    SELECT host FROM (SELECT DISTINCT host FROM attempts) WHERE NOT host_listed(host)
)
SELECT actor(a.agent, a.principal, a.session, a.trace_id, a.source) || ' -> ' || coalesce(a.host, '(unreadable host)') AS subject,
       coalesce(a.tenant, '') AS tenant, a.ts AS started_at, a.ts AS ended_at, [a.event_id] AS event_ids, a.agent,
       CASE WHEN a.refused THEN 'low' ELSE 'high' END AS severity,
       a.host, a.tool,
       CASE WHEN a.refused THEN 'denied' WHEN a.ran THEN 'executed' ELSE 'allowed' END AS outcome,
       CASE WHEN a.refused THEN '已拒绝' WHEN a.ran THEN '已执行' ELSE '已放行' END AS outcome_zh
FROM attempts a
JOIN unlisted u ON u.host IS NOT DISTINCT FROM a.host
