-- title  = "Claude Code transcript files"
-- format = "ndjson"
-- time   = "timestamp"

-- A line is a message, or something about the session (kind other); an event is one block of a message's content.
-- Undocumented by its maker: what is read here is what versions up to 2.1 write.
-- A resumed session writes its past again under new ids (uuid, sessionId): the id of an event is made of the tool-use id and
-- the block's type, else of what was said, when and in which message.
-- The usage of a message stands on every line of it: it is taken where the message ends (stop_reason).

WITH lines_read AS (
    SELECT
        ledger_seq, source,
        from_json(doc, '{
            "type": "VARCHAR", "uuid": "VARCHAR", "parentUuid": "VARCHAR", "sessionId": "VARCHAR", "timestamp": "VARCHAR",
            "version": "VARCHAR", "cwd": "VARCHAR", "gitBranch": "VARCHAR", "isSidechain": "VARCHAR", "agentId": "VARCHAR",
            "requestId": "VARCHAR", "promptId": "VARCHAR", "permissionMode": "VARCHAR", "isMeta": "VARCHAR",
            "isCompactSummary": "VARCHAR", "isApiErrorMessage": "VARCHAR", "toolUseResult": "JSON",
            "toolDenialKind": "VARCHAR", "origin": {"kind": "VARCHAR"}, "subtype": "VARCHAR",
            "summary": "VARCHAR", "leafUuid": "VARCHAR", "messageId": "VARCHAR", "content": "VARCHAR",
            "message": {
                "id": "VARCHAR", "role": "VARCHAR", "model": "VARCHAR", "stop_reason": "VARCHAR", "usage": "JSON",
                "content": "JSON"
            }
        }') AS d
    FROM lines
),
opened AS (
    SELECT
        *,
        json_type(d.message.content) AS shape,
        CASE WHEN d.type IN ('user', 'assistant') AND shape = 'ARRAY' AND d.message.content <> '[]' THEN
            from_json(d.message.content, '[{
                "type": "VARCHAR", "id": "VARCHAR", "tool_use_id": "VARCHAR", "name": "VARCHAR", "input": "JSON",
                "text": "VARCHAR", "thinking": "VARCHAR", "content": "JSON", "is_error": "VARCHAR"
            }]')
            ELSE [NULL] END AS blocks,
        -- Not WHERE: DuckDB would push it down to the lines and read each of them twice.
        unnest(CASE WHEN d.type IS NOT NULL
            AND coalesce(d.message.role, d.uuid, d.sessionId, d.leafUuid, d.messageId) IS NOT NULL THEN [true] END) AS kept
    FROM lines_read
),
split AS (
    SELECT * EXCLUDE (blocks), unnest(blocks) AS b, generate_subscripts(blocks, 1) AS n
    FROM opened
),
typed AS (
    SELECT
        *,
        coalesce(b.type, CASE WHEN d.type IN ('user', 'assistant') AND shape = 'VARCHAR' THEN 'text' END) AS block,
        coalesce(b.text, CASE WHEN block = 'text' AND shape = 'VARCHAR' THEN d.message.content ->> '$' END) AS said,
        coalesce(block = 'tool_use' OR block IN ('server_tool_use', 'mcp_tool_use'), false) AS is_use,
        coalesce(ends_with(block, 'tool_result'), false) AS is_result,
        CASE WHEN is_use THEN nz(b.id) WHEN is_result THEN nz(b.tool_use_id) END AS call_id,
        coalesce(b.is_error = 'true', false) AS failed,
        CASE WHEN is_result THEN CASE json_type(b.content)
            WHEN 'VARCHAR' THEN b.content ->> '$' WHEN 'ARRAY' THEN b.content -> 0 ->> 'text' END END AS result_text,
        iso_ts(d.timestamp) AS claimed
    FROM split
),
-- Newer versions say what stopped a call; older ones only by their own wording.
refused AS (
    SELECT
        *,
        CASE
            WHEN NOT is_result OR NOT failed THEN NULL
            WHEN d.toolDenialKind IN ('interrupted', 'cancelled') THEN NULL
            WHEN d.toolDenialKind = 'user-rejected' THEN 'person'
            WHEN nz(d.toolDenialKind) IS NOT NULL THEN 'gate'
            WHEN starts_with(result_text, 'The user doesn''t want to ') THEN 'person'
            WHEN json_type(d.toolUseResult) = 'VARCHAR' AND d.toolUseResult = '"User rejected tool use"' THEN 'person'
            WHEN regexp_matches(result_text, '^Permission (to use|for this) .*denied') THEN 'gate'
            WHEN regexp_matches(result_text, '^Claude requested permissions .*haven''t granted it') THEN 'gate'
            WHEN regexp_matches(result_text, '^(Error: )?(Hook )?PreToolUse:\S+ (hook error|denied this tool)') THEN 'gate'
        END AS refused_by,
        coalesce(d.toolDenialKind IN ('interrupted', 'cancelled'), false)
            OR coalesce(starts_with(result_text, '[Request interrupted by user'), false) AS interrupted,
        coalesce(
            call_id || ':' || block,
            CASE WHEN claimed IS NOT NULL AND block IS NOT NULL
                THEN concat_ws(':', d.message.id, d.timestamp, d.message.role, block, n) END,
            CASE WHEN block IS NULL THEN nz(d.uuid) END) AS own_key,
        from_json(b.input, '{
            "file_path": "VARCHAR", "notebook_path": "VARCHAR", "path": "VARCHAR", "command": "VARCHAR", "url": "VARCHAR"
        }') AS given
    FROM typed
)
SELECT
    CASE
        WHEN call_id IS NOT NULL THEN eid(source, 'call:' || own_key, NULL)
        WHEN own_key IS NOT NULL THEN eid(source, 'block:' || own_key, concat_ws('|', said, b.thinking))
        ELSE eid(source, 'seq:' || ledger_seq || ':' || n, NULL)
    END AS event_id,
    CASE
        WHEN block IS NULL THEN 'other'
        WHEN is_use THEN 'tool_proposed'
        WHEN refused_by = 'person' THEN 'approval_decided'
        WHEN refused_by = 'gate' THEN 'tool_decided'
        WHEN is_result THEN 'tool_executed'
        ELSE 'message'
    END AS kind,
    source,
    ledger_seq,
    CASE WHEN call_id IS NULL AND own_key IS NOT NULL AND nz(d.uuid) IS NOT NULL THEN d.uuid || ':' || n ELSE own_key END
        AS native_id,
    claimed AS ts,
    'claude-code' AS agent,
    nz(d.version) AS agent_version,
    CASE WHEN is_use THEN bare_tool(b.name) END AS tool,
    call_id,
    CASE WHEN is_use THEN jval(b.input) END AS params,
    coalesce(nz(given.url), nz(given.file_path), nz(given.notebook_path), nz(given.command), nz(given.path)) AS target,
    host_of(CASE WHEN contains(given.url, '://') THEN given.url END) AS host,
    port_of(CASE WHEN contains(given.url, '://') THEN given.url END) AS port,
    CASE
        WHEN NOT is_result OR refused_by IS NOT NULL THEN NULL
        WHEN interrupted THEN 'cancelled'
        WHEN failed THEN 'error'
        ELSE 'ok'
    END AS status,
    CASE WHEN failed AND refused_by IS NULL THEN coalesce(result_text, b.content::VARCHAR) END AS error,
    CASE WHEN is_result THEN jval(b.content) END AS response,
    CASE WHEN refused_by IS NOT NULL THEN 'deny' END AS decision,
    CASE WHEN is_result THEN nz(d.toolDenialKind) END AS decision_native,
    CASE
        WHEN refused_by = 'person' THEN nz(regexp_extract(result_text, 'the user said:\s*(.+)$', 1, 's'))
        WHEN refused_by = 'gate' THEN result_text
    END AS reason,
    CASE WHEN refused_by = 'person' THEN 'rejected' END AS reason_code,
    CASE WHEN d.permissionMode = 'bypassPermissions' THEN ['bypass_permissions'] END AS signals,
    b.thinking AS reasoning,
    CASE WHEN length(d.uuid) = 36 THEN replace(lower(d.uuid), '-', '') ELSE nz(d.uuid) END AS span_id,
    CASE WHEN length(d.parentUuid) = 36 THEN replace(lower(d.parentUuid), '-', '') ELSE nz(d.parentUuid) END AS parent_span_id,
    nz(d.sessionId) AS session,
    nz(d.promptId) AS task,
    CASE WHEN n = 1 AND nz(d.message.stop_reason) IS NOT NULL
        THEN try_cast(d.message.usage ->> 'input_tokens' AS BIGINT) END AS tokens_in,
    CASE WHEN n = 1 AND nz(d.message.stop_reason) IS NOT NULL
        THEN try_cast(d.message.usage ->> 'output_tokens' AS BIGINT) END AS tokens_out,
    nz(d.message.model) AS model,
    CASE WHEN block IS NOT NULL AND NOT is_use AND NOT is_result THEN nz(d.message.role) END AS role,
    said AS text,
    compact(json_object(
        'agent_id', nz(d.agentId), 'sidechain', CASE WHEN d.isSidechain = 'true' THEN true END,
        'message_id', nz(d.message.id), 'request_id', nz(d.requestId), 'tool_server', tool_server(b.name),
        'block', CASE WHEN block NOT IN ('text', 'tool_use', 'tool_result', 'thinking') THEN block END,
        'line_type', CASE WHEN block IS NULL THEN d.type END, 'subtype', nz(d.subtype), 'summary', d.summary,
        'content', CASE WHEN block IS NULL THEN d.content END, 'meta', CASE WHEN d.isMeta = 'true' THEN true END,
        'compact_summary', CASE WHEN d.isCompactSummary = 'true' THEN true END,
        'origin', nz(d.origin.kind), 'api_error', CASE WHEN d.isApiErrorMessage = 'true' THEN true END,
        'cwd', d.cwd, 'git_branch', nz(d.gitBranch), 'permission_mode', nz(d.permissionMode),
        'usage', CASE WHEN n = 1 THEN d.message.usage END,
        'ts_claimed', CASE WHEN claimed IS NULL THEN d.timestamp END)) AS attrs
FROM refused
