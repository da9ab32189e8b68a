-- What adapters, detectors and pages share: words, ids, times, hosts, tools, and the policy in force.
-- Read after ingest/schema.sql, whose table of policies the last of them ask.
-- DuckDB 2.0: macro parameters are pasted as text, so lambda parameters carry a lam_ prefix (a lambda parameter named like a
-- column of the caller captures it); `->` binds looser than =, IS NULL, IN and ||, so it is always parenthesised; `->>` binds tight.

-- absent markers -> NULL
CREATE OR REPLACE MACRO nz(x) AS CASE WHEN x IS NULL OR x IN ('', '-', 'null', 'None', 'undefined') THEN NULL ELSE x END;
-- JSON null -> SQL NULL
CREATE OR REPLACE MACRO jn(j) AS CASE WHEN json_type(j) = 'NULL' THEN NULL ELSE j END;
-- JSON array -> list; anything else -> empty list
CREATE OR REPLACE MACRO arr(j) AS CASE WHEN json_type(j) = 'ARRAY' THEN from_json(j, '["JSON"]') ELSE [] END;
-- JSON array or string -> list of strings
CREATE OR REPLACE MACRO strs(j) AS CASE json_type(j) WHEN 'ARRAY' THEN from_json(j, '["VARCHAR"]') WHEN 'VARCHAR' THEN [j->>'$'] END;
-- text that may hold JSON: object or array -> JSON, other text -> JSON string (nothing lost, NaN never becomes JSON)
CREATE OR REPLACE MACRO jstr(x) AS CASE WHEN x IS NULL THEN NULL WHEN regexp_matches(x, '^\s*[\[{]') AND json_valid(x) THEN x::JSON ELSE to_json(x) END;
-- a field that is JSON in some producers and stringified JSON in others
CREATE OR REPLACE MACRO jval(j) AS CASE json_type(j) WHEN 'VARCHAR' THEN jstr(j->>'$') WHEN 'NULL' THEN NULL ELSE j END;
-- object without its NULL members; NULL when nothing is left
CREATE OR REPLACE MACRO compact(j) AS nullif(json_merge_patch('{}'::JSON, j)::VARCHAR, '{}')::JSON;
-- list without its NULL members; NULL when nothing is left
CREATE OR REPLACE MACRO lst(l) AS CASE WHEN len(list_filter(l, lambda lam_v: lam_v IS NOT NULL)) > 0 THEN list_filter(l, lambda lam_v: lam_v IS NOT NULL) END;
-- event id. Key = the format's own logical key (decision id, tool-use id, trace:span; content NULL), else a native id with the content (the same id
-- with other content stays a second event), else 'seq:' and the ledger position. NULL parts are skipped.
CREATE OR REPLACE MACRO eid(p_source, p_key, p_content) AS left(sha256(concat_ws('|', p_source, p_key, p_content)), 32);

-- ids: hex in any case | base64 | dashed UUID | trace_/span_ prefix | array of bytes -> lower hex; else NULL
CREATE OR REPLACE MACRO hexid(x) AS CASE
  WHEN nz(x) IS NULL OR regexp_full_match(x, '0+') THEN NULL
  WHEN regexp_full_match(lower(x), '[0-9a-f]{16}|[0-9a-f]{32}') THEN lower(x)
  WHEN regexp_full_match(lower(x), '[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}') THEN replace(lower(x), '-', '')
  WHEN regexp_full_match(x, '(trace|span)_[0-9a-f]{24,32}') THEN regexp_extract(x, '_([0-9a-f]+)$', 1)
  WHEN regexp_full_match(x, '[A-Za-z0-9+/]{11}=|[A-Za-z0-9+/]{22}==') THEN lower(hex(try(from_base64(x))))
  ELSE NULL END;
CREATE OR REPLACE MACRO hexid_j(j) AS CASE json_type(j)
  WHEN 'ARRAY' THEN hexid(array_to_string(list_transform(from_json(j, '["UTINYINT"]'), lambda lam_b: printf('%02x', lam_b)), ''))
  ELSE hexid(j->>'$') END;

