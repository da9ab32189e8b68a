-- title     = "{subject}: {tool} was carried out, and then refused {way}"
-- title_zh  = "{subject}：{tool} 已执行，之后智能体却{way_zh}"
-- severity  = "high"
-- tags      = ["stopping"]
-- why       = "The agent did it and then told the user that it cannot or may not be done. The user believes that nothing happened, and the record says otherwise: money is refunded, a booking is gone, and nobody will look for it."
-- respond   = "Open the trace: read the refusal beside the call that it is about. If the refusal is right, undo the call (reverse the refund, restore the record) and pause the agent: it acts before it thinks. If the call is right, tell the user that it was done. If the refusal is about something else the user wanted, mark the alert false."
-- respond_zh = "打开调用链，把拒绝的话与所涉调用对照阅读。若拒绝正确，撤销该调用（冲回退款、恢复记录）并暂停该智能体：它先做后想。若调用正确，告知用户操作已完成。若拒绝的是用户的另一项请求，把告警标为误报。"
-- quiet     = "A refusal of something else: it names another act, another number or code, 'the others', or follows a new request of the user or a call that was denied or failed. Warnings about later, questions, quotations. A hand-over to a person right after a commit is only low."
-- lookback  = "1 hour"
-- gap       = "1 hour"
-- needs     = ["role", "text", "op", "status", "trace_id or session"]
-- kinds     = ["message", "model_call", "agent_run", "other", "tool_proposed", "tool_decided", "tool_executed", "approval_requested", "approval_decided"]
-- hot       = "SELECT 1 FROM events WHERE ts >= $since AND ts < $until AND (stance = 'abstain' OR (role IN ('assistant', 'agent', 'model') AND may_refuse(text)) OR (kind = 'tool_executed' AND hands_over(tool))) AND coalesce(trace_id, session) IN (SELECT coalesce(trace_id, session) FROM calls WHERE last_ts >= $since - INTERVAL '1 hour' AND ts < $until AND op = 'commit' AND status = 'ok')"
-- [params]
-- within    = { type = "interval", default = "30 minutes", min = "1 second", max = "1 hour" }

