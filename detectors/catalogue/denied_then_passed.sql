-- title     = "{subject}: {denied_tool} was denied, then {tool} went through for {matched}, by {way}"
-- title_zh  = "{subject}：{denied_tool} 被拒后，{tool} 对 {matched} 放行（{way_zh}）"
-- severity  = "high"
-- tags      = ["bypass", "denials"]
-- why       = "A call was refused, and soon after the same target was reached by another tool or by another spelling of it. The policy says no at one door and leaves the next one open, and the agent found it."
-- respond   = "Compare the two calls in the evidence: is it the same thing that was refused? If so pause the agent, undo what the second call did, and close the other road in the policy too. If the second call does something that is meant to be allowed, record it as expected."
-- respond_zh = "比较证据中的两次调用：是否就是被拒绝的那件事？若是，暂停该智能体，撤销第二次调用的结果，并在策略中堵上另一条路。若第二次调用本应允许，记为符合预期。"
-- quiet     = "The same call allowed later, by a person or a changed policy. A call whose refused parameter was corrected. A look at what may not be changed, a ticket or a hand-over to a person about it. What a person approved. A value that the agent was let through with `common` times in the hour before (its own folder, its tenant)."
-- lookback  = "3 hours"
-- gap       = "30 minutes"
-- needs     = ["agent or trace_id", "tool", "decision", "params or target"]
-- kinds     = ["tool_proposed", "tool_decided", "tool_executed", "approval_requested", "approval_decided"]
-- hot       = "SELECT 1 WHERE EXISTS (FROM calls WHERE last_ts >= $since AND ts < $until AND denied_at IS NULL AND approved_at IS NULL AND (executed_at >= $since OR decision = 'allow')) AND EXISTS (FROM calls WHERE last_ts >= $since - INTERVAL '1 hour' AND ts < $until AND denied_at >= $since - INTERVAL '1 hour')"
-- [params]  # lookback >= within + the hour before the denial
-- within    = { type = "interval", default = "30 minutes", min = "1 second", max = "1 hour" }
-- common    = { type = "integer", default = 3, min = 1 }

