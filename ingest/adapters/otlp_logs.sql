-- title  = "OpenTelemetry logs: Claude Code, Codex, gen_ai events, MCP and others, as OTLP/JSON"
-- format = "ndjson"
-- paths  = ["/v1/logs"]
-- envelope = "resourceLogs"

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
        [otlp_text(r.resource.attributes, 'service.name'), otlp_text(r.resource.attributes, 'service.version'),
            otlp_text(r.resource.attributes, 'gen_ai.agent.id'), otlp_text(r.resource.attributes, 'gen_ai.agent.name'),
            -- two instances may say the same at the same time
            otlp_text(r.resource.attributes, 'service.instance.id'), otlp_text(r.resource.attributes, 'host.name')] AS about,
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
-- Lists, because a macro is pasted for each value that it is given.
attributes AS (
    SELECT
        * EXCLUDE (x),
        json_type(line) IS DISTINCT FROM 'OBJECT' AS malformed,
        otlp_object(x.attributes) AS attributes,
        list_transform([x.timeUnixNano, x.observedTimeUnixNano], lambda lam_t: ns_num(lam_t)) AS ns,
        list_transform([x.traceId, x.spanId], lambda lam_j: hexid_j(lam_j)) AS ids,
        x.timeUnixNano ->> '$' AS time_native,
        x.eventName AS event_name,
        x.body AS body,
        x.traceId ->> '$' AS trace_native,
        x.droppedAttributesCount AS dropped
    FROM read_once
),
known AS (
    SELECT
        *,
        ns[1] AS t_ns,
        list_transform(ns, lambda lam_n: ns_ts(lam_n)) AS times,
        about[1] AS service,
        body ->> 'stringValue' AS body_text,
        from_json(body -> '$.kvlistValue.values', otlp_pairs()) AS body_pairs,
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
            nz(regexp_extract(body_text, '^(claude_code|codex)\.\w+$'))), '^claude_code\.', '') AS event,
        CASE WHEN a."tool_parameters" IS NOT NULL THEN from_json(try_cast(a."tool_parameters" AS JSON),
            '{"mcp_tool_name":"VARCHAR","mcp_server_name":"VARCHAR","full_command":"VARCHAR"}') END AS tp,
        lower(coalesce(a."decision", a."decision_type")) AS verdict,
        lower(coalesce(a."decision_source", a."source")) AS decider,
        a."agent_audit.action.phase" AS phase,
        coalesce(times[1], CASE WHEN times[1] IS NULL THEN iso_ts(a."event.timestamp") END) AS claimed,
        list_transform([
            coalesce(a."tool_input", a."arguments", a."gen_ai.tool.call.arguments",
                a."agent_audit.target.arguments", a."tool_parameters"),
            coalesce(a."output", a."gen_ai.tool.call.result"),
            a."gen_ai.output.messages"
        ], lambda lam_v: jstr(lam_v)) AS unpacked
    FROM known
),
kinded AS (
    SELECT
        *,
        unpacked[1] AS params,
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
        CASE WHEN unpacked[1] IS NOT NULL THEN from_json(unpacked[1], '{"file_path":"VARCHAR","command":"VARCHAR",
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
        coalesce(claimed, times[2]) AS moment,
        coalesce(own_key, CASE WHEN malformed OR coalesce(claimed, times[2]) IS NOT NULL THEN 'sha256:' || left(sha256(
            concat_ws('|', about::VARCHAR, scope, line::VARCHAR)), 32) END) AS native_id,
        audit_op(a."agent_audit.declared.read_only", a."agent_audit.declared.destructive") AS declared,
        otlp_number(a."agent_audit.decision.latency_ms") AS waited,
        coalesce(lower(a."agent_audit.decision"), verdict) AS word,
        coalesce(a."error.type", a."error_type", a."error", a."error.message") AS fault
    FROM kinded
)
SELECT
    CASE WHEN native_id IS NOT NULL THEN eid(source, native_id, NULL)
        ELSE eid(source, 'seq:' || ledger_seq, line::VARCHAR) END AS event_id,
    kind,
    source,
    ledger_seq,
    native_id,
    moment AS ts,
    CASE WHEN claimed IS NULL AND moment IS NOT NULL THEN 'observed' ELSE 'source' END AS ts_quality,
    CASE WHEN starts_with(event, 'agent_audit.') THEN nz(a."agent_audit.actor.id")
        ELSE coalesce(nz(a."gen_ai.agent.id"), nz(about[3]), nz(a."gen_ai.agent.name"), nz(about[4]), nz(service)) END AS agent,
    coalesce(a."gen_ai.agent.version", a."app.version", about[2]) AS agent_version,
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
        CASE WHEN event = 'gen_ai.tool.message' THEN otlp_text(body_pairs, 'id') END)) AS call_id,
    declared AS op,
    CASE WHEN declared IS NOT NULL THEN 'declared' END AS op_basis,
    params,
    coalesce(a."agent_audit.target.resource", p.file_path, tp.full_command, p.command, p.cmd, p.url) AS target,
    coalesce(p.url, p.host, a."server.address") AS host,
    CASE WHEN try_cast(a."server.port" AS INTEGER) BETWEEN 0 AND 65535 THEN try_cast(a."server.port" AS INTEGER) END AS port,
    CASE
        WHEN kind NOT IN ('tool_executed', 'model_call', 'config_changed', 'agent_run') THEN NULL
        WHEN phase IS NOT NULL THEN audit_status(a."agent_audit.outcome", a."agent_audit.not_executed_reason")
        WHEN lower(fault) = 'timeout' THEN 'timeout'
        WHEN lower(a."success") = 'false' OR event IN ('api_error', 'api_refusal') THEN 'error'
        WHEN lower(a."success") = 'true' THEN 'ok'
        WHEN fault IS NOT NULL THEN 'error'
        ELSE 'ok'
    END AS status,
    coalesce(nz(a."error"), nz(a."error.message"), nz(a."error_type"), nz(a."error.type")) AS error,
    CASE WHEN kind = 'approval_decided' AND phase IS NOT NULL THEN waited
        ELSE otlp_number(a."duration_ms") END AS latency_ms,
    CASE WHEN kind = 'tool_executed' THEN unpacked[2] END AS response,
    try_cast(a."tool_result_size_bytes" AS BIGINT) AS response_bytes,
    decision,
    CASE WHEN kind IN ('tool_decided', 'approval_decided')
        THEN coalesce(a."agent_audit.decision", a."decision", a."decision_type") END AS decision_native,
    lst([nz(a."agent_audit.decision.policy.id")]) AS rule_ids,
    a."agent_audit.decision.policy.version" AS policy_version,
    a."agent_audit.decision.reason" AS reason,
    CASE
        WHEN kind <> 'approval_decided' THEN NULL
        WHEN word IN ('timeout', 'timed_out') THEN 'expired'
        WHEN word IN ('cancel', 'abort') OR decider = 'user_abort' THEN 'cancelled'
        WHEN decision = 'allow' THEN 'approved'
        WHEN decision = 'deny' THEN 'rejected'
    END AS reason_code,
    CASE WHEN kind = 'tool_decided' THEN waited END AS decision_ms,
    lst([
        CASE WHEN a."to_mode" = 'bypassPermissions' THEN 'bypass_permissions' END,
        CASE WHEN malformed THEN 'malformed' END
    ]) AS signals,
    ids[1] AS trace_id,
    ids[2] AS span_id,
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
        WHEN kind = 'model_call' THEN unpacked[3] ->> '$[0].parts[0].content'
        WHEN kind = 'message' THEN coalesce(nullif(a."prompt", '[REDACTED]'), otlp_text(body_pairs, 'content'))
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
            'event', event, 'scope', nz(scope), 'service', service, 'ts_ns', coalesce(t_ns, ns[2])::VARCHAR,
            'decision_source', decider, 'tool_server', coalesce(tp.mcp_server_name, nz(a."mcp_server"), tool_server(tool_native)),
            'body', CASE
                WHEN kind <> 'other' OR ends_with(body_text, event) THEN NULL
                ELSE coalesce(body_text, body::VARCHAR) END,
            'trace_id_native', CASE WHEN ids[1] IS NULL THEN nullif(trace_native, '') END,
            'ts_claimed', CASE WHEN moment IS NULL THEN nullif(time_native, '0') END,
            'line', CASE WHEN malformed THEN line::VARCHAR END))::VARCHAR, '{}')::JSON AS attrs
FROM judged
