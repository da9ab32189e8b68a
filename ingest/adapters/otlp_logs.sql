-- title  = "OpenTelemetry logs: Claude Code, Codex, gen_ai events, MCP and others, as OTLP/JSON"
-- format = "ndjson"
-- paths  = ["/v1/logs"]

-- A line is one ExportLogsServiceRequest: of one record as the intake cuts it, of many in a collector's file.
-- Each record is a row. What is no record at all is quarantined with its line when it is alone there,
-- and a row of kind other beside the others.
-- The attributes become one JSON object, and that is read once into a struct.

WITH resources AS (
    SELECT ledger_seq, source, received_at, unnest(from_json(doc, '{"resourceLogs":[{
        "resource":{"attributes":' || otlp_pairs() || '},
        "scopeLogs":[{"scope":{"name":"VARCHAR"},"logRecords":["JSON"]}]}]}').resourceLogs) AS r
    FROM lines
),
scopes AS (
    SELECT
        ledger_seq, source, received_at,
        otlp_object(list_filter(r.resource.attributes, lambda lam_p: lam_p.key IN
            ('service.name', 'service.version', 'gen_ai.agent.id', 'gen_ai.agent.name'))) AS about,
        len(r.scopeLogs) = 1 AND len(r.scopeLogs[1].logRecords) = 1 AS alone,
        unnest(r.scopeLogs) AS s
    FROM resources
),
records AS (
    SELECT
        ledger_seq, source, received_at, about, s.scope.name AS scope,
        -- not WHERE: DuckDB would push it down to the lines and read each of them twice
        unnest(CASE WHEN NOT alone OR json_type(s.logRecords[1]) = 'OBJECT' THEN s.logRecords END) AS line
    FROM scopes
),
read_once AS (
    SELECT
        *,
        from_json(line, '{"timeUnixNano":"JSON","observedTimeUnixNano":"JSON","eventName":"VARCHAR",
            "body":"JSON","traceId":"JSON","spanId":"JSON","droppedAttributesCount":"VARCHAR",
            "attributes":' || otlp_pairs() || '}') AS x
    FROM records
),
attributes AS (
    SELECT
        * EXCLUDE (x),
        json_type(line) IS DISTINCT FROM 'OBJECT' AS malformed,
        otlp_object(x.attributes) AS attributes,
        ns_num(x.timeUnixNano) AS t_ns,
        ns_num(x.observedTimeUnixNano) AS o_ns,
        x.timeUnixNano ->> '$' AS time_native,
        x.eventName AS event_name,
        x.body AS body,
        x.traceId AS trace_native,
        hexid_j(x.traceId) AS trace_id,
        hexid_j(x.spanId) AS span_id,
        x.droppedAttributesCount AS dropped
    FROM read_once
),
known AS (
    SELECT
        *,
        from_json(about, '{"service.name":"VARCHAR","service.version":"VARCHAR",
            "gen_ai.agent.id":"VARCHAR","gen_ai.agent.name":"VARCHAR"}') AS res,
        from_json(attributes, '{
            "event.name":"VARCHAR","event.timestamp":"VARCHAR","event.sequence":"VARCHAR","event.kind":"VARCHAR",
            "session.id":"VARCHAR","conversation.id":"VARCHAR","gen_ai.conversation.id":"VARCHAR",
            "mcp.session.id":"VARCHAR","prompt.id":"VARCHAR","organization.id":"VARCHAR",
            "user.account_uuid":"VARCHAR","user.account_id":"VARCHAR","user.id":"VARCHAR",
            "user.email":"VARCHAR","enduser.id":"VARCHAR",
            "gen_ai.agent.id":"VARCHAR","gen_ai.agent.name":"VARCHAR","gen_ai.agent.version":"VARCHAR",
            "app.version":"VARCHAR","gen_ai.operation.name":"VARCHAR","mcp.method.name":"VARCHAR",
            "tool_name":"VARCHAR","gen_ai.tool.name":"VARCHAR","tool_use_id":"VARCHAR","call_id":"VARCHAR",
            "gen_ai.tool.call.id":"VARCHAR","tool_input":"VARCHAR","arguments":"VARCHAR",
            "gen_ai.tool.call.arguments":"VARCHAR","gen_ai.tool.call.result":"VARCHAR",
            "tool_parameters":"VARCHAR","mcp_server":"VARCHAR","decision":"VARCHAR",
            "decision_type":"VARCHAR","decision_source":"VARCHAR","source":"VARCHAR","success":"VARCHAR",
            "duration_ms":"VARCHAR","output":"VARCHAR","tool_result_size_bytes":"VARCHAR",
            "error":"VARCHAR","error.message":"VARCHAR","error_type":"VARCHAR","error.type":"VARCHAR",
            "cost_usd":"VARCHAR","input_tokens":"VARCHAR","input_token_count":"VARCHAR",
            "gen_ai.usage.input_tokens":"VARCHAR","output_tokens":"VARCHAR","output_token_count":"VARCHAR",
            "gen_ai.usage.output_tokens":"VARCHAR","model":"VARCHAR","gen_ai.request.model":"VARCHAR",
            "gen_ai.response.model":"VARCHAR","prompt":"VARCHAR","from_mode":"VARCHAR","to_mode":"VARCHAR",
            "server.address":"VARCHAR","server.port":"VARCHAR","gen_ai.output.messages":"VARCHAR",
            "agent_audit.action.id":"VARCHAR","agent_audit.action.phase":"VARCHAR",
            "agent_audit.actor.id":"VARCHAR","agent_audit.actor.on_behalf_of":"VARCHAR",
            "agent_audit.target.operation":"VARCHAR","agent_audit.target.resource":"VARCHAR",
            "agent_audit.target.arguments":"VARCHAR","agent_audit.declared.read_only":"VARCHAR",
            "agent_audit.declared.destructive":"VARCHAR","agent_audit.decision":"VARCHAR",
            "agent_audit.decision.principal.type":"VARCHAR","agent_audit.decision.principal.id":"VARCHAR",
            "agent_audit.decision.policy.id":"VARCHAR","agent_audit.decision.policy.version":"VARCHAR",
            "agent_audit.decision.reason":"VARCHAR","agent_audit.decision.latency_ms":"VARCHAR",
            "agent_audit.outcome":"VARCHAR","agent_audit.not_executed_reason":"VARCHAR",
            "agent_audit.batch.item_index":"VARCHAR","agent_audit.cost.amount":"VARCHAR",
            "agent_audit.cost.currency":"VARCHAR","agent_audit.cost.unit":"VARCHAR"
        }') AS a
    FROM attributes
),
named AS (
    SELECT
        *,
        regexp_replace(coalesce(nz(event_name), a."event.name",
            nz(regexp_extract(body ->> 'stringValue', '^(claude_code|codex)\.\w+$'))), '^claude_code\.', '') AS event,
        CASE WHEN a."tool_parameters" IS NOT NULL THEN from_json(jstr(a."tool_parameters"),
            '{"mcp_tool_name":"VARCHAR","mcp_server_name":"VARCHAR","full_command":"VARCHAR"}') END AS tp,
        lower(coalesce(a."decision", a."decision_type")) AS verdict,
        lower(coalesce(a."decision_source", a."source")) AS decider,
        a."agent_audit.action.phase" AS phase,
        coalesce(ns_ts(t_ns), iso_ts(a."event.timestamp")) AS claimed,
        jstr(coalesce(a."tool_input", a."arguments", a."gen_ai.tool.call.arguments",
            a."agent_audit.target.arguments", a."tool_parameters")) AS params
    FROM known
),
kinded AS (
    SELECT
        *,
        CASE
            WHEN malformed THEN 'other'
            WHEN starts_with(event, 'agent_audit.') THEN audit_kind(
                phase, a."agent_audit.decision", a."agent_audit.decision.principal.type")
            WHEN event IN ('tool_decision', 'codex.tool_decision') THEN
                CASE WHEN starts_with(decider, 'user') THEN 'approval_decided' ELSE 'tool_decided' END
            WHEN event IN ('tool_result', 'codex.tool_result') THEN 'tool_executed'
            WHEN event IN ('permission_mode_changed', 'hook_registered', 'plugin_loaded') THEN 'config_changed'
            WHEN event IN ('api_request', 'api_error', 'api_refusal', 'codex.api_request',
                'gen_ai.client.inference.operation.details') THEN 'model_call'
            -- one of many for each answer; the last tells the tokens
            WHEN event = 'codex.sse_event' THEN
                CASE WHEN a."input_token_count" IS NULL THEN 'other' ELSE 'model_call' END
            WHEN event IN ('user_prompt', 'codex.user_prompt', 'gen_ai.user.message', 'gen_ai.system.message',
                'gen_ai.assistant.message', 'gen_ai.tool.message', 'gen_ai.choice') THEN 'message'
            ELSE otlp_kind(coalesce(a."gen_ai.operation.name",
                CASE WHEN a."mcp.method.name" = 'tools/call' THEN 'execute_tool' END))
        END AS kind,
        coalesce(tp.mcp_tool_name, a."tool_name", a."gen_ai.tool.name", a."agent_audit.target.operation") AS tool_native,
        coalesce(
            CASE WHEN a."event.sequence" IS NOT NULL THEN a."session.id" || ':' || a."event.sequence" END,
            CASE WHEN phase IS NOT NULL THEN concat_ws(':', a."agent_audit.action.id", phase,
                a."agent_audit.batch.item_index") END) || ':' || t_ns AS own_key,
        CASE WHEN params IS NOT NULL THEN from_json(params, '{"file_path":"VARCHAR","command":"VARCHAR",
            "cmd":"VARCHAR","url":"VARCHAR","host":"VARCHAR"}') END AS p
    FROM named
),
judged AS (
    SELECT
        *,
        coalesce(audit_decision(a."agent_audit.decision"), CASE
            WHEN kind NOT IN ('tool_decided', 'approval_decided') THEN NULL
            WHEN verdict IN ('accept', 'allow', 'approved', 'approved_for_session', 'approvedforsession')
                OR starts_with(verdict, 'approved_') THEN 'allow'
            WHEN verdict IN ('reject', 'deny', 'denied', 'abort', 'cancel', 'timeout', 'timed_out') THEN 'deny'
            WHEN verdict IN ('ask', 'defer') THEN 'require_approval'
        END) AS decision,
        coalesce(own_key, CASE WHEN malformed OR coalesce(claimed, ns_ts(o_ns)) IS NOT NULL THEN 'sha256:' || left(sha256(
            concat_ws('|', about::VARCHAR, scope, line::VARCHAR)), 32) END) AS native_id
    FROM kinded
)
SELECT
    CASE WHEN native_id IS NOT NULL THEN eid(source, native_id, NULL)
        ELSE eid(source, 'seq:' || ledger_seq, line::VARCHAR) END AS event_id,
    kind,
    source,
    ledger_seq,
    native_id,
    coalesce(claimed, ns_ts(o_ns)) AS ts,
    CASE WHEN claimed IS NULL AND o_ns IS NOT NULL THEN 'observed' ELSE 'source' END AS ts_quality,
    CASE WHEN starts_with(event, 'agent_audit.') THEN nz(a."agent_audit.actor.id")
        ELSE coalesce(nz(a."gen_ai.agent.id"), nz(res."gen_ai.agent.id"), nz(a."gen_ai.agent.name"),
            nz(res."gen_ai.agent.name"), nz(res."service.name")) END AS agent,
    coalesce(a."gen_ai.agent.version", a."app.version", res."service.version") AS agent_version,
    coalesce(nz(a."user.account_uuid"), nz(a."user.account_id"), nz(a."user.id"), nz(a."enduser.id"),
        nz(a."user.email")) AS principal,
    a."agent_audit.actor.on_behalf_of" AS on_behalf_of,
    nz(a."organization.id") AS tenant,
    CASE
        WHEN kind <> 'approval_decided' THEN NULL
        WHEN phase IS NOT NULL THEN a."agent_audit.decision.principal.id"
        ELSE coalesce(nz(a."user.email"), nz(a."user.account_uuid"), nz(a."user.account_id"))
    END AS approver,
    bare_tool(tool_native) AS tool,
    nz(coalesce(a."tool_use_id", a."call_id", a."gen_ai.tool.call.id", a."agent_audit.action.id",
        CASE WHEN event = 'gen_ai.tool.message' THEN otlp_text(body, 'id') END)) AS call_id,
    audit_op(a."agent_audit.declared.read_only", a."agent_audit.declared.destructive") AS op,
    CASE WHEN audit_op(a."agent_audit.declared.read_only", a."agent_audit.declared.destructive") IS NOT NULL
        THEN 'declared' END AS op_basis,
    params,
    coalesce(a."agent_audit.target.resource", p.file_path, tp.full_command, p.command, p.cmd, p.url) AS target,
    coalesce(p.url, p.host, a."server.address") AS host,
    CASE WHEN try_cast(a."server.port" AS INTEGER) BETWEEN 0 AND 65535 THEN try_cast(a."server.port" AS INTEGER) END AS port,
    CASE
        WHEN kind NOT IN ('tool_executed', 'model_call', 'config_changed', 'agent_run') THEN NULL
        WHEN phase IS NOT NULL THEN audit_status(a."agent_audit.outcome", a."agent_audit.not_executed_reason")
        WHEN lower(coalesce(a."error.type", a."error_type", a."error")) = 'timeout' THEN 'timeout'
        WHEN lower(a."success") = 'false' OR event IN ('api_error', 'api_refusal') THEN 'error'
        WHEN lower(a."success") = 'true' THEN 'ok'
        WHEN coalesce(a."error.type", a."error_type", a."error", a."error.message") IS NOT NULL THEN 'error'
        ELSE 'ok'
    END AS status,
    coalesce(nz(a."error"), nz(a."error.message"), nz(a."error_type"), nz(a."error.type")) AS error,
    CASE WHEN kind = 'approval_decided' AND phase IS NOT NULL THEN otlp_number(a."agent_audit.decision.latency_ms")
        ELSE otlp_number(a."duration_ms") END AS latency_ms,
    CASE WHEN kind = 'tool_executed' THEN jstr(coalesce(a."output", a."gen_ai.tool.call.result")) END AS response,
    try_cast(a."tool_result_size_bytes" AS BIGINT) AS response_bytes,
    decision,
    CASE WHEN kind IN ('tool_decided', 'approval_decided')
        THEN coalesce(a."agent_audit.decision", a."decision", a."decision_type") END AS decision_native,
    lst([nz(a."agent_audit.decision.policy.id")]) AS rule_ids,
    a."agent_audit.decision.policy.version" AS policy_version,
    a."agent_audit.decision.reason" AS reason,
    CASE
        WHEN kind <> 'approval_decided' THEN NULL
        WHEN coalesce(lower(a."agent_audit.decision"), verdict) IN ('timeout', 'timed_out') THEN 'expired'
        WHEN coalesce(lower(a."agent_audit.decision"), verdict) IN ('cancel', 'abort') OR decider = 'user_abort' THEN 'cancelled'
        WHEN decision = 'allow' THEN 'approved'
        WHEN decision = 'deny' THEN 'rejected'
    END AS reason_code,
    CASE WHEN kind = 'tool_decided' THEN otlp_number(a."agent_audit.decision.latency_ms") END AS decision_ms,
    lst([
        CASE WHEN a."to_mode" = 'bypassPermissions' THEN 'bypass_permissions' END,
        CASE WHEN malformed THEN 'malformed' END
    ]) AS signals,
    trace_id,
    span_id,
    coalesce(nz(a."session.id"), nz(a."gen_ai.conversation.id"), nz(a."conversation.id"), nz(a."mcp.session.id")) AS session,
    nz(a."prompt.id") AS task,
    CASE WHEN phase IS NOT NULL AND (kind = 'approval_decided' OR decision = 'require_approval')
        THEN nz(a."agent_audit.action.id") END AS approval_id,
    try_cast(coalesce(a."cost_usd", audit_usd(a."agent_audit.cost.amount", a."agent_audit.cost.currency",
        a."agent_audit.cost.unit")) AS DECIMAL(18, 9)) AS cost_usd,
    try_cast(coalesce(a."input_tokens", a."input_token_count", a."gen_ai.usage.input_tokens") AS BIGINT) AS tokens_in,
    try_cast(coalesce(a."output_tokens", a."output_token_count", a."gen_ai.usage.output_tokens") AS BIGINT) AS tokens_out,
    coalesce(nz(a."model"), nz(a."gen_ai.response.model"), nz(a."gen_ai.request.model")) AS model,
    CASE
        WHEN kind = 'model_call' AND a."gen_ai.output.messages" IS NOT NULL THEN 'assistant'
        WHEN kind <> 'message' THEN NULL
        WHEN event = 'gen_ai.system.message' THEN 'system'
        WHEN event = 'gen_ai.tool.message' THEN 'tool'
        WHEN event IN ('gen_ai.assistant.message', 'gen_ai.choice') THEN 'assistant'
        ELSE 'user'
    END AS role,
    CASE
        WHEN kind = 'model_call' THEN jstr(a."gen_ai.output.messages") ->> '$[0].parts[0].content'
        WHEN kind = 'message' THEN coalesce(nullif(a."prompt", '[REDACTED]'), otlp_text(body, 'content'))
    END AS text,
    CASE WHEN event = 'permission_mode_changed' THEN 'permission_mode' WHEN kind = 'config_changed' THEN event END AS config_object,
    to_json(a."from_mode") AS config_before,
    to_json(a."to_mode") AS config_after,
    CASE WHEN try_cast(dropped AS BIGINT) > 0 THEN true END AS truncated,
    nullif(json_merge_patch(
        coalesce(attributes, '{}'),
        -- what has a column of its own
        '{"event.name":null,"event.timestamp":null,"session.id":null,"conversation.id":null,"prompt.id":null,
          "gen_ai.conversation.id":null,"organization.id":null,"tool_use_id":null,"call_id":null,
          "gen_ai.tool.call.id":null,"tool_input":null,"arguments":null,"gen_ai.tool.call.arguments":null,
          "decision":null,"decision_type":null,"decision_source":null,"source":null,"success":null,
          "duration_ms":null,"output":null,"error":null,"tool_name":null,"gen_ai.tool.name":null,"model":null,
          "input_tokens":null,"output_tokens":null,"gen_ai.tool.call.result":null,"tool_result_size_bytes":null,"cost_usd":null,"prompt":null,
          "agent_audit.action.id":null,"agent_audit.action.phase":null,"agent_audit.actor.id":null,
          "agent_audit.target.operation":null,"agent_audit.target.resource":null,
          "agent_audit.target.arguments":null,"agent_audit.decision":null,
          "agent_audit.decision.reason":null,"agent_audit.decision.latency_ms":null}',
        json_object(
            'event', event, 'scope', nz(scope), 'service', res."service.name", 'ts_ns', coalesce(t_ns, o_ns)::VARCHAR,
            'decision_source', decider, 'tool_server', coalesce(tp.mcp_server_name, nz(a."mcp_server"), tool_server(tool_native)),
            'body', CASE
                WHEN kind <> 'other' OR ends_with(body ->> 'stringValue', event) THEN NULL
                WHEN (body -> 'kvlistValue') IS NOT NULL THEN otlp_members(body -> 'kvlistValue')::VARCHAR
                ELSE coalesce(body ->> 'stringValue', body::VARCHAR) END,
            'trace_id_native', CASE WHEN trace_id IS NULL THEN nullif(trace_native ->> '$', '') END,
            'ts_claimed', CASE WHEN coalesce(claimed, ns_ts(o_ns)) IS NULL THEN nullif(time_native, '0') END,
            'line', CASE WHEN malformed THEN line::VARCHAR END))::VARCHAR, '{}')::JSON AS attrs
FROM judged
