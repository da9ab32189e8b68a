-- title  = "Concordat, through gatewatch's recorder"
-- format = "ndjson"
-- paths  = ["/v1/ingest/concordat"]

-- Written by gatewatch/recorders/concordat.py: a line for each decision, approval, result and budget hit of a
-- session, with the state of its protocol. All lines of one call share its call_id.
-- A human step that ended with no has run, and yet nothing was done: its execution is `denied`.

WITH lines_read AS (
    SELECT
        ledger_seq, source, received_at, doc,
        from_json(doc, '{
            "ts": "VARCHAR", "seq": "VARCHAR", "run_id": "VARCHAR", "agent": "VARCHAR", "event": "VARCHAR",
            "state": "VARCHAR", "budget_left": "JSON", "decision": "VARCHAR", "reason": "VARCHAR",
            "allowed": "JSON", "call_id": "VARCHAR", "action": "VARCHAR", "args": "JSON", "from": "VARCHAR",
            "to": "VARCHAR", "status": "VARCHAR", "error": "VARCHAR", "ms": "VARCHAR", "result": "JSON",
            "request": "JSON", "approver": "VARCHAR", "budget_kind": "VARCHAR", "human": "VARCHAR",
            "lost": "JSON", "op": "VARCHAR"
        }') AS d
    FROM lines
),
kinded AS (
    SELECT
        *,
        iso_ts(d.ts) AS claimed,
        d.human = 'true' AND d.result = 'false' AS refused,
        CASE WHEN nz(d.seq) IS NOT NULL THEN d.run_id || ':' || d.seq END AS own_id,
        CASE d.event
            WHEN 'decided' THEN 'tool_decided'
            WHEN 'executed' THEN 'tool_executed'
            WHEN 'approval_requested' THEN 'approval_requested'
            WHEN 'approval_approved' THEN 'approval_decided'
            WHEN 'approval_rejected' THEN 'approval_decided'
            WHEN 'budget_hit' THEN 'limit_hit'
            ELSE 'other'
        END AS kind,
        CASE WHEN isfinite(try_cast(d.ms AS DOUBLE)) THEN try_cast(d.ms AS DOUBLE) END AS took_ms,
        -- Not WHERE: DuckDB would push it down to the lines and read each of them twice.
        unnest(CASE WHEN nz(d.run_id) IS NOT NULL AND nz(d.event) IS NOT NULL THEN [true] END) AS kept
    FROM lines_read
)
SELECT
    CASE WHEN own_id IS NOT NULL THEN eid(source, 'run:' || own_id, NULL)
        ELSE eid(source, 'seq:' || ledger_seq, NULL) END AS event_id,
    kind,
    source,
    ledger_seq,
    own_id AS native_id,
    claimed AS ts,
    nz(d.agent) AS agent,
    nz(d.approver) AS approver,
    nz(d.action) AS tool,
    nz(d.call_id) AS call_id,
    CASE WHEN d.op IN ('lookup', 'verify', 'commit') THEN d.op END AS op,
    CASE WHEN d.op IN ('lookup', 'verify', 'commit') THEN 'declared' END AS op_basis,
    jval(d.args) AS params,
    CASE
        WHEN kind = 'limit_hit' OR kind = 'tool_executed' AND refused THEN 'denied'
        WHEN kind = 'tool_executed' THEN CASE WHEN d.status = 'ok' THEN 'ok' ELSE 'error' END
    END AS status,
    nz(d.error) AS error,
    CASE WHEN kind IN ('tool_executed', 'approval_decided', 'limit_hit') THEN took_ms END AS latency_ms,
    jval(d.result) AS response,
    CASE
        WHEN kind = 'tool_decided' AND d.decision IN ('allow', 'deny') THEN d.decision
        WHEN kind = 'approval_requested' THEN 'require_approval'
        WHEN d.event = 'approval_approved' THEN 'allow'
        WHEN d.event IN ('approval_rejected', 'budget_hit') THEN 'deny'
    END AS decision,
    CASE WHEN kind IN ('tool_decided', 'approval_decided', 'limit_hit') THEN coalesce(nz(d.decision), d.event) END
        AS decision_native,
    nz(d.reason) AS reason,
    CASE d.event
        WHEN 'approval_approved' THEN 'approved' WHEN 'approval_rejected' THEN 'rejected'
        ELSE CASE WHEN d.decision = 'deny' THEN nz(d."from") END
    END AS reason_code,
    nz(d.run_id) AS session,
    CASE WHEN starts_with(d.event, 'approval_') THEN nz(d.call_id) END AS approval_id,
    CASE WHEN kind = 'limit_hit' THEN coalesce(nz(d.budget_kind), 'budget') END AS budget_kind,
    compact(json_object(
        'seq', try_cast(d.seq AS BIGINT), 'state', nz(d.state), 'from', nz(d."from"), 'to', nz(d."to"),
        'allowed', d.allowed, 'budget_left', compact(jn(d.budget_left)), 'request', d.request, 'lost', d.lost,
        'event', CASE WHEN kind = 'other' THEN d.event END,
        'ts_claimed', CASE WHEN claimed IS NULL THEN nz(d.ts) END)) AS attrs
FROM kinded
