-- title  = "OpenTelemetry spans: gen_ai, MCP, OpenInference, Bedrock AgentCore, as OTLP/JSON"
-- format = "ndjson"
-- paths  = ["/v1/traces"]
-- envelope = "resourceSpans"

-- A line is one ExportTraceServiceRequest: of one span as the intake cuts it, of many in a collector's file.
-- It may also be one span as CloudWatch stores it (aws/spans) or as Phoenix exports it: attributes are an
-- object, and kind and status are words.
-- Each span is a row; its time is its end. One without a time, or without ids that can be read, is quarantined
-- with its line when it is alone there, and a row of kind other beside the others.

WITH whole AS (
    SELECT ledger_seq, source, received_at, doc, from_json(doc, '{"resourceSpans":[{
        "resource":{"attributes":' || otlp_pairs() || '},
        "scopeSpans":[{"scope":{"name":"VARCHAR"},"spans":["JSON"]}]}],
        "attributes":"JSON","resource":{"attributes":"JSON"},"scope":{"name":"VARCHAR"}}') AS d
    FROM lines
),
scopes AS (
    SELECT
        ledger_seq, source, received_at,
        unnest(CASE
            WHEN d.resourceSpans IS NOT NULL THEN list_transform(d.resourceSpans, lambda lam_r: {
                'about': lam_r.resource.attributes, 'plain': NULL::JSON, 'flat': NULL::JSON, 'scopes': lam_r.scopeSpans})
            WHEN json_type(d.attributes) = 'OBJECT' THEN [{
                'about': NULL, 'plain': d.resource.attributes, 'flat': d.attributes,
                'scopes': [{'scope': {'name': d.scope.name}, 'spans': [doc]}]}]
        END) AS r
    FROM whole
),
spans AS (
    SELECT
        ledger_seq, source, received_at, r.flat AS flat, r.scopes AS scopes,
        [coalesce(otlp_text(r.about, 'service.name'), r.plain ->> 'service.name'), otlp_text(r.about, 'service.version'),
            otlp_text(r.about, 'gen_ai.agent.id'), otlp_text(r.about, 'gen_ai.agent.name')] AS about,
        len(r.scopes) = 1 AND len(r.scopes[1].spans) = 1 AS alone
    FROM scopes
),
each_scope AS (
    SELECT * EXCLUDE (scopes), unnest(scopes) AS s FROM spans
),
each_span AS (
    SELECT * EXCLUDE (s), s.scope.name AS scope, unnest(s.spans) AS line FROM each_scope
),
read_once AS (
    SELECT
        *,
        from_json(line, '{"traceId":"JSON","trace_id":"JSON","spanId":"JSON","span_id":"JSON",
            "parentSpanId":"JSON","parent_span_id":"JSON","parent_id":"JSON",
            "context":{"trace_id":"JSON","span_id":"JSON"},"name":"VARCHAR","kind":"VARCHAR","span_kind":"VARCHAR",
            "startTimeUnixNano":"JSON","endTimeUnixNano":"JSON","start_time":"VARCHAR","end_time":"VARCHAR",
            "status":{"code":"VARCHAR","message":"VARCHAR"},"status_code":"VARCHAR","status_message":"VARCHAR",
            "droppedAttributesCount":"VARCHAR","attributes":' || otlp_pairs() || '}') AS x
    FROM each_span
),
-- Lists, because a macro is pasted for each value that it is given.
attributes AS (
    SELECT
        * EXCLUDE (x, flat),
        coalesce(flat, otlp_object(x.attributes)) AS attributes,
        [coalesce(x.traceId, x.trace_id, x.context.trace_id), coalesce(x.spanId, x.span_id, x.context.span_id),
            coalesce(x.parentSpanId, x.parent_span_id, x.parent_id)] AS natives,
        list_transform([x.startTimeUnixNano, x.endTimeUnixNano], lambda lam_t: ns_num(lam_t)) AS ns,
        [x.start_time, x.end_time] AS texts,
        x.name AS name,
        x.kind AS span_kind,
        upper(coalesce(x.status.code, x.status_code)) IN ('2', 'STATUS_CODE_ERROR', 'ERROR') AS failed,
        nz(coalesce(x.status.message, x.status_message)) AS status_message,
        x.droppedAttributesCount AS dropped,
        x.span_kind AS phoenix_kind
    FROM read_once
),
timed AS (
    SELECT
        * EXCLUDE (texts),
        list_transform(natives, lambda lam_j: hexid_j(lam_j)) AS ids,
        list_transform(ns, lambda lam_n, lam_i: CASE WHEN lam_n IS NOT NULL THEN ns_ts(lam_n)
            WHEN texts[lam_i] IS NOT NULL THEN iso_ts(texts[lam_i]) END) AS times
    FROM attributes
),
checked AS (
    SELECT
        *,
        ids[1] AS tid,
        ids[2] AS sid,
        times[1] AS started,
        coalesce(times[2], times[1]) AS moment,
        coalesce(ids[1] IS NULL OR ids[2] IS NULL OR coalesce(times[2], times[1]) IS NULL, true) AS malformed
    FROM timed
),
kept AS (
    -- not WHERE: DuckDB would push it down to the lines and read each of them twice
    SELECT *, unnest(CASE WHEN NOT alone OR NOT malformed THEN [true] END) AS kept FROM checked
),
known AS (
    SELECT
        *,
        about[1] AS service,
        from_json(attributes, '{
            "gen_ai.operation.name":"VARCHAR","openinference.span.kind":"VARCHAR","mcp.method.name":"VARCHAR",
            "gen_ai.agent.id":"VARCHAR","gen_ai.agent.name":"VARCHAR","agent.name":"VARCHAR",
            "gen_ai.agent.version":"VARCHAR","user.id":"VARCHAR","enduser.id":"VARCHAR",
            "gen_ai.tool.name":"VARCHAR","tool.name":"VARCHAR","gen_ai.tool.call.id":"VARCHAR","tool.id":"VARCHAR",
            "gen_ai.tool.call.arguments":"VARCHAR","tool.parameters":"VARCHAR","input.value":"VARCHAR",
            "gen_ai.tool.call.result":"VARCHAR","output.value":"VARCHAR","output.mime_type":"VARCHAR",
            "server.address":"VARCHAR","server.port":"VARCHAR","mcp.resource.uri":"VARCHAR","gateway.id":"VARCHAR",
            "error.type":"VARCHAR","rpc.response.status_code":"VARCHAR","http.response.status_code":"VARCHAR",
            "gen_ai.conversation.id":"VARCHAR","session.id":"VARCHAR","mcp.session.id":"VARCHAR",
            "gen_ai.usage.input_tokens":"VARCHAR","gen_ai.usage.prompt_tokens":"VARCHAR",
            "llm.token_count.prompt":"VARCHAR","gen_ai.usage.output_tokens":"VARCHAR",
            "gen_ai.usage.completion_tokens":"VARCHAR","llm.token_count.completion":"VARCHAR",
            "gen_ai.response.model":"VARCHAR","gen_ai.request.model":"VARCHAR","llm.model_name":"VARCHAR",
            "llm.cost.total":"VARCHAR","gen_ai.output.messages":"VARCHAR","metadata":"VARCHAR",
            "llm.output_messages.0.message.content":"VARCHAR",
            "gen_ai.guardrail.verdict.type":"VARCHAR","gen_ai.guardrail.action.type":"VARCHAR",
            "gen_ai.guardrail.verdict.reason":"VARCHAR","gen_ai.guardrail.target.id":"VARCHAR",
            "gen_ai.guardrail.security.policy.rule.id":"VARCHAR","agent.threat.detection.action":"VARCHAR",
            "agent.threat.detection.rule_id":"VARCHAR","agt.policy.rule":"VARCHAR",
            "gen_ai.agent.tool.disposition":"VARCHAR","gen_ai.agent.tool.tier":"VARCHAR",
            "aws.agentcore.policy.authorization_decision":"VARCHAR","aws.agentcore.policy.authorization_reason":"VARCHAR",
            "aws.agentcore.policy.determining_policies":"VARCHAR","aws.agentcore.gateway.policy.mode":"VARCHAR"
        }') AS a
    FROM kept
),
named AS (
    SELECT
        *,
        coalesce(a."openinference.span.kind", phoenix_kind) AS oi_kind,
        upper(a."aws.agentcore.policy.authorization_decision") AS policy,
        lower(coalesce(a."gen_ai.guardrail.action.type", a."gen_ai.guardrail.verdict.type",
            a."agent.threat.detection.action", a."gen_ai.agent.tool.disposition")) AS verdict,
        coalesce(nz(a."gen_ai.tool.name"), nz(a."tool.name"),
            CASE WHEN coalesce(a."openinference.span.kind", phoenix_kind) = 'TOOL' THEN name END) AS tool_native
    FROM known
),
operations AS (
    SELECT
        *,
        coalesce(
            a."gen_ai.operation.name",
            CASE oi_kind WHEN 'TOOL' THEN 'execute_tool' WHEN 'LLM' THEN 'chat' WHEN 'AGENT' THEN 'invoke_agent'
                WHEN 'GUARDRAIL' THEN 'run_guardrail' WHEN 'RETRIEVER' THEN 'retrieval' WHEN 'EMBEDDING' THEN 'embeddings' END,
            -- AgentCore tells a decision twice: on the call of the tool, which is the row, and on the policy
            CASE WHEN policy IS NOT NULL AND tool_native IS NOT NULL THEN 'policy'
                WHEN a."mcp.method.name" = 'tools/call' OR name = 'AgentCore.Gateway.InvokeTool' THEN 'execute_tool' END
        ) AS operation,
        CASE
            WHEN policy IN ('ALLOW', 'DENY') THEN lower(policy)
            WHEN verdict IN ('allow', 'warn', 'modify') THEN 'allow'
            WHEN verdict IN ('deny', 'block') THEN 'deny'
            WHEN verdict IN ('escalate', 'ask') THEN 'require_approval'
        END AS judgement,
        regexp_replace(bare_tool(tool_native), '^.+___', '') AS tool,
        CASE lower(a."gen_ai.agent.tool.tier") WHEN 'read' THEN 'lookup' WHEN 'write' THEN 'commit'
            WHEN 'destructive' THEN 'commit' END AS tier
    FROM named
),
kinded AS (
    SELECT
        *,
        CASE
            WHEN malformed THEN 'other'
            WHEN operation = 'execute_tool' AND judgement IN ('deny', 'require_approval') THEN 'tool_decided'
            ELSE otlp_kind(operation)
        END AS kind,
        ms_between(started, times[2]) AS took
    FROM operations
),
told AS (
    SELECT
        *,
        kind IN ('tool_executed', 'tool_decided') AS on_tool,
        list_transform([
            CASE WHEN kind IN ('tool_executed', 'tool_decided')
                THEN coalesce(a."gen_ai.tool.call.arguments", a."tool.parameters", a."input.value") END,
            CASE WHEN kind = 'tool_executed' THEN coalesce(a."gen_ai.tool.call.result", a."output.value") END,
            a."gen_ai.output.messages", a."metadata", a."aws.agentcore.policy.determining_policies"
        ], lambda lam_v: jstr(lam_v)) AS unpacked,
        CASE WHEN malformed THEN 'sha256:' || left(sha256(line::VARCHAR), 32) ELSE tid || ':' || sid END AS native_id
    FROM kinded
)
SELECT
    eid(source, native_id, NULL) AS event_id,
    kind,
    source,
    ledger_seq,
    native_id,
    moment AS ts,
    coalesce(nz(a."gen_ai.agent.id"), nz(about[3]), nz(a."gen_ai.agent.name"), nz(a."agent.name"),
        nz(about[4]), nz(service)) AS agent,
    coalesce(a."gen_ai.agent.version", about[2]) AS agent_version,
    coalesce(nz(a."user.id"), nz(a."enduser.id")) AS principal,
    nz(unpacked[4] ->> 'tenant') AS tenant,
    tool,
    coalesce(nz(a."gen_ai.tool.call.id"), nz(a."tool.id"), nz(a."gen_ai.guardrail.target.id")) AS call_id,
    CASE WHEN on_tool THEN coalesce(tier, CASE WHEN operation = 'retrieval' THEN 'lookup' END) END AS op,
    CASE WHEN on_tool AND (tier IS NOT NULL OR operation = 'retrieval') THEN 'declared' END AS op_basis,
    unpacked[1] AS params,
    coalesce(nz(a."mcp.resource.uri"), nz(a."gateway.id")) AS target,
    coalesce(nz(a."server.address"), CASE WHEN contains(unpacked[1], '"url"') THEN unpacked[1] ->> 'url' END) AS host,
    CASE WHEN try_cast(a."server.port" AS INTEGER) BETWEEN 0 AND 65535 THEN try_cast(a."server.port" AS INTEGER) END AS port,
    CASE
        WHEN kind IN ('tool_decided', 'other') THEN NULL
        WHEN lower(a."error.type") = 'timeout' THEN 'timeout'
        WHEN failed OR a."error.type" IS NOT NULL THEN 'error'
        WHEN try_cast(a."http.response.status_code" AS INTEGER) >= 400
            THEN status_http(try_cast(a."http.response.status_code" AS INTEGER))
        ELSE 'ok'
    END AS status,
    coalesce(status_message, a."error.type", CASE WHEN failed THEN a."rpc.response.status_code" END) AS error,
    CASE WHEN kind <> 'tool_decided' THEN took END AS latency_ms,
    unpacked[2] AS response,
    CASE WHEN on_tool THEN judgement END AS decision,
    CASE WHEN on_tool THEN coalesce(a."aws.agentcore.policy.authorization_decision",
        a."gen_ai.guardrail.verdict.type", verdict) END AS decision_native,
    coalesce(
        lst(strs(unpacked[5])),
        lst([coalesce(nz(a."gen_ai.guardrail.security.policy.rule.id"), nz(a."agent.threat.detection.rule_id"),
            nz(a."agt.policy.rule"))])) AS rule_ids,
    coalesce(a."gen_ai.guardrail.verdict.reason", a."aws.agentcore.policy.authorization_reason") AS reason,
    CASE WHEN kind = 'tool_decided' THEN took END AS decision_ms,
    lst([
        CASE WHEN lower(a."gen_ai.guardrail.verdict.type") IN ('warn', 'modify', 'escalate')
            THEN 'guardrail_' || lower(a."gen_ai.guardrail.verdict.type") END,
        CASE WHEN a."aws.agentcore.gateway.policy.mode" = 'LOG_ONLY' THEN 'report_only' END,
        CASE WHEN malformed THEN 'malformed' END
    ]) AS signals,
    tid AS trace_id,
    sid AS span_id,
    ids[3] AS parent_span_id,
    coalesce(nz(a."gen_ai.conversation.id"), nz(a."session.id"), nz(a."mcp.session.id")) AS session,
    try_cast(a."llm.cost.total" AS DECIMAL(18, 9)) AS cost_usd,
    try_cast(coalesce(a."gen_ai.usage.input_tokens", a."gen_ai.usage.prompt_tokens", a."llm.token_count.prompt") AS BIGINT) AS tokens_in,
    try_cast(coalesce(a."gen_ai.usage.output_tokens", a."gen_ai.usage.completion_tokens",
        a."llm.token_count.completion") AS BIGINT) AS tokens_out,
    coalesce(nz(a."gen_ai.response.model"), nz(a."gen_ai.request.model"), nz(a."llm.model_name")) AS model,
    CASE WHEN kind = 'model_call' THEN 'assistant' END AS role,
    CASE WHEN kind = 'model_call' THEN coalesce(
        unpacked[3] ->> '$[0].parts[0].content',
        a."llm.output_messages.0.message.content",
        CASE WHEN coalesce(a."output.mime_type", 'text/plain') = 'text/plain' THEN a."output.value" END) END AS text,
    CASE WHEN try_cast(dropped AS BIGINT) > 0 THEN true END AS truncated,
    nullif(json_merge_patch(
        CASE json_type(attributes) WHEN 'OBJECT' THEN attributes ELSE '{}' END,
        -- what has a column of its own
        '{"gen_ai.tool.name":null,"tool.name":null,"gen_ai.tool.call.id":null,"tool.id":null,
          "gen_ai.tool.call.arguments":null,"tool.parameters":null,"gen_ai.tool.call.result":null,
          "gen_ai.conversation.id":null,"session.id":null,"gen_ai.usage.input_tokens":null,
          "gen_ai.usage.output_tokens":null,"gen_ai.operation.name":null,"gen_ai.agent.version":null,
          "user.id":null,"enduser.id":null,"gen_ai.guardrail.verdict.reason":null,
          "aws.agentcore.policy.authorization_reason":null}',
        json_object(
            'input.value', CASE WHEN NOT on_tool THEN a."input.value" END,
            'output.value', CASE WHEN kind <> 'tool_executed' THEN a."output.value" END,
            'span_name', name, 'span_kind', span_kind, 'scope', nz(scope), 'service', service, 'operation', operation,
            'start', started::VARCHAR, 'ts_ns', ns[2]::VARCHAR,
            'trace_id_native', CASE WHEN tid IS NULL THEN natives[1] ->> '$' END,
            'span_id_native', CASE WHEN sid IS NULL THEN natives[2] ->> '$' END,
            'tool_server', coalesce(tool_server(tool_native), nz(regexp_extract(tool_native, '^(.+?)___', 1))),
            'line', CASE WHEN malformed THEN line::VARCHAR END))::VARCHAR, '{}')::JSON AS attrs
FROM told
