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
  -- what stands before the last dot is where, not what: mail.update_draft sends nothing
  AND regexp_matches(words(regexp_extract(p_tool, '[^.]*$')), '(^|[^a-z])(send|mail|email|sms|message|notify)([^a-z]|$)'), false);
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
-- what counts outside of calls: money, but not that of a run, which is that of its parts; and egress
CREATE OR REPLACE MACRO spent(p_since, p_until) AS TABLE
  SELECT coalesce(e.tenant, '') AS tenant, actor(e.agent, e.principal, e.session, e.trace_id, e.source) AS subject, e.agent, e.ts, e.event_id,
         CASE WHEN e.kind <> 'egress' THEN e.cost_usd END AS cost, e.kind = 'egress' AND coalesce(e.decision, '') <> 'deny' AND coalesce(e.status, '') <> 'denied' AS outside
  FROM events e
  WHERE e.ts >= p_since AND e.ts < p_until AND (e.kind = 'egress' OR (e.cost_usd > 0 AND e.kind IN ('model_call', 'tool_executed')));
-- the limits that a policy sets: how much is allowed within `width` (of one local day, where it is a day's), and how wide the buckets are that hold it
CREATE OR REPLACE MACRO policy_limits(p_doc) AS TABLE
  SELECT lim, tool, try_cast(told AS DECIMAL(18, 9)) AS allowed, width, step FROM (
    SELECT * FROM (VALUES
      ('tool_calls_per_minute', NULL, p_doc ->> '$.rate_limits.tool_calls_per_minute', INTERVAL '1 minute', INTERVAL '1 minute'),
      ('tool_calls_per_task', NULL, p_doc ->> '$.rate_limits.tool_calls_per_task', INTERVAL '24 hours', INTERVAL '1 day'),
      ('external_requests_per_hour', NULL, p_doc ->> '$.rate_limits.external_requests_per_hour', INTERVAL '1 hour', INTERVAL '1 hour'),
      ('outbound_messages_per_day', NULL, p_doc ->> '$.rate_limits.outbound_messages_per_day', INTERVAL '26 hours', INTERVAL '1 day'),
      ('recipients_per_message', NULL, p_doc ->> '$.rate_limits.recipients_per_message', INTERVAL '1 second', INTERVAL '1 day'),
      ('daily_cost_limit_usd', NULL, p_doc ->> '$.budgets.daily_cost_limit_usd', INTERVAL '26 hours', INTERVAL '1 day')) AS limits(lim, tool, told, width, step)
    UNION ALL
    SELECT 'daily_limit', t ->> 'name', t ->> 'daily_limit', INTERVAL '26 hours', INTERVAL '1 day'
    FROM (SELECT unnest(arr(json_extract(p_doc, '$.tools'))) AS t))
  WHERE told IS NOT NULL;
-- Each use in [p_from, p_until) that is one too many, counted from p_since on: `used` with it, `shown` its last 20.
-- First sums over buckets, of hashes and numbers alone, say where more than allowed can lie within one width at all; only there is each use looked at.
CREATE OR REPLACE MACRO over_limits(p_since, p_from, p_until, p_doc, p_zone) AS TABLE
  WITH limits AS MATERIALIZED (FROM policy_limits(p_doc)),
  actors AS (SELECT hash(tenant, subject) AS who FROM passed(p_from, p_until) UNION SELECT hash(tenant, subject) FROM spent(p_from, p_until)),
  messengers AS MATERIALIZED (  -- few tools have many calls; with `n` it is asked of a tool, not of each call
    SELECT tool FROM (SELECT tool, count(*) AS n FROM calls WHERE last_ts >= p_since AND ts < p_until GROUP BY tool) WHERE CASE WHEN n > 0 THEN is_message(tool, 'commit') END
  ),
  slim AS MATERIALIZED (
    SELECT hash(tenant, subject) AS who, CASE WHEN task IS NOT NULL THEN hash(task) END AS task, hash(tool) AS tool, ts, true AS call,
           ran AND host IS NOT NULL AS outside, NULL::DECIMAL(18, 9) AS cost,
           CASE WHEN (p_doc ->> '$.rate_limits.outbound_messages_per_day') IS NULL THEN false ELSE coalesce(op, 'commit') = 'commit' AND coalesce(tool IN (FROM messengers), false) END AS message
    FROM passed(p_since, p_until) WHERE hash(tenant, subject) IN (FROM actors) AND EXISTS (FROM limits)
    UNION ALL
    SELECT hash(tenant, subject), NULL, NULL, ts, false, outside, cost, false
    FROM spent(p_since, p_until) WHERE hash(tenant, subject) IN (FROM actors) AND EXISTS (FROM limits)
  ),
  sums AS (
    SELECT 'tool_calls_per_minute' AS lim, who, 0::UBIGINT AS about, make_timestamp(epoch_us(floored(ts, INTERVAL '1 minute'))) AS bucket, count(*)::DECIMAL(38, 9) AS amount
      FROM slim WHERE call GROUP BY ALL
    UNION ALL SELECT 'tool_calls_per_task', who, task, make_timestamp(epoch_us(floored(ts, INTERVAL '1 day'))), count(*) FROM slim
      WHERE task IN (SELECT task FROM slim WHERE task IS NOT NULL GROUP BY who, task HAVING count(*) > (SELECT allowed FROM limits WHERE lim = 'tool_calls_per_task')) GROUP BY ALL
    UNION ALL SELECT 'external_requests_per_hour', who, 0, make_timestamp(epoch_us(floored(ts, INTERVAL '1 hour'))), count(*) FROM slim WHERE outside GROUP BY ALL
    UNION ALL SELECT 'daily_limit', who, tool, date_trunc('day', timezone(p_zone, ts)), count(*) FROM slim WHERE tool IN (SELECT hash(tool) FROM limits WHERE tool IS NOT NULL) GROUP BY ALL
    UNION ALL SELECT 'outbound_messages_per_day', who, 0, date_trunc('day', timezone(p_zone, ts)), count(*) FROM slim WHERE message GROUP BY ALL
    UNION ALL SELECT 'daily_cost_limit_usd', who, 0, date_trunc('day', timezone(p_zone, ts)), sum(cost) FROM slim WHERE cost IS NOT NULL GROUP BY ALL
  ),
  busy AS MATERIALIZED (  -- of two neighbours that hold more than allowed, one holds more than half
    SELECT DISTINCT s.lim, s.who, s.about, unnest([s.bucket - l.step, s.bucket, s.bucket + l.step]) AS bucket
    FROM sums s JOIN limits l ON l.lim = s.lim AND (l.tool IS NULL OR hash(l.tool) = s.about)
    WHERE CASE WHEN l.width > INTERVAL '24 hours' THEN s.amount ELSE 2 * s.amount END > l.allowed
  ),
  days AS (SELECT DISTINCT who, unnest([bucket::DATE - 1, bucket::DATE, bucket::DATE + 1]) AS day FROM busy),
  went AS MATERIALIZED (
    SELECT p.* EXCLUDE (params), hash(p.tenant, p.subject) AS who FROM passed(p_since, p_until) p JOIN days d ON d.who = hash(p.tenant, p.subject) AND d.day = p.ts::DATE
  ),
  cash AS MATERIALIZED (
    SELECT s.*, hash(s.tenant, s.subject) AS who FROM spent(p_since, p_until) s JOIN days d ON d.who = hash(s.tenant, s.subject) AND d.day = s.ts::DATE
  ),
  uses AS (
    SELECT 'tool_calls_per_minute' AS lim, who, tenant, subject, agent, '' AS about, make_timestamp(epoch_us(floored(ts, INTERVAL '1 minute'))) AS bucket, call_key, ts, event_id, 1::DECIMAL(18, 9) AS amount FROM went
    UNION ALL SELECT 'tool_calls_per_task', who, tenant, subject, agent, task, make_timestamp(epoch_us(floored(ts, INTERVAL '1 day'))), call_key, ts, event_id, 1 FROM went WHERE task IS NOT NULL
    UNION ALL SELECT 'external_requests_per_hour', who, tenant, subject, agent, '', make_timestamp(epoch_us(floored(ts, INTERVAL '1 hour'))), call_key, ts, event_id, 1 FROM went WHERE ran AND host IS NOT NULL
    UNION ALL SELECT 'external_requests_per_hour', who, tenant, subject, agent, '', make_timestamp(epoch_us(floored(ts, INTERVAL '1 hour'))), event_id, ts, event_id, 1 FROM cash WHERE outside
    UNION ALL SELECT 'daily_limit', who, tenant, subject, agent, tool, date_trunc('day', timezone(p_zone, ts)), call_key, ts, event_id, 1 FROM went WHERE tool IS NOT NULL
    UNION ALL SELECT 'outbound_messages_per_day', who, tenant, subject, agent, '', date_trunc('day', timezone(p_zone, ts)), call_key, ts, event_id, 1 FROM went WHERE is_message(tool, op)
    UNION ALL SELECT 'daily_cost_limit_usd', who, tenant, subject, agent, '', date_trunc('day', timezone(p_zone, ts)), event_id, ts, event_id, cost FROM cash WHERE cost IS NOT NULL
  ),
  near AS (  -- of a day, a bucket is a group of its own
    SELECT u.lim, u.tenant, u.subject, u.agent, u.about, u.call_key, u.ts, u.event_id, u.amount, l.allowed, l.width, CASE WHEN l.width > INTERVAL '24 hours' THEN u.bucket::DATE END AS day
    FROM uses u
    JOIN limits l ON l.lim = u.lim AND (l.tool IS NULL OR l.tool = u.about) AND u.ts > p_from - l.width  -- of before, only what one width reaches
    SEMI JOIN busy b ON b.lim = u.lim AND b.who = u.who AND b.bucket = u.bucket AND b.about = CASE WHEN u.about = '' THEN 0::UBIGINT ELSE hash(u.about) END
  ),
  counted AS (
    SELECT *, sum(amount) OVER behind - coalesce(sum(amount) OVER others, 0) AS used, min(ts) OVER behind AS first_ts,
           list({'ts': ts, 'event_id': event_id}) OVER (PARTITION BY lim, tenant, subject, about, day ORDER BY ts, call_key, event_id ROWS BETWEEN 19 PRECEDING AND CURRENT ROW) AS shown
    FROM near
    WINDOW behind AS (PARTITION BY lim, tenant, subject, about, day ORDER BY ts RANGE BETWEEN width - INTERVAL '1 microsecond' PRECEDING AND CURRENT ROW),
           others AS (PARTITION BY lim, tenant, subject, about, day, ts ORDER BY call_key, event_id ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING)
  )
  SELECT lim, tenant, subject, agent, about, day, call_key, ts, event_id, used, allowed, first_ts, shown FROM counted WHERE used > allowed AND ts >= p_from
  UNION ALL
  SELECT lim, tenant, subject, agent, '', NULL, call_key, ts, event_id, n, allowed, ts, [{'ts': ts, 'event_id': event_id}]
  FROM (SELECT m.*, l.lim, l.allowed, recipients_of(m.params) AS n FROM passed(p_from, p_until) m JOIN limits l ON l.lim = 'recipients_per_message' WHERE m.tool IN (FROM messengers) AND coalesce(m.op, 'commit') = 'commit')
  WHERE n > allowed;

-- what the gate itself said of a call: a person's yes is 'approved', a person's no or nobody's answer was the gate's 'require_approval'
CREATE OR REPLACE MACRO gate_said(p_decision, p_code, p_asked_at, p_approved_at) AS CASE
  WHEN p_decision = 'allow' AND p_approved_at IS NOT NULL THEN 'approved' WHEN p_decision = 'deny' AND (p_asked_at IS NOT NULL
    OR coalesce(p_code, '') IN ('expired', 'cancelled', 'rejected')) THEN 'require_approval' ELSE p_decision END;
-- is that the reason code of a limit or a budget
CREATE OR REPLACE MACRO limit_code(p_code) AS coalesce(regexp_matches(lower(p_code), '(^|[^a-z])(rate_?limit|limit|quota|budget|throttl|too_?many|rpm|tpm)|429'), false);
-- Decided calls as a policy sees them. `p_night`: of each minute of a local day, does anybody attend; `p_shut`: tools and the minutes in which they are
-- shut; `p_shaped`, `p_granted`: tools whose parameters, or whose operations and tables, matter. A shape says which keys there are and which are null.
CREATE OR REPLACE MACRO policy_calls(p_since, p_until, p_zone, p_night, p_shut, p_shaped, p_granted) AS TABLE
  SELECT c.tenant, c.subject, c.agent, c.tool, c.call_key, c.ts, c.decided_by, c.trace_id, c.reason AS gate_reason, c.said, c.by_limit, c.outside,
         p_night[c.minute + 1] AS night, s.tool IS NOT NULL AS shut, deletes(c.tool, c.op, c.params) AS deletes,
         CASE WHEN c.tool IN (SELECT unnest(p_shaped)) THEN CASE WHEN contains(json_structure(c.params)::VARCHAR, '"JSON"') THEN c.params ELSE json_structure(c.params) END::VARCHAR END AS shape,
         CASE WHEN c.tool IN (SELECT unnest(p_granted)) THEN operations_of(c.params) ELSE [] END AS operations,
         CASE WHEN c.tool IN (SELECT unnest(p_granted)) THEN tables_of(c.params) ELSE [] END AS tables
  FROM (SELECT coalesce(tenant, '') AS tenant, actor(agent, principal, session, trace_id, source) AS subject, agent, tool, op, params, call_key, decided_at AS ts, decided_by,
               trace_id, reason, gate_said(decision, reason_code, approval_requested_at, approved_at) AS said, decision = 'deny' AND limit_code(reason_code) AS by_limit,
               host IS NOT NULL AS outside, hour(timezone(p_zone, decided_at)) * 60 + minute(timezone(p_zone, decided_at)) AS minute
        FROM calls
        WHERE last_ts >= p_since AND calls.ts < p_until AND decided_at >= p_since AND decided_at < p_until) c
  LEFT JOIN (SELECT w.tool AS tool, unnest(w.minutes) AS minute FROM (SELECT unnest(p_shut) AS w)) s ON s.tool = c.tool AND s.minute = c.minute;
-- minutes since midnight of a time of day as a policy writes it
CREATE OR REPLACE MACRO clock_minute(p_clock) AS split_part(p_clock, ':', 1)::INTEGER * 60 + split_part(p_clock, ':', 2)::INTEGER;
-- calls in [p_since, p_until) that a limit leaves no room for, and which: a day's money, once spent, leaves none for all further calls of that day
CREATE OR REPLACE MACRO over_calls(p_since, p_until, p_doc, p_zone) AS TABLE
  WITH used_up AS MATERIALIZED (SELECT lim, tenant, subject, day, call_key, ts FROM over_limits(p_since - INTERVAL '27 hours', p_since - INTERVAL '27 hours', p_until, p_doc, p_zone))
  SELECT call_key, min(lim) AS lim FROM (
    SELECT lim, call_key FROM used_up WHERE lim <> 'daily_cost_limit_usd' AND ts >= p_since
    UNION ALL
    SELECT u.lim, p.call_key
    FROM (SELECT lim, tenant, subject, day, min(ts) AS ts FROM used_up WHERE lim = 'daily_cost_limit_usd' GROUP BY ALL) u
    JOIN passed(p_since, p_until) p ON p.tenant = u.tenant AND p.subject = u.subject AND p.ts >= u.ts AND timezone(p_zone, p.ts)::DATE = u.day)
  GROUP BY call_key;
