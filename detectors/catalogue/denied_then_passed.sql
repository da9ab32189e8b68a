-- title     = "{subject}: {denied_tool} was denied, then {tool} went through for {matched}, by {way}"
-- title_zh  = "{subject}：{denied_tool} 被拒后，{tool} 对 {matched} 放行（{way_zh}）"
-- severity  = "high"
-- why       = "A call was refused, and soon after the same target was reached by another tool or by another spelling of it. The policy says no at one door and leaves the next one open, and the agent found it."
-- respond   = "Compare the two calls in the evidence: is it the same thing that was refused? If so pause the agent, undo what the second call did, and close the other road in the policy too. If the second call does something that is meant to be allowed, record it as expected."
-- respond_zh = "比较证据中的两次调用：是否就是被拒绝的那件事？若是，暂停该智能体，撤销第二次调用的结果，并在策略中堵上另一条路。若第二次调用本应允许，记为符合预期。"
-- quiet     = "The same call allowed later, by a person or a changed policy. A call whose refused parameter was corrected. A look at what may not be changed, a ticket or a hand-over to a person about it. What a person approved. A value that the agent was let through with `common` times in the hour before (its own folder, its tenant)."
-- lookback  = "3 hours"
-- gap       = "30 minutes"
-- needs     = ["agent or trace_id", "tool", "decision", "params or target"]
-- kinds     = ["tool_proposed", "tool_decided", "tool_executed", "approval_requested", "approval_decided"]
-- [params]  # lookback >= within + the hour before the denial
-- within    = { type = "interval", default = "30 minutes", min = "1 second", max = "1 hour" }
-- common    = { type = "integer", default = 3, min = 1 }