WITH hand_overs AS (  -- few tools have many calls; with `n` it is asked of a tool, not of each call
    SELECT tool FROM (SELECT tool, count(*) AS n FROM events WHERE ts >= $since AND ts < $until AND kind = 'tool_executed' GROUP BY tool)
    WHERE CASE WHEN n > 0 THEN hands_over(tool) END
),
heard AS (  -- by the agent's words; by the stance that it or the gate logged; by a call that hands over to a person
    SELECT coalesce(tenant, '') AS tenant, coalesce(trace_id, session) AS run, ts, event_id, tool, params_digest, text, stance, agent,
           actor(agent, principal, session, trace_id, source) AS subject,
           CASE WHEN kind IN ('message', 'model_call') AND role IN ('assistant', 'agent', 'model') THEN refusals(text) ELSE [] END AS said,
           kind = 'tool_executed' AND coalesce(status, 'ok') = 'ok' AND coalesce(tool IN (FROM hand_overs), false) AS over
    FROM events
    WHERE ts >= $since AND ts < $until AND coalesce(trace_id, session) IS NOT NULL
      AND ((kind IN ('message', 'model_call') AND role IN ('assistant', 'agent', 'model') AND text IS NOT NULL)
        OR (kind IN ('message', 'model_call', 'agent_run', 'other', 'tool_decided', 'tool_executed') AND stance = 'abstain')
        OR (kind = 'tool_executed' AND tool IN (FROM hand_overs)))
),
refused AS (
    SELECT *, coalesce(refused_acts(clause), []) AS acts,
           -- "the following cannot be cancelled:" is about the list below it
           CASE WHEN ends_with(sentence, ':') THEN substr(own_words(text), strpos(own_words(text), sentence)) ELSE sentence END AS scope
    FROM (SELECT * EXCLUDE (said, stance, over),
                 unnest(CASE WHEN len(said) > 0 THEN list_transform(said, lambda x: {'way': 'in words', 'sentence': x.sentence, 'clause': x.clause})
                             ELSE [{'way': CASE WHEN stance = 'abstain' THEN 'by its stance' ELSE 'handed over' END, 'sentence': NULL, 'clause': NULL}] END,
                        recursive := true)
          FROM heard
          WHERE len(said) > 0 OR stance = 'abstain' OR over)
),
runs AS (SELECT DISTINCT tenant, run FROM refused),
commits AS (  -- what the same agents had carried out
    SELECT coalesce(c.tenant, '') AS tenant, coalesce(c.trace_id, c.session) AS run, c.call_key, c.call_id, c.tool, c.params_digest,
           lower(c.params::VARCHAR) AS params, c.executed_at, c.executed_by, acts_of(tool_words(c.tool)) AS done_acts, tool_thing(c.tool) AS done_thing,
           unnest([time_bucket($within, c.executed_at), time_bucket($within, c.executed_at) + $within]) AS bucket
    FROM calls c
    SEMI JOIN runs r ON r.tenant = coalesce(c.tenant, '') AND r.run = coalesce(c.trace_id, c.session)
    WHERE c.last_ts >= $since - $lookback AND c.ts < $until AND c.executed_at >= $since - $within AND c.executed_at < $until
      AND c.op = 'commit' AND c.status = 'ok' AND NOT hands_over(c.tool)
),
marks AS (  -- what turns the talk to something else: the user's words, a call that was denied or failed
    SELECT coalesce(e.tenant, '') AS tenant, coalesce(e.trace_id, e.session) AS run, e.ts,
           e.kind = 'message' AS asked
    FROM events e
    SEMI JOIN runs r ON r.tenant = coalesce(e.tenant, '') AND r.run = coalesce(e.trace_id, e.session)
    WHERE e.ts >= $since - $within AND e.ts < $until
      AND ((e.kind = 'message' AND e.role IN ('user', 'human'))
        OR (e.kind IN ('tool_decided', 'approval_decided') AND e.decision = 'deny')
        OR (e.kind = 'tool_executed' AND e.status IN ('error', 'denied', 'timeout')))
    GROUP BY ALL
),
near AS (  -- of what a refusal can be about, the newest ten
    SELECT r.*, c.tool AS done, c.call_id AS done_id, c.params, c.executed_at, c.executed_by, c.call_key, c.done_acts, c.done_thing,
           c.tool = r.tool AND c.params_digest IS NOT DISTINCT FROM r.params_digest AS same_call,
           a.ts AS asked_at, s.ts AS stumbled_at
    FROM refused r
    JOIN commits c ON c.tenant = r.tenant AND c.run = r.run AND c.bucket = time_bucket($within, r.ts)
                  AND c.executed_at <= r.ts AND c.executed_at >= r.ts - $within
    ASOF LEFT JOIN (FROM marks WHERE asked) a ON a.tenant = r.tenant AND a.run = r.run AND a.ts <= r.ts
    ASOF LEFT JOIN (FROM marks WHERE NOT asked) s ON s.tenant = r.tenant AND s.run = r.run AND s.ts <= r.ts
    QUALIFY row_number() OVER (PARTITION BY r.tenant, r.run, r.event_id, r.clause ORDER BY c.executed_at DESC, c.call_key DESC) <= 10
),
weighed AS (
    SELECT *, coalesce(asked_at > executed_at, false) AS asked, coalesce(stumbled_at > executed_at, false) AS stumbled,
           list_filter(codes_in(text), lambda x: contains(scope, x)) AS codes,
           regexp_matches(sentence, '\b(others?|another|remaining|rest|additional|second|further|also)\b|其他|其余|另|剩余') AS elsewhere
    FROM near
),
fired AS (
    SELECT *, list_filter(codes, lambda x: contains(params, x)) AS named
    FROM weighed
    WHERE NOT stumbled
      AND CASE way WHEN 'handed over' THEN NOT asked
                   WHEN 'by its stance' THEN CASE WHEN tool IS NULL THEN NOT asked ELSE same_call END
                   ELSE NOT elsewhere
                    AND (refuses_act(clause, acts, done_acts, done_thing) OR (refuses_this(clause, acts) AND NOT asked)
                      OR (len(codes) > 0 AND list_has_any(acts, done_acts) AND regexp_matches(clause, '\p{Han}')))  -- a Chinese sentence, an English tool
                    AND CASE WHEN len(codes) > 0 THEN len(list_filter(codes, lambda x: contains(params, x))) > 0 ELSE NOT asked END END
    QUALIFY row_number() OVER (PARTITION BY tenant, run, event_id ORDER BY way DESC, executed_at DESC, call_key DESC, clause) = 1
)
SELECT subject, tenant, executed_at AS started_at, ts AS ended_at,
       list_sort(list_distinct([executed_by, event_id])) AS event_ids, agent,
       CASE WHEN way = 'handed over' THEN 'low' ELSE 'high' END AS severity,
       done AS tool, done_id AS call_id, run, sentence AS refusal, named,
       CASE way WHEN 'handed over' THEN 'by a hand-over to a person' ELSE way END AS way,
       CASE way WHEN 'handed over' THEN '转交人工' WHEN 'by its stance' THEN '声明放弃' ELSE '声称不能办理' END AS way_zh
FROM fired
