-- title  = "Codex rollout files"
-- format = "ndjson"
-- time   = "timestamp"

-- A line is {timestamp, type, payload}. Only the first one names the session, and so does the name of the file: it is taken
-- from `pos`, where a line comes from. It is never carried over from other lines: what a line gives must not depend on what
-- lands together with it.
-- A forked session copies its past with new times: those are events of their own, of the same calls.

WITH lines_read AS (
    SELECT
        ledger_seq, source, doc, pos,
        from_json(doc, '{
            "timestamp": "VARCHAR", "ordinal": "VARCHAR", "type": "VARCHAR",
            "payload": {
                "type": "VARCHAR", "id": "VARCHAR", "session_id": "VARCHAR", "call_id": "VARCHAR", "name": "VARCHAR",
                "namespace": "VARCHAR", "arguments": "JSON", "input": "JSON", "action": "JSON", "output": "JSON",
                "role": "VARCHAR", "content": [{"text": "VARCHAR"}], "summary": [{"text": "VARCHAR"}],
                "turn_id": "VARCHAR", "model": "VARCHAR", "cwd": "VARCHAR", "approval_policy": "VARCHAR",
                "sandbox_policy": "JSON", "originator": "VARCHAR", "cli_version": "VARCHAR", "model_provider": "VARCHAR",
                "forked_from_id": "VARCHAR", "parent_thread_id": "VARCHAR", "agent_role": "VARCHAR", "source": "JSON",
                "message": "VARCHAR", "reason": "VARCHAR", "status": "VARCHAR",
                "info": {
                    "last_token_usage": {"input_tokens": "VARCHAR", "output_tokens": "VARCHAR"},
                    "total_token_usage": "JSON"
                }
            }
        }') AS d
    FROM lines
),
placed AS (
    SELECT
        *,
        d.payload AS p,
        coalesce(d.payload.type, '') AS item,
        coalesce(
            nz(regexp_extract(pos, 'rollout-[^/]*-([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})\.jsonl', 1)),
            CASE WHEN d.type = 'session_meta' THEN coalesce(nz(d.payload.id), nz(d.payload.session_id)) END) AS session
    FROM lines_read
),
typed AS (
    SELECT
        *,
        d.type = 'response_item' AS is_item,
        is_item AND item IN ('function_call', 'custom_tool_call', 'local_shell_call', 'tool_search_call') AS is_use,
        is_item AND (item IN ('function_call_output', 'custom_tool_call_output', 'local_shell_call_output',
            'tool_search_output')) AS is_result,
        -- the output is text, text that is JSON, {"content": ...} or a list of texts
        jval(p.output) AS outcome,
        CASE json_type(outcome)
            WHEN 'VARCHAR' THEN outcome ->> '$'
            WHEN 'OBJECT' THEN coalesce(outcome ->> 'output', outcome ->> 'content')
            WHEN 'ARRAY' THEN outcome -> 0 ->> 'text'
        END AS outcome_text,
        -- what the tool wrote comes after this word, and may say anything
        split_part(outcome_text, 'Output:' || chr(10), 1) AS told,
        iso_ts(d.timestamp) AS claimed,
        CASE WHEN is_use THEN jval(coalesce(p.arguments, p.input, p.action)) END AS asked,
        -- Not WHERE: DuckDB would push it down to the lines and read each of them twice.
        unnest(CASE WHEN d.type IN ('session_meta', 'turn_context', 'response_item', 'event_msg', 'compacted')
            OR (d.type IS NOT NULL AND d.timestamp IS NOT NULL AND d.payload IS NOT NULL) THEN [true] END) AS kept
    FROM placed
),
told_apart AS (
    SELECT
        *,
        CASE WHEN is_result THEN coalesce(
            CASE WHEN json_type(outcome) = 'OBJECT' THEN outcome -> 'metadata' ->> 'exit_code' END,
            nz(regexp_extract(told, '(?i)exit(?:ed with)? code:? (-?\d+)', 1))) END AS exit_code,
        CASE
            WHEN NOT is_result THEN NULL
            WHEN outcome_text IN ('exec command rejected by user', 'patch rejected by user') THEN 'person'
            WHEN starts_with(outcome_text, 'This action was rejected due to unacceptable risk') THEN 'gate'
        END AS refused_by,
        from_json(asked, '{
            "cmd": "VARCHAR", "command": "JSON", "workdir": "VARCHAR", "path": "VARCHAR", "url": "VARCHAR"
        }') AS given,
        is_use OR is_result AS is_call,
        CASE WHEN claimed IS NOT NULL THEN concat_ws(':',
            CASE WHEN is_call THEN coalesce(nz(p.call_id), nz(p.id)) ELSE nz(p.id) END, coalesce(nz(item), d.type),
            d.timestamp, CASE WHEN coalesce(CASE WHEN is_call THEN p.call_id END, p.id) IS NULL THEN left(sha256(doc), 12) END)
        END AS own_id
    FROM typed
)
SELECT
    CASE
        WHEN own_id IS NULL THEN eid(source, 'seq:' || ledger_seq, NULL)
        WHEN is_call THEN eid(source, 'call:' || own_id, NULL)
        ELSE eid(source, 'line:' || own_id, doc)
    END AS event_id,
    CASE
        WHEN d.type = 'session_meta' THEN 'agent_run'
        WHEN is_use THEN 'tool_proposed'
        WHEN refused_by = 'person' THEN 'approval_decided'
        WHEN refused_by = 'gate' THEN 'tool_decided'
        WHEN is_result OR (is_item AND item = 'web_search_call') THEN 'tool_executed'
        WHEN is_item AND item IN ('message', 'reasoning') THEN 'message'
        WHEN d.type = 'event_msg' AND item = 'token_count' AND p.info.total_token_usage IS NOT NULL THEN 'model_call'
        ELSE 'other'
    END AS kind,
    source,
    ledger_seq,
    own_id AS native_id,
    claimed AS ts,
    'codex-cli' AS agent,
    nz(p.cli_version) AS agent_version,
    CASE
        WHEN item = 'local_shell_call' THEN 'local_shell'
        WHEN is_item AND item = 'web_search_call' THEN 'web_search'
        WHEN is_use THEN coalesce(bare_tool(p.name), item)
    END AS tool,
    CASE WHEN is_use OR is_result THEN coalesce(nz(p.call_id), nz(p.id)) END AS call_id,
    CASE WHEN is_use THEN json(asked) WHEN item = 'web_search_call' THEN jval(p.action) END AS params,
    CASE WHEN is_use THEN coalesce(
        nz(given.url), nz(given.cmd),
        CASE json_type(given.command)
            WHEN 'VARCHAR' THEN nz(given.command ->> '$') WHEN 'ARRAY' THEN array_to_string(strs(given.command), ' ') END,
        nz(given.path)) END AS target,
    host_of(CASE WHEN contains(given.url, '://') THEN given.url END) AS host,
    port_of(CASE WHEN contains(given.url, '://') THEN given.url END) AS port,
    CASE
        WHEN is_item AND item = 'web_search_call' THEN if(p.status = 'failed', 'error', 'ok')
        WHEN NOT is_result OR refused_by IS NOT NULL THEN NULL
        WHEN exit_code IS NOT NULL AND exit_code <> '0' THEN 'error'
        ELSE 'ok'
    END AS status,
    CASE WHEN d.type = 'event_msg' AND item = 'error' THEN nz(p.message) END AS error,
    CASE WHEN is_result THEN coalesce(
        try_cast(outcome -> 'metadata' ->> 'duration_seconds' AS DOUBLE),
        try_cast(regexp_extract(told, 'Wall time: ([0-9.]+) second', 1) AS DOUBLE)) * 1000 END AS latency_ms,
    CASE WHEN is_result THEN outcome END AS response,
    CASE WHEN refused_by IS NOT NULL THEN 'deny' END AS decision,
    CASE WHEN refused_by IS NOT NULL THEN outcome_text END AS decision_native,
    CASE WHEN refused_by = 'gate' THEN outcome_text WHEN item = 'turn_aborted' THEN nz(p.reason) END AS reason,
    CASE WHEN refused_by = 'person' THEN 'rejected' END AS reason_code,
    CASE WHEN item = 'reasoning' THEN nz(coalesce(
        nz(array_to_string(list_transform(p.summary, lambda lam_t: lam_t.text), chr(10))),
        array_to_string(list_transform(p.content, lambda lam_t: lam_t.text), chr(10)))) END AS reasoning,
    session,
    nz(p.turn_id) AS task,
    CASE WHEN item = 'token_count' THEN try_cast(p.info.last_token_usage.input_tokens AS BIGINT) END AS tokens_in,
    CASE WHEN item = 'token_count' THEN try_cast(p.info.last_token_usage.output_tokens AS BIGINT) END AS tokens_out,
    nz(p.model) AS model,
    CASE WHEN is_item AND item = 'message' THEN nz(p.role) WHEN is_item AND item = 'reasoning' THEN 'assistant' END AS role,
    CASE WHEN is_item AND item = 'message'
        THEN nz(array_to_string(list_transform(p.content, lambda lam_t: lam_t.text), chr(10))) END AS text,
    compact(json_object(
        'line_type', CASE WHEN NOT is_item THEN d.type END, 'payload_type', nz(item), 'ordinal', try_cast(d.ordinal AS BIGINT),
        'tool_server', CASE WHEN is_use THEN coalesce(tool_server(p.name), nz(regexp_replace(p.namespace, '^mcp__|__$', '', 'g'))) END, 'cwd', nz(p.cwd),
        'workdir', nz(given.workdir), 'approval_policy', nz(p.approval_policy), 'sandbox', p.sandbox_policy,
        'originator', nz(p.originator), 'provider', nz(p.model_provider), 'run_source', p.source,
        'forked_from', nz(p.forked_from_id), 'parent_session', nz(p.parent_thread_id), 'agent_role', nz(p.agent_role),
        'result_code', exit_code, 'message', CASE WHEN NOT is_item AND item <> 'error' THEN p.message END,
        'usage_cumulative', p.info.total_token_usage, 'ts_claimed', CASE WHEN claimed IS NULL THEN d.timestamp END)) AS attrs
FROM told_apart
