-- title  = "mcp-context-forge SIEM export"
-- format = "ndjson"
-- paths  = ["/v1/ingest/contextforge"]

-- A line is an event of the webhook: one a request, or queued and sent again (then only _meta.attempt differs).
-- Of an audit event, action_taken is `denied` whenever the operation failed, whatever the cause: it is no gate's verdict, so only
-- security events carry a decision. Old and new values are not exported, and calls of tools do not come this way at all.

WITH lines_read AS (
    SELECT
        ledger_seq, source, doc,
        from_json(doc, '{
            "event_id": "VARCHAR", "timestamp": "VARCHAR", "event_type": "VARCHAR", "severity": "VARCHAR",
            "category": "VARCHAR", "description": "VARCHAR", "action_taken": "VARCHAR",
            "source": {"service": "VARCHAR", "instance_id": "VARCHAR", "event_source": "VARCHAR"},
            "actor": {"user_id": "VARCHAR", "user_email": "VARCHAR", "client_ip": "VARCHAR", "user_agent": "VARCHAR"},
            "threat": {"score": "VARCHAR", "failed_attempts": "VARCHAR", "indicators": "JSON"},
            "context": {"action": "VARCHAR", "resource_type": "VARCHAR", "resource_id": "VARCHAR", "resource_name": "VARCHAR",
                "data_classification": "VARCHAR", "requires_review": "VARCHAR", "success": "VARCHAR", "correlation_id": "VARCHAR"},
            "metadata": "JSON", "_meta": {"attempt": "VARCHAR"}
        }') AS d
    FROM lines
),
told AS (
    SELECT
        *,
        iso_ts(d.timestamp) AS claimed,
        nz(d.event_id) AS own_id,
        lower(d.event_type) AS word,
        lower(d.action_taken) AS taken,
        starts_with(word, 'audit_') AS audited,
        coalesce(lower(d.context.success) = 'false', false) AS failed,
        CASE
            WHEN regexp_matches(word, '^audit_(create|update|delete|bulk|set|activate|deactivate|enable|disable|toggle|register|unregister|import|assign|grant|revoke|add|remove)(_|$)')
                AND taken = 'allowed' AND NOT failed THEN 'config_changed'
            WHEN word = 'rate_limit_exceeded' THEN 'limit_hit'
            WHEN starts_with(word, 'audit_invoke') THEN 'tool_executed'
            WHEN word IN ('authorization_failure', 'authentication_failure') THEN 'tool_decided'
            ELSE 'other'
        END AS kind,
        CASE WHEN d.context.resource_type = 'tool' THEN bare_tool(d.context.resource_name) END AS tool_name,
        -- Not WHERE: DuckDB would push it down to the lines and read each of them twice.
        unnest(CASE WHEN nz(d.event_type) IS NOT NULL AND d.source IS NOT NULL THEN [true] END) AS kept
    FROM lines_read
)
SELECT
    eid(source, coalesce('id:' || own_id, 'seq:' || ledger_seq),
        CASE WHEN own_id IS NOT NULL THEN json_merge_patch(doc, '{"_meta": null}'::JSON) END) AS event_id,
    kind,
    source,
    ledger_seq,
    own_id AS native_id,
    claimed AS ts,
    coalesce(nz(d.actor.user_id), nullif(nz(d.actor.user_email), '***REDACTED***')) AS principal,
    tool_name AS tool,
    nz(concat_ws('/', nz(d.context.resource_type), nz(d.context.resource_id))) AS target,
    CASE
        WHEN kind IN ('config_changed', 'tool_executed') THEN if(failed, 'error', 'ok')
        WHEN kind = 'limit_hit' OR (kind = 'tool_decided' AND taken = 'denied') THEN 'denied'
        WHEN audited AND failed THEN 'error'
    END AS status,
    CASE WHEN failed THEN nz(d.description) END AS error,
    CASE WHEN NOT audited THEN CASE taken WHEN 'allowed' THEN 'allow' WHEN 'denied' THEN 'deny' END END AS decision,
    nz(d.action_taken) AS decision_native,
    nz(d.description) AS reason,
    CASE WHEN kind IN ('tool_decided', 'limit_hit') THEN word END AS reason_code,
    lst(strs(d.threat.indicators)) AS signals,
    CASE WHEN lower(d.severity) IN ('low', 'medium', 'high', 'critical') THEN lower(d.severity) END AS risk,
    CASE WHEN kind = 'limit_hit' THEN 'rate' END AS budget_kind,
    CASE WHEN kind = 'config_changed' THEN nz(concat_ws('/', nz(d.context.resource_type),
        coalesce(nz(d.context.resource_name), nz(d.context.resource_id)))) END AS config_object,
    CASE WHEN d.actor.user_email = '***REDACTED***' THEN ['actor.user_email'] END AS redacted,
    compact(json_object(
        'event_type', nz(d.event_type), 'operation', nz(d.context.action), 'request_id', nz(d.context.correlation_id),
        'client', nz(d.actor.client_ip), 'user_agent', nz(d.actor.user_agent), 'gateway', nz(d.source.instance_id),
        'risk_score', try_cast(d.threat.score AS DOUBLE), 'failed_attempts', try_cast(d.threat.failed_attempts AS BIGINT),
        'requires_review', try_cast(d.context.requires_review AS BOOLEAN),
        'data_classification', nz(d.context.data_classification), 'attempt', try_cast(d._meta.attempt AS BIGINT),
        'metadata', jn(d.metadata),
        'ts_claimed', CASE WHEN claimed IS NULL THEN nz(d.timestamp) END)) AS attrs
FROM told