-- time: nanoseconds as string, number or {"low","high"} halves; epoch seconds; ISO 8601 in the spellings met in practice
CREATE OR REPLACE MACRO ns_num(j) AS nullif(CASE WHEN json_type(j) = 'OBJECT'
  THEN try(try_cast(j->>'high' AS BIGINT) * 4294967296 + (try_cast(j->>'low' AS BIGINT) & 4294967295)) ELSE try_cast(j->>'$' AS BIGINT) END, 0);
CREATE OR REPLACE MACRO ns_ts(n) AS try(make_timestamp(n // 1000) AT TIME ZONE 'UTC');   -- cuts to microseconds; make_timestamp_ns()::TIMESTAMP would round
CREATE OR REPLACE MACRO ep_ts(x) AS try(to_timestamp(try_cast(x AS DOUBLE)));
CREATE OR REPLACE MACRO iso_fix(x) AS regexp_replace(regexp_replace(replace(upper(x), ',', '.'),
  '^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)', '\1-\2-\3T\4:\5:\6'), '([+-]\d\d:?\d\d)Z$', '\1');
-- a time that names no zone is in the zone of its source, which landing sets
CREATE OR REPLACE MACRO zoned(x) AS CASE WHEN regexp_matches(x, '(Z|[+-]\d\d(:?\d\d)?)$') AND length(x) > 10 THEN try_cast(x AS TIMESTAMPTZ)
  ELSE try_cast(x AS TIMESTAMP) AT TIME ZONE coalesce(getvariable('zone'), 'UTC') END;
-- an epoch as a number: the year tells its unit (seconds, ms, us and ns do not overlap from 2000 to 2100)
CREATE OR REPLACE MACRO num_ts(n) AS try(CASE WHEN n < 100000000000 THEN make_timestamptz((n * 1000000)::BIGINT) WHEN n < 100000000000000 THEN make_timestamptz((n * 1000)::BIGINT)
  WHEN n < 100000000000000000 THEN make_timestamptz(n::BIGINT) ELSE make_timestamptz(floor(n / 1000)::BIGINT) END);
-- any text that tells a time, else NULL; a leap second is the second after it
CREATE OR REPLACE MACRO when_ts(x) AS CASE
  WHEN regexp_matches(x, '^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:[0-5]\d(\.\d+)?Z$') THEN try_cast(x AS TIMESTAMPTZ)
  WHEN regexp_matches(x, '^\d+(\.\d*)?([eE]\+?\d+)?$') THEN num_ts(try_cast(x AS DECIMAL(38, 9)))
  WHEN regexp_matches(iso_fix(x), '^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:60') THEN try(zoned(regexp_replace(iso_fix(x), '^(.{17})60', '\159')) + INTERVAL 1 SECOND)
  WHEN regexp_matches(iso_fix(x), '^\d{4}-\d\d-\d\d[T ]\d\d:\d\d') THEN zoned(iso_fix(x)) END;
CREATE OR REPLACE MACRO iso_ts(x) AS when_ts(x);
-- what is odd about a wall time of a zone that sets its clocks. One that the clocks skipped is read as if they had not yet been set: 02:30 becomes
-- 03:30 summer time. One that they showed twice is read as the second of the two.
CREATE OR REPLACE MACRO wall_odd(w, z) AS CASE WHEN timezone(z, timezone(z, w)) <> w THEN 'impossible_time'
  WHEN timezone(z, timezone(z, w) - INTERVAL 1 HOUR) = w OR timezone(z, timezone(z, w) - INTERVAL 30 MINUTE) = w THEN 'ambiguous_time' END;
CREATE OR REPLACE MACRO time_odd(x) AS CASE WHEN coalesce(getvariable('zone'), 'UTC') <> 'UTC' AND regexp_matches(x, '^\d{4}-?\d\d-?\d\d[Tt ][\d:.,]+$')
  THEN wall_odd(try_cast(iso_fix(x) AS TIMESTAMP), getvariable('zone')) END;
-- the start of the stretch of a fixed width, counted from 1970, in which a time lies: what time_bucket and date_trunc ask a calendar for, on integers
CREATE OR REPLACE MACRO floored(p_ts, p_width) AS make_timestamptz(epoch_us(p_ts) // epoch_us(p_width) * epoch_us(p_width));
CREATE OR REPLACE MACRO ms_between(t0, t1) AS try((epoch_us(t1) - epoch_us(t0)) / 1000.0);

-- OTLP read with from_json: the shape of a list of attributes, and that list as one JSON object of texts (the first of two equal keys wins, a pair
-- without a key is skipped; map_from_entries raises on both). A list or an object in a value becomes plain JSON, two levels deep; what lies deeper
-- stays as OTLP writes it. json_extract, because DuckDB takes `v->'x'` on a macro's parameter for a lambda.
CREATE OR REPLACE MACRO otlp_pairs() AS '[{"key":"VARCHAR","value":{"stringValue":"VARCHAR","intValue":"VARCHAR","doubleValue":"VARCHAR","boolValue":"VARCHAR","bytesValue":"VARCHAR","arrayValue":"JSON","kvlistValue":"JSON"}}]';
CREATE OR REPLACE MACRO otlp_scalar(v) AS coalesce(jn(json_extract(v, '$.stringValue')), try_cast(v->>'intValue' AS BIGINT)::VARCHAR::JSON,
  jn(json_extract(v, '$.doubleValue')), jn(json_extract(v, '$.boolValue')), jn(json_extract(v, '$.bytesValue')), v);
CREATE OR REPLACE MACRO otlp_inner(v) AS CASE
  WHEN json_type(v, '$.arrayValue.values') = 'ARRAY' THEN to_json(list_transform(arr(json_extract(v, '$.arrayValue.values')), lambda lam_e: otlp_scalar(lam_e)))
  WHEN json_type(v, '$.kvlistValue.values') = 'ARRAY' THEN list_reduce(list_prepend('{}'::JSON, list_transform(arr(json_extract(v, '$.kvlistValue.values')),
    lambda lam_e: json_object(coalesce(lam_e->>'key', ''), otlp_scalar(json_extract(lam_e, '$.value'))))), lambda lam_x, lam_y: json_merge_patch(lam_x, lam_y))
  ELSE otlp_scalar(v) END;
CREATE OR REPLACE MACRO otlp_list(v) AS to_json(list_transform(arr(json_extract(v, '$.values')), lambda lam_l: otlp_inner(lam_l)));
CREATE OR REPLACE MACRO otlp_members(v) AS list_reduce(list_prepend('{}'::JSON, list_transform(arr(json_extract(v, '$.values')),
  lambda lam_o: json_object(coalesce(lam_o->>'key', ''), otlp_inner(json_extract(lam_o, '$.value'))))), lambda lam_x, lam_y: json_merge_patch(lam_x, lam_y));
CREATE OR REPLACE MACRO otlp_texts(l) AS list_transform(l, lambda lam_t: {'key': lam_t.key, 'value': coalesce(lam_t.value.stringValue, lam_t.value.intValue,
  lam_t.value.boolValue, lam_t.value.doubleValue, CASE WHEN lam_t.value.arrayValue IS NOT NULL THEN otlp_list(lam_t.value.arrayValue)::VARCHAR END,
  CASE WHEN lam_t.value.kvlistValue IS NOT NULL THEN otlp_members(lam_t.value.kvlistValue)::VARCHAR END, lam_t.value.bytesValue)});
CREATE OR REPLACE MACRO otlp_firsts(l) AS list_filter(l, lambda lam_m, lam_i: lam_m.key IS NOT NULL
  AND list_position(list_transform(l, lambda lam_k: lam_k.key), lam_m.key) = lam_i);
CREATE OR REPLACE MACRO otlp_object(l) AS to_json(map_from_entries(otlp_texts(
  CASE WHEN list_unique(list_transform(l, lambda lam_u: lam_u.key)) = len(l) THEN l ELSE otlp_firsts(l) END)));
CREATE OR REPLACE MACRO otlp_text(l, k) AS list_filter(l, lambda lam_k: lam_k.key = k)[1].value.stringValue;

-- a number as text; what one operation of the gen_ai conventions is
CREATE OR REPLACE MACRO otlp_number(x) AS CASE WHEN isfinite(try_cast(x AS DOUBLE)) THEN try_cast(x AS DOUBLE) END;
CREATE OR REPLACE MACRO otlp_kind(p_operation) AS CASE WHEN p_operation IN ('execute_tool', 'retrieval') THEN 'tool_executed'
  WHEN p_operation IN ('run_guardrail', 'policy') THEN 'tool_decided'
  WHEN p_operation IN ('chat', 'generate_content', 'text_completion', 'embeddings') THEN 'model_call'
  WHEN p_operation IN ('invoke_agent', 'create_agent', 'invoke_workflow') THEN 'agent_run' ELSE 'other' END;
-- agent-audit records, in whatever they come: a person's answer, or nobody's, is the end of an approval
CREATE OR REPLACE MACRO audit_kind(p_phase, p_decision, p_by) AS CASE p_phase WHEN 'proposed' THEN 'tool_proposed' WHEN 'executed' THEN 'tool_executed'
  WHEN 'decided' THEN CASE WHEN lower(p_decision) = 'timeout' OR (lower(p_by) = 'human' AND lower(p_decision) <> 'defer') THEN 'approval_decided' ELSE 'tool_decided' END
  ELSE 'other' END;
CREATE OR REPLACE MACRO audit_decision(p_decision) AS CASE WHEN lower(p_decision) IN ('allow', 'auto_allow') THEN 'allow'
  WHEN lower(p_decision) IN ('deny', 'auto_deny', 'cancel', 'timeout') THEN 'deny' WHEN lower(p_decision) = 'defer' THEN 'require_approval' END;
CREATE OR REPLACE MACRO audit_status(p_outcome, p_why) AS CASE lower(p_outcome) WHEN 'success' THEN 'ok' WHEN 'failure' THEN 'error' WHEN 'timeout' THEN 'timeout'
  WHEN 'not_executed' THEN CASE WHEN lower(p_why) = 'denied' THEN 'denied' ELSE 'cancelled' END END;
CREATE OR REPLACE MACRO audit_op(p_reads, p_destroys) AS CASE WHEN lower(p_destroys) = 'true' THEN 'commit' WHEN lower(p_reads) = 'true' THEN 'lookup' WHEN lower(p_reads) = 'false' THEN 'commit' END;
CREATE OR REPLACE MACRO audit_usd(p_amount, p_currency, p_unit) AS CASE WHEN lower(coalesce(p_currency, p_unit)) = 'usd' THEN p_amount END;

-- hosts and ports: scheme, credentials, path, brackets and trailing dot removed, lower case
CREATE OR REPLACE MACRO no_scheme(x) AS regexp_replace(x, '^[A-Za-z][A-Za-z0-9+.-]*://', '');
CREATE OR REPLACE MACRO host_of(x) AS nz(rtrim(lower(trim(regexp_extract(no_scheme(x), '^(?:[^/@]*@)?(\[[^\]]*\]|[^:/?#]+)', 1), '[]')), '.'));
CREATE OR REPLACE MACRO port_of(x) AS try_cast(regexp_extract(no_scheme(x), '^(?:[^/@]*@)?(?:\[[^\]]*\]|[^:/?#]+):(\d+)', 1) AS INTEGER);

CREATE OR REPLACE MACRO status_http(c) AS CASE WHEN c IS NULL THEN NULL WHEN c IN (401, 403, 407) THEN 'denied' WHEN c IN (408, 504) THEN 'timeout'
  WHEN c = 499 THEN 'cancelled' WHEN c = 0 OR c >= 400 THEN 'error' ELSE 'ok' END;

-- tool names: transport prefix mcp__<server>__ removed; guess of the operation from the words of the name (op_basis = 'inferred')
CREATE OR REPLACE MACRO bare_tool(x) AS CASE WHEN starts_with(x, 'mcp__') THEN coalesce(nz(regexp_extract(x, '^mcp__.+?__(.+)$', 1)), x) ELSE nz(x) END;
CREATE OR REPLACE MACRO tool_server(x) AS nz(regexp_extract(x, '^mcp__(.+?)__.+$', 1));
CREATE OR REPLACE MACRO words(x) AS lower(regexp_replace(x, '([a-z0-9])([A-Z])', '\1_\2', 'g'));
CREATE OR REPLACE MACRO op_of(x) AS CASE
  WHEN regexp_matches(words(x), '(^|[^a-z])(create|update|delete|remove|insert|send|write|edit|refund|pay|payout|charge|exec|execute|run|bash|shell|set|drop|put|post|patch|apply|transfer|commit|submit|approve|cancel|deploy|grant|revoke|upload|publish|import)([^a-z]|$)') THEN 'commit'
  WHEN regexp_matches(words(x), '(^|[^a-z])(verify|check|validate|confirm|test|lint|dry)([^a-z]|$)') THEN 'verify'
  WHEN regexp_matches(words(x), '(^|[^a-z])(get|list|read|search|lookup|look|query|find|fetch|view|describe|show|count|glob|grep|ls|browse|export|download|retrieve|retrieval)([^a-z]|$)') THEN 'lookup' END;

-- whom something is counted for, where a log names no agent; the same text in every detector, so that alerts about one are found together
CREATE OR REPLACE MACRO actor(p_agent, p_principal, p_session, p_trace, p_source) AS
  coalesce(p_agent, 'principal ' || p_principal, 'session ' || p_session, 'trace ' || p_trace, 'source ' || p_source);

-- a person's name without its spelling: {name, place}; place is '' where none is told, CORP of CORP\wang, corp.example of wang@corp.example
CREATE OR REPLACE MACRO bare_person(p_who) AS regexp_replace(regexp_replace(lower(trim(p_who)), '^.*<([^<>]+)>$', '\1'), '^(user|human|person|mailto|acct):', '');
CREATE OR REPLACE MACRO person_of(p_who) AS {'name': regexp_replace(regexp_replace(bare_person(p_who), '^[^\\]*\\', ''), '@[^@]*$', ''),
  'place': rtrim(CASE WHEN contains(bare_person(p_who), '\') THEN regexp_extract(bare_person(p_who), '^([^\\]*)\\', 1) ELSE regexp_extract(bare_person(p_who), '@([^@]*)$', 1) END, '.')};
-- the same for what is counted by the minute, where neither session nor trace is told apart
CREATE OR REPLACE MACRO counted_for(p_agent, p_principal, p_source) AS actor(p_agent, p_principal, NULL::VARCHAR, NULL::VARCHAR, p_source);

-- the policy in force: local time, the hours when nobody watches, the hosts that may be called. A subquery that depends on no row runs once a query.
CREATE OR REPLACE MACRO policy_doc() AS (SELECT max_by(doc, {'at': loaded_at, 'row': rowid}) FROM policies);
CREATE OR REPLACE MACRO local_zone() AS (SELECT coalesce(policy_doc() ->> '$.global.timezone', 'UTC'));
-- wall time in the policy's zone, as a TIMESTAMP without zone; and its date
CREATE OR REPLACE MACRO local_time(p_ts) AS timezone(local_zone(), p_ts);
CREATE OR REPLACE MACRO local_day(p_ts) AS local_time(p_ts)::DATE;
-- for each of the 1,440 minutes of a local day: NULL attended, 0 unattended, 1 unattended since the evening of the day before
CREATE OR REPLACE MACRO unattended_minutes() AS (
  WITH asked AS (SELECT policy_doc() -> '$.global.unattended_window' AS j),
  spans AS (
    SELECT split_part(w ->> 'start', ':', 1)::INTEGER * 60 + split_part(w ->> 'start', ':', 2)::INTEGER AS lo,
           split_part(w ->> 'end', ':', 1)::INTEGER * 60 + split_part(w ->> 'end', ':', 2)::INTEGER AS hi
    FROM (SELECT unnest(CASE WHEN json_type(j) = 'ARRAY' THEN from_json(j, '["JSON"]')
                             ELSE ['{"start": "22:00", "end": "08:00"}'::JSON] END) AS w FROM asked)
  ),
  covered AS (
    SELECT m, max(CASE WHEN lo < hi AND m >= lo AND m < hi THEN 0 WHEN lo > hi AND m >= lo THEN 0 WHEN lo > hi AND m < hi THEN 1 END) AS back
    FROM range(1440) AS minutes(m) LEFT JOIN spans ON true GROUP BY m
  )
  SELECT list(back ORDER BY m) FROM covered);
-- the date of the evening that an unattended wall time belongs to, NULL for an attended one; `p_minutes` is unattended_minutes()
CREATE OR REPLACE MACRO night_of(p_local, p_minutes) AS p_local::DATE - p_minutes[hour(p_local) * 60 + minute(p_local) + 1];
CREATE OR REPLACE MACRO unattended_night(p_ts) AS night_of(local_time(p_ts), unattended_minutes());
CREATE OR REPLACE MACRO unattended(p_ts) AS unattended_night(p_ts) IS NOT NULL;
-- is there a list of hosts at all; is this host (in its canonical spelling) on it: itself, or below a name behind `*.`
CREATE OR REPLACE MACRO egress_hosts() AS (SELECT strs(policy_doc() -> '$.egress.allowed_hosts'));
CREATE OR REPLACE MACRO egress_listed() AS egress_hosts() IS NOT NULL;
CREATE OR REPLACE MACRO host_listed(p_host) AS coalesce(list_contains(egress_hosts(), p_host)
  OR len(list_filter(egress_hosts(), lambda lam_h: starts_with(lam_h, '*.') AND ends_with(p_host, lam_h[2:]))) > 0, false);

-- accounts. Is a name one of a comma-separated list, where * stands for anything; NULL is none
CREATE OR REPLACE MACRO named_in(p_name, p_list) AS coalesce(len(list_filter(string_split(p_list, ','),
  lambda lam_g: trim(lam_g) <> '' AND lower(p_name) GLOB lower(trim(lam_g)))) > 0, false);
-- an account that is made for programs, by the spellings of clouds and by the words in its name
CREATE OR REPLACE MACRO machine_account(p_name) AS regexp_matches(lower(p_name), '^system:|^spiffe://|:assumed-role/|:role/|gserviceaccount\.com$|\.amazonaws\.com$|\$$'
  '|(^|[^a-z])(svc|service|srv|bots?|agents?|robot|automation|auto|no-?reply|ci|cd|deploy(er)?|system|daemon|api|apps?|pipeline|runner|gateway|gw|proxy|workers?|jobs?|cron|batch|prod|test|staging|backend|server|client|machine|admin|root|ops|team|support|info|mcp|llm|ai)([^a-z]|$)');
-- first name and last name, as in jane.doe@corp.example, CORP\jane.doe or arn:aws:iam::1:user/jane.doe
CREATE OR REPLACE MACRO persons_name(p_name) AS NOT machine_account(regexp_replace(p_name, '@.*$', '')) AND NOT regexp_matches(lower(p_name), 'gserviceaccount\.com$')
  AND regexp_matches(lower(p_name), '^([a-z]{2,}\.[a-z]{2,}\d{0,3}@|[a-z0-9._-]+\\[a-z]{2,}\.[a-z]{2,}\d{0,3}$)|[/:]user/[a-z]{2,}\.[a-z]{2,}\d{0,3}$');
