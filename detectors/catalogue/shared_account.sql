-- title     = "{subject}: {agent_name} uses it too, beside {others}"
-- title_zh  = "{subject}：{agent_name} 也在使用，与 {others} 共用"
-- severity  = "medium"
-- tags      = ["identity"]
-- why       = "Two agents act with one account. What either of them did can no longer be told apart, one has the rights of the other, and a stolen key looks just like this."
-- respond   = "Ask whoever runs the newcomer where it got the account from. If nobody knows, treat the key as stolen: revoke it and issue a new one to the agent that it belongs to. If the sharing is meant, name the account in `shared`; better, give the newcomer an account of its own."
-- respond_zh = "询问新使用者的负责人，账号从何而来。若无人知晓，按密钥被盗处理：吊销密钥，重新签发给原属智能体。若确为有意共用，把账号写入 `shared`；更好的做法是为新使用者单独建账号。"
-- quiet     = "An agent that used the account in the week before. An account that so many agents share already (`crowd`) that it must be the gateway's own. Accounts named in `shared`. An agent that was renamed looks like a newcomer, once. Where the account itself is new, nothing is known of whose it is: low."
-- lookback  = "8 days"
-- gap       = "1 day"
-- needs     = ["agent", "principal"]
-- kinds     = ["tool_proposed", "tool_decided", "tool_executed", "egress", "config_changed", "model_call", "agent_run"]
-- hot       = "SELECT 1 FROM events WHERE ts >= $since AND ts < $until AND principal IS NOT NULL AND agent IS NOT NULL AND kind IN ('tool_proposed', 'tool_decided', 'tool_executed', 'egress', 'config_changed', 'model_call', 'agent_run')"
-- [params]  # lookback >= habit + within
-- within    = { type = "interval", default = "1 hour", min = "1 minute", max = "1 day" }
-- habit     = { type = "interval", default = "7 days", min = "1 hour", max = "7 days" }
-- crowd     = { type = "integer", default = 4, min = 2, max = 19 }
-- shared    = { type = "text", default = "" }

WITH several AS (  -- most accounts have one user
    SELECT coalesce(tenant, '') AS tenant, principal
    FROM events
    WHERE ts >= $since - $within AND ts < $until AND principal IS NOT NULL AND agent IS NOT NULL
      AND kind IN ('tool_proposed', 'tool_decided', 'tool_executed', 'egress', 'config_changed', 'model_call', 'agent_run')
    GROUP BY ALL
    HAVING min(agent) <> max(agent) AND NOT named_in(principal, $shared)
),
recent AS (  -- whoever is at work uses its account all the time: only who was not seen for `within` may be new to it
    SELECT coalesce(tenant, '') AS tenant, principal, agent, date_trunc('minute', ts) AS minute,
           min(ts) AS first_ts, max(ts) AS last_ts
    FROM events
    SEMI JOIN several s ON s.principal = events.principal AND s.tenant = coalesce(events.tenant, '')
    WHERE ts >= $since - $within AND ts < $until AND principal IS NOT NULL AND agent IS NOT NULL
      AND kind IN ('tool_proposed', 'tool_decided', 'tool_executed', 'egress', 'config_changed', 'model_call', 'agent_run')
    GROUP BY ALL
),
spaced AS (
    SELECT *, lag(last_ts) OVER (PARTITION BY tenant, principal, agent ORDER BY minute) AS earlier_ts
    FROM recent
),
maybe AS (
    SELECT * FROM spaced
    WHERE first_ts >= $since AND (earlier_ts IS NULL OR earlier_ts < first_ts - $within)
),
hot AS (
    SELECT DISTINCT m.tenant, m.principal
    FROM maybe m
    SEMI JOIN recent r ON r.tenant = m.tenant AND r.principal = m.principal AND r.agent <> m.agent
),
used AS (
    SELECT h.tenant, e.principal, e.agent, date_trunc('minute', e.ts) AS minute,
           min(e.ts) AS first_ts, max(e.ts) AS last_ts, arg_min(e.event_id, (e.ts, e.event_id)) AS first_id
    FROM events e
    JOIN hot h ON h.principal = e.principal AND h.tenant = coalesce(e.tenant, '')
    WHERE e.ts >= $since - $lookback AND e.ts < $until AND e.agent IS NOT NULL
      AND e.kind IN ('tool_proposed', 'tool_decided', 'tool_executed', 'egress', 'config_changed', 'model_call', 'agent_run')
    GROUP BY ALL
),
newcomers AS (
    SELECT *
    FROM (SELECT *, lag(last_ts) OVER (PARTITION BY tenant, principal, agent ORDER BY minute) AS earlier_ts FROM used)
    WHERE first_ts >= $since AND (earlier_ts IS NULL OR earlier_ts < first_ts - greatest($habit, $within))
),
met AS (  -- who else used it, up to that very moment: of a minute, only the first use is surely not later
    SELECT n.tenant, n.principal, n.agent, n.first_ts, n.first_id, o.agent AS other,
           min(o.first_ts) AS since_ts, arg_max(o.first_id, o.minute) AS other_id,
           bool_or(o.last_ts >= n.first_ts - $within) AS lately
    FROM newcomers n
    JOIN used o ON o.tenant = n.tenant AND o.principal = n.principal AND o.agent <> n.agent
               AND o.first_ts <= n.first_ts AND o.last_ts >= n.first_ts - $habit
    GROUP BY ALL
),
seen AS (
    SELECT tenant, principal, agent, first_ts, first_id, min(since_ts) AS since_ts, count(*) AS known,
           list_sort(list(other) FILTER (lately)) AS others, list(other_id ORDER BY other) FILTER (lately) AS other_ids
    FROM met
    GROUP BY ALL
    HAVING bool_or(lately) AND count(*) < $crowd
)
SELECT 'account ' || principal AS subject, tenant, agent,
       first_ts AS started_at, first_ts AS ended_at,
       list_sort(list_distinct(list_append(other_ids[:19], first_id))) AS event_ids,
       CASE WHEN since_ts <= first_ts - INTERVAL '1 day' THEN 'medium' ELSE 'low' END AS severity,
       principal, agent AS agent_name, others, known + 1 AS agents
FROM seen
