-- title    = "Langfuse observations"
-- format   = "json"
-- paths    = ["/v1/ingest/langfuse"]
-- envelope = "data"

-- A line is an observation: of a page of the API ({"data": [...]}, camelCase) or of an export (snake_case).
-- One without an end is still open: kind other with attrs.partial, and its final state is an event of its own.

WITH lines_read AS (
    SELECT ledger_seq, source, doc, from_json(doc, '{"id": "VARCHAR", "data": "JSON"}') AS d
    FROM lines
),
split AS (
    SELECT
        ledger_seq, source,
        unnest(from_json(CASE WHEN d.id IS NULL AND json_type(d.data) = 'ARRAY' THEN d.data ELSE ('[' || doc || ']')::JSON END, '[{
            "id": "VARCHAR", "type": "VARCHAR", "name": "VARCHAR", "level": "VARCHAR", "version": "VARCHAR",
            "environment": "VARCHAR", "release": "VARCHAR", "tags": "JSON", "input": "JSON", "output": "JSON",
            "metadata": "JSON", "latency": "VARCHAR", "model": "VARCHAR",
            "traceId": "VARCHAR", "trace_id": "VARCHAR", "projectId": "VARCHAR", "project_id": "VARCHAR",
            "parentObservationId": "VARCHAR", "parent_observation_id": "VARCHAR",
            "startTime": "VARCHAR", "start_time": "VARCHAR", "endTime": "VARCHAR", "end_time": "VARCHAR",
            "statusMessage": "VARCHAR", "status_message": "VARCHAR", "userId": "VARCHAR", "user_id": "VARCHAR",
            "sessionId": "VARCHAR", "session_id": "VARCHAR", "traceName": "VARCHAR", "trace_name": "VARCHAR",
            "providedModelName": "VARCHAR", "provided_model_name": "VARCHAR",
            "usageDetails": "JSON", "usage_details": "JSON", "totalCost": "VARCHAR", "total_cost": "VARCHAR",
            "costDetails": "JSON", "cost_details": "JSON"
        }]')) AS e
    FROM lines_read
),
named AS (
    SELECT
        *,
        nz(e.id) AS own_id,
        upper(e.type) AS observed,
        coalesce(e.startTime, e.start_time) AS start_text,
        coalesce(e.endTime, e.end_time) AS end_text,
        iso_ts(start_text) AS started,
        iso_ts(end_text) AS ended,
        coalesce(ended, started) AS claimed,
        end_text IS NULL AND observed <> 'EVENT' AS partial,
        jval(e.metadata) AS metadata,
        from_json(metadata, '{
            "agent": "VARCHAR", "agent_id": "VARCHAR", "agent_name": "VARCHAR", "gen_ai.agent.name": "VARCHAR",
            "tenant": "VARCHAR", "attributes": {"gen_ai.agent.name": "VARCHAR", "gen_ai.tool.call.id": "VARCHAR"}
        }') AS md,
        from_json(jval(coalesce(e.usageDetails, e.usage_details)), '{
            "input": "VARCHAR", "output": "VARCHAR", "input_tokens": "VARCHAR", "output_tokens": "VARCHAR"
        }') AS used,
        nz(coalesce(nz(e.statusMessage), e.status_message)) AS status_message,
        -- Not WHERE: DuckDB would push it down to the lines and read each of them twice.
        unnest(CASE WHEN nz(e.id) IS NOT NULL AND e.type IS NOT NULL AND coalesce(start_text, end_text) IS NOT NULL
            THEN [true] END) AS kept
    FROM split
),
kinded AS (
    SELECT
        *,
        CASE
            WHEN partial THEN 'other'
            WHEN observed IN ('TOOL', 'RETRIEVER') THEN 'tool_executed'
            WHEN observed IN ('GENERATION', 'EMBEDDING') THEN 'model_call'
            WHEN observed IN ('AGENT', 'CHAIN') THEN 'agent_run'
            WHEN observed = 'GUARDRAIL' THEN 'tool_decided'
            ELSE 'other'
        END AS kind,
        CASE WHEN kind = 'model_call' THEN jval(e.output) END AS answer
    FROM named
)
SELECT
    eid(source, 'id:' || own_id || CASE WHEN partial THEN ':partial' ELSE '' END, NULL) AS event_id,
    kind,
    source,
    ledger_seq,
    own_id || CASE WHEN partial THEN ':partial' ELSE '' END AS native_id,
    claimed AS ts,
    coalesce(nz(md.agent), nz(md.agent_name), nz(md.agent_id), nz(md."gen_ai.agent.name"),
        nz(md.attributes."gen_ai.agent.name"), CASE WHEN observed = 'AGENT' THEN nz(e.name) END) AS agent,
    nz(e.version) AS agent_version,
    coalesce(nz(e.userId), nz(e.user_id)) AS principal,
    nz(md.tenant) AS tenant,
    CASE WHEN kind = 'tool_executed' THEN bare_tool(e.name) END AS tool,
    CASE WHEN kind = 'tool_executed' THEN nz(md.attributes."gen_ai.tool.call.id") END AS call_id,
    CASE WHEN observed = 'RETRIEVER' AND kind = 'tool_executed' THEN 'lookup' END AS op,
    CASE WHEN observed = 'RETRIEVER' AND kind = 'tool_executed' THEN 'inferred' END AS op_basis,
    CASE WHEN kind = 'tool_executed' THEN json(jval(e.input)) END AS params,
    CASE
        WHEN partial OR kind = 'tool_decided' THEN NULL
        WHEN e.level = 'ERROR' AND lower(status_message) LIKE '%timeout%' THEN 'timeout'
        WHEN e.level = 'ERROR' THEN 'error'
        ELSE 'ok'
    END AS status,
    CASE WHEN kind <> 'tool_decided' THEN status_message END AS error,
    coalesce(
        CASE WHEN isfinite(try_cast(e.latency AS DOUBLE)) THEN try_cast(e.latency AS DOUBLE) * 1000 END,
        ms_between(started, ended)) AS latency_ms,
    CASE WHEN kind = 'tool_executed' THEN jval(e.output) END AS response,
    CASE WHEN kind = 'tool_decided' THEN lst([nz(e.name)]) END AS rule_ids,
    CASE WHEN kind = 'tool_decided' THEN status_message END AS reason,
    lst([CASE WHEN e.level = 'WARNING' THEN 'warn' END]) AS signals,
    hexid(coalesce(e.traceId, e.trace_id)) AS trace_id,
    hexid(own_id) AS span_id,
    hexid(coalesce(e.parentObservationId, e.parent_observation_id)) AS parent_span_id,
    coalesce(nz(e.sessionId), nz(e.session_id)) AS session,
    CASE WHEN kind = 'model_call' THEN try_cast(coalesce(e.totalCost, e.total_cost,
        jval(coalesce(e.costDetails, e.cost_details)) ->> 'total') AS DECIMAL(18, 9)) END AS cost_usd,
    CASE WHEN kind = 'model_call' THEN try_cast(coalesce(used.input, used.input_tokens) AS BIGINT) END AS tokens_in,
    CASE WHEN kind = 'model_call' THEN try_cast(coalesce(used.output, used.output_tokens) AS BIGINT) END AS tokens_out,
    coalesce(nz(e.model), nz(e.providedModelName), nz(e.provided_model_name)) AS model,
    CASE WHEN kind = 'model_call' THEN 'assistant' END AS role,
    CASE json_type(answer)
        WHEN 'VARCHAR' THEN nz(answer ->> '$')
        WHEN 'OBJECT' THEN nz(answer ->> 'content')
        WHEN 'ARRAY' THEN nz(answer -> 0 ->> 'content')
    END AS text,
    compact(json_object(
        'observation_type', observed, 'name', CASE WHEN kind <> 'tool_executed' THEN nz(e.name) END,
        'trace_name', coalesce(nz(e.traceName), nz(e.trace_name)), 'tool_server', tool_server(e.name),
        'project', coalesce(nz(e.projectId), nz(e.project_id)), 'environment', nz(e.environment),
        'release', nz(e.release), 'tags', e.tags, 'metadata', metadata,
        'output', CASE WHEN kind = 'tool_decided' THEN jval(e.output) END,
        'partial', CASE WHEN partial THEN true END, 'start', start_text,
        'span_id_native', CASE WHEN hexid(own_id) IS NULL THEN own_id END,
        'trace_id_native', CASE WHEN hexid(coalesce(e.traceId, e.trace_id)) IS NULL THEN coalesce(nz(e.traceId), nz(e.trace_id)) END,
        'ts_claimed', CASE WHEN claimed IS NULL THEN coalesce(end_text, start_text) END)) AS attrs
FROM kinded
