-- title     = "{subject}: gave up {further} calls after {trigger}"
-- title_zh  = "{subject}：在“{trigger_zh}”之后又调用 {further} 次才放弃"
-- severity  = "low"
-- tags      = ["stopping"]
-- why       = "The agent was told that the task cannot be done, by a denial, a conflict, a missing authority or target, and went on before it gave up. Each call after that point is wasted at best; at worst it is a commit that should never have been made."
-- respond   = "Open the trace at the trigger and read the calls that follow. A commit among them: check it and undo it. Lookups alone: no harm, but the agent should stop here next time; label the run so that the miner can propose a stopping rule. If the calls served another part of the task, mark the alert false."
-- respond_zh = "从触发点打开调用链，查看其后的调用。若其中有写操作：核查并撤销。若只是查询：无害，但下次应在此停止；给该运行打标签，以便挖掘停止规则。若这些调用服务于任务的其他部分，把告警标为误报。"
-- quiet     = "One further call: a last try is timely. A user who answered in between: that is new input. A task of several parts, where one was denied and the others were done before the agent said so."
-- lookback  = "1 hour"
-- gap       = "1 hour"
-- needs     = ["text or stance", "decision or signals", "trace_id or session"]
-- inhibited_by = ["deny_retry", "posthoc_abstention"]
-- kinds     = ["message", "model_call", "agent_run", "other", "tool_proposed", "tool_decided", "tool_executed", "approval_requested", "approval_decided"]
-- hot       = "SELECT 1 FROM events WHERE ts >= $since AND ts < $until AND (stance = 'abstain' OR (role IN ('assistant', 'agent', 'model') AND may_refuse(text)) OR (kind = 'tool_executed' AND hands_over(tool))) AND coalesce(trace_id, session) IN (SELECT coalesce(trace_id, session) FROM events WHERE ts >= $since - INTERVAL '1 hour' AND ts < $until AND (decision = 'deny' OR status IN ('denied', 'error') OR signals IS NOT NULL OR stance IN ('abstain', 'clarify')))"
-- [params]
-- calls     = { type = "integer", default = 1, min = 0, max = 20 }  # so many further calls are timely

