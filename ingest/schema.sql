-- The whole data model of gatewatch, in the order in which data flows through it.
-- Words: docs/words.md. Every connection runs with TimeZone = 'UTC'. Nothing here is inferred from data.
-- The database is a function of the ledger: dropping this file and replaying the ledger gives it back.

-- 1. What arrived ------------------------------------------------------------------------------

CREATE TABLE IF NOT EXISTS landed (  -- one row: how far into the ledger this database reaches
    seq UBIGINT NOT NULL, head VARCHAR NOT NULL  -- head: the ledger's chain hash at that position
);

CREATE TABLE IF NOT EXISTS sources (
    source VARCHAR PRIMARY KEY, adapter VARCHAR,
    lines UBIGINT NOT NULL, events UBIGINT NOT NULL, duplicates UBIGINT NOT NULL,
    quarantined UBIGINT NOT NULL, id_conflicts UBIGINT NOT NULL, backfilled UBIGINT NOT NULL,
    first_seen_at TIMESTAMPTZ NOT NULL, last_seen_at TIMESTAMPTZ NOT NULL,  -- by the service's clock
    last_event_at TIMESTAMPTZ,                                              -- by the events' clock
    mismatched UBIGINT DEFAULT 0, -- events that claimed another agent than their sender may speak for
    canary_at TIMESTAMPTZ         -- the newest denial of the agent gatewatch-canary: docs/metrics.md
);
ALTER TABLE sources ADD COLUMN IF NOT EXISTS mismatched UBIGINT DEFAULT 0; ALTER TABLE sources ADD COLUMN IF NOT EXISTS canary_at TIMESTAMPTZ;

CREATE TABLE IF NOT EXISTS tallies (  -- counters, raised where the thing happens: ingest/tally.py
    name VARCHAR NOT NULL, whose VARCHAR NOT NULL, what VARCHAR NOT NULL, n DOUBLE NOT NULL,
    PRIMARY KEY (name, whose, what)
);

CREATE TABLE IF NOT EXISTS arrivals (  -- lines a source sent in a minute of the service's clock; appended
    source VARCHAR NOT NULL, minute TIMESTAMPTZ NOT NULL, lines UBIGINT NOT NULL, last_event_id VARCHAR
);

CREATE TABLE IF NOT EXISTS clocks (  -- per source, of its live lines, in microseconds from the claimed time to arrival; see ingest/skew.py
    source VARCHAR PRIMARY KEY, minute TIMESTAMPTZ NOT NULL,                   -- of arrival, the newest
    lows BIGINT[] NOT NULL, sums BIGINT[] NOT NULL, counts BIGINT[] NOT NULL,  -- of the last 30 minutes with live lines, a value each
    waits BIGINT[] NOT NULL, waited BIGINT NOT NULL  -- of all lines: how many came within 1, 5, 15, 60, 300, 900, 3600 seconds; their sum
);
CREATE OR REPLACE VIEW source_clocks AS  -- skew_seconds: above 0 the clock is ahead of ours; NULL until three minutes are known
    SELECT source, CASE WHEN len(lows) >= 3 THEN -list_median(lows) / 1000000 END AS skew_seconds,
        list_median(list_transform(list_zip(sums, counts), lambda lam_m: lam_m[1] / lam_m[2])) / 1000000 AS lag_seconds,
        coalesce(abs(skew_seconds) > 60, false) AS skewed, waits, waited / 1000000 AS waited_seconds
    FROM clocks;

CREATE TABLE IF NOT EXISTS tail_offsets (  -- how far each tailed file has been read
    source VARCHAR NOT NULL, path VARCHAR NOT NULL, device UBIGINT NOT NULL, inode UBIGINT NOT NULL,
    pos UBIGINT NOT NULL,      -- bytes read, always just after a line end (of the decompressed text)
    print VARCHAR NOT NULL,    -- over first and last bytes read, see ingest/fingerprint.py
    print_bytes UBIGINT NOT NULL, finished BOOLEAN NOT NULL, seen_at TIMESTAMPTZ NOT NULL
);

CREATE TABLE IF NOT EXISTS batch_keys (key VARCHAR NOT NULL, source VARCHAR NOT NULL, landed_at TIMESTAMPTZ NOT NULL, answer JSON);

