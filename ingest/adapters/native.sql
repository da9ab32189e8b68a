-- title  = "gatewatch native events, one JSON object a line"
-- format = "ndjson"
-- paths  = ["/v1/events"]
-- time   = "ts"

-- The format is described in docs/native.md and in ingest/native.schema.json.
-- No row: `kind` is not one of those below ("schema"), or `ts` is no time between 2000 and 2100 ("time").
-- A time without a zone is in the zone of the source, else UTC.
-- Each line is read once, into a struct: one ->> a field would read it fifty times.

WITH lines_read AS (
    SELECT
        ledger_seq, source, received_at, doc,
        from_json(doc, '{
            "ts": "VARCHAR", "kind": "VARCHAR", "event_id": "VARCHAR", "uuid": "VARCHAR", "id": "VARCHAR",
            "native_id": "VARCHAR", "message_id": "VARCHAR", "ts_quality": "VARCHAR",
            "agent": "VARCHAR", "agent_version": "VARCHAR", "principal": "VARCHAR",
            "on_behalf_of": "VARCHAR", "tenant": "VARCHAR", "approver": "VARCHAR",
            "tool": "VARCHAR", "call_id": "VARCHAR", "op": "VARCHAR", "params": "JSON",
            "params_digest": "VARCHAR", "target": "VARCHAR", "host": "VARCHAR",
            "egress_host": "VARCHAR", "url": "VARCHAR", "port": "VARCHAR",
            "status": "VARCHAR", "error": "VARCHAR", "latency_ms": "VARCHAR", "response": "JSON",
            "response_digest": "VARCHAR", "response_bytes": "VARCHAR", "response_rows": "VARCHAR",
            "decision": "VARCHAR", "decision_native": "VARCHAR", "stance": "VARCHAR",
            "rule_id": "JSON", "rule_ids": "JSON", "policy_version": "VARCHAR", "reason": "VARCHAR",
            "reason_code": "VARCHAR", "decision_ms": "VARCHAR", "signals": "JSON",
            "context": "VARCHAR", "reasoning": "VARCHAR",
            "trace_id": "VARCHAR", "parent_trace_id": "VARCHAR", "span_id": "VARCHAR",
            "parent_span_id": "VARCHAR", "session": "VARCHAR", "task": "VARCHAR",
            "approval_id": "VARCHAR", "call_chain": "JSON", "risk": "VARCHAR",
            "cost_usd": "VARCHAR", "tokens_in": "VARCHAR", "tokens_out": "VARCHAR",
            "model": "VARCHAR", "budget_kind": "VARCHAR", "budget_limit": "VARCHAR",
            "budget_spent": "VARCHAR", "role": "VARCHAR", "text": "VARCHAR",
            "config_object": "VARCHAR", "config_before": "JSON", "config_after": "JSON",
            "redacted": "JSON", "truncated": "VARCHAR", "attrs": "JSON"
        }') AS d
    FROM lines
),
-- Words of the log become ours by these lists alone; any other word is kept, not guessed at.
worded AS (
    SELECT
        *,
        when_ts(d.ts) AS claimed,
        time_odd(d.ts) AS odd,
        CASE lower(d.decision)
            WHEN 'allow' THEN 'allow' WHEN 'deny' THEN 'deny'
            WHEN 'require_approval' THEN 'require_approval'
            WHEN 'allowed' THEN 'allow' WHEN 'approve' THEN 'allow' WHEN 'approved' THEN 'allow'
            WHEN 'permit' THEN 'allow' WHEN 'permitted' THEN 'allow'
            WHEN 'accept' THEN 'allow' WHEN 'accepted' THEN 'allow'
            WHEN 'denied' THEN 'deny' WHEN 'reject' THEN 'deny' WHEN 'rejected' THEN 'deny'
            WHEN 'block' THEN 'deny' WHEN 'blocked' THEN 'deny'
            WHEN 'forbid' THEN 'deny' WHEN 'forbidden' THEN 'deny'
            WHEN 'ask' THEN 'require_approval' WHEN 'escalate' THEN 'require_approval'
            WHEN 'review' THEN 'require_approval' WHEN 'pending' THEN 'require_approval'
        END AS verdict,
        CASE lower(d.status)
            WHEN 'ok' THEN 'ok' WHEN 'denied' THEN 'denied' WHEN 'error' THEN 'error'
            WHEN 'timeout' THEN 'timeout' WHEN 'timed_out' THEN 'timeout'
            WHEN 'expired' THEN 'timeout'
            WHEN 'cancelled' THEN 'cancelled' WHEN 'canceled' THEN 'cancelled'
            WHEN 'success' THEN 'ok' WHEN 'succeeded' THEN 'ok' WHEN 'completed' THEN 'ok'
            WHEN 'failed' THEN 'error' WHEN 'failure' THEN 'error'
            -- a number that can be an HTTP status is one
            ELSE CASE WHEN try_cast(d.status AS INTEGER) BETWEEN 100 AND 599
                THEN status_http(try_cast(d.status AS INTEGER)) END
        END AS outcome,
        CASE WHEN contains(d.params, '"url"') THEN nz(d.params ->> 'url') END AS params_url,
        CASE WHEN contains(d.params, '"host"') THEN nz(d.params ->> 'host') END AS params_host,
        nz(coalesce(nz(d.event_id), nz(d.uuid), nz(d.id), d.native_id)) AS own_id
    FROM lines_read
),
kinded AS (
    SELECT
        *,
        CASE d.kind
            WHEN 'tool_call' THEN CASE
                WHEN verdict IN ('deny', 'require_approval') THEN 'tool_decided'
                WHEN outcome IS NOT NULL THEN 'tool_executed'
                WHEN nz(d.decision) IS NOT NULL THEN 'tool_decided'
                ELSE 'tool_proposed' END
            WHEN 'approval' THEN CASE
                WHEN verdict IN ('allow', 'deny') OR outcome IN ('timeout', 'cancelled')
                    THEN 'approval_decided'
                ELSE 'approval_requested' END
            WHEN 'config_change' THEN  -- a change that was refused or failed changed nothing
                CASE WHEN verdict = 'deny' OR outcome <> 'ok' THEN 'tool_decided' ELSE 'config_changed' END
            WHEN 'egress' THEN 'egress' WHEN 'message' THEN 'message'
            WHEN 'tool_proposed' THEN 'tool_proposed' WHEN 'tool_decided' THEN 'tool_decided'
            WHEN 'tool_executed' THEN 'tool_executed'
            WHEN 'approval_requested' THEN 'approval_requested'
            WHEN 'approval_decided' THEN 'approval_decided'
            WHEN 'config_changed' THEN 'config_changed' WHEN 'limit_hit' THEN 'limit_hit'
            WHEN 'model_call' THEN 'model_call' WHEN 'agent_run' THEN 'agent_run'
            WHEN 'heartbeat' THEN 'heartbeat' WHEN 'other' THEN 'other'
        END AS kind,
        -- Keys that have no column of their own. Mostly there are none, and then as many keys as columns:
        -- counting is quicker than looking each of them up.
        CASE WHEN len(json_keys(doc)) > (
            (d.ts IS NOT NULL)::UTINYINT + (d.kind IS NOT NULL)::UTINYINT +
            (d.event_id IS NOT NULL)::UTINYINT + (d.uuid IS NOT NULL)::UTINYINT +
            (d.id IS NOT NULL)::UTINYINT + (d.native_id IS NOT NULL)::UTINYINT +
            (d.message_id IS NOT NULL)::UTINYINT + (d.ts_quality IS NOT NULL)::UTINYINT +
            (d.agent IS NOT NULL)::UTINYINT + (d.agent_version IS NOT NULL)::UTINYINT +
            (d.principal IS NOT NULL)::UTINYINT + (d.on_behalf_of IS NOT NULL)::UTINYINT +
            (d.tenant IS NOT NULL)::UTINYINT + (d.approver IS NOT NULL)::UTINYINT +
            (d.tool IS NOT NULL)::UTINYINT + (d.call_id IS NOT NULL)::UTINYINT +
            (d.op IS NOT NULL)::UTINYINT + (d.params IS NOT NULL)::UTINYINT +
            (d.params_digest IS NOT NULL)::UTINYINT + (d.target IS NOT NULL)::UTINYINT +
            (d.host IS NOT NULL)::UTINYINT + (d.egress_host IS NOT NULL)::UTINYINT +
            (d.url IS NOT NULL)::UTINYINT + (d.port IS NOT NULL)::UTINYINT +
            (d.status IS NOT NULL)::UTINYINT + (d.error IS NOT NULL)::UTINYINT +
            (d.latency_ms IS NOT NULL)::UTINYINT + (d.response IS NOT NULL)::UTINYINT +
            (d.response_digest IS NOT NULL)::UTINYINT + (d.response_bytes IS NOT NULL)::UTINYINT +
            (d.response_rows IS NOT NULL)::UTINYINT + (d.decision IS NOT NULL)::UTINYINT +
            (d.decision_native IS NOT NULL)::UTINYINT + (d.stance IS NOT NULL)::UTINYINT +
            (d.rule_id IS NOT NULL)::UTINYINT + (d.rule_ids IS NOT NULL)::UTINYINT +
            (d.policy_version IS NOT NULL)::UTINYINT + (d.reason IS NOT NULL)::UTINYINT +
            (d.reason_code IS NOT NULL)::UTINYINT + (d.decision_ms IS NOT NULL)::UTINYINT +
            (d.signals IS NOT NULL)::UTINYINT + (d.context IS NOT NULL)::UTINYINT +
            (d.reasoning IS NOT NULL)::UTINYINT + (d.trace_id IS NOT NULL)::UTINYINT +
            (d.parent_trace_id IS NOT NULL)::UTINYINT + (d.span_id IS NOT NULL)::UTINYINT +
            (d.parent_span_id IS NOT NULL)::UTINYINT + (d.session IS NOT NULL)::UTINYINT +
            (d.task IS NOT NULL)::UTINYINT + (d.approval_id IS NOT NULL)::UTINYINT +
            (d.call_chain IS NOT NULL)::UTINYINT + (d.risk IS NOT NULL)::UTINYINT +
            (d.cost_usd IS NOT NULL)::UTINYINT + (d.tokens_in IS NOT NULL)::UTINYINT +
            (d.tokens_out IS NOT NULL)::UTINYINT + (d.model IS NOT NULL)::UTINYINT +
            (d.budget_kind IS NOT NULL)::UTINYINT + (d.budget_limit IS NOT NULL)::UTINYINT +
            (d.budget_spent IS NOT NULL)::UTINYINT + (d.role IS NOT NULL)::UTINYINT +
            (d.text IS NOT NULL)::UTINYINT + (d.config_object IS NOT NULL)::UTINYINT +
            (d.config_before IS NOT NULL)::UTINYINT + (d.config_after IS NOT NULL)::UTINYINT +
            (d.redacted IS NOT NULL)::UTINYINT + (d.truncated IS NOT NULL)::UTINYINT +
            (d.attrs IS NOT NULL)::UTINYINT
        ) THEN nullif(to_json(map_from_entries(list_filter(
            map_entries(from_json(doc, '"MAP(VARCHAR, JSON)"')),
            lambda lam_e: NOT list_contains(struct_keys(d), lam_e.key))))::VARCHAR, '{}')::JSON END AS extra,
        -- words that none of ours stands for
        CASE WHEN nz(d.status) IS NOT NULL AND outcome IS NULL THEN d.status END AS status_native,
        CASE WHEN nz(d.risk) IS NOT NULL AND lower(d.risk) NOT IN ('low', 'medium', 'high', 'critical')
            THEN d.risk END AS risk_native,
        CASE WHEN nz(d.op) IS NOT NULL AND lower(d.op) NOT IN ('lookup', 'verify', 'commit')
            THEN d.op END AS op_native,
        CASE WHEN nz(d.stance) IS NOT NULL AND lower(d.stance) NOT IN ('gather', 'act', 'clarify', 'abstain')
            THEN d.stance END AS stance_native
    FROM worded
),
-- Not WHERE: DuckDB would push it down to the lines and read each of them twice.
kept AS (
    SELECT *, unnest(CASE
        WHEN kind IS NOT NULL AND claimed >= TIMESTAMPTZ '2000-01-01 00:00:00+00'
            AND claimed < TIMESTAMPTZ '2100-01-01 00:00:00+00' THEN [true]
    END) AS kept
    FROM kinded
)
SELECT
    -- A resumed session writes its past again under new ids: the message id and what was done beat them.
    CASE
        WHEN nz(d.message_id) IS NOT NULL THEN eid(source, 'message:' || d.message_id, json_array(
            kind, d.ts, d.call_id, d.agent, d.tool, d.params, d.decision, d.status, d.text)::VARCHAR)
        WHEN own_id IS NOT NULL THEN eid(source, 'id:' || own_id, doc)
        ELSE eid(source, 'seq:' || ledger_seq, NULL)
    END AS event_id,
    kind,
    source,
    ledger_seq,
    own_id AS native_id,
    claimed AS ts,
    CASE
        WHEN d.ts_quality IN ('observed', 'receiver', 'relative') THEN d.ts_quality
        ELSE 'source'
    END AS ts_quality,
    nz(d.agent) AS agent,
    nz(d.agent_version) AS agent_version,
    nz(d.principal) AS principal,
    nz(d.on_behalf_of) AS on_behalf_of,
    nz(d.tenant) AS tenant,
    nz(d.approver) AS approver,
    nz(d.tool) AS tool,
    nz(d.call_id) AS call_id,
    CASE lower(d.op) WHEN 'lookup' THEN 'lookup' WHEN 'verify' THEN 'verify' WHEN 'commit' THEN 'commit' END AS op,
    CASE WHEN lower(d.op) IN ('lookup', 'verify', 'commit') THEN 'declared' END AS op_basis,
    d.params AS params,
    nz(d.params_digest) AS params_digest,
    coalesce(nz(d.target), nz(d.url), params_url) AS target,
    coalesce(nz(d.host), nz(d.egress_host), nz(d.url), params_url, params_host) AS host,
    CASE WHEN try_cast(d.port AS INTEGER) BETWEEN 0 AND 65535 THEN try_cast(d.port AS INTEGER) END AS port,
    outcome AS status,
    nz(d.error) AS error,
    CASE WHEN isfinite(try_cast(d.latency_ms AS DOUBLE)) THEN try_cast(d.latency_ms AS DOUBLE) END AS latency_ms,
    d.response AS response,
    nz(d.response_digest) AS response_digest,
    try_cast(d.response_bytes AS BIGINT) AS response_bytes,
    try_cast(d.response_rows AS BIGINT) AS response_rows,
    CASE
        WHEN kind = 'approval_decided' AND verdict IS NULL AND outcome IN ('timeout', 'cancelled') THEN 'deny'
        ELSE verdict
    END AS decision,
    coalesce(nz(d.decision_native), nz(d.decision)) AS decision_native,
    CASE WHEN lower(d.stance) IN ('gather', 'act', 'clarify', 'abstain') THEN lower(d.stance) END AS stance,
    CASE
        WHEN d.rule_ids IS NOT NULL THEN lst(list_transform(strs(d.rule_ids), lambda lam_r: nz(lam_r)))
        WHEN d.rule_id IS NOT NULL AND d.rule_id <> '""'
            THEN lst(list_transform(strs(d.rule_id), lambda lam_r: nz(lam_r)))
    END AS rule_ids,
    nz(d.policy_version) AS policy_version,
    nz(d.reason) AS reason,
    CASE
        WHEN nz(d.reason_code) IS NOT NULL THEN d.reason_code
        WHEN kind <> 'approval_decided' THEN NULL
        WHEN outcome = 'timeout' THEN 'expired'
        WHEN outcome = 'cancelled' THEN 'cancelled'
        WHEN verdict = 'allow' THEN 'approved'
        WHEN verdict = 'deny' THEN 'rejected'
    END AS reason_code,
    CASE WHEN isfinite(try_cast(d.decision_ms AS DOUBLE)) THEN try_cast(d.decision_ms AS DOUBLE) END AS decision_ms,
    CASE WHEN odd IS NOT NULL THEN list_append(coalesce(lst(strs(d.signals)), []), odd)
        WHEN d.signals IS NOT NULL THEN lst(strs(d.signals)) END AS signals,
    nz(d.context) AS context,
    nz(d.reasoning) AS reasoning,
    nz(d.trace_id) AS trace_id,
    nz(d.parent_trace_id) AS parent_trace_id,
    nz(d.span_id) AS span_id,
    nz(d.parent_span_id) AS parent_span_id,
    nz(d.session) AS session,
    nz(d.task) AS task,
    nz(d.approval_id) AS approval_id,
    CASE WHEN d.call_chain IS NOT NULL THEN lst(strs(d.call_chain)) END AS call_chain,
    CASE WHEN lower(d.risk) IN ('low', 'medium', 'high', 'critical') THEN lower(d.risk) END AS risk,
    try_cast(d.cost_usd AS DECIMAL(18, 9)) AS cost_usd,
    try_cast(d.tokens_in AS BIGINT) AS tokens_in,
    try_cast(d.tokens_out AS BIGINT) AS tokens_out,
    nz(d.model) AS model,
    nz(d.budget_kind) AS budget_kind,
    CASE WHEN isfinite(try_cast(d.budget_limit AS DOUBLE)) THEN try_cast(d.budget_limit AS DOUBLE) END AS budget_limit,
    CASE WHEN isfinite(try_cast(d.budget_spent AS DOUBLE)) THEN try_cast(d.budget_spent AS DOUBLE) END AS budget_spent,
    nz(d.role) AS role,
    d.text AS text,
    CASE
        WHEN nz(d.config_object) IS NOT NULL THEN d.config_object
        WHEN d.kind = 'config_change' THEN
            coalesce(nz(d.params ->> 'file'), nz(d.params ->> 'path'), nz(d.params ->> 'object'))
    END AS config_object,
    d.config_before AS config_before,
    CASE WHEN d.config_after IS NULL AND d.kind = 'config_change' THEN jn(d.params -> 'content')
        ELSE d.config_after END AS config_after,
    CASE WHEN d.redacted IS NOT NULL THEN lst(strs(d.redacted)) END AS redacted,
    try_cast(d.truncated AS BOOLEAN) AS truncated,
    CASE
        WHEN coalesce(extra, d.attrs) IS NULL
            AND coalesce(status_native, risk_native, op_native, stance_native) IS NULL THEN NULL
        ELSE nullif(json_merge_patch(
            coalesce(extra, '{}'),
            CASE json_type(d.attrs) WHEN 'OBJECT' THEN d.attrs ELSE json_object('attrs', d.attrs) END,
            json_object('status_native', status_native, 'risk_native', risk_native,
                'op_native', op_native, 'stance_native', stance_native))::VARCHAR, '{}')::JSON
    END AS attrs
FROM kept