-- Per talk, since the user's last words: the first trigger, the calls that begin after it, and the abstention (a refusal in words, a hand-over
-- to a person, the stance abstain). A trigger is a denial, a logged signal, an error that says not allowed, a stance of abstain or clarify.
WITH hand_overs AS (  -- few tools have many calls; with `n` it is asked of a tool, not of each call
    SELECT tool FROM (SELECT tool, count(*) AS n FROM events WHERE ts >= $since AND ts < $until AND kind = 'tool_executed' GROUP BY tool)
    WHERE CASE WHEN n > 0 THEN hands_over(tool) END
),
heard AS (
    SELECT coalesce(tenant, '') AS tenant, coalesce(trace_id, session) AS run, ts, event_id, agent,
           actor(agent, principal, session, trace_id, source) AS subject, stance,
           CASE WHEN kind IN ('message', 'model_call') AND role IN ('assistant', 'agent', 'model') THEN refusals(text) ELSE [] END AS said,
           kind = 'tool_executed' AND coalesce(tool IN (FROM hand_overs), false) AS over
    FROM events
    WHERE ts >= $since AND ts < $until AND coalesce(trace_id, session) IS NOT NULL
      AND ((kind IN ('message', 'model_call') AND role IN ('assistant', 'agent', 'model') AND text IS NOT NULL)
        OR (kind IN ('message', 'model_call', 'agent_run', 'other', 'tool_decided', 'tool_executed') AND stance = 'abstain')
        OR (kind = 'tool_executed' AND tool IN (FROM hand_overs)))
),
abstained AS (  -- of one instant, one
    SELECT tenant, run, ts, min(event_id) AS event_id, min(agent) AS agent, min(subject) AS subject,
           min(CASE WHEN len(said) > 0 THEN 'in words' WHEN over THEN 'handed over' ELSE 'by its stance' END) AS way
    FROM heard
    WHERE len(said) > 0 OR stance = 'abstain' OR over
    GROUP BY ALL
),
runs AS (SELECT DISTINCT tenant, run FROM abstained),
triggers AS (
    SELECT coalesce(e.tenant, '') AS tenant, coalesce(e.trace_id, e.session) AS run, e.ts, e.event_id,
           CASE WHEN list_contains(e.signals, 'conflict') THEN 'conflict' WHEN list_contains(e.signals, 'missing_authority') THEN 'missing authority'
                WHEN list_contains(e.signals, 'missing_target') THEN 'missing target' WHEN e.stance IN ('abstain', 'clarify') THEN e.stance
                WHEN e.status = 'error' THEN 'an error: not allowed' ELSE 'a denial' END AS trigger
    FROM events e
    SEMI JOIN runs r ON r.tenant = coalesce(e.tenant, '') AND r.run = coalesce(e.trace_id, e.session)
    WHERE e.ts >= $since - $lookback AND e.ts < $until
      AND e.kind IN ('agent_run', 'other', 'message', 'model_call', 'tool_decided', 'tool_executed', 'approval_decided')
      AND (((e.decision = 'deny' OR e.status = 'denied') AND coalesce(e.reason_code, '') NOT IN ('expired', 'cancelled'))
        OR list_has_any(e.signals, ['conflict', 'missing_authority', 'missing_target']) OR e.stance IN ('abstain', 'clarify')
        OR (e.status = 'error' AND forbids(e.error)))
),
steps AS (  -- what happened in those talks, a row each
    SELECT tenant, run, ts, 'trigger' AS step, event_id, trigger FROM triggers
    UNION ALL
    SELECT c.* EXCLUDE (tool) FROM (SELECT coalesce(tenant, '') AS tenant, coalesce(trace_id, session) AS run,
                            unnest([{'ts': ts, 'step': 'call', 'event_id': event_ids[1]},
                                    {'ts': CASE WHEN op = 'commit' AND status = 'ok' THEN executed_at END, 'step': 'commit', 'event_id': executed_by}], recursive := true),
                            NULL AS trigger, tool
                     FROM calls
                     WHERE last_ts >= $since - $lookback AND ts < $until ) c
    SEMI JOIN runs r USING (tenant, run)
    WHERE c.ts >= $since - $lookback AND c.ts < $until AND NOT hands_over(c.tool)
    UNION ALL
    SELECT coalesce(e.tenant, ''), coalesce(e.trace_id, e.session), e.ts, 'user', e.event_id, NULL
    FROM events e
    SEMI JOIN runs r ON r.tenant = coalesce(e.tenant, '') AND r.run = coalesce(e.trace_id, e.session)
    WHERE e.ts >= $since - $lookback AND e.ts < $until AND e.kind = 'message' AND e.role IN ('user', 'human')
    UNION ALL
    SELECT tenant, run, ts, 'abstained', event_id, NULL FROM abstained
),
parted AS (  -- since the user's last words; words of one instant come before what else happens in it
    SELECT *, count(*) FILTER (step = 'user') OVER (PARTITION BY tenant, run ORDER BY ts RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS part,
           count(*) FILTER (step = 'call') OVER upto AS so_far, count(*) FILTER (step = 'commit') OVER upto AS committed
    FROM steps
    WINDOW upto AS (PARTITION BY tenant, run ORDER BY ts RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
),
traced AS (  -- the first trigger before each; a stance that abstains is no trigger of its own
    SELECT *, min(CASE WHEN step = 'trigger' THEN {'ts': ts, 'event_id': event_id, 'trigger': trigger, 'so_far': so_far, 'committed': committed} END) OVER
                  (PARTITION BY tenant, run, part ORDER BY ts RANGE BETWEEN $lookback PRECEDING AND CURRENT ROW) AS first,
           list({'ts': ts, 'event_id': event_id}) FILTER (step = 'call') OVER
                  (PARTITION BY tenant, run, part ORDER BY ts, step, event_id ROWS BETWEEN 40 PRECEDING AND CURRENT ROW) AS near
    FROM parted
),
fired AS (
    SELECT t.tenant, t.run, t.ts, t.first, t.so_far - t.first.so_far AS further, t.committed - t.first.committed AS commits,
           list_transform(list_filter(t.near, lambda x: x.ts > t.first.ts), lambda x: x.event_id)[-18:] AS between_ids
    FROM traced t
    WHERE t.step = 'abstained' AND t.first IS NOT NULL AND t.so_far - t.first.so_far > $calls
)
SELECT a.subject, a.tenant, f.first.ts AS started_at, a.ts AS ended_at,
       list_sort(list_distinct(coalesce(f.between_ids, []) || [f.first.event_id, a.event_id])) AS event_ids, a.agent,
       CASE WHEN f.commits > 0 THEN 'medium' ELSE 'low' END AS severity,
       a.run, f.first.trigger AS trigger, f.further, f.commits, a.way,
       CASE f.first.trigger WHEN 'conflict' THEN '证据冲突' WHEN 'missing authority' THEN '权限不足' WHEN 'missing target' THEN '目标不存在' WHEN 'abstain' THEN '应放弃'
            WHEN 'clarify' THEN '应澄清' WHEN 'a denial' THEN '被拒绝' ELSE '出错：不允许' END AS trigger_zh
FROM fired f
JOIN abstained a ON a.tenant = f.tenant AND a.run = f.run AND a.ts = f.ts