-- Kin are calls of one actor, of one trace, of a trace and its parent, or of two traces with one parent.
WITH calls_in AS (
    SELECT coalesce(tenant, '') AS tenant, actor(agent, principal, session, trace_id, source) AS subject,
           agent, call_key, tool, op, params, target, params_digest, trace_id, parent_trace_id, reason, rule_ids,
           decision, decided_at, denied_at, approved_at,
           CASE WHEN denied_at IS NOT NULL AND coalesce(reason_code, '') NOT IN ('expired', 'cancelled') THEN denied_at END AS refused_at,
           CASE WHEN denied_at IS NOT NULL OR tool IS NULL THEN NULL
                WHEN executed_at IS NOT NULL AND status = 'error' AND (decision IS NULL OR decided_at = executed_at) THEN NULL
                WHEN decision = 'allow' THEN decided_at ELSE executed_at END AS passed_at,
           CASE WHEN denied_at IS NOT NULL AND denied_at IS DISTINCT FROM decided_at THEN event_ids[1]
                ELSE coalesce(decided_by, executed_by, event_ids[1]) END AS event_id
    FROM calls
    WHERE last_ts >= $since - $lookback AND ts < $until AND tool IS NOT NULL
),
hot AS (
    SELECT DISTINCT tenant, subject, trace_id, parent_trace_id
    FROM calls_in
    WHERE passed_at >= $since AND passed_at < $until
),
denials AS (
    SELECT *, list_distinct(list_filter(['a ' || subject, 't ' || trace_id, 't ' || parent_trace_id], lambda x: x IS NOT NULL)) AS kin,
           words_asked(params, target) AS asked
    FROM calls_in
    WHERE refused_at > $since - $within - INTERVAL '1 microsecond' AND refused_at < $until
      AND ((tenant, subject) IN (SELECT (tenant, subject) FROM hot)
           OR (tenant, trace_id) IN (SELECT (tenant, trace_id) FROM hot UNION SELECT (tenant, parent_trace_id) FROM hot)
           OR (tenant, parent_trace_id) IN (SELECT (tenant, trace_id) FROM hot UNION SELECT (tenant, parent_trace_id) FROM hot))
),
refused AS (  -- by what the refused call named, and by the hours in which a kin's call can matter to it
    SELECT *, unnest(list_distinct(list_filter(list_append(asked, CASE WHEN length(target) > 3 THEN one_spelling(target) END),
                                               lambda x: names_one(x) OR x = one_spelling(target)))) AS value
    FROM denials
),
near AS (
    SELECT DISTINCT tenant, key, time_bucket(INTERVAL '1 hour', refused_at) + away * INTERVAL '1 hour' AS hour
    FROM (SELECT tenant, refused_at, unnest(kin) AS key FROM denials), range(-1, 2) AS hours(away)
),
passes AS (
    SELECT c.*, time_bucket(INTERVAL '1 hour', passed_at) AS hour,
           list_distinct(list_filter(['a ' || subject, 't ' || trace_id, 't ' || parent_trace_id], lambda x: x IS NOT NULL)) AS kin
    FROM calls_in c
    WHERE passed_at >= $since - $within - INTERVAL '1 hour' AND passed_at < $until
      AND ((tenant, 'a ' || subject, hour) IN (SELECT (tenant, key, hour) FROM near)
           OR (tenant, 't ' || trace_id, hour) IN (SELECT (tenant, key, hour) FROM near)
           OR (tenant, 't ' || parent_trace_id, hour) IN (SELECT (tenant, key, hour) FROM near))
),
spelt AS (SELECT *, words_asked(params, target) AS asked FROM passes),
passed AS (
    SELECT *, unnest(list_distinct(list_append(asked, one_spelling(target)))) AS value
    FROM spelt
),
met AS (
    SELECT d.tenant, d.subject AS denied_subject, d.call_key AS denied_key, d.refused_at, d.value, d.tool AS denied_tool, d.reason, d.rule_ids,
           d.event_id AS denied_event, p.subject, p.agent, p.tool, p.call_key, p.passed_at, p.event_id, p.trace_id,
           p.passed_at <= d.refused_at AND p.subject = d.subject AS before,
           d.asked = p.asked AS spelling,
           p.passed_at > d.refused_at AND p.passed_at <= d.refused_at + $within AND p.approved_at IS NULL
               AND NOT (d.decision IS NOT DISTINCT FROM 'allow' AND d.decided_at <= p.passed_at)
               AND NOT (d.tool = p.tool AND d.params_digest IS NOT DISTINCT FROM p.params_digest AND d.target IS NOT DISTINCT FROM p.target)
               AND (d.tool <> p.tool OR d.asked = p.asked OR (runs_commands(d.tool) AND NOT coalesce(only_looks(p.asked), false)))
               AND NOT (coalesce(d.op, '') = 'commit' AND coalesce(p.op, '') IN ('lookup', 'verify'))
               AND NOT hands_over(p.tool) AND NOT tells_people(p.tool) AS after
    FROM refused d
    JOIN passed p ON p.tenant = d.tenant AND p.value = d.value
        AND p.passed_at >= d.refused_at - INTERVAL '1 hour' AND p.passed_at <= d.refused_at + $within
        AND p.hour >= time_bucket(INTERVAL '1 hour', d.refused_at) - INTERVAL '1 hour'
        AND list_has_any(d.kin, p.kin) AND (p.call_key <> d.call_key OR p.passed_at > d.refused_at)
),
rare AS (
    SELECT tenant, denied_subject, denied_key, refused_at, value
    FROM met
    GROUP BY ALL
    HAVING count(DISTINCT CASE WHEN before THEN call_key END) < $common
),
joined AS (
    SELECT m.tenant, m.subject, m.agent, m.call_key, m.passed_at, m.event_id, m.tool, m.trace_id, m.refused_at, m.denied_event, m.denied_subject,
           m.denied_tool, m.reason, m.rule_ids, m.spelling, list_sort(list(DISTINCT m.value))[:5] AS matched
    FROM met m
    SEMI JOIN rare r USING (tenant, denied_subject, denied_key, refused_at, value)
    WHERE m.after AND m.passed_at >= $since
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
