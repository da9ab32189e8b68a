-- title     = "{subject}: works with the account {principal}, which looks like a person's: {looks}"
-- title_zh  = "{subject}：正在使用账号 {principal}，该账号像是个人账号：{looks_zh}"
-- severity  = "medium"
-- tags      = ["identity"]
-- why       = "An agent acts with the account of a person. It has all that this person may do, the person answers in every log for what the agent did, and nobody can take the rights of one without those of the other."
-- respond   = "Ask the person whether they know of it. If they do not, revoke the account's sessions and tokens and look at what was done with them. If they do, give the agent an account of its own with only the rights that its task needs. If the account also approves, check what it approved of this agent's own requests."
-- respond_zh = "询问账号本人是否知情。若不知情，吊销该账号的会话和令牌，检查被用来做了什么。若知情，为智能体单独建账号，只给任务所需权限。若该账号同时负责审批，检查它是否批准过该智能体自己的请求。"
-- quiet     = "A coding agent whose user sits at the keyboard: the account sent a message in the same session. Accounts named for programs (svc-, bot, a role, a service account). Accounts named in `machines`. An agent is told of when it begins to work after `pause`, not with each call."
-- lookback  = "4 days"
-- gap       = "12 hours"
-- needs     = ["agent", "principal"]
-- kinds     = ["tool_proposed", "tool_decided", "tool_executed", "egress", "config_changed", "model_call", "approval_requested", "approval_decided", "message"]
-- hot       = "SELECT 1 FROM events WHERE ts >= $since AND ts < $until AND agent IS NOT NULL AND principal <> agent AND kind IN ('tool_proposed', 'tool_decided', 'tool_executed', 'egress', 'config_changed', 'model_call') AND NOT machine_account(principal)"
-- [params]
-- pause     = { type = "interval", default = "1 hour", min = "1 minute", max = "1 day" }
-- sponsors  = { type = "integer", default = 2, min = 1 }
-- machines  = { type = "text", default = "" }

WITH accounts AS (  -- there are few, and of most the name says that they are made for programs
    SELECT principal FROM events
    WHERE ts >= $since AND ts < $until AND agent IS NOT NULL AND principal IS NOT NULL
    GROUP BY principal
    HAVING NOT machine_account(principal) AND NOT named_in(principal, $machines)
),
acts AS (
    SELECT coalesce(tenant, '') AS tenant, agent, principal, date_trunc('minute', ts) AS minute,
           min(ts) AS first_ts, max(ts) AS last_ts, min(struct_pack(ts := ts, id := event_id, session := session, tool := tool)) AS first
    FROM events
    SEMI JOIN accounts USING (principal)
    WHERE ts >= $since - $pause AND ts < $until AND agent IS NOT NULL AND principal IS NOT NULL AND principal <> agent
      AND kind IN ('tool_proposed', 'tool_decided', 'tool_executed', 'egress', 'config_changed', 'model_call')
    GROUP BY ALL
),
begun AS (
    SELECT tenant, agent, principal, first.ts AS ts, first.id AS event_id, first.session AS session, first.tool AS tool
    FROM (SELECT *, lag(last_ts) OVER (PARTITION BY tenant, agent, principal ORDER BY minute) AS earlier_ts FROM acts)
    WHERE first_ts >= $since AND (earlier_ts IS NULL OR earlier_ts < first_ts - $pause)
),
people AS (  -- what only people do: approve, and speak to several agents or have them work in their name
    SELECT coalesce(tenant, '') AS tenant, ts, event_id, session, agent,
           CASE WHEN kind = 'approval_decided' THEN approver WHEN kind = 'message' THEN coalesce(on_behalf_of, principal)
                ELSE on_behalf_of END AS account,
           CASE WHEN kind = 'approval_decided' THEN 'approves' WHEN kind = 'message' THEN 'speaks' ELSE 'sends' END AS does
    FROM events
    WHERE ts >= $since - $lookback AND ts < $until AND EXISTS (FROM begun)
      AND ((kind = 'approval_decided' AND approver IS NOT NULL AND coalesce(reason_code, '') NOT IN ('expired', 'cancelled', 'bypass'))
        OR (kind = 'message' AND role = 'user' AND coalesce(on_behalf_of, principal) IS NOT NULL)
        OR (on_behalf_of IS NOT NULL AND kind IN ('tool_proposed', 'tool_decided', 'tool_executed', 'egress', 'config_changed', 'model_call')))
),
told AS (
    SELECT b.tenant, b.agent, b.principal, b.ts, b.event_id, b.tool,
           arg_max(p.event_id, (p.ts, p.event_id)) FILTER (p.does = 'approves') AS approved_by,
           arg_max(p.event_id, (p.ts, p.event_id)) FILTER (p.does <> 'approves') AS sent_by,
           count(DISTINCT p.agent) FILTER (p.does <> 'approves') AS agents_sent,
           coalesce(bool_or(p.does = 'speaks' AND p.session = b.session), false) AS attended
    FROM begun b
    LEFT JOIN people p ON p.tenant = b.tenant AND lower(p.account) = lower(b.principal)
                      AND p.ts <= b.ts AND p.ts >= b.ts - $lookback
    GROUP BY b.tenant, b.agent, b.principal, b.ts, b.event_id, b.tool
),
looked AS (
    SELECT *, coalesce(persons_name(principal), false) AS named, approved_by IS NOT NULL AS approves, agents_sent >= $sponsors AS sends
    FROM told
    WHERE NOT attended
)
SELECT agent AS subject, tenant, ts AS started_at, ts AS ended_at,
       list_sort(list_distinct(list_filter([event_id, approved_by, CASE WHEN sends THEN sent_by END], lambda x: x IS NOT NULL))) AS event_ids,
       CASE WHEN approves THEN 'high' ELSE 'medium' END AS severity,
       principal, tool,
       list_filter([CASE WHEN named THEN 'a first and a last name' END, CASE WHEN approves THEN 'it approves calls' END,
                    CASE WHEN sends THEN 'several agents work for it' END], lambda x: x IS NOT NULL) AS looks,
       list_filter([CASE WHEN named THEN '名称为人名' END, CASE WHEN approves THEN '它会审批调用' END,
                    CASE WHEN sends THEN '多个智能体为其工作' END], lambda x: x IS NOT NULL) AS looks_zh
FROM looked
WHERE named OR approves OR sends
