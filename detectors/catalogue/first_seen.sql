-- title     = "{agent_or_subject} uses {what} {value} for the first time in {forget_days} days{fan_out}"
-- title_zh  = "{agent_or_subject} 在 {forget_days} 天内首次使用{what_zh} {value}{fan_out_zh}"
-- severity  = "low"
-- tags      = ["identity"]
-- why       = "Agents do much the same every day. A tool, a host or an account that one has never used before is how a new task shows, and how a hijacked or misled agent shows: stolen credentials, a tool it should not have, a place to send data to."
-- respond   = "Open the trace of the event and read what the agent was asked. A deploy or a new task of the same day explains most of these: do nothing, it is known from now on. If nobody changed anything, or many new hosts come within an hour, pause the agent, take the tool or host out of its policy, and look at what was sent; giving it back undoes that."
-- respond_zh = "打开该事件的调用链，看智能体当时收到了什么任务。当天的发布或新任务可解释大多数情况：无需处理，今后即视为已知。若没有人做过改动，或一小时内出现许多新主机，暂停该智能体，在策略中撤下该工具或主机，并查看发送了什么；恢复即可撤销。"
-- quiet     = "An agent in its first `learning` days: all is new then, and nothing is said. What was refused is not used and teaches nothing. Something that comes once a quarter is new each time. A release that brings ten tools brings ten of these. Shown and not told: of 100 quiet agents some nine a day are roll-outs and own tools that are seldom used, which the log alone cannot tell from a misled agent. Tell of it where agents are few and their tools fixed."
-- lookback  = "29 days"
-- gap       = "1 hour"
-- needs     = ["agent", "tool or host or principal"]
-- kinds     = ["tool_decided", "tool_executed", "egress"]
-- hot       = "SELECT 1 FROM sightings WHERE day >= $since::DATE AND day <= $until::DATE AND ts >= $since AND ts < $until"
-- status    = "shadow"
-- [params]  # lookback: the days that must be without, and the rest of the first one
-- learning  = { type = "interval", default = "7 days", min = "0 seconds", max = "21 days" }
-- forget_days = { type = "integer", default = 28, min = 1, max = 28 }
-- fan_out_hosts = { type = "integer", default = 8, min = 2 }
-- fan_out_within = { type = "interval", default = "60 minutes", min = "1 minute", max = "24 hours" }

-- What each agent used on which day (UTC) is noted as events land: ingest/counts.py. Nothing is learned in memory, so a restart knows as much.
WITH days AS (
    SELECT coalesce(tenant, '') AS tenant, subject, what, value, day, min(ts) AS ts
    FROM sightings
    WHERE day >= ($since - $fan_out_within)::DATE AND day <= $until::DATE
    GROUP BY ALL
),
firsts AS (SELECT * FROM days WHERE ts >= $since - $fan_out_within AND ts < $until),
before AS (
    SELECT coalesce(s.tenant, '') AS tenant, s.subject, s.what, s.value, s.day
    FROM sightings s
    WHERE s.day >= ($since - $fan_out_within)::DATE - $forget_days::INTEGER AND s.day < $until::DATE AND EXISTS (FROM firsts)
),
new_ones AS (
    SELECT f.*
    FROM firsts f
    ANTI JOIN before b ON b.tenant = f.tenant AND b.subject = f.subject AND b.what = f.what AND b.value = f.value
                      AND b.day < f.day AND b.day >= f.day - $forget_days::INTEGER
),
came AS (  -- since when each of them is known
    SELECT n.tenant, n.subject, n.day, min(s.ts) AS first
    FROM (SELECT DISTINCT tenant, subject, day FROM new_ones) n
    JOIN (SELECT coalesce(tenant, '') AS tenant, subject, day, ts FROM sightings
          WHERE day >= ($since - $lookback)::DATE AND day <= $until::DATE AND EXISTS (FROM new_ones)) s
        ON s.tenant = n.tenant AND s.subject = n.subject AND s.day <= n.day AND s.day >= n.day - 28
    GROUP BY ALL
),
learned AS (
    SELECT n.*, count(*) FILTER (n.what = 'host') OVER (PARTITION BY n.tenant, n.subject ORDER BY n.ts
                                                        RANGE BETWEEN $fan_out_within PRECEDING AND CURRENT ROW) AS new_hosts
    FROM new_ones n
    JOIN came c ON c.tenant = n.tenant AND c.subject = n.subject AND c.day = n.day
    WHERE n.ts - c.first >= $learning
),
told AS (
    SELECT l.*, e.agent, e.event_id, e.trace_id
    FROM learned l
    JOIN events e ON e.ts = l.ts AND e.ts >= $since AND e.ts < $until
                 AND coalesce(e.tenant, '') = l.tenant AND counted_for(e.agent, e.principal, e.source) = l.subject
                 AND CASE l.what WHEN 'tool' THEN e.tool WHEN 'host' THEN e.host ELSE e.principal END = l.value
    WHERE l.ts >= $since AND coalesce(e.decision, 'allow') = 'allow' AND coalesce(e.status, '') NOT IN ('denied', 'cancelled')
      AND (e.kind IN ('tool_executed', 'egress') OR (e.kind = 'tool_decided' AND e.decision = 'allow'))
)
SELECT subject || ' -> ' || what || ' ' || value AS subject, tenant, ts AS started_at, ts AS ended_at,
       list_sort(list(DISTINCT event_id))[:20] AS event_ids, any_value(agent) AS agent, told.subject AS agent_or_subject,
       CASE WHEN what = 'host' AND any_value(new_hosts) >= $fan_out_hosts THEN 'high' ELSE 'low' END AS severity,
       what, value, min(trace_id) AS trace_id, any_value(new_hosts) AS new_hosts,
       CASE WHEN what = 'host' AND any_value(new_hosts) >= $fan_out_hosts THEN ', ' || any_value(new_hosts) || ' new hosts within the hour' ELSE '' END AS fan_out,
       CASE WHEN what = 'host' AND any_value(new_hosts) >= $fan_out_hosts THEN '，一小时内共 ' || any_value(new_hosts) || ' 个新主机' ELSE '' END AS fan_out_zh,
       CASE what WHEN 'tool' THEN '工具' WHEN 'host' THEN '主机' ELSE '账号' END AS what_zh
FROM told
GROUP BY told.tenant, told.subject, told.what, told.value, told.ts
