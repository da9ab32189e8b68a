-- title  = "gatehouse-ai audit log"
-- format = "ndjson"
-- paths  = ["/v1/ingest/gatehouse"]

-- A line is a judgement, or (approval_outcome set) the end of an approval: approved, denied or expired.
-- The gate writes a digest instead of the parameters, and nothing about execution.
-- Expiry is written when somebody looks, so its time is that of looking; the deadline is in the reason.

WITH lines_read AS (
    SELECT
        ledger_seq, source, received_at, doc,
        from_json(doc, '{
            "event_id": "VARCHAR", "timestamp": "VARCHAR", "agent_id": "VARCHAR", "tool": "VARCHAR",
            "params_digest": "VARCHAR", "disposition": "VARCHAR", "reason": "VARCHAR",
            "matched_rules": "JSON", "tier": "VARCHAR", "session_id": "VARCHAR",
            "limit_contributions": "JSON", "policy_version": "VARCHAR", "policy_digest": "VARCHAR",
            "latency_ms": "VARCHAR", "approval_outcome": "VARCHAR", "approval_request_id": "VARCHAR"
        }') AS d
    FROM lines
),
timed AS (
    SELECT
        *,
        iso_ts(d.timestamp) AS claimed,
        nz(d.approval_outcome) AS outcome,
        CASE WHEN isfinite(try_cast(d.latency_ms AS DOUBLE)) THEN try_cast(d.latency_ms AS DOUBLE) END AS took_ms,
        -- Not WHERE: DuckDB would push it down to the lines and read each of them twice.
        unnest(CASE WHEN nz(d.disposition) IS NOT NULL THEN [true] END) AS kept
    FROM lines_read
)
SELECT
    eid(source, coalesce('id:' || nz(d.event_id), 'seq:' || ledger_seq), doc) AS event_id,
    CASE WHEN outcome IS NULL THEN 'tool_decided' ELSE 'approval_decided' END AS kind,
    source,
    ledger_seq,
    nz(d.event_id) AS native_id,
    claimed AS ts,
    nz(d.agent_id) AS agent,
    CASE WHEN outcome IN ('approved', 'denied')
        THEN nz(regexp_extract(d.reason, '^(?:approved|denied) by ([^:]+)', 1)) END AS approver,
    bare_tool(d.tool) AS tool,
    nz(d.approval_request_id) AS call_id,
    nz(d.params_digest) AS params_digest,
    CASE WHEN outcome IS NOT NULL THEN took_ms END AS latency_ms,
    CASE
        WHEN outcome = 'approved' THEN 'allow'
        WHEN outcome IN ('denied', 'expired') THEN 'deny'
        WHEN outcome IS NOT NULL THEN NULL
        WHEN d.disposition IN ('allow', 'allow_with_flag') THEN 'allow'
        WHEN d.disposition IN ('deny', 'require_approval') THEN d.disposition
    END AS decision,
    coalesce(outcome, d.disposition) AS decision_native,
    lst(strs(d.matched_rules)) AS rule_ids,
    nz(d.policy_version) AS policy_version,
    nz(d.reason) AS reason,
    CASE outcome
        WHEN 'approved' THEN 'approved' WHEN 'denied' THEN 'rejected' WHEN 'expired' THEN 'expired'
    END AS reason_code,
    CASE WHEN outcome IS NULL THEN took_ms END AS decision_ms,
    lst([
        CASE WHEN d.disposition = 'allow_with_flag' THEN 'flagged' END
    ]) AS signals,
    nz(d.session_id) AS session,
    nz(d.approval_request_id) AS approval_id,
    compact(json_object(
        'tier', d.tier, 'policy_digest', d.policy_digest, 'disposition', d.disposition,
        'limit_contributions', compact(d.limit_contributions),
        'ts_claimed', CASE WHEN claimed IS NULL THEN d.timestamp END)) AS attrs
FROM timed
