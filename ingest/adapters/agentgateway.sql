-- title  = "agentgateway request log"
-- format = "text"
-- paths  = ["/v1/ingest/agentgateway"]

-- A line is a request that the gateway has answered: JSON with LOG_FORMAT=json, else `time level request key=value ...`.
-- Other lines of the gateway's own (another scope) are kind other.
-- Names of keys differ by version: mcp.method.name | mcp.method, gen_ai.tool.name | mcp.resource.name, gen_ai.* | llm.*.
-- A tool that an MCP rule forbids is answered as if there were none: `mcp: Unknown tool: NAME`, reason MCP. It did not run: deny.
-- Text does not quote what an agent names (tool, model, session): a space there begins what looks like another key. So who it is
-- is not read from between those names and the gateway's own last key, and a line with a key twice is marked.
-- Versions before 1.1 write microseconds without leading zeros: .500Z is 500 us.

WITH plain AS (
    SELECT
        ledger_seq, source, doc,
        doc ->> 'text' AS line,
        CASE WHEN line IS NOT NULL THEN regexp_extract(
            line, '^(?:(\d{4}-\d\d-\d\dT\S+)[\t ]+)?(trace|debug|info|warn|error)[\t ]+([\w:.\-]+)',
            ['time', 'level', 'scope']) END AS head,
        CASE WHEN line IS NOT NULL THEN regexp_extract_all(
            line, '[\t ]([A-Za-z_][\w.\-]*)=("(?:[^"\\]|\\.)*"|[^\t ]*)', 1) END AS keys,
        CASE WHEN line IS NOT NULL THEN regexp_extract_all(
            line, '[\t ]([A-Za-z_][\w.\-]*)=("(?:[^"\\]|\\.)*"|[^\t ]*)', 2) END AS found,
        list_position(list_transform(keys, lambda lam_k: regexp_matches(lam_k, '^(mcp|gen_ai|llm|a2a)\.')), true) AS named_at,
        coalesce(len(keys) + 1 - list_position(list_reverse(keys), 'duration'), len(keys)) AS ended_at
    FROM lines
),
lines_read AS (
    SELECT
        ledger_seq, source, doc, list_unique(keys) < len(keys) AS twice,
        from_json(CASE WHEN line IS NULL THEN doc ELSE ('{' || array_to_string(list_concat(
            ['"time":' || to_json(nz(head.time)), '"level":' || to_json(nz(head.level)), '"scope":' || to_json(head.scope)],
            list_transform(list_filter(list_zip(keys, found), lambda lam_f, lam_i: NOT (coalesce(lam_i > named_at, false)
                AND lam_i < ended_at AND lam_f[1] IN ('agent', 'params', 'jwt.sub', 'src.identity'))), lambda lam_p: to_json(lam_p[1]) || ':' || to_json(
                CASE WHEN lam_p[2][1] = '"' THEN replace(lam_p[2][2:-2], '\"', '"') ELSE lam_p[2] END))
        ), ',') || '}')::JSON END, '{
            "time": "VARCHAR", "level": "VARCHAR", "scope": "VARCHAR", "reason": "VARCHAR", "error": "VARCHAR",
            "duration": "VARCHAR", "gateway": "VARCHAR", "listener": "VARCHAR", "route": "VARCHAR", "endpoint": "VARCHAR",
            "src.addr": "VARCHAR", "src.identity": "VARCHAR", "http.method": "VARCHAR", "http.host": "VARCHAR",
            "http.path": "VARCHAR", "http.status": "VARCHAR", "grpc.status": "VARCHAR", "trace.id": "VARCHAR",
            "span.id": "VARCHAR", "jwt.sub": "VARCHAR", "protocol": "VARCHAR", "a2a.method": "VARCHAR",
            "mcp.method.name": "VARCHAR", "mcp.method": "VARCHAR", "mcp.target": "VARCHAR", "mcp.session.id": "VARCHAR",
            "mcp.resource.type": "VARCHAR", "mcp.resource.name": "VARCHAR", "mcp.tool.name": "VARCHAR",
            "mcp.error.code": "VARCHAR", "mcp.error.message": "VARCHAR", "gen_ai.tool.name": "VARCHAR",
            "gen_ai.provider.name": "VARCHAR", "gen_ai.request.model": "VARCHAR", "gen_ai.response.model": "VARCHAR",
            "gen_ai.usage.input_tokens": "VARCHAR", "gen_ai.usage.output_tokens": "VARCHAR",
            "llm.provider": "VARCHAR", "llm.request.model": "VARCHAR", "llm.response.model": "VARCHAR",
            "llm.request.tokens": "VARCHAR", "llm.response.tokens": "VARCHAR", "agw.ai.usage.cost.total": "VARCHAR",
            "agent": "VARCHAR", "params": "JSON"
        }') AS d
    FROM plain
),
told AS (
    SELECT
        *,
        CASE WHEN regexp_matches(d.time, '\.\d{1,5}Z$')
            THEN iso_ts(split_part(d.time, '.', 1) || '.' || lpad(regexp_extract(d.time, '\.(\d+)Z$', 1), 6, '0') || 'Z')
            ELSE iso_ts(d.time) END AS claimed,
        coalesce(nz(d."gen_ai.tool.name"), nz(d."mcp.tool.name"),
            CASE WHEN d."mcp.resource.type" = 'tool' THEN nz(d."mcp.resource.name") END) AS named,
        CASE WHEN named IS NULL OR d.error IS NOT NULL
            THEN nz(regexp_extract(d.error, '(?i)^(?:mcp: )?unknown tool:? ?([^\s"'']+)', 1)) END AS unknown_tool,
        try_cast(d."http.status" AS INTEGER) AS http,
        coalesce(nz(d."gen_ai.response.model"), nz(d."gen_ai.request.model"),
            nz(d."llm.response.model"), nz(d."llm.request.model")) AS model,
        nz(d.endpoint) AS upstream,
        hexid(d."trace.id") AS trace,
        hexid(d."span.id") AS span,
        -- Not WHERE: DuckDB would push it down to the lines and read each of them twice.
        unnest(CASE WHEN nz(d.scope) IS NOT NULL AND nz(d.level) IS NOT NULL THEN [true] END) AS kept
    FROM lines_read
),
kinded AS (
    SELECT
        *,
        bare_tool(coalesce(named, unknown_tool)) AS tool_name,
        CASE
            WHEN d.scope <> 'request' THEN 'other'
            WHEN d.reason = 'RateLimit' OR (http = 429 AND d.reason = 'DirectResponse') THEN 'limit_hit'
            WHEN d.reason IN ('Authorization', 'ExtAuth', 'JwtAuth', 'BasicAuth', 'APIKeyAuth', 'Oidc', 'Guardrail')
                OR unknown_tool IS NOT NULL THEN 'tool_decided'
            WHEN tool_name IS NOT NULL THEN 'tool_executed'
            WHEN model IS NOT NULL THEN 'model_call'
            WHEN upstream IS NOT NULL THEN 'egress'
            ELSE 'other'
        END AS kind
    FROM told
)
SELECT
    eid(source, coalesce('span:' || trace || ':' || span, 'seq:' || ledger_seq),
        CASE WHEN trace IS NOT NULL AND span IS NOT NULL THEN doc END) AS event_id,
    kind,
    source,
    ledger_seq,
    trace || ':' || span AS native_id,
    claimed AS ts,
    nz(d.agent) AS agent,
    coalesce(nz(d."jwt.sub"), nz(d."src.identity")) AS principal,
    tool_name AS tool,
    d.params AS params,
    CASE WHEN kind <> 'other' THEN nz(d."http.path") END AS target,
    CASE WHEN kind <> 'other' THEN upstream END AS host,
    CASE WHEN kind <> 'other' AND port_of(upstream) <= 65535 THEN port_of(upstream) END AS port,
    CASE
        WHEN kind = 'other' THEN NULL
        WHEN kind IN ('tool_decided', 'limit_hit') THEN 'denied'
        WHEN d.reason = 'Timeout' THEN 'timeout'
        WHEN nz(d."mcp.error.code") IS NOT NULL THEN 'error'
        ELSE coalesce(status_http(http), CASE WHEN nz(d.error) IS NOT NULL THEN 'error' END)
    END AS status,
    coalesce(nz(d.error), nz(d."mcp.error.message")) AS error,
    CASE WHEN kind <> 'tool_decided'
        THEN try_cast(regexp_extract(d.duration, '^(\d+(?:\.\d+)?)ms$', 1) AS DOUBLE) END AS latency_ms,
    CASE WHEN kind IN ('tool_decided', 'limit_hit') THEN 'deny' END AS decision,
    CASE WHEN kind IN ('tool_decided', 'limit_hit') THEN nz(d.reason) END AS decision_native,
    CASE WHEN kind IN ('tool_decided', 'limit_hit') THEN nz(d.error) END AS reason,
    CASE WHEN unknown_tool IS NOT NULL THEN 'unknown_tool' ELSE nz(d.reason) END AS reason_code,
    CASE WHEN twice THEN ['duplicate_key'] END AS signals,
    trace AS trace_id,
    span AS span_id,
    nz(d."mcp.session.id") AS session,
    try_cast(nz(d."agw.ai.usage.cost.total") AS DECIMAL(18, 9)) AS cost_usd,
    try_cast(coalesce(nz(d."gen_ai.usage.input_tokens"), nz(d."llm.request.tokens")) AS BIGINT) AS tokens_in,
    try_cast(coalesce(nz(d."gen_ai.usage.output_tokens"), nz(d."llm.response.tokens")) AS BIGINT) AS tokens_out,
    model,
    CASE WHEN kind = 'limit_hit' THEN 'rate' END AS budget_kind,
    compact(json_object(
        'tool_server', nz(d."mcp.target"), 'gateway', nz(d.gateway), 'route', nz(d.route),
        'operation', coalesce(nz(d."mcp.method.name"), nz(d."mcp.method"), nz(d."a2a.method")),
        'provider', coalesce(nz(d."gen_ai.provider.name"), nz(d."llm.provider")),
        'client', host_of(d."src.addr"), 'http_method', nz(d."http.method"), 'result_code', http,
        'error_type', nz(d."mcp.error.code"),
        'trace_id_native', CASE WHEN trace IS NULL THEN nz(d."trace.id") END,
        'ts_claimed', CASE WHEN claimed IS NULL THEN nz(d.time) END)) AS attrs
FROM kinded
