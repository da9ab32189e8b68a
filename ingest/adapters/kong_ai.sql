-- title  = "Kong AI Gateway: http-log and file-log with MCP and model calls"
-- format = "ndjson"
-- paths  = ["/v1/ingest/kong_ai"]

-- A line is a request; it gives an event for each entry of ai.mcp.audit (who may), of ai.mcp.rpc (what ran) and for each model
-- call (ai.proxy; ai.ai-proxy before 3.9), else one for itself. A denied tool has an audit entry and no rpc entry.
-- One consumer is one agent. `source` says who answered: kong itself refuses, the upstream fails.

WITH lines_read AS (
    SELECT
        ledger_seq, source, doc,
        from_json(doc, '{
            "started_at": "VARCHAR", "source": "VARCHAR", "workspace_name": "VARCHAR", "client_ip": "VARCHAR",
            "upstream_status": "VARCHAR", "consumer": {"id": "VARCHAR", "username": "VARCHAR", "custom_id": "VARCHAR"},
            "authenticated_entity": {"id": "VARCHAR"}, "route": {"name": "VARCHAR"},
            "service": {"name": "VARCHAR", "host": "VARCHAR", "port": "VARCHAR"},
            "latencies": {"request": "VARCHAR"},
            "request": {"id": "VARCHAR", "uri": "VARCHAR", "method": "VARCHAR", "headers": {"user-agent": "VARCHAR"}},
            "response": {"status": "VARCHAR", "size": "VARCHAR"},
            "ai": {
                "mcp": {
                    "mcp_session_id": "VARCHAR",
                    "audit": [{"primitive_name": "VARCHAR", "primitive": "VARCHAR", "action": "VARCHAR",
                        "scope": "VARCHAR", "consumer": {"name": "VARCHAR", "identifier": "VARCHAR"}}],
                    "rpc": [{"id": "VARCHAR", "method": "VARCHAR", "tool_name": "VARCHAR", "latency": "VARCHAR",
                        "error": "VARCHAR", "response_body_size": "VARCHAR", "payload": {"request": "VARCHAR"}}]
                },
                "proxy": "JSON", "ai-proxy": "JSON", "ai-proxy-advanced": "JSON"
            }
        }') AS d
    FROM lines
),
parts AS (
    SELECT
        *,
        list_concat(
            list_transform(d.ai.mcp.audit, lambda lam_a, lam_i: {'part': 'audit:' || lam_i, 'audit': lam_a, 'rpc': NULL, 'model': NULL}),
            list_transform(d.ai.mcp.rpc, lambda lam_r, lam_i: {'part': 'rpc:' || lam_i, 'audit': NULL, 'rpc': lam_r, 'model': NULL}),
            CASE WHEN json_type(coalesce(d.ai.proxy, d.ai."ai-proxy", d.ai."ai-proxy-advanced")) = 'OBJECT' THEN [{
                'part': 'model:1', 'audit': NULL, 'rpc': NULL,
                'model': from_json(coalesce(d.ai.proxy, d.ai."ai-proxy", d.ai."ai-proxy-advanced"), '{
                    "usage": {"prompt_tokens": "VARCHAR", "prompt_token": "VARCHAR", "completion_tokens": "VARCHAR",
                        "completion_token": "VARCHAR", "cost": "VARCHAR"},
                    "meta": {"request_model": "VARCHAR", "response_model": "VARCHAR", "provider_name": "VARCHAR",
                        "llm_latency": "VARCHAR"}
                }')}] END) AS found,
        -- Not WHERE: DuckDB would push it down to the lines and read each of them twice.
        unnest(CASE WHEN nz(d.started_at) IS NOT NULL AND d.request IS NOT NULL THEN
            CASE WHEN len(found) > 0 THEN found ELSE [{'part': 'request', 'audit': NULL, 'rpc': NULL, 'model': NULL}] END
        END) AS p
    FROM lines_read
),
told AS (
    SELECT
        *,
        try(make_timestamp(try_cast(d.started_at AS BIGINT) * 1000) AT TIME ZONE 'UTC') AS claimed,
        nz(d.request.id) AS own_id,
        try_cast(d.response.status AS INTEGER) AS http,
        nz(coalesce(p.rpc.tool_name, CASE WHEN coalesce(p.audit.primitive, 'tool') = 'tool' THEN p.audit.primitive_name END)) AS tool_raw,
        jval(to_json(p.rpc.payload.request)) AS asked,
        coalesce(nz(p.model.meta.response_model), nz(p.model.meta.request_model)) AS model_name,
        coalesce(d.source = 'kong', false) AS by_kong,
        nz(d.service.host) AS upstream
    FROM parts
),
kinded AS (
    SELECT
        *,
        bare_tool(tool_raw) AS tool_name,
        CASE
            WHEN p.audit IS NOT NULL THEN 'tool_decided'
            WHEN p.rpc IS NOT NULL AND tool_raw IS NOT NULL THEN 'tool_executed'
            WHEN by_kong AND http = 429 THEN 'limit_hit'
            WHEN by_kong AND http IN (401, 403) THEN 'tool_decided'
            WHEN p.model IS NOT NULL THEN 'model_call'
            WHEN upstream IS NOT NULL AND NOT by_kong THEN 'egress'
            ELSE 'other'
        END AS kind,
        CASE
            WHEN p.audit IS NOT NULL
                THEN CASE lower(p.audit.action) WHEN 'allow' THEN 'allow' WHEN 'deny' THEN 'deny' END
            WHEN kind IN ('tool_decided', 'limit_hit') THEN 'deny'
        END AS verdict
    FROM told
)
SELECT
    eid(source, concat_ws(':', coalesce('id:' || own_id, 'seq:' || ledger_seq), p.part),
        CASE WHEN own_id IS NOT NULL THEN doc END) AS event_id,
    kind,
    source,
    ledger_seq,
    own_id || ':' || p.part AS native_id,
    claimed AS ts,
    coalesce(nz(d.consumer.username), nz(d.consumer.custom_id),
        CASE WHEN p.audit.consumer.identifier = 'consumer' THEN nz(p.audit.consumer.name) END) AS agent,
    nz(d.authenticated_entity.id) AS principal,
    tool_name AS tool,
    CASE WHEN tool_name IS NOT NULL THEN own_id || ':' || tool_name END AS call_id,
    jn(asked -> '$.params.arguments') AS params,
    CASE WHEN p.audit.primitive <> 'tool' THEN nz(concat_ws(':', p.audit.primitive, p.audit.primitive_name))
        ELSE nz(d.request.uri) END AS target,
    CASE WHEN kind <> 'other' THEN upstream END AS host,
    CASE WHEN kind <> 'other' AND try_cast(d.service.port AS INTEGER) BETWEEN 0 AND 65535
        THEN try_cast(d.service.port AS INTEGER) END AS port,
    CASE
        WHEN verdict = 'deny' THEN 'denied'
        WHEN p.audit IS NOT NULL THEN NULL
        WHEN nz(p.rpc.error) IS NOT NULL THEN 'error'
        ELSE status_http(http)
    END AS status,
    nz(p.rpc.error) AS error,
    CASE WHEN p.audit IS NULL THEN CASE WHEN isfinite(
            try_cast(coalesce(p.rpc.latency, p.model.meta.llm_latency, d.latencies.request) AS DOUBLE))
        THEN try_cast(coalesce(p.rpc.latency, p.model.meta.llm_latency, d.latencies.request) AS DOUBLE) END END AS latency_ms,
    CASE WHEN p.audit IS NULL
        THEN try_cast(coalesce(p.rpc.response_body_size, d.response.size) AS BIGINT) END AS response_bytes,
    verdict AS decision,
    coalesce(nz(p.audit.action), CASE WHEN verdict IS NOT NULL THEN http::VARCHAR END) AS decision_native,
    coalesce(nz(p.audit.scope), CASE WHEN verdict IS NOT NULL THEN 'http_' || http END) AS reason_code,
    CASE WHEN http = 429 AND kind <> 'limit_hit' THEN ['throttled'] END AS signals,
    nz(d.ai.mcp.mcp_session_id) AS session,
    try_cast(p.model.usage.cost AS DECIMAL(18, 9)) AS cost_usd,
    try_cast(coalesce(p.model.usage.prompt_tokens, p.model.usage.prompt_token) AS BIGINT) AS tokens_in,
    try_cast(coalesce(p.model.usage.completion_tokens, p.model.usage.completion_token) AS BIGINT) AS tokens_out,
    model_name AS model,
    CASE WHEN kind = 'limit_hit' THEN 'rate' END AS budget_kind,
    compact(json_object(
        'tool_server', nz(d.service.name), 'gateway', nz(d.workspace_name), 'route', nz(d.route.name),
        'request_id', own_id, 'operation', nz(p.rpc.method), 'provider', nz(p.model.meta.provider_name),
        'client', nz(d.client_ip), 'user_agent', nz(d.request.headers."user-agent"), 'http_method', nz(d.request.method),
        'result_code', http, 'upstream_status', nz(d.upstream_status), 'jsonrpc_id', nz(p.rpc.id),
        'acl_subject', nz(p.audit.consumer.name),
        'ts_claimed', CASE WHEN claimed IS NULL THEN nz(d.started_at) END)) AS attrs
FROM kinded
