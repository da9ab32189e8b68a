-- title  = "agent-audit records: proposed, decided, executed"
-- format = "json"
-- paths  = ["/v1/ingest/agent_audit_record"]

-- The records of agent-audit (package agent-audit-record), in each of the forms that they are met in: an
-- OTLP/JSON request (as otlp_logs reads it too, beside all other logs), the object that the console exporter
-- of OpenTelemetry for Python writes, and the bare record of the specification, which has no time of its own.
-- decided and executed repeat neither actor nor target: they join the proposal by the action's id.

WITH whole AS (
    SELECT ledger_seq, source, received_at, doc, from_json(doc, '{"resourceLogs":[{
        "resource":{"attributes":' || otlp_pairs() || '},"scopeLogs":[{"logRecords":["JSON"]}]}],
        "attributes":"JSON","agent_audit.action.phase":"VARCHAR"}') AS d
    FROM lines
),
records AS (
    SELECT
        ledger_seq, source, received_at, d.attributes AS plain,
        coalesce(len(d.resourceLogs) = 1 AND len(d.resourceLogs[1].scopeLogs) = 1
            AND len(d.resourceLogs[1].scopeLogs[1].logRecords) = 1, true) AS alone,
        unnest(CASE
            WHEN d.resourceLogs IS NOT NULL THEN flatten(list_transform(d.resourceLogs, lambda lam_r:
                flatten(list_transform(lam_r.scopeLogs, lambda lam_s: lam_s.logRecords))))
            WHEN d."agent_audit.action.phase" IS NOT NULL OR json_type(d.attributes) = 'OBJECT' THEN [doc]
        END) AS line
    FROM whole
),
read_once AS (
    SELECT
        *,
        from_json(line, '{"timeUnixNano":"JSON","observedTimeUnixNano":"JSON","timestamp":"VARCHAR",
            "observed_timestamp":"VARCHAR","traceId":"JSON","spanId":"JSON","trace_id":"VARCHAR","span_id":"VARCHAR",
            "droppedAttributesCount":"VARCHAR","agent_audit.action.phase":"VARCHAR",
            "attributes":' || otlp_pairs() || '}') AS x
    FROM records
),
-- Lists, because a macro is pasted for each value that it is given.
attributes AS (
    SELECT
        ledger_seq, source, received_at, line, alone,
        CASE WHEN x."agent_audit.action.phase" IS NOT NULL THEN line
            WHEN json_type(plain) = 'OBJECT' THEN plain ELSE otlp_object(x.attributes) END AS attributes,
        list_transform([x.timeUnixNano, x.observedTimeUnixNano], lambda lam_t: ns_num(lam_t)) AS ns,
        [x.timestamp, x.observed_timestamp] AS texts,
        coalesce(nullif(x.timeUnixNano ->> '$', '0'), x.timestamp) AS time_native,
        list_transform([coalesce(x.traceId, to_json(replace(x.trace_id, '0x', ''))),
            coalesce(x.spanId, to_json(replace(x.span_id, '0x', '')))], lambda lam_j: hexid_j(lam_j)) AS ids,
        x.droppedAttributesCount AS dropped
    FROM read_once
),
timed AS (
    SELECT
        * EXCLUDE (texts),
        list_transform(ns, lambda lam_n, lam_i: CASE WHEN lam_n IS NOT NULL THEN ns_ts(lam_n)
            WHEN texts[lam_i] IS NOT NULL THEN iso_ts(texts[lam_i]) END) AS times
    FROM attributes
),
known AS (
    SELECT
        *,
        from_json(attributes, '{
            "agent_audit.action.id":"VARCHAR","agent_audit.action.phase":"VARCHAR",
            "agent_audit.actor.id":"VARCHAR","agent_audit.actor.on_behalf_of":"VARCHAR",
            "agent_audit.target.operation":"VARCHAR","agent_audit.target.resource":"VARCHAR",
            "agent_audit.target.arguments":"VARCHAR","agent_audit.declared.read_only":"VARCHAR",
            "agent_audit.declared.destructive":"VARCHAR","agent_audit.decision":"VARCHAR",
            "agent_audit.decision.principal.type":"VARCHAR","agent_audit.decision.principal.id":"VARCHAR",
            "agent_audit.decision.policy.id":"VARCHAR","agent_audit.decision.policy.version":"VARCHAR",
            "agent_audit.decision.reason":"VARCHAR","agent_audit.decision.latency_ms":"VARCHAR",
            "agent_audit.outcome":"VARCHAR","agent_audit.not_executed_reason":"VARCHAR",
            "agent_audit.batch.item_index":"VARCHAR","agent_audit.cost.amount":"VARCHAR",
            "agent_audit.cost.currency":"VARCHAR","agent_audit.cost.unit":"VARCHAR"
        }') AS a
    FROM timed
),
kinded AS (
    SELECT
        *,
        nz(a."agent_audit.action.id") AS action,
        a."agent_audit.action.phase" AS phase,
        audit_kind(a."agent_audit.action.phase", a."agent_audit.decision", a."agent_audit.decision.principal.type") AS kind,
        audit_decision(a."agent_audit.decision") AS decision,
        lower(a."agent_audit.decision") AS verdict,
        otlp_number(a."agent_audit.decision.latency_ms") AS waited,
        audit_op(a."agent_audit.declared.read_only", a."agent_audit.declared.destructive") AS declared,
        coalesce(times[1], times[2]) AS moment,
        -- not WHERE: DuckDB would push it down to the lines and read each of them twice
        unnest(CASE WHEN json_type(line) = 'OBJECT' OR NOT alone THEN [true] END) AS kept
    FROM known
),
keyed AS (
    SELECT
        *,
        -- an action may be decided twice (put off, then allowed): its time tells the two apart
        CASE WHEN action IS NOT NULL AND phase IS NOT NULL THEN concat_ws(':', action, phase,
            a."agent_audit.batch.item_index", coalesce(ns[1]::VARCHAR, epoch_us(moment)::VARCHAR, left(sha256(line::VARCHAR), 32)))
            WHEN moment IS NOT NULL THEN 'sha256:' || left(sha256(line::VARCHAR), 32)
        END AS native_id
    FROM kinded
)
SELECT
    CASE WHEN native_id IS NOT NULL THEN eid(source, native_id, NULL)
        ELSE eid(source, 'seq:' || ledger_seq, line::VARCHAR) END AS event_id,
    kind,
    source,
    ledger_seq,
    native_id,
    moment AS ts,
    CASE WHEN times[1] IS NULL AND moment IS NOT NULL THEN 'observed' ELSE 'source' END AS ts_quality,
    nz(a."agent_audit.actor.id") AS agent,
    nz(a."agent_audit.actor.on_behalf_of") AS on_behalf_of,
    CASE WHEN kind = 'approval_decided' THEN nz(a."agent_audit.decision.principal.id") END AS approver,
    bare_tool(a."agent_audit.target.operation") AS tool,
    action AS call_id,
    declared AS op,
    CASE WHEN declared IS NOT NULL THEN 'declared' END AS op_basis,
    jstr(a."agent_audit.target.arguments") AS params,
    nz(a."agent_audit.target.resource") AS target,
    CASE WHEN kind = 'tool_executed'
        THEN audit_status(a."agent_audit.outcome", a."agent_audit.not_executed_reason") END AS status,
    CASE WHEN kind = 'approval_decided' THEN waited END AS latency_ms,
    decision,
    a."agent_audit.decision" AS decision_native,
    lst([nz(a."agent_audit.decision.policy.id")]) AS rule_ids,
    nz(a."agent_audit.decision.policy.version") AS policy_version,
    nz(a."agent_audit.decision.reason") AS reason,
    CASE
        WHEN kind <> 'approval_decided' THEN NULL
        WHEN verdict = 'timeout' THEN 'expired'
        WHEN verdict = 'cancel' THEN 'cancelled'
        WHEN decision = 'allow' THEN 'approved'
        WHEN decision = 'deny' THEN 'rejected'
    END AS reason_code,
    CASE WHEN kind = 'tool_decided' THEN waited END AS decision_ms,
    ids[1] AS trace_id,
    ids[2] AS span_id,
    CASE WHEN kind = 'approval_decided' OR decision = 'require_approval' THEN action END AS approval_id,
    try_cast(audit_usd(a."agent_audit.cost.amount", a."agent_audit.cost.currency", a."agent_audit.cost.unit")
        AS DECIMAL(18, 9)) AS cost_usd,
    CASE WHEN try_cast(dropped AS BIGINT) > 0 THEN true END AS truncated,
    nullif(json_merge_patch(
        CASE json_type(attributes) WHEN 'OBJECT' THEN attributes ELSE '{}' END,
        -- what has a column of its own
        '{"agent_audit.action.id":null,"agent_audit.action.phase":null,"agent_audit.actor.id":null,
          "agent_audit.actor.on_behalf_of":null,"agent_audit.target.operation":null,
          "agent_audit.target.resource":null,"agent_audit.target.arguments":null,"agent_audit.decision":null,
          "agent_audit.decision.reason":null,"agent_audit.decision.latency_ms":null,
          "agent_audit.decision.policy.id":null,"agent_audit.decision.policy.version":null}',
        json_object('ts_ns', ns[1]::VARCHAR, 'ts_claimed', CASE WHEN moment IS NULL THEN time_native END,
            'line', CASE WHEN kind = 'other' THEN line::VARCHAR END))::VARCHAR, '{}')::JSON AS attrs
FROM keyed
