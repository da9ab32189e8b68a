-- What a call asked for and what it came to, as the detectors of repetition read it. Read after ingest/macros.sql.

-- the idempotency key in a call's parameters, by the names that payment and cloud interfaces give it, at any depth
CREATE OR REPLACE MACRO commit_key(p_params) AS CASE WHEN regexp_matches(p_params::VARCHAR, '(?i)idempoten|client_?(request_?)?token')
  THEN nz(regexp_extract(p_params::VARCHAR, '(?i)"(x-)?(idempotency[-_ ]?key|client[-_]?(request[-_]?)?token)"\s*:\s*"?([^",}\]]+)', 4)) END;
-- an error after which it is certain that nothing was done
CREATE OR REPLACE MACRO refused_clearly(p_error) AS regexp_matches(lower(p_error), '(^|\D)4(0[0-79]|[1-9]\d)(\D|$)|invalid|validation|bad request|not found|no such|forbidden'
  '|unauthori[sz]ed|denied|declined|insufficient|reject|refused|already exists|duplicate|conflict|rate.?limit|too many requests|missing|required|syntax'
  '|exit (code|status)|无效|不存在|余额不足|拒绝|已存在');
-- a tool that runs whatever command it is given; a tool that waits for something to happen
CREATE OR REPLACE MACRO runs_commands(p_tool) AS coalesce(regexp_matches(words(p_tool), '(^|[^a-z])(bash|shell|sh|zsh|powershell|cmd|terminal|command|exec|execute|run|python|code)([^a-z]|$)'), false);
CREATE OR REPLACE MACRO waits(p_tool) AS coalesce(regexp_matches(words(p_tool), '(^|[^a-z])(status|state|poll|wait|await|progress|health|ping|watch|sleep|queue|inbox|receive|dequeue|heartbeat|pending)([^a-z]|$)'), false);
-- did a lookup find nothing? NULL where its log does not say. An answer is empty when it has no rows; when all it has are empty lists, nothings, noughts
-- and what echoes the question; or when it says so in words. A number or a truth value by itself is an answer.
CREATE OR REPLACE MACRO says_nothing(p_text) AS length(p_text) < 200
  AND regexp_matches(lower(p_text), '^\W*((no|zero|0|nothing|not any)\b.*\b(found|results?|match(es)?|records?|files?|rows?|entries|items|documents|hits)\b|not found|nothing found|none found)|^.{0,60}\b(not found|does not exist|no longer exists)\W*$|未找到|没有找到|查无|无结果|没有结果');
CREATE OR REPLACE MACRO empty_json(p_text) AS regexp_full_match(p_text, '\s*(\[\s*\]|\{\s*\}|null|"\s*")\s*') OR (length(p_text) < 1000
  AND regexp_full_match(p_text, '\s*\{(\s*("(?i:query|q|filters?|term|search|page|page_size|limit|offset|took|took_ms|cursor|object)"\s*:\s*("[^"\\]*"|[0-9.]+)|"[^"\\]*"\s*:\s*(\[\s*\]|\{\s*\}|null|""|0|false|true|"(?i:ok|success)"))\s*,?)*\s*\}\s*')
  AND regexp_matches(p_text, ':\s*(\[\s*\]|\{\s*\}|null|"")|"(?i:count|total|total_?count|num_?results|hits|found)"\s*:\s*0\b'));
CREATE OR REPLACE MACRO came_back_empty(p_status, p_error, p_response, p_rows, p_bytes) AS CASE
  WHEN p_rows IS NOT NULL THEN p_rows = 0
  WHEN p_status IN ('timeout', 'denied', 'cancelled') THEN NULL
  WHEN p_status = 'error' THEN CASE WHEN regexp_matches(lower(p_error), '(^|\D)404(\D|$)|not[ _-]?found|no such|does not exist|nosuchkey|未找到|不存在') THEN true END
  WHEN p_response IS NOT NULL THEN CASE WHEN length(p_response::VARCHAR) > 1000 THEN false
    ELSE empty_json(p_response::VARCHAR) OR coalesce(says_nothing(p_response ->> '$'), false)
      OR coalesce(says_nothing(p_response ->> '$.content[0].text') OR empty_json(p_response ->> '$.content[0].text'), false) END
  WHEN p_bytes IS NOT NULL THEN p_bytes = 0 END;
