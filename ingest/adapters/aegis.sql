-- title  = "agent-aegis audit log: export of its table, webhook, logging"
-- format = "json"
-- paths  = ["/v1/ingest/aegis"]

-- One row is the whole life of an action, written when it is over: up to three events, the decision, the
-- answer of a person, the execution. They have one time; a microsecond between them keeps their order.
-- Its id counts from 1 in each database and each process,
-- so content is part of an event's identity.
-- The proxy writes a tool that could not be reached as blocked: that is an execution that failed.
-- Its own redaction hides any key with `token` in its name, counts of tokens too.

WITH lines_read AS (
    SELECT
        ledger_seq, source, received_at, doc,
        from_json(doc, '{
            "id": "VARCHAR", "session_id": "VARCHAR", "timestamp": "VARCHAR", "action_type": "VARCHAR",
            "action_target": "VARCHAR", "action_params": "JSON", "action_desc": "VARCHAR",
            "action_description": "VARCHAR", "risk_level": "VARCHAR", "approval": "VARCHAR",
            "matched_rule": "VARCHAR", "human_decision": "VARCHAR", "result_status": "VARCHAR",
            "result_data": "JSON", "result_error": "VARCHAR", "agent_id": "VARCHAR",
            "parent_agent_id": "VARCHAR", "chain_id": "VARCHAR", "chain_depth": "JSON"
        }') AS d
    FROM lines
),
parted AS (
    SELECT
        *,
        iso_ts(d.timestamp) AS claimed,
        json(jval(d.action_params)) AS given,  -- json(): one spelling, whoever wrote the text
        nz(d.human_decision) AS answer,
        coalesce(starts_with(d.result_error, 'Target server error:'), false) AS upstream,
        concat_ws(':', nz(d.session_id), coalesce(nz(d.id), 'seq:' || ledger_seq)) AS row_id,
        -- Not WHERE: DuckDB would push it down to the lines and read each of them twice.
        unnest(CASE
            WHEN nz(d.action_type) IS NULL THEN []
            WHEN d.action_type = 'llm_call' THEN ['model_call']
            ELSE list_filter([
                'tool_decided',
                CASE WHEN nz(d.human_decision) IS NOT NULL THEN 'approval_decided' END,
                CASE WHEN d.result_status IN ('success', 'failed')
                    OR d.result_status = 'skipped' AND coalesce(d.approval, '') <> 'block'
                    OR starts_with(d.result_error, 'Target server error:') THEN 'tool_executed' END
            ], lambda lam_k: lam_k IS NOT NULL)
        END) AS kind
    FROM lines_read
)
SELECT
    eid(source, row_id || ':' || kind, doc) AS event_id,
    kind,
    source,
    ledger_seq,
    CASE WHEN nz(d.id) IS NOT NULL THEN row_id || ':' || kind END AS native_id,
    claimed - CASE WHEN answer IS NULL OR kind = 'tool_executed' THEN INTERVAL 0 SECOND
        WHEN kind = 'tool_decided' THEN INTERVAL 2 MICROSECOND ELSE INTERVAL 1 MICROSECOND END AS ts,
    nz(d.agent_id) AS agent,
    CASE WHEN kind <> 'model_call' THEN bare_tool(d.action_type) END AS tool,
    CASE WHEN kind <> 'model_call' THEN eid(source, row_id, doc) END AS call_id,
    CASE WHEN kind <> 'model_call' THEN given END AS params,
    nz(d.action_target) AS target,
    CASE
        WHEN kind = 'model_call' THEN 'ok'
        WHEN kind <> 'tool_executed' THEN NULL
        WHEN d.result_status = 'success' THEN 'ok'
        WHEN d.result_status = 'skipped' THEN 'cancelled'
        ELSE 'error'
    END AS status,
    CASE WHEN kind = 'tool_executed' THEN nz(d.result_error) END AS error,
    CASE WHEN kind = 'tool_executed' THEN json(jval(d.result_data)) END AS response,
    CASE
        WHEN kind = 'approval_decided' THEN CASE WHEN answer = 'approved' THEN 'allow' ELSE 'deny' END
        WHEN kind <> 'tool_decided' THEN NULL
        WHEN d.approval = 'block' OR d.result_status = 'blocked' AND NOT upstream THEN 'deny'
        WHEN d.approval = 'approve' THEN 'require_approval'
        WHEN d.approval = 'auto' THEN 'allow'
    END AS decision,
    CASE kind
        WHEN 'tool_decided' THEN nz(concat_ws('/', nz(d.approval), nz(d.result_status)))
        WHEN 'approval_decided' THEN answer
    END AS decision_native,
    -- names in <> stand for no rule: <default>, <openai_patch>
    CASE WHEN kind = 'tool_decided' AND NOT starts_with(d.matched_rule, '<') THEN lst([nz(d.matched_rule)]) END
        AS rule_ids,
    CASE WHEN kind = 'tool_decided' AND d.result_status = 'blocked' AND NOT upstream THEN nz(d.result_error)
        WHEN kind = 'approval_decided' AND answer <> 'approved' THEN nz(d.result_error) END AS reason,
    CASE WHEN kind = 'approval_decided'
        THEN CASE WHEN answer = 'approved' THEN 'approved' ELSE 'rejected' END END AS reason_code,
    nz(d.session_id) AS session,
    CASE WHEN kind <> 'model_call' AND nz(d.parent_agent_id) IS NOT NULL
        THEN lst([nz(d.parent_agent_id), nz(d.agent_id)]) END AS call_chain,
    CASE WHEN lower(d.risk_level) IN ('low', 'medium', 'high', 'critical') THEN lower(d.risk_level) END AS risk,
    CASE WHEN kind = 'model_call' AND json_type(given) = 'OBJECT'
        THEN try_cast(coalesce(given ->> 'prompt_tokens', given ->> 'input_tokens') AS BIGINT) END AS tokens_in,
    CASE WHEN kind = 'model_call' AND json_type(given) = 'OBJECT'
        THEN try_cast(coalesce(given ->> 'completion_tokens', given ->> 'output_tokens') AS BIGINT) END AS tokens_out,
    CASE WHEN kind = 'model_call' AND json_type(given) = 'OBJECT' THEN nz(given ->> 'model') END AS model,
    CASE WHEN contains(given::VARCHAR, '"[REDACTED]"') THEN ['params'] END AS redacted,
    compact(json_object(
        'chain_id', nz(d.chain_id), 'chain_depth', CASE WHEN d.chain_depth <> '0' THEN d.chain_depth END,
        'description', coalesce(nz(d.action_desc), nz(d.action_description)),
        'tool_server', nz(d.action_target), 'rule', nz(d.matched_rule),
        'ts_claimed', CASE WHEN claimed IS NULL THEN nz(d.timestamp) END)) AS attrs
FROM parted