-- Kin are calls of one actor, of one trace, of a trace and its parent, or of two traces with one parent. The hashes only
-- narrow down who is looked at; `met` compares the names themselves.
WITH calls_in AS NOT MATERIALIZED (  -- read anew by each that asks: few calls are asked for what they hold
    SELECT coalesce(tenant, '') AS tenant, actor(agent, principal, session, trace_id, source) AS subject,
           agent, call_key, tool, op, params, target, params_digest, trace_id, parent_trace_id, reason, rule_ids,
           decision, decided_at, denied_at, approved_at, hash(1, actor(agent, principal, session, trace_id, source)) AS who,
           CASE WHEN trace_id IS NOT NULL THEN hash(2, trace_id) END AS trace, CASE WHEN parent_trace_id IS NOT NULL THEN hash(2, parent_trace_id) END AS parent,
           CASE WHEN denied_at IS NOT NULL AND coalesce(reason_code, '') NOT IN ('expired', 'cancelled') THEN denied_at END AS refused_at,
           CASE WHEN denied_at IS NOT NULL THEN NULL
                WHEN executed_at IS NOT NULL AND status = 'error' AND (decision IS NULL OR decided_at = executed_at) THEN NULL
                WHEN decision = 'allow' THEN decided_at ELSE executed_at END AS passed_at,
           CASE WHEN denied_at IS NOT NULL AND denied_at IS DISTINCT FROM decided_at THEN event_ids[1]
                ELSE coalesce(decided_by, executed_by, event_ids[1]) END AS event_id
    FROM calls
    WHERE last_ts >= $since - $lookback AND ts < $until AND tool IS NOT NULL
),
every_denial AS MATERIALIZED (
    SELECT * FROM calls_in
    WHERE denied_at >= $since - $within AND denied_at < $until AND refused_at IS NOT NULL
),
soon AS MATERIALIZED (  -- by whom, and in which quarters of `within`, a refused thing may come back
    SELECT DISTINCT hash(key, time_bucket($within / 4, refused_at) + away * ($within / 4)) AS key
    FROM (SELECT refused_at, unnest([who, trace, parent]) AS key FROM every_denial), range(5) AS quarters(away)
    WHERE key IS NOT NULL
),
passes AS MATERIALIZED (
    SELECT *
    FROM (SELECT *, time_bucket($within / 4, passed_at) AS quarter FROM calls_in
          WHERE passed_at >= $since AND passed_at < $until AND approved_at IS NULL)
    WHERE hash(who, quarter) IN (FROM soon) OR hash(trace, quarter) IN (FROM soon) OR hash(parent, quarter) IN (FROM soon)
),
hot AS (SELECT DISTINCT unnest([who, trace, parent]) AS key FROM passes),
denials AS (
    SELECT *
    FROM every_denial
    WHERE who IN (SELECT key FROM hot) OR trace IN (SELECT key FROM hot WHERE key IS NOT NULL) OR parent IN (SELECT key FROM hot WHERE key IS NOT NULL)
),
refused AS (
    SELECT *, unnest(list_distinct(list_append(things_asked(params, target), CASE WHEN length(target) > 3 THEN one_spelling(target) END))) AS value
    FROM denials
),
passed AS (
    SELECT *, unnest(list_distinct(list_append(things_asked(params, target), one_spelling(target)))) AS value
    FROM passes
),
met AS (
    SELECT d.tenant, d.subject AS denied_subject, d.call_key AS denied_key, d.refused_at, d.value, d.tool AS denied_tool, d.reason, d.rule_ids,
           d.event_id AS denied_event, p.subject, p.agent, p.tool, p.call_key, p.passed_at, p.event_id, p.trace_id,
           words_asked(d.params, d.target) = words_asked(p.params, p.target) AS spelling
    FROM refused d
    JOIN passed p ON p.tenant = d.tenant AND p.value = d.value
        AND p.passed_at > d.refused_at AND p.passed_at <= d.refused_at + $within
        AND (p.subject = d.subject OR p.trace_id IN (d.trace_id, d.parent_trace_id) OR p.parent_trace_id IN (d.trace_id, d.parent_trace_id))
    WHERE NOT (d.decision IS NOT DISTINCT FROM 'allow' AND d.decided_at <= p.passed_at)
      AND NOT (d.tool = p.tool AND d.params_digest IS NOT DISTINCT FROM p.params_digest AND d.target IS NOT DISTINCT FROM p.target)
      AND (d.tool <> p.tool OR words_asked(d.params, d.target) = words_asked(p.params, p.target)
           OR (runs_commands(d.tool) AND NOT coalesce(only_looks(words_asked(p.params, p.target)), false)))
      AND NOT (coalesce(d.op, '') = 'commit' AND coalesce(p.op, '') IN ('lookup', 'verify'))
      AND NOT hands_over(p.tool) AND NOT tells_people(p.tool)
),
names AS (SELECT DISTINCT tenant, denied_subject, denied_key, refused_at, value FROM met),
before AS (  -- what the refused agent had been let through with in the hour before
    SELECT tenant, subject, call_key, passed_at, unnest(list_distinct(list_append(things_asked(params, target), one_spelling(target)))) AS value
    FROM calls_in
    WHERE passed_at >= $since - $within - INTERVAL '1 hour' AND passed_at < $until
      AND hash(who, time_bucket(INTERVAL '1 hour', passed_at)) IN (
          SELECT hash(hash(1, denied_subject), time_bucket(INTERVAL '1 hour', refused_at) - away * INTERVAL '1 hour')
          FROM names, range(2) AS hours(away))
),
rare AS (
    SELECT n.tenant, n.denied_subject, n.denied_key, n.refused_at, n.value
    FROM names n
    LEFT JOIN before b ON b.tenant = n.tenant AND b.subject = n.denied_subject AND b.value = n.value
                      AND b.passed_at >= n.refused_at - INTERVAL '1 hour' AND b.passed_at <= n.refused_at
    GROUP BY ALL
    HAVING count(b.call_key) < $common
),
joined AS (
    SELECT m.tenant, m.subject, m.agent, m.call_key, m.passed_at, m.event_id, m.tool, m.trace_id, m.refused_at, m.denied_event, m.denied_subject,
           m.denied_tool, m.reason, m.rule_ids, m.spelling, list_sort(list(DISTINCT m.value))[:5] AS matched
    FROM met m
    SEMI JOIN rare r USING (tenant, denied_subject, denied_key, refused_at, value)
    GROUP BY ALL
),
fired AS (  -- one row a call that went through, held against the last refusal before it
    SELECT *
    FROM joined
    QUALIFY row_number() OVER (PARTITION BY tenant, call_key, passed_at ORDER BY refused_at DESC, denied_event DESC) = 1
)
SELECT subject, tenant, agent, refused_at AS started_at, passed_at AS ended_at,
       list_sort(list_distinct([denied_event, event_id])) AS event_ids,
       denied_tool, tool, matched, denied_subject AS denied_to, reason, rule_ids AS rules, trace_id,
       CASE WHEN denied_tool = tool AND spelling THEN 'another spelling' WHEN denied_tool = tool THEN 'another command' ELSE 'another tool' END AS way,
       CASE WHEN denied_tool = tool AND spelling THEN '换了写法' WHEN denied_tool = tool THEN '换了命令' ELSE '换了工具' END AS way_zh
FROM fired
