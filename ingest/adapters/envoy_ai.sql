-- title  = "Envoy AI Gateway access log"
-- format = "ndjson"
-- paths  = ["/v1/ingest/envoy_ai"]

-- The operator picks the keys. Read are those of Envoy AI Gateway's own examples (genai_*, mcp_*), the same by the names of
-- OpenTelemetry (gen_ai.*, mcp.*), and Envoy's default JSON keys. Of a value, "-", null and "" are absent.
-- The log knows no verdict but the code and the flags: UAEX and the RBAC, JWT and external filters refuse, RL is a rate limit.
-- A client may choose x-request-id, so the id of an event holds the content as well.

WITH lines_read AS (
    SELECT
        ledger_seq, source, doc,
        from_json(doc, '{
            "start_time": "VARCHAR", "time": "VARCHAR", "method": "VARCHAR", "response_code": "VARCHAR",
            "response_flags": "VARCHAR", "response_code_details": "VARCHAR", "duration": "VARCHAR", "duration_ms": "VARCHAR",
            "bytes_sent": "VARCHAR", "x-request-id": "VARCHAR", "request_id": "VARCHAR", "traceparent": "VARCHAR",
            "upstream_host": "VARCHAR", "upstream_host_name": "VARCHAR", "upstream_cluster": "VARCHAR",
            "upstream_transport_failure_reason": "VARCHAR", "downstream_remote_address": "VARCHAR",
            "x-forwarded-for": "VARCHAR", "user-agent": "VARCHAR", "route_name": "VARCHAR",
            "request.path": "VARCHAR", "x-envoy-origin-path": "VARCHAR", "path": "VARCHAR",
            "mcp.method.name": "VARCHAR", "mcp_method": "VARCHAR", "mcp.tool.name": "VARCHAR", "mcp_tool_name": "VARCHAR",
            "mcp_tool": "VARCHAR", "mcp.provider.name": "VARCHAR", "mcp_backend": "VARCHAR",
            "mcp.session.id": "VARCHAR", "session.id": "VARCHAR", "mcp_session_id": "VARCHAR",
            "jsonrpc.request.id": "VARCHAR", "mcp_request_id": "VARCHAR",
            "gen_ai.request.model": "VARCHAR", "gen_ai.response.model": "VARCHAR", "genai_model_name": "VARCHAR",
            "genai_model_name_override": "VARCHAR", "gen_ai.provider.name": "VARCHAR", "genai_backend_name": "VARCHAR",
            "gen_ai.usage.input_tokens": "VARCHAR", "genai_tokens_input": "VARCHAR",
            "gen_ai.usage.output_tokens": "VARCHAR", "genai_tokens_output": "VARCHAR",
            "agent": "VARCHAR", "agent.id": "VARCHAR", "principal": "VARCHAR", "jwt.sub": "VARCHAR"
        }') AS d
    FROM lines
),
told AS (
    SELECT
        *,
        coalesce(nz(d.start_time), nz(d.time)) AS stamp,
        try_cast(nz(d.response_code) AS INTEGER) AS http,
        coalesce(nz(d."mcp.provider.name"), nz(d.mcp_backend)) AS server,
        coalesce(nz(d."mcp.tool.name"), nz(d.mcp_tool_name), nz(d.mcp_tool)) AS raw_tool,
        bare_tool(CASE WHEN starts_with(raw_tool, server || '__') THEN substr(raw_tool, length(server) + 3)
            ELSE raw_tool END) AS tool_name,
        coalesce(nz(d."gen_ai.response.model"), nz(d.genai_model_name_override), nz(d."gen_ai.request.model"),
            nz(d.genai_model_name)) AS model,
        coalesce(nz(d."x-request-id"), nz(d.request_id)) AS own_id,
        coalesce(nz(d.upstream_host_name), nz(d.upstream_host)) AS upstream,
        string_split(coalesce(nz(d.response_flags), ''), ',') AS flags,
        coalesce(list_contains(flags, 'RL') OR list_contains(flags, 'RLSE')
            OR regexp_matches(d.response_code_details, '^(local|request)_rate_limited'), false) AS limited,
        coalesce(list_contains(flags, 'UAEX')
            OR regexp_matches(d.response_code_details, '^(rbac_access_denied|ext_authz_denied|jwt_authn|basic_authn|api_key_auth)'),
            false) AS refused,
        -- Not WHERE: DuckDB would push it down to the lines and read each of them twice.
        unnest(CASE WHEN stamp IS NOT NULL AND (nz(d.response_code) IS NOT NULL OR nz(d.method) IS NOT NULL)
            THEN [true] END) AS kept
    FROM lines_read
),
kinded AS (
    SELECT
        *,
        iso_ts(stamp) AS claimed,
        CASE
            WHEN limited THEN 'limit_hit'
            WHEN refused THEN 'tool_decided'
            WHEN tool_name IS NOT NULL THEN 'tool_executed'
            WHEN model IS NOT NULL THEN 'model_call'
            WHEN upstream IS NOT NULL THEN 'egress'
            ELSE 'other'
        END AS kind
    FROM told
)
SELECT
    eid(source, coalesce('id:' || own_id, 'seq:' || ledger_seq), CASE WHEN own_id IS NOT NULL THEN doc END) AS event_id,
    kind,
    source,
    ledger_seq,
    own_id AS native_id,
    claimed AS ts,
    coalesce(nz(d.agent), nz(d."agent.id")) AS agent,
    coalesce(nz(d.principal), nz(d."jwt.sub")) AS principal,
    tool_name AS tool,
    coalesce(nz(d."x-envoy-origin-path"), nz(d."request.path"), nz(d.path)) AS target,
    CASE WHEN kind <> 'other' THEN upstream END AS host,
    CASE WHEN kind <> 'other' THEN coalesce(port_of(upstream), port_of(nz(d.upstream_host))) END AS port,
    CASE
        WHEN limited OR refused THEN 'denied'
        WHEN list_contains(flags, 'UT') OR list_contains(flags, 'SI') THEN 'timeout'
        WHEN list_contains(flags, 'DC') THEN 'cancelled'
        ELSE status_http(http)
    END AS status,
    coalesce(nz(d.upstream_transport_failure_reason),
        CASE WHEN http >= 400 OR http = 0 THEN nz(d.response_code_details) END) AS error,
    CASE WHEN kind <> 'tool_decided' THEN CASE WHEN isfinite(try_cast(coalesce(nz(d.duration), nz(d.duration_ms)) AS DOUBLE))
        THEN try_cast(coalesce(nz(d.duration), nz(d.duration_ms)) AS DOUBLE) END END AS latency_ms,
    try_cast(nz(d.bytes_sent) AS BIGINT) AS response_bytes,
    CASE WHEN limited OR refused THEN 'deny' END AS decision,
    CASE WHEN limited OR refused THEN coalesce(nz(d.response_code_details), nz(d.response_flags)) END AS decision_native,
    CASE WHEN limited OR refused THEN coalesce(nz(d.response_code_details), nz(d.response_flags)) END AS reason,
    nz(d.response_flags) AS reason_code,
    CASE WHEN http = 429 AND NOT limited THEN ['throttled'] END AS signals,
    hexid(split_part(d.traceparent, '-', 2)) AS trace_id,
    hexid(split_part(d.traceparent, '-', 3)) AS parent_span_id,
    coalesce(nz(d."mcp.session.id"), nz(d.mcp_session_id), nz(d."session.id")) AS session,
    try_cast(coalesce(nz(d."gen_ai.usage.input_tokens"), nz(d.genai_tokens_input)) AS BIGINT) AS tokens_in,
    try_cast(coalesce(nz(d."gen_ai.usage.output_tokens"), nz(d.genai_tokens_output)) AS BIGINT) AS tokens_out,
    model,
    CASE WHEN kind = 'limit_hit' THEN 'rate' END AS budget_kind,
    compact(json_object(
        'tool_server', server, 'route', nz(d.route_name), 'request_id', own_id,
        'operation', coalesce(nz(d."mcp.method.name"), nz(d.mcp_method)),
        'provider', coalesce(nz(d."gen_ai.provider.name"), nz(d.genai_backend_name)),
        'upstream_cluster', nz(d.upstream_cluster), 'upstream', CASE WHEN nz(d.upstream_host_name) IS NOT NULL THEN nz(d.upstream_host) END,
        'client', coalesce(host_of(d.downstream_remote_address), nz(trim(split_part(d."x-forwarded-for", ',', 1)))),
        'user_agent', nz(d."user-agent"), 'http_method', nz(d.method), 'result_code', http,
        'jsonrpc_id', coalesce(nz(d."jsonrpc.request.id"), nz(d.mcp_request_id)),
        'ts_claimed', CASE WHEN claimed IS NULL THEN stamp END)) AS attrs
FROM kinded
