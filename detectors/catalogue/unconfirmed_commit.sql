-- title     = "{subject}: {tool} without the user's yes"
-- title_zh  = "{subject}：未经用户明确同意就执行了 {tool}"
-- severity  = "medium"
-- tags      = ["approvals", "commits"]
-- why       = "The agent changed something in a talk with a user whose last words before it hold no clear yes. The user may have asked a question, picked an option or said no; what was done was not agreed to, and the user will dispute it."
-- respond   = "Read what the agent proposed and what the user said last, beside the call's parameters. If the user plainly wanted this, mark the alert false. If not, undo the call and tell the user; make the gate ask for an approval (action require_approval) for this tool until the agent waits for an answer."
-- respond_zh = "把智能体的提议、用户最后一句话与调用参数对照阅读。若用户显然同意，把告警标为误报。若没有同意，撤销该调用并告知用户；在智能体学会等待答复之前，把该工具在策略中设为 require_approval。"
-- quiet     = "A choice among options that was meant as a yes ('the first one, please'), a yes in words that the list lacks or in another language. Talks without the user's words in the log, calls that a person approved, and orders that name the act and every value among the parameters are not looked at."
-- lookback  = "1 hour"
-- gap       = "1 hour"
-- needs     = ["role", "text", "op", "trace_id or session"]
-- kinds     = ["message", "model_call", "tool_proposed", "tool_decided", "tool_executed", "approval_requested", "approval_decided"]
-- hot       = "SELECT 1 FROM calls WHERE executed_at >= $since AND executed_at < $until AND last_ts >= $since AND ts < $until AND op = 'commit' AND coalesce(status, 'ok') <> 'error' AND coalesce(trace_id, session) IN (SELECT coalesce(trace_id, session) FROM events WHERE ts >= $since - INTERVAL '1 hour' AND ts < $until AND role IN ('user', 'human') AND text IS NOT NULL)"
-- status    = "shadow"
-- [params]
-- tools     = { type = "text", default = "*" }
-- orders    = { type = "text", default = "enough", choices = ["enough", "not enough"] }

-- Consent is the user's last message at or before the execution. It must hold a yes (says_yes) that answers the agent's last question: a yes
-- that came before the question is none. `tools`: names as in "refund*, *.delete", for which a yes is asked. A tool for which the policy
-- demands an approval is told of as high: its policy asks for a yes.
WITH asked_for AS (
    SELECT tool FROM (SELECT DISTINCT tool FROM calls WHERE last_ts >= $since AND ts < $until AND op = 'commit')
    WHERE NOT coalesce(hands_over(tool), false) AND len(list_filter(string_split($tools, ','), lambda x: coalesce(tool, '') GLOB trim(x))) > 0
),
ran AS (
    SELECT coalesce(tenant, '') AS tenant, coalesce(trace_id, session) AS run, agent, actor(agent, principal, session, trace_id, source) AS subject,
           call_key, call_id, tool, params, executed_at AS ts, executed_by
    FROM calls
    WHERE executed_at >= $since AND executed_at < $until AND last_ts >= $since AND ts < $until
      AND op = 'commit' AND coalesce(status, 'ok') <> 'error' AND coalesce(trace_id, session) IS NOT NULL
      AND NOT coalesce(approved_at <= executed_at, false)
      AND tool IN (FROM asked_for)
),
said AS (  -- what was said in their talks; words of one instant are one message
    SELECT coalesce(e.tenant, '') AS tenant, coalesce(e.trace_id, e.session) AS run, e.ts, e.role IN ('user', 'human') AS by_user,
           CASE WHEN count(*) = 1 THEN any_value(e.text) ELSE string_agg(e.text, chr(10) ORDER BY e.event_id) END AS text, list(e.event_id) AS ids
    FROM events e
    SEMI JOIN ran r ON r.tenant = coalesce(e.tenant, '') AND r.run = coalesce(e.trace_id, e.session)
    WHERE e.ts >= $since - $lookback AND e.ts < $until AND e.kind IN ('message', 'model_call') AND e.text IS NOT NULL
      AND e.role IN ('user', 'human', 'assistant', 'agent', 'model')
    GROUP BY ALL
),
answered AS (  -- the user's last words before each commit
    SELECT r.*, u.ts AS user_at, u.text AS words, u.ids AS user_ids
    FROM ran r
    ASOF JOIN (FROM said WHERE by_user) u ON u.tenant = r.tenant AND u.run = r.run AND u.ts <= r.ts
    WHERE u.ts >= r.ts - $lookback
),
weighed AS (
    SELECT a.*, coalesce(q.ts > a.user_at, false) AS asked_since, q.ids AS question_ids, y.acts
    FROM answered a
    JOIN (SELECT words, says_yes(words) AS yes, acts_of(own_words(words)) AS acts FROM (SELECT DISTINCT words FROM answered)) y USING (words)
    ASOF LEFT JOIN (SELECT * FROM said WHERE NOT by_user AND asks_to_confirm(text)) q
      ON q.tenant = a.tenant AND q.run = a.run AND q.ts <= a.ts
    WHERE NOT y.yes OR q.ts > a.user_at
),
found AS (  -- an order: the user names the act, and every value that was sent
    SELECT *, CASE WHEN $orders = 'enough' AND len(acts) > 0
                   THEN coalesce(list_has_any(acts, acts_of(tool_words(tool))) AND len(values_in(params)) > 0
                                 AND len(list_filter(values_in(params), lambda x: NOT contains(lower(words), x))) = 0, false)
                   ELSE false END AS ordered
    FROM weighed
),
asked AS (SELECT coalesce(list_transform(list_filter(arr(policy_doc() -> '$.tools'), lambda x: x ->> 'action' = 'require_approval'), lambda x: x ->> 'name'), []) AS tools)
SELECT subject, tenant, least(user_at, ts) AS started_at, ts AS ended_at,
       list_sort(list_distinct(list_append(coalesce(user_ids[:9], []) || CASE WHEN asked_since THEN question_ids[:9] ELSE [] END, executed_by))) AS event_ids,
       agent, CASE WHEN list_contains(k.tools, tool) THEN 'high' ELSE 'medium' END AS severity,
       tool, call_id, run, left(words, 200) AS last_words,
       CASE WHEN asked_since THEN 'the agent asked after the user''s last words' ELSE 'no clear yes in the user''s last words' END AS reason
FROM found, asked k
WHERE NOT ordered
