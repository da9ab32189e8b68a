-- title     = "{subject}: a secret in {paths}"
-- title_zh  = "{subject}：参数 {paths} 中含有密钥"
-- severity  = "medium"
-- tags      = ["data", "secrets"]
-- why       = "A password, key or token stands among the parameters of a call. Whoever reads the gate's log, the agent's context or the other end of the call has it; an agent that can see a secret can be talked into passing it on."
-- respond   = "Find where the agent got the secret: its prompt, a file, a tool's answer. If the call went to a host, treat the secret as leaked: revoke it and issue a new one first. Then let the tool fetch it from a vault by name. Equal digests are the same secret: search for them in other traces."
-- respond_zh = "查明智能体从何处得到该密钥：提示词、文件还是工具的返回。若调用已发往外部主机，视为泄露：先吊销并换发。然后改为由工具按名称从密钥库读取。摘要相同即为同一密钥：在其他调用链中检索。"
-- quiet     = "A tool whose parameter is a secret by design: logins are known by their names; name others in `allowed`, as in 'auth.*, *login*, vault.*:token'. Text that only looks like a token. No plain secret is stored: what is shown is its keyed digest."
-- lookback  = "1 hour"
-- gap       = "1 hour"
-- needs     = ["params", "tool"]
-- kinds     = ["tool_proposed", "tool_decided", "tool_executed", "approval_requested", "approval_decided", "egress"]
-- hot       = "SELECT 1 FROM calls WHERE last_ts >= $since AND ts < $until AND contains(params::VARCHAR, '[redacted:') UNION ALL SELECT 1 FROM events WHERE ts >= $since AND ts < $until AND kind = 'egress' AND contains(params::VARCHAR, '[redacted:')"
-- [params]
-- allowed   = { type = "text", default = "auth.*, *.login, *login*, *authenticate*, oauth*" }

-- Landing replaces each secret by [redacted:HHHHHHHHHHHH] (ingest/redact.py), so that the marks in a call's parameters are its secrets.
WITH touched AS (
    SELECT coalesce(tenant, '') AS tenant, agent, actor(agent, principal, session, trace_id, source) AS who, call_key AS id,
           coalesce(tool, '(no tool)') AS tool, params, ts, last_ts, host, call_id, trace_id, event_ids[1:20] AS event_ids,
           host IS NOT NULL AND executed_at IS NOT NULL AS sent
    FROM calls
    WHERE last_ts >= $since - $lookback AND ts < $until AND last_ts < $until AND contains(params::VARCHAR, '[redacted:')
      AND EXISTS (FROM calls WHERE last_ts >= $since AND ts < $until AND last_ts < $until AND contains(params::VARCHAR, '[redacted:')
                  UNION ALL BY NAME
                  FROM events WHERE ts >= $since AND ts < $until AND kind = 'egress' AND contains(params::VARCHAR, '[redacted:'))
    UNION ALL BY NAME
    SELECT coalesce(tenant, '') AS tenant, agent, actor(agent, principal, session, trace_id, source) AS who, event_id AS id,
           coalesce(tool, '(no tool)') AS tool, params, ts, ts AS last_ts, host, call_id, trace_id, [event_id] AS event_ids,
           coalesce(decision, '') <> 'deny' AND coalesce(status, '') NOT IN ('denied', 'cancelled') AS sent
    FROM events
    WHERE ts >= $since - $lookback AND ts < $until AND kind = 'egress' AND contains(params::VARCHAR, '[redacted:')
),
spots AS (  -- where in the parameters; below params itself there is no path
    SELECT t.* EXCLUDE (params), coalesce(nullif(regexp_replace(j.fullkey, '^\$\.?', ''), ''), '(params)') AS path,
           unnest(regexp_extract_all(concat(j.atom ->> '$', ' ', j.key), '\[redacted:([0-9a-f]{12})\]', 1)) AS secret
    FROM touched t, json_tree(t.params) j
    WHERE contains(j.key, '[redacted:') OR (json_type(j.atom) = 'VARCHAR' AND contains(j.atom ->> '$', '[redacted:'))
),
counted AS (  -- how often this agent has sent the same secret by then
    SELECT *, count(DISTINCT id) OVER (PARTITION BY tenant, who, secret ORDER BY last_ts
                                       RANGE BETWEEN $lookback PRECEDING AND CURRENT ROW) AS calls
    FROM spots
    WHERE len(list_filter(string_split($allowed, ','), lambda x: tool GLOB trim(x) OR (tool || ':' || path) GLOB trim(x))) = 0
)
SELECT who || ' -> ' || tool AS subject, tenant, ts AS started_at, last_ts AS ended_at, any_value(event_ids) AS event_ids, agent,
       CASE WHEN sent THEN 'high' ELSE 'medium' END AS severity,
       tool, host, call_id, trace_id, list_sort(list_distinct(list(path))) AS paths, list_sort(list_distinct(list(secret))) AS digests, max(calls) AS calls
FROM counted
WHERE last_ts >= $since
GROUP BY tenant, agent, who, id, tool, ts, last_ts, host, call_id, trace_id, sent
