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
pieces AS (
    SELECT
        ledger_seq, source, d,
        sha256(doc) AS print,  -- once a line, however many events it gives
        nz(d.started_at) IS NOT NULL AND d.request IS NOT NULL AS known,
        coalesce(d.ai.proxy, d.ai."ai-proxy", d.ai."ai-proxy-advanced") AS proxied,
        list_concat(
            list_transform(d.ai.mcp.audit, lambda lam_a, lam_i: {'part': 'audit:' || lam_i, 'audit': lam_a, 'rpc': NULL}),
            list_transform(d.ai.mcp.rpc, lambda lam_r, lam_i: {'part': 'rpc:' || lam_i, 'audit': NULL, 'rpc': lam_r}),
            CASE WHEN json_type(proxied) = 'OBJECT' THEN [{'part': 'model:1', 'audit': NULL, 'rpc': NULL}] END) AS found
    FROM lines_read
),
-- What is said of each part must not hold the list of all parts: the cost would grow with the square of their number.
parts AS (
    SELECT
        ledger_seq, source, print, d.started_at, d.source AS answered_by, d.workspace_name, d.client_ip, d.upstream_status, d.consumer,
        d.authenticated_entity, d.route, d.service, d.latencies, d.request, d.response, d.ai.mcp.mcp_session_id AS mcp_session,
        from_json(CASE WHEN json_type(proxied) = 'OBJECT' THEN proxied END, '{
            "usage": {"prompt_tokens": "VARCHAR", "prompt_token": "VARCHAR", "completion_tokens": "VARCHAR",
                "completion_token": "VARCHAR", "cost": "VARCHAR"},
            "meta": {"request_model": "VARCHAR", "response_model": "VARCHAR", "provider_name": "VARCHAR",
                "llm_latency": "VARCHAR"}
        }') AS said,
        -- Not WHERE: DuckDB would push it down to the lines and read each of them twice.
        unnest(CASE WHEN known THEN
            CASE WHEN len(found) > 0 THEN found ELSE [{'part': 'request', 'audit': NULL, 'rpc': NULL}] END
        END) AS p
    FROM pieces
),
told AS (
    SELECT
        * REPLACE (CASE WHEN p.part = 'model:1' THEN said END AS said),
        try(make_timestamp(try_cast(started_at AS BIGINT) * 1000) AT TIME ZONE 'UTC') AS claimed,
        nz(request.id) AS own_id,
        try_cast(response.status AS INTEGER) AS http,
        nz(coalesce(p.rpc.tool_name, CASE WHEN coalesce(p.audit.primitive, 'tool') = 'tool' THEN p.audit.primitive_name END)) AS tool_raw,
        jval(to_json(p.rpc.payload.request)) AS asked,
        CASE WHEN p.part = 'model:1' THEN coalesce(nz(said.meta.response_model), nz(said.meta.request_model)) END AS model_name,
        coalesce(answered_by = 'kong', false) AS by_kong,
        nz(service.host) AS upstream
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
            WHEN p.part = 'model:1' THEN 'model_call'
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
        CASE WHEN own_id IS NOT NULL THEN print END) AS event_id,
    kind,
    source,
    ledger_seq,
    own_id || ':' || p.part AS native_id,
    claimed AS ts,
    coalesce(nz(consumer.username), nz(consumer.custom_id),
        CASE WHEN p.audit.consumer.identifier = 'consumer' THEN nz(p.audit.consumer.name) END) AS agent,
    nz(authenticated_entity.id) AS principal,
    tool_name AS tool,
    CASE WHEN tool_name IS NOT NULL THEN own_id || ':' || tool_name END AS call_id,
    jn(asked -> '$.params.arguments') AS params,
    CASE WHEN p.audit.primitive <> 'tool' THEN nz(concat_ws(':', p.audit.primitive, p.audit.primitive_name))
        ELSE nz(request.uri) END AS target,
    CASE WHEN kind <> 'other' THEN upstream END AS host,
    CASE WHEN kind <> 'other' AND try_cast(service.port AS INTEGER) BETWEEN 0 AND 65535
        THEN try_cast(service.port AS INTEGER) END AS port,
    CASE
        WHEN verdict = 'deny' THEN 'denied'
        WHEN p.audit IS NOT NULL THEN NULL
        WHEN nz(p.rpc.error) IS NOT NULL THEN 'error'
        ELSE status_http(http)
    END AS status,
    nz(p.rpc.error) AS error,
    CASE WHEN p.audit IS NULL THEN CASE WHEN isfinite(
            try_cast(coalesce(p.rpc.latency, said.meta.llm_latency, latencies.request) AS DOUBLE))
        THEN try_cast(coalesce(p.rpc.latency, said.meta.llm_latency, latencies.request) AS DOUBLE) END END AS latency_ms,
    CASE WHEN p.audit IS NULL
        THEN try_cast(coalesce(p.rpc.response_body_size, response.size) AS BIGINT) END AS response_bytes,
    verdict AS decision,
    coalesce(nz(p.audit.action), CASE WHEN verdict IS NOT NULL THEN http::VARCHAR END) AS decision_native,
    coalesce(nz(p.audit.scope), CASE WHEN verdict IS NOT NULL THEN 'http_' || http END) AS reason_code,
    CASE WHEN http = 429 AND kind <> 'limit_hit' THEN ['throttled'] END AS signals,
    nz(mcp_session) AS session,
    try_cast(said.usage.cost AS DECIMAL(18, 9)) AS cost_usd,
    try_cast(coalesce(said.usage.prompt_tokens, said.usage.prompt_token) AS BIGINT) AS tokens_in,
    try_cast(coalesce(said.usage.completion_tokens, said.usage.completion_token) AS BIGINT) AS tokens_out,
    model_name AS model,
    CASE WHEN kind = 'limit_hit' THEN 'rate' END AS budget_kind,
    compact(json_object(
        'tool_server', nz(service.name), 'gateway', nz(workspace_name), 'route', nz(route.name),
        'request_id', own_id, 'operation', nz(p.rpc.method), 'provider', nz(said.meta.provider_name),
        'client', nz(client_ip), 'user_agent', nz(request.headers."user-agent"), 'http_method', nz(request.method),
        'result_code', http, 'upstream_status', nz(upstream_status), 'jsonrpc_id', nz(p.rpc.id),
        'acl_subject', nz(p.audit.consumer.name),
        'ts_claimed', CASE WHEN claimed IS NULL THEN nz(started_at) END)) AS attrs
FROM kinded
