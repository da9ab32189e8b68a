-- What a policy's limits count: what a call does to a database, whom it writes to, what went through, and how much is allowed.
-- Read after ingest/macros.sql, whose words it uses; detectors/catalogue/limit_exceeded.sql and detectors/whatif.py ask it.

-- what a call does to a database, as far as its parameters tell: an `operation` and `table`, else the verbs and tables of its SQL text
CREATE OR REPLACE MACRO sql_of(p) AS regexp_replace(coalesce(p ->> '$.sql', p ->> '$.query', p ->> '$.statement'),
  '''[^'']*''|--[^\n]*|/\*.*?\*/|\b(extract|trim|substring|overlay|position)\s*\([^()]*\)', ' ', 'gis');
CREATE OR REPLACE MACRO operations_of(p) AS list_sort(list_distinct(CASE WHEN json_type(p, '$.operation') = 'VARCHAR' THEN [upper(p ->> '$.operation')]
  ELSE coalesce(regexp_extract_all(upper(sql_of(p)), '(?:^|;|\))\s*(SELECT|INSERT|UPDATE|DELETE|MERGE|REPLACE|DROP|TRUNCATE|ALTER|CREATE|GRANT|REVOKE|CALL|EXEC|EXECUTE|COPY)\b', 1), []) END));
CREATE OR REPLACE MACRO sql_clauses(q) AS regexp_replace(q, '\b(from|join|into|update|table|where|on|using|order|group|left|right|inner|outer|full|cross|natural|limit|having|union|set|values|select)\b', ';\1', 'g');
CREATE OR REPLACE MACRO sql_tables(q) AS list_transform(flatten(list_transform(
    regexp_extract_all(sql_clauses(q), ';(?:from|join|into|update|table)\s+((?:if\s+exists\s+|only\s+)?["`]?[\w.$]+["`]?(?:\s+(?:as\s+)?\w+)?(?:\s*,\s*["`]?[\w.$]+["`]?(?:\s+(?:as\s+)?\w+)?)*)', 1),
    lambda lam_f: string_split(lam_f, ','))),
  lambda lam_t: regexp_extract(lam_t, '^\s*(?:if\s+exists\s+|only\s+)?["`]?(?:(?:public|dbo|main)\.)?([\w.$]+)', 1));
CREATE OR REPLACE MACRO tables_of(p) AS list_sort(list_distinct(CASE WHEN json_type(p, '$.table') = 'VARCHAR' THEN [lower(p ->> '$.table')]
  WHEN json_type(p, '$.tables') = 'ARRAY' THEN list_transform(strs(json_extract(p, '$.tables')), lambda lam_n: lower(lam_n))
  WHEN len(operations_of(p)) = 0 THEN []
  ELSE list_filter(coalesce(sql_tables(lower(sql_of(p))), []),  -- what WITH names is no table
    lambda lam_x: NOT list_contains(regexp_extract_all(lower(sql_of(p)), '(?:\bwith|\brecursive|,)\s*(\w+)\s+as\s*\(', 1), lam_x)) END));
-- does it delete: by its tool's name, where it changes anything, or by what it does to a database
CREATE OR REPLACE MACRO deletes(p_tool, p_op, p_params) AS coalesce(coalesce(p_op, 'commit') = 'commit'
    AND regexp_matches(words(p_tool), '(^|[^a-z])(delete|remove|drop|truncate|purge|destroy|erase|wipe|unlink|rm)([^a-z]|$)'), false)
  OR CASE WHEN regexp_matches(p_params::VARCHAR, 'delete|drop|truncate', 'i') THEN list_has_any(operations_of(p_params), ['DELETE', 'DROP', 'TRUNCATE']) ELSE false END;
-- is it a message to somebody; how many addresses it names, in to, cc and bcc: texts with commas between, lists, or objects
CREATE OR REPLACE MACRO is_message(p_tool, p_op) AS coalesce(coalesce(p_op, 'commit') = 'commit'
  AND regexp_matches(words(p_tool), '(^|[^a-z])(send|mail|email|sms|message|notify)([^a-z]|$)'), false);
CREATE OR REPLACE MACRO addresses(j) AS CASE json_type(j) WHEN 'ARRAY' THEN flatten(list_transform(arr(j), lambda lam_a: regexp_split_to_array(lam_a ->> '$', '[,;]')))
  WHEN 'VARCHAR' THEN regexp_split_to_array(j ->> '$', '[,;]') WHEN 'OBJECT' THEN [j::VARCHAR] ELSE [] END;
CREATE OR REPLACE MACRO recipients_of(p) AS len(list_distinct(list_filter(list_transform(flatten(list_transform(['$.to', '$.cc', '$.bcc', '$.recipients', '$.recipient'],
  lambda lam_k: addresses(json_extract(p, lam_k)))), lambda lam_r: lower(trim(lam_r))), lambda lam_r: lam_r <> '')));

-- calls that went through, and when: allowed by the last word on them, or executed
CREATE OR REPLACE MACRO passed(p_since, p_until) AS TABLE
  SELECT * FROM (
    SELECT coalesce(c.tenant, '') AS tenant, actor(c.agent, c.principal, c.session, c.trace_id, c.source) AS subject, c.agent, c.call_key,
           c.tool, c.op, c.host, c.params, coalesce(c.task, c.trace_id) AS task, c.executed_at IS NOT NULL AS ran,
           least(CASE WHEN c.decision = 'allow' THEN c.decided_at END, c.executed_at) AS ts,
           CASE WHEN c.executed_at IS NULL OR (c.decision = 'allow' AND c.decided_at <= c.executed_at) THEN c.decided_by ELSE c.executed_by END AS event_id
    FROM calls c WHERE c.last_ts >= p_since AND c.ts < p_until)
  WHERE ts >= p_since AND ts < p_until;
-- the limits that a policy sets: how much is allowed within `width`, or within a local day, whose uses carry its date
CREATE OR REPLACE MACRO policy_limits(p_doc) AS TABLE
  SELECT lim, try_cast(told AS DECIMAL(18, 9)) AS allowed, width FROM (VALUES
    ('tool_calls_per_minute', p_doc ->> '$.rate_limits.tool_calls_per_minute', INTERVAL '1 minute'),
    ('tool_calls_per_task', p_doc ->> '$.rate_limits.tool_calls_per_task', INTERVAL '24 hours'),
    ('external_requests_per_hour', p_doc ->> '$.rate_limits.external_requests_per_hour', INTERVAL '1 hour'),
    ('outbound_messages_per_day', p_doc ->> '$.rate_limits.outbound_messages_per_day', INTERVAL '26 hours'),
    ('recipients_per_message', p_doc ->> '$.rate_limits.recipients_per_message', INTERVAL '1 second'),
    ('daily_cost_limit_usd', p_doc ->> '$.budgets.daily_cost_limit_usd', INTERVAL '26 hours')) AS limits(lim, told, width)
  WHERE told IS NOT NULL
  UNION ALL
  SELECT 'daily_limit of ' || (t ->> 'name'), try_cast(t ->> 'daily_limit' AS DECIMAL(18, 9)), INTERVAL '26 hours'
  FROM (SELECT unnest(arr(json_extract(p_doc, '$.tools'))) AS t) WHERE (t ->> 'daily_limit') IS NOT NULL;
-- what counts towards them, of whom something counts in [p_from, p_until): from p_since on
CREATE OR REPLACE MACRO limit_uses(p_since, p_from, p_until, p_doc, p_zone) AS TABLE
  WITH spent AS (
    SELECT coalesce(tenant, '') AS tenant, actor(agent, principal, session, trace_id, source) AS subject, agent, ts, event_id,
           CASE WHEN kind <> 'egress' AND cost_usd > 0 THEN cost_usd END AS cost,
           kind = 'egress' AND coalesce(decision, '') <> 'deny' AND coalesce(status, '') <> 'denied' AS outside
    FROM events  -- the cost of a run is that of its parts: of those alone it is added up
    WHERE ts >= p_since AND ts < p_until AND (kind = 'egress' OR (cost_usd > 0 AND kind IN ('model_call', 'tool_executed')))
  ),
  actors AS (SELECT tenant, subject FROM passed(p_from, p_until) UNION SELECT tenant, subject FROM spent WHERE ts >= p_from),
  went AS MATERIALIZED (
    SELECT p.tenant, p.subject, p.agent, p.call_key, p.ts, p.event_id, p.tool, p.task, p.ran AND p.host IS NOT NULL AS outside,
           is_message(p.tool, p.op) AS message, CASE WHEN is_message(p.tool, p.op) THEN recipients_of(p.params) END AS recipients
    FROM passed(p_since, p_until) p SEMI JOIN actors a ON a.tenant = p.tenant AND a.subject = p.subject
  )
  SELECT 'tool_calls_per_minute' AS lim, tenant, subject, agent, '' AS about, call_key, ts, event_id, 1::DECIMAL(18, 9) AS amount FROM went
  UNION ALL SELECT 'tool_calls_per_task', tenant, subject, agent, task, call_key, ts, event_id, 1 FROM went WHERE task IS NOT NULL
  UNION ALL SELECT 'external_requests_per_hour', tenant, subject, agent, '', call_key, ts, event_id, 1 FROM went WHERE outside
  UNION ALL SELECT 'external_requests_per_hour', tenant, subject, agent, '', event_id, ts, event_id, 1 FROM spent SEMI JOIN actors USING (tenant, subject) WHERE outside
  UNION ALL SELECT 'daily_limit of ' || tool, tenant, subject, agent, timezone(p_zone, ts)::DATE::VARCHAR, call_key, ts, event_id, 1 FROM went
    WHERE tool IN (SELECT t ->> 'name' FROM (SELECT unnest(arr(json_extract(p_doc, '$.tools'))) AS t) WHERE (t ->> 'daily_limit') IS NOT NULL)
  UNION ALL SELECT 'outbound_messages_per_day', tenant, subject, agent, timezone(p_zone, ts)::DATE::VARCHAR, call_key, ts, event_id, 1 FROM went WHERE message
  UNION ALL SELECT 'recipients_per_message', tenant, subject, agent, call_key, call_key, ts, event_id, recipients FROM went WHERE recipients > 0
  UNION ALL SELECT 'daily_cost_limit_usd', tenant, subject, agent, timezone(p_zone, ts)::DATE::VARCHAR, event_id, ts, event_id, cost
    FROM spent SEMI JOIN actors USING (tenant, subject) WHERE cost IS NOT NULL;
