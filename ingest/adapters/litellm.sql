-- title  = "LiteLLM: model and MCP calls, guardrails, budgets, audit log"
-- format = "json"
-- paths  = ["/v1/ingest/litellm"]
-- time   = "endTime"

-- A line is a StandardLoggingPayload (generic API callback, S3, SQS) or a StandardAuditLogPayload (audit_log_callbacks).
-- A call gives one event for itself, one for each guardrail that ran, and one for each tool call that the answer proposes.
-- Ids are not always unique: the event id takes the content too. One key an agent: the key's alias is the agent.

WITH lines_read AS (
    SELECT
        ledger_seq, source, doc,
        from_json(doc, '{
            "id": "VARCHAR", "litellm_call_id": "VARCHAR", "trace_id": "VARCHAR", "session_id": "VARCHAR",
            "call_type": "VARCHAR", "status": "VARCHAR", "status_fields": {"guardrail_status": "VARCHAR"},
            "startTime": "VARCHAR", "endTime": "VARCHAR", "response_time": "VARCHAR", "model": "VARCHAR",
            "custom_llm_provider": "VARCHAR", "api_base": "VARCHAR", "end_user": "VARCHAR", "cache_hit": "JSON",
            "response_cost": "VARCHAR", "cost": "VARCHAR", "prompt_tokens": "VARCHAR", "completion_tokens": "VARCHAR",
            "request_tags": "JSON", "error_str": "VARCHAR", "response": "JSON", "guardrail_information": "JSON",
            "hidden_params": {"api_base": "VARCHAR"},
            "error_information": {
                "error_code": "VARCHAR", "error_class": "VARCHAR", "error_message": "VARCHAR",
                "error_rate_limit_category": "VARCHAR", "error_rate_limit_type": "VARCHAR",
                "error_budget_entity_type": "VARCHAR", "error_budget_entity_id": "VARCHAR",
                "error_budget_limit": "VARCHAR", "error_budget_spend": "VARCHAR"
            },
            "metadata": {
                "user_api_key_alias": "VARCHAR", "user_api_key_hash": "VARCHAR", "user_api_key_user_id": "VARCHAR",
                "user_api_key_team_id": "VARCHAR", "user_api_key_end_user_id": "VARCHAR",
                "user_api_key_max_budget": "VARCHAR", "user_api_key_spend": "VARCHAR",
                "requester_ip_address": "VARCHAR", "user_agent": "VARCHAR", "requester_metadata": {"agent": "VARCHAR"},
                "mcp_tool_call_metadata": {
                    "name": "VARCHAR", "arguments": "JSON", "mcp_server_name": "VARCHAR", "mcp_session_id": "VARCHAR",
                    "mcp_auth_mode": "VARCHAR", "mcp_server_resource": "VARCHAR"
                }
            },
            "updated_at": "VARCHAR", "changed_by": "VARCHAR", "changed_by_api_key": "VARCHAR", "action": "VARCHAR",
            "table_name": "VARCHAR", "object_id": "VARCHAR", "before_value": "JSON", "updated_values": "JSON"
        }') AS d
    FROM lines
),
opened AS (
    SELECT
        *,
        d.metadata AS md,
        d.metadata.mcp_tool_call_metadata AS mcp,
        d.error_information AS failure,
        nz(d.table_name) IS NOT NULL AS is_audit,
        json_type(d.response) AS shape,
        CASE WHEN shape = 'OBJECT' THEN from_json(d.response, '{
            "isError": "VARCHAR", "output": "JSON", "content": "JSON",
            "choices": [{"message": {
                "content": "JSON", "reasoning_content": "VARCHAR",
                "tool_calls": [{"id": "VARCHAR", "function": {"name": "VARCHAR", "arguments": "JSON"}}]
            }}]
        }') END AS r,
        CASE WHEN json_type(d.guardrail_information) = 'ARRAY' THEN from_json(d.guardrail_information, '[{
            "guardrail_name": "VARCHAR", "guardrail_status": "VARCHAR", "guardrail_action": "VARCHAR",
            "guardrail_id": "VARCHAR", "policy_template": "VARCHAR", "guardrail_provider": "VARCHAR",
            "guardrail_mode": "JSON", "end_time": "VARCHAR", "duration": "VARCHAR", "risk_score": "VARCHAR", "violation_categories": "JSON",
            "masked_entity_count": "JSON"
        }]') END AS guards,
        -- Not WHERE: DuckDB would push it down to the lines and read each of them twice.
        unnest(CASE WHEN d.call_type IS NOT NULL OR d.litellm_call_id IS NOT NULL
            OR (nz(d.table_name) IS NOT NULL AND d.action IS NOT NULL) THEN [true] END) AS kept
    FROM lines_read
),
-- What is asked of the whole line is asked here, before it becomes several rows.
-- Tool calls that the answer proposes, in the three forms of an answer: chat completion, response, message.
proposing AS (
    SELECT
        * EXCLUDE (doc),
        sha256(doc) AS print,
        CASE WHEN contains(doc, 'redacted-by-litellm') THEN ['messages', 'response'] END AS redacted,
        CASE WHEN contains(doc, 'litellm_truncated') THEN true END AS truncated,
        CASE WHEN r IS NOT NULL AND (contains(d.response, 'call') OR contains(d.response, 'tool_use')) THEN
            flatten([
                list_transform(flatten(list_transform(coalesce(r.choices, []), lambda lam_c: lam_c.message.tool_calls)),
                    lambda lam_t: {'id': lam_t.id, 'name': lam_t.function.name, 'args': lam_t.function.arguments}),
                list_transform(list_filter(
                    from_json(CASE WHEN json_type(r.output) = 'ARRAY' THEN r.output END, '[{
                        "type": "VARCHAR", "call_id": "VARCHAR", "name": "VARCHAR", "arguments": "JSON"}]'),
                    lambda lam_o: lam_o.type = 'function_call'),
                    lambda lam_o: {'id': lam_o.call_id, 'name': lam_o.name, 'args': lam_o.arguments}),
                list_transform(list_filter(
                    from_json(CASE WHEN json_type(r.content) = 'ARRAY' THEN r.content END, '[{
                        "type": "VARCHAR", "id": "VARCHAR", "name": "VARCHAR", "input": "JSON"}]'),
                    lambda lam_b: lam_b.type = 'tool_use'),
                    lambda lam_b: {'id': lam_b.id, 'name': lam_b.name, 'args': lam_b.input})
            ]) END AS proposals,
        CASE
            WHEN is_audit THEN 'config_changed'
            WHEN failure.error_rate_limit_type IN ('budget', 'max_iterations')
                OR failure.error_class = 'BudgetExceededError'
                OR starts_with(failure.error_rate_limit_category, 'litellm_') THEN 'limit_hit'
            WHEN d.call_type = 'list_mcp_tools' THEN 'other'
            WHEN d.call_type = 'call_mcp_tool' OR nz(mcp.name) IS NOT NULL THEN 'tool_executed'
            ELSE 'model_call'
        END AS call_kind,
        coalesce(d.status = 'failure', false) AS failed,
        failed AND coalesce(d.status_fields.guardrail_status = 'guardrail_intervened', false)
            OR failed AND coalesce(len(list_filter(guards,
                lambda lam_g: lam_g.guardrail_status IN ('guardrail_intervened', 'blocked'))) > 0, false) AS blocked
    FROM opened
),
split AS (
    SELECT * EXCLUDE (guards, proposals), unnest(list_concat(
        [{'part': 'call', 'n': 0, 'g': NULL, 'p': NULL}],
        list_filter(list_transform(guards, lambda lam_g, lam_i: {'part': 'guardrail', 'n': lam_i, 'g': lam_g, 'p': NULL}),
            lambda lam_x: coalesce(lam_x.g.guardrail_status, 'not_run') <> 'not_run'),
        list_filter(list_transform(proposals, lambda lam_p, lam_i: {'part': 'proposal', 'n': lam_i, 'g': NULL, 'p': lam_p}),
            lambda lam_x: nz(lam_x.p.name) IS NOT NULL)
    ), recursive := false) AS u
    FROM proposing
),
kinded AS (
    SELECT
        *,
        u.g AS g,
        u.p AS p,
        u.part AS part,
        CASE u.g.guardrail_status  -- and the words of older versions
            WHEN 'blocked' THEN 'guardrail_intervened' WHEN 'failure' THEN 'guardrail_failed_to_respond'
            ELSE u.g.guardrail_status
        END AS verdict,
        CASE part WHEN 'call' THEN call_kind WHEN 'guardrail' THEN 'tool_decided' ELSE 'tool_proposed' END AS kind,
        part = 'call' AS is_call,
        nz(d.id) || CASE WHEN part = 'call' THEN '' ELSE ':' || part || ':' || u.n END AS own_id,
        coalesce(ep_ts(u.g.end_time), ep_ts(d.endTime), iso_ts(d.endTime), iso_ts(d.updated_at)) AS claimed,
        hexid(d.trace_id) AS trace,
        coalesce(nz(mcp.mcp_server_resource), nz(d.api_base), nz(d.hidden_params.api_base)) AS address
    FROM split
)
SELECT
    eid(source, coalesce('id:' || own_id, 'seq:' || ledger_seq || ':' || part || u.n),
        CASE WHEN own_id IS NOT NULL THEN print END) AS event_id,
    kind,
    source,
    ledger_seq,
    own_id AS native_id,
    claimed AS ts,
    coalesce(nz(md.user_api_key_alias), nz(md.requester_metadata.agent)) AS agent,
    coalesce(nz(md.user_api_key_user_id), nz(d.changed_by)) AS principal,
    coalesce(nz(d.end_user), nz(md.user_api_key_end_user_id)) AS on_behalf_of,
    nz(md.user_api_key_team_id) AS tenant,
    CASE WHEN part = 'proposal' THEN bare_tool(p.name) WHEN call_kind = 'tool_executed' THEN bare_tool(mcp.name) END AS tool,
    CASE WHEN part = 'proposal' THEN nz(p.id) WHEN call_kind = 'tool_executed' THEN nz(d.litellm_call_id) END AS call_id,
    CASE WHEN part = 'proposal' THEN json(jval(p.args)) WHEN call_kind = 'tool_executed' THEN jval(mcp.arguments) END AS params,
    CASE WHEN part <> 'proposal' THEN nz(mcp.mcp_server_resource) END AS target,
    CASE WHEN is_call THEN host_of(address) END AS host,
    CASE WHEN is_call THEN port_of(address) END AS port,
    CASE
        WHEN part = 'guardrail' THEN CASE WHEN verdict = 'guardrail_failed_to_respond' THEN 'error' END
        WHEN NOT is_call THEN NULL
        WHEN is_audit THEN 'ok'
        WHEN call_kind = 'limit_hit' OR blocked THEN 'denied'
        WHEN failed AND (failure.error_class ILIKE '%timeout%' OR failure.error_code IN ('408', '504')) THEN 'timeout'
        WHEN failed OR r.isError = 'true' THEN 'error'
        WHEN d.status = 'success' THEN 'ok'
    END AS status,
    CASE WHEN is_call THEN coalesce(nz(failure.error_message), nz(d.error_str)) END AS error,
    CASE WHEN is_call AND isfinite(try_cast(d.response_time AS DOUBLE))
        THEN try_cast(d.response_time AS DOUBLE) * 1000 END AS latency_ms,
    CASE WHEN is_call AND call_kind = 'tool_executed' THEN jval(d.response) END AS response,
    CASE
        WHEN is_call THEN CASE WHEN call_kind = 'limit_hit' THEN 'deny' END
        WHEN part = 'proposal' THEN NULL
        WHEN verdict = 'guardrail_intervened' THEN if(failed, 'deny', 'allow')  -- else it masked or changed
        WHEN blocked THEN NULL  -- another one said no, and that is the decision on the call
        WHEN verdict = 'guardrail_failed_to_respond' THEN CASE WHEN NOT failed THEN 'allow' END
        WHEN verdict IN ('success', 'guardrail_flagged') THEN 'allow'
    END AS decision,
    CASE WHEN part = 'guardrail' THEN g.guardrail_status
         WHEN is_call AND call_kind = 'limit_hit' THEN failure.error_class END AS decision_native,
    CASE WHEN part = 'guardrail' THEN lst([nz(g.guardrail_name)]) END AS rule_ids,
    CASE
        WHEN part = 'guardrail' THEN coalesce(nz(g.guardrail_action),
            CASE WHEN failed AND verdict = 'guardrail_intervened' THEN nz(failure.error_message) END)
        WHEN is_call AND call_kind = 'limit_hit' THEN nz(failure.error_message)
    END AS reason,
    CASE WHEN is_call THEN coalesce(nz(failure.error_rate_limit_type), nz(failure.error_code)) END AS reason_code,
    CASE WHEN isfinite(try_cast(g.duration AS DOUBLE)) THEN try_cast(g.duration AS DOUBLE) * 1000 END AS decision_ms,
    CASE
        WHEN part = 'guardrail' THEN lst(list_sort(list_distinct(coalesce(strs(g.violation_categories), [])
            || coalesce(json_keys(CASE WHEN json_type(g.masked_entity_count) = 'OBJECT' THEN g.masked_entity_count END), [])
            || [CASE
                WHEN verdict = 'guardrail_flagged' THEN 'flagged'
                WHEN verdict = 'guardrail_intervened' AND NOT failed THEN 'changed'
                WHEN verdict = 'guardrail_failed_to_respond' AND NOT failed THEN 'fail_open'
            END])))
        WHEN is_call AND call_kind <> 'limit_hit' AND failure.error_code = '429' THEN ['throttled']
    END AS signals,
    trace AS trace_id,
    coalesce(nz(d.session_id), CASE WHEN trace IS NULL THEN nz(d.trace_id) END, nz(mcp.mcp_session_id)) AS session,
    CASE WHEN is_call THEN try_cast(coalesce(d.response_cost, d.cost) AS DECIMAL(18, 9)) END AS cost_usd,
    CASE WHEN is_call THEN try_cast(d.prompt_tokens AS BIGINT) END AS tokens_in,
    CASE WHEN is_call THEN try_cast(d.completion_tokens AS BIGINT) END AS tokens_out,
    CASE WHEN call_kind <> 'tool_executed' THEN nz(d.model) END AS model,
    CASE WHEN is_call AND call_kind = 'limit_hit'
        THEN nz(concat_ws(':', nz(failure.error_rate_limit_type), nz(failure.error_budget_entity_type))) END AS budget_kind,
    CASE WHEN is_call AND isfinite(try_cast(coalesce(failure.error_budget_limit, md.user_api_key_max_budget) AS DOUBLE))
        THEN try_cast(coalesce(failure.error_budget_limit, md.user_api_key_max_budget) AS DOUBLE) END AS budget_limit,
    CASE WHEN is_call AND isfinite(try_cast(coalesce(failure.error_budget_spend, md.user_api_key_spend) AS DOUBLE))
        THEN try_cast(coalesce(failure.error_budget_spend, md.user_api_key_spend) AS DOUBLE) END AS budget_spent,
    CASE WHEN kind = 'model_call' THEN r.choices[1].message.reasoning_content END AS reasoning,
    CASE WHEN kind = 'model_call' THEN 'assistant' END AS role,
    CASE WHEN kind = 'model_call' THEN CASE
        WHEN shape = 'VARCHAR' THEN nz(d.response ->> '$')
        WHEN json_type(r.choices[1].message.content) = 'VARCHAR' THEN nz(r.choices[1].message.content ->> '$')
        WHEN json_type(r.content) = 'ARRAY' THEN r.content -> 0 ->> 'text'
        WHEN json_type(r.output) = 'ARRAY' THEN r.output -> -1 -> 'content' -> 0 ->> 'text'
    END END AS text,
    CASE WHEN is_audit THEN concat_ws('/', d.table_name, nz(d.object_id)) END AS config_object,
    CASE WHEN is_audit THEN jval(d.before_value) END AS config_before,
    CASE WHEN is_audit THEN jval(d.updated_values) END AS config_after,
    redacted,
    truncated,
    compact(json_object(
        'tool_server', CASE WHEN part = 'proposal' THEN tool_server(p.name) ELSE nz(mcp.mcp_server_name) END,
        'tool_auth', nz(mcp.mcp_auth_mode), 'provider', nz(d.custom_llm_provider), 'call_type', nz(d.call_type),
        'cache_hit', CASE WHEN d.cache_hit::VARCHAR = 'true' THEN true END, 'request_id', nz(d.litellm_call_id),
        'trace_id_native', CASE WHEN trace IS NULL THEN nz(d.trace_id) END,
        'credential', coalesce(nz(md.user_api_key_hash), nz(d.changed_by_api_key)),
        'client', nz(md.requester_ip_address), 'user_agent', nz(md.user_agent),
        'risk_score', CASE WHEN isfinite(try_cast(g.risk_score AS DOUBLE)) THEN try_cast(g.risk_score AS DOUBLE) / 10 END,
        'policy', coalesce(nz(g.guardrail_id), nz(g.policy_template)), 'guardrail_mode', g.guardrail_mode,
        'tags', CASE WHEN d.request_tags <> '[]' THEN d.request_tags END,
        'error_type', CASE WHEN is_call THEN nz(failure.error_class) END,
        'result_code', CASE WHEN is_call THEN nz(failure.error_code) END,
        'budget_entity', CASE WHEN is_call THEN nz(failure.error_budget_entity_id) END,
        'start', CASE WHEN is_call THEN d.startTime END, 'operation', nz(d.action),
        'ts_claimed', CASE WHEN claimed IS NULL THEN coalesce(d.endTime, d.updated_at) END)) AS attrs
FROM kinded
