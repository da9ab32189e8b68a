-- title  = "Microsoft agent-governance-toolkit: signed entries, JSONL, MCP gateway, CloudEvents, demo audits"
-- format = "json"
-- paths  = ["/v1/ingest/agt"]

-- Four record shapes, told apart by their keys: AuditEntry as signed JSON line or as CloudEvent (type
-- ai.agentmesh.*, the rest in data); GovernanceAuditLogger (event_type governance_decision); the MCP
-- gateway's dictionaries (tool_name and allowed, time as float); the lists that its demos write.
-- No call id anywhere: a decision, an approval and an execution are calls of their own.
-- An approval is written twice, as approval_decision and as the policy_evaluation that follows it: where
-- it was refused, the second is `other`, or each refusal would count as two denials.
-- An approver system:timeout is nobody: the approval expired. Other names with system: are no person either.
-- A tool's name is in `tool`, `tool_name`, data.tool or, failing that, in `action`; but `action` also holds
-- words of the middleware (allow, deny, start, complete). Its `start` says that the tool may run, not that it did.

WITH lines_read AS (
    SELECT
        ledger_seq, source, received_at, doc,
        from_json(doc, '{
            "entry_id": "VARCHAR", "id": "VARCHAR", "timestamp": "VARCHAR", "time": "VARCHAR",
            "event_type": "VARCHAR", "type": "VARCHAR", "agent_did": "VARCHAR", "agent_id": "VARCHAR",
            "source": "VARCHAR", "agent_name": "VARCHAR", "role": "VARCHAR", "target_did": "VARCHAR",
            "tool_name": "VARCHAR", "tool": "VARCHAR", "action": "VARCHAR", "parameters": "JSON",
            "arguments_hash": "VARCHAR", "approver_did": "VARCHAR", "policy_version": "VARCHAR",
            "resource": "VARCHAR", "allowed": "VARCHAR", "approval_status": "VARCHAR",
            "decision": "VARCHAR", "policy_decision": "VARCHAR", "outcome": "VARCHAR",
            "matched_rule": "VARCHAR", "reason": "VARCHAR", "latency_ms": "VARCHAR",
            "trace_id": "VARCHAR", "traceid": "VARCHAR", "session_id": "VARCHAR", "sessionid": "VARCHAR",
            "data": "JSON", "metadata": "JSON", "details": "JSON",
            "call_count": "JSON", "checkpoint": "VARCHAR", "amount": "JSON", "recipient": "VARCHAR",
            "severity": "VARCHAR", "content_hash": "VARCHAR", "entry_hash": "VARCHAR",
            "agentmeshentryhash": "VARCHAR", "previous_hash": "VARCHAR", "agentmeshprevioushash": "VARCHAR",
            "signature": "VARCHAR", "environment": "VARCHAR", "sandbox_id": "VARCHAR", "compute_driver": "VARCHAR"
        }') AS d
    FROM lines
),
inner_read AS (
    SELECT
        *,
        from_json(coalesce(jn(d.data), jn(d.metadata), jn(d.details)), '{
            "action": "VARCHAR", "tool": "VARCHAR", "tenant": "VARCHAR", "resource": "VARCHAR",
            "outcome": "VARCHAR", "policy_decision": "VARCHAR", "matched_rule": "VARCHAR", "rule": "VARCHAR",
            "reason": "VARCHAR", "reason_code": "VARCHAR", "policy_version": "VARCHAR", "policy_name": "VARCHAR",
            "approver": "VARCHAR", "approver_did": "VARCHAR", "approval_request_id": "VARCHAR",
            "arguments_hash": "VARCHAR", "evaluation_ms": "VARCHAR", "result_preview": "VARCHAR",
            "error": "VARCHAR", "elapsed_seconds": "VARCHAR", "session_id": "VARCHAR", "new_score": "JSON",
            "old_score": "JSON", "arguments": "JSON", "decision": "VARCHAR", "policy": "VARCHAR"
        }') AS i,
        CASE WHEN json_type(d.parameters) = 'OBJECT' AND contains(d.parameters, '"direction"')
            THEN d.parameters ->> 'direction' END AS direction,
        lower(coalesce(
            nz(d.event_type),
            CASE WHEN starts_with(d.type, 'ai.agentmesh.')
                THEN replace(regexp_replace(d.type, '^ai\.agentmesh\.', ''), '.', '_') END,
            CASE WHEN nz(d.tool_name) IS NOT NULL AND d.allowed IN ('true', 'false') THEN 'mcp_gateway_call' END
        )) AS event
    FROM lines_read
),
worded AS (
    SELECT
        *,
        lower(coalesce(nz(d.policy_decision), nz(d.decision), nz(i.policy_decision), nz(i.decision))) AS judged,
        lower(coalesce(nz(d.outcome), nz(i.outcome))) AS outcome,
        lower(coalesce(nz(d.action), nz(i.action))) AS verb,
        coalesce(nz(d.reason), nz(i.reason)) AS why,
        coalesce(iso_ts(d.timestamp), iso_ts(d.time), ep_ts(d.timestamp)) AS claimed,
        coalesce(nz(d.entry_id), nz(d.id)) AS own_id,
        -- Not WHERE: DuckDB would push it down to the lines and read each of them twice.
        unnest(CASE WHEN event IS NOT NULL THEN [true] END) AS kept
    FROM inner_read
),
kinded AS (
    SELECT
        *,
        CASE
            WHEN event = 'approval_decision' OR lower(d.approval_status) IN ('approved', 'denied')
                THEN 'approval_decided'
            WHEN lower(d.approval_status) = 'pending' OR judged = 'pending_approval' THEN 'approval_requested'
            WHEN regexp_matches(why, '^Approval (rejected by |denied \()') THEN 'other'
            WHEN event IN ('tool_invocation', 'tool_invoked')
                THEN CASE WHEN verb = 'start' THEN 'tool_decided' ELSE 'tool_executed' END
            WHEN event IN ('policy_changed', 'agent_registered', 'trust_change', 'trust_score_updated',
                           'audit_logs_cleared') THEN 'config_changed'
            WHEN event = 'budget_warning' THEN 'limit_hit'
            WHEN event IN ('agent_invocation', 'agent_action') THEN 'agent_run'
            WHEN event = 'advisory_check' AND outcome <> 'block' THEN 'other'
            WHEN event IN ('policy_evaluation', 'policy_decision', 'policy_violation', 'governance_decision',
                           'tool_blocked', 'mcp_tool_call', 'rogue_detection', 'advisory_check',
                           'mcp_gateway_call') THEN 'tool_decided'
            WHEN judged IS NOT NULL AND judged <> 'checkpoint' THEN 'tool_decided'
            ELSE 'other'
        END AS kind
    FROM worded
),
decided AS (
    SELECT
        *,
        CASE
            WHEN kind NOT IN ('tool_decided', 'approval_requested', 'approval_decided') THEN NULL
            WHEN kind = 'approval_requested' THEN 'require_approval'
            WHEN event = 'approval_decision'
                THEN CASE WHEN outcome IN ('approved', 'allowed', 'allow') THEN 'allow' ELSE 'deny' END
            WHEN d.allowed = 'true' THEN 'allow'
            WHEN d.allowed = 'false' THEN 'deny'
            WHEN event IN ('tool_blocked', 'policy_violation', 'rogue_detection') THEN 'deny'
            WHEN coalesce(judged, outcome) IN ('allow', 'allowed', 'approved', 'warn', 'audit', 'log', 'success')
                THEN 'allow'
            WHEN coalesce(judged, outcome) IN ('deny', 'denied', 'block', 'blocked', 'violation', 'quarantine')
                THEN 'deny'
            WHEN coalesce(judged, outcome) = 'require_approval' THEN 'require_approval'
        END AS verdict,
        CASE
            WHEN direction = 'response' OR kind IN ('config_changed', 'agent_run', 'limit_hit')
                OR event = 'trust_handshake' THEN NULL
            ELSE coalesce(nz(d.tool_name), nz(d.tool), nz(i.tool),
                CASE WHEN verb NOT IN ('allow', 'deny', 'start', 'complete', 'quarantine', 'unknown')
                    THEN coalesce(nz(d.action), nz(i.action)) END,
                CASE WHEN event = 'rogue_detection' THEN nz(d.resource) END)
        END AS tool_name,
        coalesce(nz(d.approver_did), nz(i.approver_did), nz(i.approver)) AS asked,
        coalesce(asked = 'system:timeout' OR regexp_matches(lower(i.reason_code), 'expired|timed?_?out'), false) AS unanswered,
        hexid(coalesce(nz(d.trace_id), nz(d.traceid))) AS trace
    FROM kinded
)
SELECT
    eid(source, coalesce('id:' || own_id, 'seq:' || ledger_seq), doc) AS event_id,
    kind,
    source,
    ledger_seq,
    own_id AS native_id,
    claimed AS ts,
    -- `*` is a wrapper that was given no agent; the middleware names itself
    CASE WHEN coalesce(nz(d.agent_did), nz(d.agent_id), nz(d.source)) NOT IN ('*', 'capability-guard')
        THEN coalesce(nz(d.agent_did), nz(d.agent_id), nz(d.source)) END AS agent,
    nz(i.tenant) AS tenant,
    CASE WHEN NOT starts_with(asked, 'system:') THEN asked END AS approver,
    bare_tool(tool_name) AS tool,
    CASE WHEN direction IS NULL THEN coalesce(jval(d.parameters), jval(i.arguments)) END AS params,
    coalesce(nz(d.arguments_hash), nz(i.arguments_hash)) AS params_digest,
    CASE WHEN direction = 'response' THEN d.tool_name
        ELSE nullif(coalesce(nz(d.resource), nz(i.resource), nz(d.recipient)), tool_name) END AS target,
    CASE
        WHEN kind NOT IN ('tool_executed', 'agent_run', 'config_changed') THEN NULL
        WHEN outcome IN ('success', 'executed', 'allowed', 'allow') THEN 'ok'
        WHEN outcome IN ('failure', 'error') THEN 'error'
        WHEN outcome IN ('denied', 'deny', 'blocked') THEN 'denied'
    END AS status,
    nz(i.error) AS error,
    CASE WHEN isfinite(try_cast(i.elapsed_seconds AS DOUBLE) * 1000)
        THEN try_cast(i.elapsed_seconds AS DOUBLE) * 1000 END AS latency_ms,
    CASE WHEN kind = 'tool_executed' THEN jstr(nz(i.result_preview)) END AS response,
    verdict AS decision,
    CASE WHEN verdict IS NOT NULL OR judged IS NOT NULL
        THEN coalesce(nz(d.policy_decision), nz(d.decision), nz(i.policy_decision), nz(i.decision), nz(d.approval_status),
            nz(d.outcome), nz(i.outcome), nz(d.allowed)) END AS decision_native,
    lst([coalesce(nz(d.matched_rule), nz(i.matched_rule), nz(i.rule))]) AS rule_ids,
    coalesce(nz(d.policy_version), nz(i.policy_version)) AS policy_version,
    why AS reason,
    CASE
        WHEN kind = 'approval_decided' THEN CASE WHEN verdict = 'allow' THEN 'approved' WHEN unanswered THEN 'expired' ELSE 'rejected' END
        ELSE nz(i.reason_code)
    END AS reason_code,
    CASE WHEN isfinite(try_cast(coalesce(i.evaluation_ms, d.latency_ms) AS DOUBLE))
        THEN try_cast(coalesce(i.evaluation_ms, d.latency_ms) AS DOUBLE) END AS decision_ms,
    lst([
        CASE WHEN event = 'audit_logs_cleared' THEN 'audit_cleared' END,
        CASE WHEN judged = 'warn' THEN 'warn' END,
        CASE WHEN judged IN ('audit', 'log') THEN 'report_only' END
    ]) AS signals,
    trace AS trace_id,
    coalesce(nz(d.session_id), nz(d.sessionid), nz(i.session_id)) AS session,
    nz(i.approval_request_id) AS approval_id,
    CASE WHEN kind = 'limit_hit' THEN 'budget' END AS budget_kind,
    CASE WHEN kind = 'config_changed' THEN event END AS config_object,
    CASE WHEN kind = 'config_changed' THEN jn(i.old_score) END AS config_before,
    CASE WHEN kind = 'config_changed' THEN jn(i.new_score) END AS config_after,
    compact(json_object(
        'event_type', event, 'agent_name', nz(d.agent_name), 'agent_role', nz(d.role),
        'target_agent', nz(d.target_did), 'action', CASE WHEN verb IS DISTINCT FROM lower(tool_name) THEN verb END,
        'direction', direction, 'policy', coalesce(nz(i.policy_name), nz(i.policy)), 'severity', nz(d.severity),
        'reason_code_native', CASE WHEN kind = 'approval_decided' THEN nz(i.reason_code) END,
        'data', coalesce(jn(d.data), jn(d.metadata), jn(d.details)),
        'scan', CASE WHEN direction IS NOT NULL THEN d.parameters END,
        'call_count', d.call_count, 'checkpoint', nz(d.checkpoint), 'amount', d.amount,
        'prev_hash', coalesce(nz(d.previous_hash), nz(d.agentmeshprevioushash)),
        'entry_hash', coalesce(nz(d.content_hash), nz(d.entry_hash), nz(d.agentmeshentryhash)),
        'signature', nz(d.signature), 'environment', nz(d.environment), 'sandbox_id', nz(d.sandbox_id),
        'compute_driver', nz(d.compute_driver),
        'trace_id_native', CASE WHEN trace IS NULL THEN coalesce(nz(d.trace_id), nz(d.traceid)) END,
        'ts_claimed', CASE WHEN claimed IS NULL THEN coalesce(nz(d.timestamp), nz(d.time)) END)) AS attrs
FROM decided
