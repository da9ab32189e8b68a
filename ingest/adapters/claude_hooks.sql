-- title  = "Claude Code hooks"
-- format = "ndjson"
-- paths  = ["/v1/ingest/claude_hooks"]
-- time   = "_received_at"

-- A line is what a hook is given: one JSON object, posted by an http hook or written down by a command hook.
-- It holds no time, and not what the hook answered. A hook that writes a file adds `_received_at`, one that decides adds
-- `_decision`, its own answer: Claude Code writes no key that starts with `_`.
-- The id is session, tool-use id and hook: the calls of a session that is read again are the same calls.

WITH lines_read AS (
    SELECT
        ledger_seq, source, doc,
        from_json(doc, '{
            "hook_event_name": "VARCHAR", "session_id": "VARCHAR", "prompt_id": "VARCHAR", "transcript_path": "VARCHAR",
            "cwd": "VARCHAR", "permission_mode": "VARCHAR", "agent_id": "VARCHAR", "agent_type": "VARCHAR",
            "tool_name": "VARCHAR", "tool_input": "JSON", "tool_use_id": "VARCHAR", "tool_response": "JSON",
            "error": "VARCHAR", "error_type": "VARCHAR", "is_interrupt": "VARCHAR", "duration_ms": "VARCHAR",
            "reason": "VARCHAR", "prompt": "VARCHAR", "last_assistant_message": "VARCHAR", "message": "VARCHAR",
            "source": "VARCHAR", "file_path": "VARCHAR", "model": "VARCHAR", "trigger": "VARCHAR",
            "notification_type": "VARCHAR", "stop_hook_active": "JSON", "permission_suggestions": "JSON",
            "background_tasks": "JSON", "_received_at": "VARCHAR", "_decision": "JSON"
        }') AS d
    FROM lines
),
opened AS (
    SELECT
        *,
        d.hook_event_name AS hook,
        from_json(d.tool_input, '{
            "file_path": "VARCHAR", "notebook_path": "VARCHAR", "path": "VARCHAR", "command": "VARCHAR", "url": "VARCHAR"
        }') AS given,
        from_json(d._decision, '{
            "permissionDecision": "VARCHAR", "permissionDecisionReason": "VARCHAR", "behavior": "VARCHAR",
            "decision": "VARCHAR", "reason": "VARCHAR", "message": "VARCHAR",
            "hookSpecificOutput": {
                "permissionDecision": "VARCHAR", "permissionDecisionReason": "VARCHAR",
                "decision": {"behavior": "VARCHAR", "message": "VARCHAR"}
            }
        }') AS own,
        -- Not WHERE: DuckDB would push it down to the lines and read each of them twice.
        unnest(CASE WHEN nz(d.hook_event_name) IS NOT NULL THEN [true] END) AS kept
    FROM lines_read
),
answered AS (
    SELECT
        *,
        coalesce(own.permissionDecision, own.hookSpecificOutput.permissionDecision, own.behavior,
            own.hookSpecificOutput.decision.behavior, own.decision,
            CASE WHEN json_type(d._decision) = 'VARCHAR' THEN d._decision ->> '$' END) AS answer,
        iso_ts(d._received_at) AS claimed
    FROM opened
),
worded AS (
    SELECT
        *,
        CASE
            WHEN lower(answer) IN ('allow', 'approve') THEN 'allow'
            WHEN lower(answer) IN ('deny', 'block') THEN 'deny'
            WHEN lower(answer) = 'ask' THEN 'require_approval'
        END AS said
    FROM answered
),
named AS (
    SELECT
        *,
        nz(d.session_id) || ':' || nz(d.tool_use_id) || ':' || hook
            || CASE WHEN said IS NOT NULL THEN ':decided' ELSE '' END AS call_key,
        -- without a call: a prompt is submitted once, anything else is told apart by when it was written down
        coalesce(
            call_key,
            CASE WHEN hook = 'UserPromptSubmit' THEN nz(d.session_id) || ':' || nz(d.prompt_id) || ':' || hook END,
            CASE WHEN claimed IS NOT NULL
                THEN concat_ws(':', d.session_id, d.prompt_id, hook, d._received_at) END) AS own_id
    FROM worded
),
kinded AS (
    SELECT
        *,
        CASE hook
            WHEN 'PreToolUse' THEN CASE WHEN said IS NULL THEN 'tool_proposed' ELSE 'tool_decided' END
            -- the classifier of the automatic mode said no; a person's no is told by no hook
            WHEN 'PermissionDenied' THEN 'tool_decided'
            WHEN 'PermissionRequest' THEN CASE
                WHEN said IN ('allow', 'deny') THEN 'approval_decided' ELSE 'approval_requested' END
            WHEN 'PostToolUse' THEN 'tool_executed' WHEN 'PostToolUseFailure' THEN 'tool_executed'
            WHEN 'UserPromptSubmit' THEN 'message'
            WHEN 'Stop' THEN 'message' WHEN 'SubagentStop' THEN 'message'
            WHEN 'StopFailure' THEN CASE
                WHEN coalesce(d.error_type, d.error) IN ('rate_limit', 'billing_error') THEN 'limit_hit' ELSE 'other' END
            WHEN 'ConfigChange' THEN 'config_changed'
            WHEN 'SessionStart' THEN 'agent_run' WHEN 'SessionEnd' THEN 'agent_run'
            WHEN 'SubagentStart' THEN 'agent_run'
            ELSE 'other'
        END AS kind
    FROM named
)
SELECT
    CASE
        WHEN call_key IS NOT NULL THEN eid(source, 'call:' || call_key, NULL)
        WHEN own_id IS NOT NULL THEN eid(source, 'hook:' || own_id, doc)
        ELSE eid(source, 'seq:' || ledger_seq, NULL)
    END AS event_id,
    kind,
    source,
    ledger_seq,
    own_id AS native_id,
    claimed AS ts,
    CASE WHEN claimed IS NOT NULL THEN 'observed' END AS ts_quality,
    coalesce(nz(d.agent_type), 'claude-code') AS agent,
    bare_tool(d.tool_name) AS tool,
    nz(d.tool_use_id) AS call_id,
    jval(d.tool_input) AS params,
    coalesce(nz(given.url), nz(given.file_path), nz(given.notebook_path), nz(given.command), nz(given.path)) AS target,
    host_of(CASE WHEN contains(given.url, '://') THEN given.url END) AS host,
    port_of(CASE WHEN contains(given.url, '://') THEN given.url END) AS port,
    CASE hook
        WHEN 'PostToolUse' THEN 'ok'
        WHEN 'PostToolUseFailure' THEN if(d.is_interrupt = 'true', 'cancelled', 'error')
        WHEN 'StopFailure' THEN 'error'
    END AS status,
    nz(d.error) AS error,
    CASE WHEN isfinite(try_cast(d.duration_ms AS DOUBLE)) THEN try_cast(d.duration_ms AS DOUBLE) END AS latency_ms,
    jval(d.tool_response) AS response,
    CASE WHEN hook = 'PermissionDenied' THEN 'deny' ELSE said END AS decision,
    nz(answer) AS decision_native,
    coalesce(nz(own.permissionDecisionReason), nz(own.hookSpecificOutput.permissionDecisionReason),
        nz(own.hookSpecificOutput.decision.message), nz(own.reason), nz(own.message), nz(d.reason)) AS reason,
    CASE WHEN kind = 'approval_decided' THEN if(said = 'allow', 'approved', 'rejected') END AS reason_code,
    CASE WHEN d.permission_mode = 'bypassPermissions' THEN ['bypass_permissions'] END AS signals,
    nz(d.session_id) AS session,
    nz(d.prompt_id) AS task,
    nz(d.model) AS model,
    CASE WHEN kind = 'limit_hit' THEN coalesce(nz(d.error_type), d.error) END AS budget_kind,
    CASE
        WHEN hook IN ('Stop', 'SubagentStop') THEN 'assistant'
        WHEN hook = 'UserPromptSubmit' THEN 'user'
    END AS role,
    coalesce(d.last_assistant_message, d.prompt, d.message) AS text,
    CASE WHEN hook = 'ConfigChange' THEN coalesce(nz(d.file_path), nz(d.source)) END AS config_object,
    CASE WHEN contains(doc, ' chars]') AND regexp_matches(doc::VARCHAR, '\[\+\d+ chars\]') THEN true END AS truncated,
    compact(json_object(
        'hook', hook, 'agent_id', nz(d.agent_id), 'tool_server', tool_server(d.tool_name),
        'permission_mode', d.permission_mode, 'cwd', d.cwd, 'transcript', d.transcript_path,
        'error_type', nz(d.error_type), 'origin', CASE WHEN kind IN ('agent_run', 'config_changed') THEN nz(d.source) END,
        'file_path', CASE WHEN kind = 'other' THEN nz(d.file_path) END, 'trigger', nz(d.trigger),
        'permission_suggestions', d.permission_suggestions, 'notification_type', nz(d.notification_type),
        'stop_hook_active', d.stop_hook_active, 'background_tasks', d.background_tasks,
        'ts_claimed', CASE WHEN claimed IS NULL THEN nz(d._received_at) END)) AS attrs
FROM kinded
