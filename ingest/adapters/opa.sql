-- title  = "OPA decision logs"
-- format = "ndjson"
-- paths  = ["/logs", "/v1/ingest/opa"]
-- time   = "timestamp"

-- A line is a decision: an element of the array that OPA uploads, or a line of its console log.
-- The console holds OPA's own log lines as well: kind other.
-- The input is what the caller sent, in any shape. By convention it names agent, principal, tool, params, session_id and
-- call_id; the result is a boolean, a word, a list of reasons or an object, see `judged`.
-- A decision comes again when an upload was not acknowledged: its id is the decision's.

WITH lines_read AS (
    SELECT
        ledger_seq, source, doc,
        from_json(doc, '{
            "decision_id": "VARCHAR", "batch_decision_id": "VARCHAR", "timestamp": "VARCHAR",
            "type": "VARCHAR", "level": "VARCHAR", "msg": "VARCHAR", "time": "VARCHAR",
            "trace_id": "VARCHAR", "span_id": "VARCHAR", "path": "VARCHAR", "query": "VARCHAR",
            "revision": "VARCHAR", "bundles": "MAP(VARCHAR, JSON)",
            "input": {
                "agent": "JSON", "principal": "JSON", "user": "JSON", "tenant": "VARCHAR",
                "tool": "JSON", "tool_name": "VARCHAR", "params": "JSON", "arguments": "JSON",
                "session_id": "VARCHAR", "call_id": "VARCHAR", "trace_id": "VARCHAR", "task": "VARCHAR"
            },
            "result": "JSON", "mapped_result": "JSON", "error": "JSON", "nd_builtin_cache": "JSON",
            "erased": "JSON", "masked": "JSON", "labels": "JSON", "requested_by": "VARCHAR",
            "req_id": "VARCHAR", "request_context": "JSON", "metrics": {"timer_server_handler_ns": "VARCHAR"}
        }') AS d
    FROM lines
),
opened AS (
    SELECT
        *,
        coalesce(nz(d.decision_id) IS NOT NULL OR d.type = 'openpolicyagent.org/decision_logs', false) AS is_decision,
        d.error AS failure,
        -- a rule that is called so says no when it holds
        coalesce(regexp_matches(d.path, '(^|/)(deny|denied|violations?|block|blocked)$'), false) AS negative,
        from_json(d.input.agent, '{"id": "VARCHAR", "name": "VARCHAR", "tenant": "VARCHAR", "version": "VARCHAR"}') AS agent,
        from_json(coalesce(d.input.principal, d.input.user), '{"id": "VARCHAR", "name": "VARCHAR"}') AS principal,
        from_json(d.input.tool, '{"name": "VARCHAR", "kind": "VARCHAR", "arguments": "JSON"}') AS tool,
        from_json(d.result, '{"decision": "JSON", "result": "JSON"}') AS outer_result
    FROM lines_read
),
-- A whole package as the result holds the answer in its `decision`.
chosen AS (
    SELECT
        *,
        coalesce(
            CASE WHEN json_type(outer_result.decision) = 'OBJECT' THEN outer_result.decision END,
            CASE WHEN json_type(outer_result.result) = 'OBJECT' THEN outer_result.result END,
            d.result) AS answer,
        json_type(answer) AS shape,
        from_json(answer, '{
            "decision": "VARCHAR", "action": "VARCHAR", "allow": "VARCHAR", "allowed": "VARCHAR", "deny": "JSON",
            "require_approval": "VARCHAR", "requires_approval": "VARCHAR", "rule_id": "JSON", "rule_ids": "JSON",
            "reason": "JSON", "reasons": "JSON", "message": "VARCHAR", "reason_code": "VARCHAR",
            "risk": "VARCHAR", "approval_id": "VARCHAR"
        }') AS r,
        -- Not WHERE: DuckDB would push it down to the lines and read each of them twice.
        unnest(CASE WHEN is_decision OR (d.level IS NOT NULL AND d.msg IS NOT NULL) THEN [true] END) AS kept
    FROM opened
),
worded AS (
    SELECT
        *,
        CASE WHEN shape IN ('BOOLEAN', 'VARCHAR') THEN answer ->> '$' ELSE coalesce(r.decision, r.action) END AS word
    FROM chosen
),
judged AS (
    SELECT
        *,
        coalesce(r.allow, r.allowed) AS allowed,
        CASE WHEN json_type(r.deny) IN ('ARRAY', 'OBJECT') THEN r.deny NOT IN ('[]', '{}')
             ELSE try_cast(nz(r.deny ->> '$') AS BOOLEAN) END AS denied,
        CASE
            WHEN lower(word) IN ('allow', 'allowed', 'permit', 'approve', 'approved', 'true') THEN 'allow'
            WHEN lower(word) IN ('deny', 'denied', 'block', 'blocked', 'reject', 'forbid', 'forbidden', 'false') THEN 'deny'
            WHEN lower(word) IN ('require_approval', 'ask', 'escalate', 'review', 'pending') THEN 'require_approval'
        END AS said
    FROM worded
),
decided AS (
    SELECT
        *,
        CASE
            WHEN NOT is_decision THEN NULL
            WHEN failure IS NOT NULL THEN 'deny'  -- nothing was decided: callers fail closed
            WHEN answer IS NULL THEN NULL         -- undefined: what it means is the caller's choice
            WHEN shape IN ('BOOLEAN', 'VARCHAR') AND lower(word) IN ('true', 'false')
                THEN if((lower(word) = 'true') <> negative, 'allow', 'deny')
            WHEN shape = 'ARRAY' AND negative THEN if(answer = '[]', 'allow', 'deny')
            WHEN shape = 'VARCHAR' THEN said
            WHEN shape <> 'OBJECT' THEN NULL
            WHEN said IS NOT NULL THEN said
            WHEN nz(word) IS NOT NULL THEN NULL   -- a word that is none of ours is kept, not guessed at
            WHEN denied THEN 'deny'
            WHEN 'true' IN (r.require_approval, r.requires_approval) THEN 'require_approval'
            WHEN allowed = 'true' THEN 'allow'
            WHEN allowed = 'false' THEN 'deny'
            WHEN NOT denied THEN 'allow'
        END AS decision,
        CASE
            WHEN shape = 'ARRAY' AND negative THEN array_to_string(lst(strs(answer)), '; ')
            ELSE coalesce(
                array_to_string(lst(strs(r.reasons)), '; '), array_to_string(lst(strs(r.reason)), '; '), nz(r.message),
                CASE WHEN json_type(r.deny) = 'ARRAY' THEN array_to_string(lst(strs(r.deny)), '; ') END)
        END AS reason,
        coalesce(nz(tool.name), CASE WHEN json_type(d.input.tool) = 'VARCHAR' THEN nz(d.input.tool ->> '$') END,
            nz(d.input.tool_name)) AS tool_raw,
        coalesce(iso_ts(d.timestamp), CASE WHEN NOT is_decision THEN iso_ts(d.time) END) AS claimed,
        nz(d.decision_id) || coalesce(':' || nz(d.batch_decision_id), '') AS own_id,
        jval(coalesce(d.input.params, d.input.arguments, tool.arguments)) AS params,
        hexid(coalesce(nz(d.trace_id), d.input.trace_id)) AS trace
    FROM judged
),
addressed AS (
    SELECT *, CASE WHEN contains(params, '"url"') THEN nz(params ->> 'url') END AS url
    FROM decided
)
SELECT
    eid(source, coalesce('decision:' || own_id, 'seq:' || ledger_seq), NULL) AS event_id,
    CASE WHEN is_decision THEN 'tool_decided' ELSE 'other' END AS kind,
    source,
    ledger_seq,
    own_id AS native_id,
    claimed AS ts,
    coalesce(nz(agent.id), nz(agent.name),
        CASE WHEN json_type(d.input.agent) = 'VARCHAR' THEN nz(d.input.agent ->> '$') END) AS agent,
    nz(agent.version) AS agent_version,
    coalesce(nz(principal.id), nz(principal.name),
        CASE WHEN json_type(d.input.principal) = 'VARCHAR' THEN nz(d.input.principal ->> '$')
             WHEN json_type(d.input.user) = 'VARCHAR' THEN nz(d.input.user ->> '$') END) AS principal,
    coalesce(nz(agent.tenant), nz(d.input.tenant)) AS tenant,
    bare_tool(tool_raw) AS tool,
    nz(d.input.call_id) AS call_id,
    CASE WHEN tool.kind IN ('lookup', 'verify', 'commit') THEN tool.kind END AS op,
    CASE WHEN tool.kind IN ('lookup', 'verify', 'commit') THEN 'declared' END AS op_basis,
    params,
    url AS target,
    host_of(url) AS host,
    port_of(url) AS port,
    CASE WHEN is_decision AND failure IS NOT NULL THEN 'error' END AS status,
    CASE WHEN json_type(failure) = 'VARCHAR' THEN nz(failure ->> '$')
         ELSE nz(concat_ws(': ', failure ->> 'code', failure ->> 'message')) END AS error,
    decision,
    coalesce(nz(word), CASE WHEN denied THEN 'deny' WHEN decision = 'require_approval' THEN decision END, nz(allowed),
        CASE WHEN shape NOT IN ('OBJECT', 'ARRAY') THEN answer ->> '$' END) AS decision_native,
    lst(coalesce(strs(r.rule_ids), strs(r.rule_id))) AS rule_ids,
    CASE
        WHEN len(map_keys(d.bundles)) = 1 THEN nz(map_values(d.bundles)[1] ->> 'revision')
        WHEN len(map_keys(d.bundles)) > 1 THEN nz(array_to_string(list_sort(list_transform(map_entries(d.bundles),
            lambda lam_b: lam_b.key || '=' || coalesce(lam_b.value ->> 'revision', ''))), ','))
        ELSE nz(d.revision)
    END AS policy_version,
    nz(reason) AS reason,
    nz(r.reason_code) AS reason_code,
    try_cast(d.metrics.timer_server_handler_ns AS BIGINT) / 1e6 AS decision_ms,
    lst([
        CASE WHEN is_decision AND failure IS NOT NULL THEN 'evaluation_error' END,
        CASE WHEN is_decision AND failure IS NULL AND answer IS NULL THEN 'undefined_result' END
    ]) AS signals,
    trace AS trace_id,
    hexid(d.span_id) AS span_id,
    nz(d.input.session_id) AS session,
    nz(d.input.task) AS task,
    nz(r.approval_id) AS approval_id,
    CASE WHEN lower(r.risk) IN ('low', 'medium', 'high', 'critical') THEN lower(r.risk) END AS risk,
    lst(coalesce(strs(d.erased), []) || coalesce(strs(d.masked), [])) AS redacted,
    compact(json_object(
        'policy', nz(ltrim(d.path, '/')), 'query', nz(d.query), 'labels', d.labels, 'client', nz(d.requested_by),
        'request_id', nz(d.req_id), 'tool_server', tool_server(tool_raw), 'batch_decision_id', nz(d.batch_decision_id),
        'result', CASE WHEN decision IS NULL OR shape IN ('OBJECT', 'ARRAY') THEN d.result END,
        'mapped_result', d.mapped_result, 'nd_builtin_cache', d.nd_builtin_cache,
        'request_context', d.request_context,
        'ts_ns', CASE WHEN length(d.timestamp) > 27 THEN try(epoch_ns(try_cast(d.timestamp AS TIMESTAMP_NS)))::VARCHAR END,
        'trace_id_native', CASE WHEN trace IS NULL THEN coalesce(nz(d.trace_id), nz(d.input.trace_id)) END,
        'ts_claimed', CASE WHEN claimed IS NULL THEN coalesce(d.timestamp, d.time) END,
        'log', CASE WHEN NOT is_decision THEN doc END)) AS attrs
FROM addressed