CREATE TABLE IF NOT EXISTS repeats (  -- events that came again, by a line that gave none: ingest/retention.py
    event_id VARCHAR NOT NULL, ledger_seq UBIGINT NOT NULL
);

CREATE TABLE IF NOT EXISTS early (  -- events that claim a time that had not come yet: stored at that of their arrival
    event_id VARCHAR NOT NULL, ledger_seq UBIGINT NOT NULL, ts TIMESTAMPTZ NOT NULL
);

CREATE TABLE IF NOT EXISTS quarantine (  -- a line that gave no event: kept, counted, with the reason
    ledger_seq UBIGINT NOT NULL, source VARCHAR NOT NULL, received_at TIMESTAMPTZ NOT NULL,
    reason VARCHAR NOT NULL,   -- parse | encoding | too_large | schema | time
    detail VARCHAR, pos VARCHAR, raw VARCHAR  -- the first 1024 characters; the ledger has the rest
);

-- 2. What happened -----------------------------------------------------------------------------

CREATE TABLE IF NOT EXISTS events (
    -- identity
    event_id VARCHAR NOT NULL,          -- eid(): delivered twice, the same id; duplicates are dropped on it
    kind VARCHAR NOT NULL,              -- tool_proposed | tool_decided | tool_executed | approval_requested | approval_decided | egress
                                        -- | config_changed | limit_hit | message | model_call | agent_run | heartbeat | other
    source VARCHAR NOT NULL, ledger_seq UBIGINT NOT NULL, native_id VARCHAR,
    -- when
    ts TIMESTAMPTZ, ts_quality VARCHAR, -- source | observed | receiver | relative
    ingested_at TIMESTAMPTZ,
    -- who
    agent VARCHAR, agent_version VARCHAR, principal VARCHAR, on_behalf_of VARCHAR, tenant VARCHAR, approver VARCHAR,
    -- what
    tool VARCHAR, call_id VARCHAR,
    op VARCHAR,                         -- lookup | verify | commit
    op_basis VARCHAR,                   -- declared (in the log) | inferred (from the tool's name); where the policy's tool list decides, the loader writes policy
    params JSON, params_digest VARCHAR, target VARCHAR, host VARCHAR, port INTEGER,
    -- result
    status VARCHAR,                     -- ok | error | denied | timeout | cancelled
    error VARCHAR, latency_ms DOUBLE, response JSON, response_digest VARCHAR, response_bytes BIGINT, response_rows BIGINT,
    -- why
    decision VARCHAR,                   -- allow | deny | require_approval
    decision_native VARCHAR,
    stance VARCHAR,                     -- gather | act | clarify | abstain
    rule_ids VARCHAR[], policy_version VARCHAR, reason VARCHAR, reason_code VARCHAR, decision_ms DOUBLE,
    signals VARCHAR[], context VARCHAR, reasoning VARCHAR,
    -- chain
    trace_id VARCHAR, parent_trace_id VARCHAR, span_id VARCHAR, parent_span_id VARCHAR, session VARCHAR, task VARCHAR, approval_id VARCHAR, call_chain VARCHAR[],
    -- risk and budget
    risk VARCHAR,                       -- low | medium | high | critical
    cost_usd DECIMAL(18,9), tokens_in BIGINT, tokens_out BIGINT, model VARCHAR,
    budget_kind VARCHAR, budget_limit DOUBLE, budget_spent DOUBLE,
    -- message and config
    role VARCHAR, text VARCHAR, config_object VARCHAR, config_before JSON, config_after JSON,
    -- quality
    redacted VARCHAR[], truncated BOOLEAN,
    attrs JSON                          -- everything a format has beyond these columns
);

CREATE TABLE IF NOT EXISTS calls (  -- the proposed, decided, approved and executed events of one tool call, joined
    call_key VARCHAR NOT NULL,          -- see ingest/land.py: call id, else span, else event
    tenant VARCHAR, source VARCHAR, agent VARCHAR, principal VARCHAR, approver VARCHAR,
    tool VARCHAR, op VARCHAR, call_id VARCHAR, params JSON, params_digest VARCHAR, target VARCHAR, host VARCHAR,
    trace_id VARCHAR, parent_trace_id VARCHAR, session VARCHAR, task VARCHAR, approval_id VARCHAR, risk VARCHAR,
    ts TIMESTAMPTZ NOT NULL,            -- when the call was first heard of
    last_ts TIMESTAMPTZ NOT NULL,       -- when it was last heard of
    decision VARCHAR, decided_at TIMESTAMPTZ, decided_by VARCHAR,  -- the last decision and its event
    decision_native VARCHAR, reason VARCHAR, reason_code VARCHAR, rule_ids VARCHAR[], stance VARCHAR,
    denied_at TIMESTAMPTZ,              -- the first denial, if there was one
    approval_requested_at TIMESTAMPTZ, approved_at TIMESTAMPTZ,
    executed_at TIMESTAMPTZ, executed_by VARCHAR, status VARCHAR, error VARCHAR, latency_ms DOUBLE, cost_usd DECIMAL(18,9),
    event_ids VARCHAR[] NOT NULL        -- sorted
);

CREATE TABLE IF NOT EXISTS minute_counts (  -- appended by landing: sum over equal keys
    minute TIMESTAMPTZ NOT NULL, tenant VARCHAR, agent VARCHAR,
    events UBIGINT NOT NULL,
    denied UBIGINT NOT NULL,            -- decisions that said no; an approval that expired is nobody's no
    external UBIGINT NOT NULL,          -- egress events and executed calls with a host, denied ones left out
    approvals BIGINT NOT NULL,          -- calls for which an approval was asked; -1 takes one back
    subject VARCHAR,                    -- for whom it is counted: the agent, else the principal, else the source
    rows_read UBIGINT DEFAULT 0, bytes_read UBIGINT DEFAULT 0  -- what executed calls answered
);
ALTER TABLE minute_counts ADD COLUMN IF NOT EXISTS subject VARCHAR; ALTER TABLE minute_counts ADD COLUMN IF NOT EXISTS rows_read UBIGINT DEFAULT 0; ALTER TABLE minute_counts ADD COLUMN IF NOT EXISTS bytes_read UBIGINT DEFAULT 0;

CREATE TABLE IF NOT EXISTS sightings (  -- whom which tool, host or account served on a day; appended by landing: the least ts counts
    tenant VARCHAR, subject VARCHAR NOT NULL,
    what VARCHAR NOT NULL,              -- tool | host | account
    value VARCHAR NOT NULL, day DATE NOT NULL, ts TIMESTAMPTZ NOT NULL  -- the day in UTC; the first time on it
);

CREATE TABLE IF NOT EXISTS changes (  -- which stretch of time each batch touched: what must be judged again
    seq UBIGINT NOT NULL, since TIMESTAMPTZ NOT NULL, until TIMESTAMPTZ NOT NULL,  -- both ends included
    kinds VARCHAR[]  -- of the events that came; NULL: any
);
ALTER TABLE changes ADD COLUMN IF NOT EXISTS kinds VARCHAR[];

CREATE TABLE IF NOT EXISTS prunes (  -- what was taken out, and from which time of events on nothing was
    ledger_seq UBIGINT NOT NULL, ts TIMESTAMPTZ NOT NULL, before TIMESTAMPTZ NOT NULL,
    floor TIMESTAMPTZ NOT NULL, lines UBIGINT NOT NULL
);

-- 3. What it is held against -------------------------------------------------------------------

CREATE TABLE IF NOT EXISTS policies (  -- the newest row is in force
    version VARCHAR NOT NULL, loaded_at TIMESTAMPTZ NOT NULL, path VARCHAR, doc JSON NOT NULL
);

CREATE TABLE IF NOT EXISTS protocols (  -- all of one folder at once; the newest row is in force
    version VARCHAR NOT NULL, loaded_at TIMESTAMPTZ NOT NULL, path VARCHAR, doc JSON NOT NULL
);

-- 4. What detectors found ----------------------------------------------------------------------

CREATE TABLE IF NOT EXISTS judgements (  -- per detector, disjoint ranges of event time: judged, or due and why
    detector VARCHAR NOT NULL, since TIMESTAMPTZ NOT NULL, until TIMESTAMPTZ NOT NULL,  -- half-open
    status VARCHAR NOT NULL,            -- judged | due | frozen: reaches back to what was pruned
    reason VARCHAR, judged_at TIMESTAMPTZ
);

CREATE TABLE IF NOT EXISTS judged (  -- per detector: the ledger position up to which its due ranges are known
    detector VARCHAR PRIMARY KEY, version VARCHAR NOT NULL, seq UBIGINT NOT NULL,
    runs UBIGINT NOT NULL, failures UBIGINT NOT NULL, last_success_at TIMESTAMPTZ, last_seconds DOUBLE, last_error VARCHAR
);

CREATE TABLE IF NOT EXISTS rounds (  -- of each detector, since its note before; written once a minute, of a failed round at once
    detector VARCHAR NOT NULL, noted_at TIMESTAMPTZ NOT NULL,  -- by the service's clock
    ok UBIGINT NOT NULL, failed UBIGINT NOT NULL, seconds DOUBLE NOT NULL, error VARCHAR  -- the last one
);

CREATE TABLE IF NOT EXISTS clock_steps (  -- when the service's own clock was set, by more than a minute
    noted_at TIMESTAMPTZ NOT NULL, seconds DOUBLE NOT NULL  -- above 0: forward
);

CREATE TABLE IF NOT EXISTS stretches (  -- rows of detectors: one per triggering event or closed window
    detector VARCHAR NOT NULL, tenant VARCHAR NOT NULL, subject VARCHAR NOT NULL,
    started_at TIMESTAMPTZ NOT NULL, ended_at TIMESTAMPTZ NOT NULL,
    severity VARCHAR NOT NULL, event_ids VARCHAR[] NOT NULL, facts JSON NOT NULL
);

CREATE TABLE IF NOT EXISTS alerts (  -- one stretch of trouble for one subject
    alert_id VARCHAR PRIMARY KEY, detector VARCHAR NOT NULL, tenant VARCHAR NOT NULL, subject VARCHAR NOT NULL,
    severity VARCHAR NOT NULL,          -- low | medium | high | critical
    status VARCHAR NOT NULL,            -- open | resolved | withdrawn | merged
    started_at TIMESTAMPTZ NOT NULL, ended_at TIMESTAMPTZ NOT NULL, rows UBIGINT NOT NULL,
    title VARCHAR NOT NULL, title_zh VARCHAR NOT NULL, facts JSON NOT NULL, event_ids VARCHAR[] NOT NULL,
    opened_at TIMESTAMPTZ NOT NULL, resolved_at TIMESTAMPTZ, merged_into VARCHAR,
    backfill BOOLEAN NOT NULL,          -- it was over long before it landed: shown, not told
    told_at TIMESTAMPTZ, told_severity VARCHAR, tellings UBIGINT NOT NULL, quiet_reason VARCHAR,
    closed_told BOOLEAN NOT NULL DEFAULT false,  -- that it is over has been said
    acked_at TIMESTAMPTZ, acked_by VARCHAR, verdict VARCHAR, verdict_reason VARCHAR, verdict_by VARCHAR, verdict_at TIMESTAMPTZ,
    about VARCHAR[],                    -- `agent NAME`, `trace ID` of its evidence; NULL: not looked up yet
    assigned_to VARCHAR,                -- the person who is to look into it
    ack_told BOOLEAN DEFAULT false,     -- that somebody has it has been said
    quiet_severity VARCHAR,             -- how bad it was when it began to be kept quiet: what is worse is told
    continues VARCHAR,                  -- the alert that people know of the same trouble, which had stopped just before
    flapping BOOLEAN DEFAULT false,     -- that it comes and goes has been said
    gates VARCHAR[]                     -- the sources of its evidence
);
ALTER TABLE alerts ADD COLUMN IF NOT EXISTS about VARCHAR[]; ALTER TABLE alerts ADD COLUMN IF NOT EXISTS assigned_to VARCHAR; ALTER TABLE alerts ADD COLUMN IF NOT EXISTS ack_told BOOLEAN DEFAULT false;
ALTER TABLE alerts ADD COLUMN IF NOT EXISTS quiet_severity VARCHAR; ALTER TABLE alerts ADD COLUMN IF NOT EXISTS continues VARCHAR; ALTER TABLE alerts ADD COLUMN IF NOT EXISTS flapping BOOLEAN DEFAULT false;
ALTER TABLE alerts ADD COLUMN IF NOT EXISTS gates VARCHAR[];

CREATE TABLE IF NOT EXISTS alert_events (  -- the history of an alert
    alert_id VARCHAR NOT NULL, ts TIMESTAMPTZ NOT NULL,
    what VARCHAR NOT NULL,              -- opened | grew | severity | resolved | reopened | withdrawn | merged | told | quiet | acked | verdict | retaken | assigned | comment | escalated | fallback
    detail VARCHAR
);

CREATE TABLE IF NOT EXISTS silences (  -- what it matches are patterns, as in `billing-*`; NULL matches everything
    silence_id VARCHAR PRIMARY KEY, detector VARCHAR, subject VARCHAR,
    author VARCHAR NOT NULL, reason VARCHAR NOT NULL, created_at TIMESTAMPTZ NOT NULL, expires_at TIMESTAMPTZ NOT NULL,
    agent VARCHAR, tenant VARCHAR, tag VARCHAR, severity VARCHAR, at_most VARCHAR,  -- exactly that bad; no worse than that
    ended_by VARCHAR                    -- who ended it before its time: then expires_at is when
);
ALTER TABLE silences ADD COLUMN IF NOT EXISTS agent VARCHAR; ALTER TABLE silences ADD COLUMN IF NOT EXISTS tenant VARCHAR; ALTER TABLE silences ADD COLUMN IF NOT EXISTS tag VARCHAR;
ALTER TABLE silences ADD COLUMN IF NOT EXISTS severity VARCHAR; ALTER TABLE silences ADD COLUMN IF NOT EXISTS at_most VARCHAR; ALTER TABLE silences ADD COLUMN IF NOT EXISTS ended_by VARCHAR;

CREATE TABLE IF NOT EXISTS storms (  -- many alerts of one detector, told of in one message to the same receivers
    storm_id VARCHAR PRIMARY KEY, detector VARCHAR NOT NULL, receivers VARCHAR[] NOT NULL,
    began_at TIMESTAMPTZ NOT NULL, told_at TIMESTAMPTZ, tellings UBIGINT NOT NULL,
    calm_at TIMESTAMPTZ                 -- when it was said that all of them are over
);

CREATE TABLE IF NOT EXISTS storm_members (
    storm_id VARCHAR NOT NULL, alert_id VARCHAR NOT NULL, severity VARCHAR NOT NULL,
    joined_at TIMESTAMPTZ NOT NULL, told_at TIMESTAMPTZ  -- when a summary named it
);
CREATE TABLE IF NOT EXISTS escalations (alert_id VARCHAR NOT NULL, key UBIGINT NOT NULL, next_at TIMESTAMPTZ);  -- when to look again for steps that are due; NULL: none is left

-- 5. Who was told ------------------------------------------------------------------------------

CREATE TABLE IF NOT EXISTS deliveries (  -- the outbox: one message owed to one receiver
    delivery_id VARCHAR PRIMARY KEY, receiver VARCHAR NOT NULL, alert_id VARCHAR NOT NULL,
    kind VARCHAR NOT NULL,              -- detectors.receivers.Kind
    severity VARCHAR NOT NULL, created_at TIMESTAMPTZ NOT NULL, message JSON NOT NULL,
    state VARCHAR NOT NULL,             -- pending | delivered | accepted | dead: docs/delivery.md
    attempts UBIGINT NOT NULL, next_at TIMESTAMPTZ NOT NULL, done_at TIMESTAMPTZ, last_error VARCHAR,
    unsure UBIGINT DEFAULT 0,           -- attempts after which nobody knows whether it arrived
    doubts UBIGINT DEFAULT 0,           -- of those, the ones whose answer did not come in time
    handle VARCHAR,                     -- what the service calls the message
    retried_at TIMESTAMPTZ              -- when a person asked for it once more
);
ALTER TABLE deliveries ADD COLUMN IF NOT EXISTS unsure UBIGINT DEFAULT 0; ALTER TABLE deliveries ADD COLUMN IF NOT EXISTS doubts UBIGINT DEFAULT 0; ALTER TABLE deliveries ADD COLUMN IF NOT EXISTS handle VARCHAR;
ALTER TABLE deliveries ADD COLUMN IF NOT EXISTS retried_at TIMESTAMPTZ;

CREATE TABLE IF NOT EXISTS attempts (  -- outcome: started | delivered | retry | doubt | refused; digest: see reason
    delivery_id VARCHAR NOT NULL, receiver VARCHAR NOT NULL, ts TIMESTAMPTZ NOT NULL,
    outcome VARCHAR NOT NULL, reason VARCHAR, seconds DOUBLE
);

CREATE TABLE IF NOT EXISTS firing (  -- what Alertmanagers are told, by the set of labels that is an alert there
    fp VARCHAR NOT NULL, severity VARCHAR NOT NULL, alert_id VARCHAR NOT NULL,
    stamp VARCHAR NOT NULL,             -- of what the annotations say
    labels JSON NOT NULL, annotations JSON NOT NULL,
    started_at TIMESTAMPTZ NOT NULL, ended_at TIMESTAMPTZ,  -- as Alertmanagers are told; ended_at NULL: it fires
    fresh BOOLEAN NOT NULL,             -- none has taken it since it changed
    PRIMARY KEY (fp, severity)
);

-- 6. What people made of it --------------------------------------------------------------------

CREATE TABLE IF NOT EXISTS incidents (  -- a run that a person or an import has labelled
    incident_id VARCHAR PRIMARY KEY, label VARCHAR NOT NULL,  -- misaction | good
    tenant VARCHAR, trace_id VARCHAR NOT NULL, family VARCHAR,
    committed_at TIMESTAMPTZ, event_id VARCHAR,               -- the wrong act, where known
    alert_id VARCHAR, severity VARCHAR, author VARCHAR NOT NULL, reason VARCHAR, labelled_at TIMESTAMPTZ NOT NULL
);

CREATE TABLE IF NOT EXISTS rules (rule_id VARCHAR NOT NULL, fingerprint VARCHAR NOT NULL, status VARCHAR NOT NULL, path VARCHAR NOT NULL, doc JSON NOT NULL, read_at TIMESTAMPTZ NOT NULL);

CREATE TABLE IF NOT EXISTS proposals (
    fingerprint VARCHAR PRIMARY KEY, rule_id VARCHAR NOT NULL, state VARCHAR NOT NULL,  -- found | proposed | refused
    rule JSON NOT NULL, evidence JSON NOT NULL, branch VARCHAR, url VARCHAR, made_at TIMESTAMPTZ NOT NULL
);

CREATE TABLE IF NOT EXISTS pauses (  -- a row a gate that was asked to stop an agent or a trace: detectors/pauses.py
    pause_id VARCHAR NOT NULL, gate VARCHAR NOT NULL, kind VARCHAR NOT NULL, name VARCHAR NOT NULL, tenant VARCHAR NOT NULL,
    until TIMESTAMPTZ NOT NULL, reason VARCHAR NOT NULL, actor VARCHAR NOT NULL, alert_id VARCHAR NOT NULL, automatic BOOLEAN NOT NULL,
    asked_at TIMESTAMPTZ NOT NULL, state VARCHAR NOT NULL,  -- asked | confirmed | refused | resuming | resumed | expired | stuck
    owed VARCHAR, next_at TIMESTAMPTZ NOT NULL, attempts UBIGINT NOT NULL,  -- owed: pause | resume, what the gate is still to be told
    status INTEGER, answer VARCHAR, answered_at TIMESTAMPTZ, ended_at TIMESTAMPTZ, ended_by VARCHAR, ended_reason VARCHAR,
    told VARCHAR                        -- the trouble that people were told of: refused | unconfirmed | stuck | unresumed
);

CREATE TABLE IF NOT EXISTS operator_log (  -- every action of a person, and what the service did outside itself
    ledger_seq UBIGINT NOT NULL, ts TIMESTAMPTZ NOT NULL, actor VARCHAR NOT NULL,
    action VARCHAR NOT NULL,            -- ack | verdict | reopen | assign | comment | silence | silence_end | label | policy | delivery | propose
    subject VARCHAR, detail JSON NOT NULL,
    applied BOOLEAN NOT NULL            -- its effect on alerts and incidents is in the tables
);
