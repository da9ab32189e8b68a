-- title  = "OpenAI Agents SDK traces"
-- format = "json"
-- paths  = ["/v1/ingest/openai_agents"]

-- A line is what the SDK exports ({"data": [...]}), or a single trace or span that an own processor writes.
-- A tool span names no agent, a span no session: both are looked up among the other items of the same line, where the
-- agent is that of the nearest span above that names one, and the session is the group of the trace.

WITH lines_read AS (
    SELECT ledger_seq, source, doc, from_json(doc, '{"object": "VARCHAR", "data": "JSON"}') AS d
    FROM lines
),
opened AS (
    SELECT
        ledger_seq, source,
        from_json(CASE WHEN d.object IS NULL AND json_type(d.data) = 'ARRAY' THEN d.data ELSE ('[' || doc || ']')::JSON END, '[{
            "object": "VARCHAR", "id": "VARCHAR", "trace_id": "VARCHAR", "parent_id": "VARCHAR",
            "started_at": "VARCHAR", "ended_at": "VARCHAR", "workflow_name": "VARCHAR", "group_id": "VARCHAR",
            "metadata": "JSON", "error": {"message": "VARCHAR", "data": "JSON"},
            "span_data": {
                "type": "VARCHAR", "name": "VARCHAR", "input": "JSON", "output": "JSON", "mcp_data": "JSON",
                "model": "VARCHAR", "usage": "JSON", "triggered": "VARCHAR", "response_id": "VARCHAR",
                "from_agent": "VARCHAR", "to_agent": "VARCHAR", "tools": "JSON", "handoffs": "JSON", "server": "VARCHAR",
                "result": "JSON", "data": "JSON"
            }
        }]') AS items,
        -- Not WHERE: DuckDB would push it down to the lines and read each of them twice.
        unnest(CASE WHEN contains(doc, '"trace') THEN [true] END) AS kept
    FROM lines_read
),
-- What an item needs of the others, as short lists: the items themselves would be copied into every row.
indexed AS (
    SELECT
        *,
        list_transform(items, lambda lam_i: coalesce(lam_i.id, '')) AS ids,
        list_transform(items, lambda lam_i: lam_i.parent_id) AS parents,
        list_transform(items, lambda lam_i: lam_i.group_id) AS groups,
        list_transform(items, lambda lam_i: lam_i.workflow_name) AS workflows,
        list_transform(items, lambda lam_i: CASE WHEN lam_i.object = 'trace' THEN lam_i.metadata ->> 'tenant' END) AS tenants,
        list_transform(items, lambda lam_i: CASE
            WHEN lam_i.span_data.type = 'agent' THEN nz(lam_i.span_data.name)
            WHEN lam_i.span_data.type = 'custom' AND contains(lam_i.span_data.data, 'agent_name')
                THEN nz(lam_i.span_data.data ->> 'agent_name') END) AS names
    FROM opened
),
split AS (
    SELECT * EXCLUDE (items), unnest(items) AS e, generate_subscripts(items, 1) AS n
    FROM indexed
),
placed AS (
    SELECT
        ledger_seq, source, e, n,
        e.span_data AS s,
        coalesce(e.span_data.type, '') AS span_type,
        e.object = 'trace' AS is_trace,
        list_position(ids, e.parent_id) AS up1,
        list_position(ids, parents[up1]) AS up2,
        list_position(ids, parents[up2]) AS up3,
        list_position(ids, parents[up3]) AS up4,
        coalesce(names[n], CASE WHEN e.span_data.type = 'handoff' THEN nz(e.span_data.from_agent) END,
            names[up1], names[up2], names[up3], names[up4]) AS agent,
        CASE WHEN is_trace THEN n ELSE list_position(ids, e.trace_id) END AS run,
        nz(groups[run]) AS session,
        nz(tenants[run]) AS tenant,
        CASE WHEN NOT is_trace THEN nz(workflows[run]) END AS workflow,
        unnest(CASE WHEN e.object IN ('trace', 'trace.span') THEN [true] END) AS kept
    FROM split
),
timed AS (
    SELECT
        *,
        iso_ts(e.started_at) AS started,
        iso_ts(e.ended_at) AS ended,
        coalesce(ended, started) AS claimed,
        coalesce(e.error.message, e.error.data::VARCHAR) IS NOT NULL AS failed,
        nz(concat_ws(': ', nz(e.error.message), nz(e.error.data ->> 'error'))) AS failure,
        coalesce(span_type = 'agent' AND e.error.message = 'Max turns exceeded', false) AS out_of_turns,
        -- the SDK's own words for a call that a person did not approve
        coalesce(span_type = 'function' AND s.output = '"Tool execution was not approved."', false) AS refused,
        from_json(s.usage, '{
            "input_tokens": "VARCHAR", "output_tokens": "VARCHAR", "prompt_tokens": "VARCHAR", "completion_tokens": "VARCHAR"
        }') AS used
    FROM placed
)
SELECT
    eid(source, coalesce('span:' || nz(e.id), 'seq:' || ledger_seq || ':' || n), NULL) AS event_id,
    CASE
        WHEN is_trace THEN 'agent_run'
        WHEN out_of_turns THEN 'limit_hit'
        WHEN span_type = 'agent' THEN 'agent_run'
        WHEN refused THEN 'approval_decided'
        WHEN span_type = 'function' THEN 'tool_executed'
        WHEN span_type IN ('generation', 'response', 'transcription', 'speech') THEN 'model_call'
        WHEN span_type = 'guardrail' THEN 'tool_decided'
        ELSE 'other'
    END AS kind,
    source,
    ledger_seq,
    nz(e.id) AS native_id,
    claimed AS ts,
    agent,
    tenant,
    CASE WHEN span_type = 'function' THEN bare_tool(s.name) END AS tool,
    CASE WHEN span_type = 'function' THEN json(jval(s.input)) END AS params,
    CASE
        WHEN span_type IN ('guardrail', '') OR is_trace OR refused THEN NULL
        WHEN out_of_turns THEN 'denied'
        WHEN NOT failed THEN 'ok'
        WHEN lower(failure) LIKE '%timeout%' OR lower(failure) LIKE '%timed out%' THEN 'timeout'
        ELSE 'error'
    END AS status,
    failure AS error,
    ms_between(started, ended) AS latency_ms,
    CASE WHEN span_type = 'function' THEN jval(s.output) END AS response,
    CASE WHEN span_type = 'guardrail' THEN if(s.triggered = 'true', 'deny', 'allow')
         WHEN out_of_turns OR refused THEN 'deny' END AS decision,
    CASE WHEN span_type = 'guardrail' THEN s.triggered END AS decision_native,
    CASE WHEN span_type = 'guardrail' THEN lst([nz(s.name)]) END AS rule_ids,
    CASE WHEN refused THEN 'rejected' END AS reason_code,
    coalesce(hexid(e.trace_id), CASE WHEN is_trace THEN hexid(e.id) END) AS trace_id,
    CASE WHEN NOT is_trace THEN hexid(e.id) END AS span_id,
    hexid(e.parent_id) AS parent_span_id,
    session,
    CASE WHEN span_type = 'handoff' THEN lst([nz(s.from_agent), nz(s.to_agent)]) END AS call_chain,
    CASE WHEN span_type IN ('generation', 'response')
        THEN try_cast(coalesce(used.input_tokens, used.prompt_tokens) AS BIGINT) END AS tokens_in,
    CASE WHEN span_type IN ('generation', 'response')
        THEN try_cast(coalesce(used.output_tokens, used.completion_tokens) AS BIGINT) END AS tokens_out,
    nz(s.model) AS model,
    CASE WHEN out_of_turns THEN 'max_turns' END AS budget_kind,
    CASE WHEN out_of_turns THEN try_cast(e.error.data ->> 'max_turns' AS BIGINT)::DOUBLE END AS budget_limit,
    CASE WHEN span_type = 'generation' THEN 'assistant' END AS role,
    CASE WHEN span_type = 'generation' AND json_type(s.output) = 'ARRAY' THEN nz(s.output -> 0 ->> 'content') END AS text,
    CASE WHEN contains(s.input, '[truncated]') OR contains(s.output, '[truncated]') THEN true END AS truncated,
    compact(json_object(
        'span_type', nz(span_type), 'name', coalesce(nz(e.workflow_name), CASE WHEN span_type <> 'function' THEN nz(s.name) END),
        'workflow', workflow, 'tool_server', coalesce(nz(s.mcp_data ->> 'server'), nz(s.server)),
        'mcp_data', s.mcp_data, 'tools', coalesce(s.tools, s.result), 'handoffs', s.handoffs,
        'response_id', nz(s.response_id), 'metadata', e.metadata, 'data', s.data, 'start', e.started_at,
        'trace_id_native', CASE WHEN NOT is_trace AND hexid(e.trace_id) IS NULL THEN nz(e.trace_id) END,
        'ts_claimed', CASE WHEN claimed IS NULL THEN coalesce(e.ended_at, e.started_at) END)) AS attrs
FROM timed
