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
CREATE OR REPLACE MACRO empty_json(p_text) AS CASE WHEN length(p_text) < 12 AND regexp_full_match(p_text, '\s*(\[\s*\]|\{\s*\}|null|"\s*")\s*') THEN true
  WHEN regexp_matches(p_text, ':\s*(\[\s*\]|\{\s*\}|null|"")|"(?i:count|total|total_?count|num_?results|hits|found)"\s*:\s*0\b')
  THEN regexp_full_match(p_text, '\s*\{(\s*("(?i:query|q|filters?|term|search|page|page_size|limit|offset|took|took_ms|cursor|object)"\s*:\s*("[^"\\]*"|[0-9.]+)|"[^"\\]*"\s*:\s*(\[\s*\]|\{\s*\}|null|""|0|false|true|"(?i:ok|success)"))\s*,?)*\s*\}\s*') ELSE false END;
CREATE OR REPLACE MACRO came_back_empty(p_status, p_error, p_response, p_rows, p_bytes) AS CASE
  WHEN p_rows IS NOT NULL THEN p_rows = 0
  WHEN p_status IN ('timeout', 'denied', 'cancelled') THEN NULL
  WHEN p_status = 'error' THEN CASE WHEN regexp_matches(lower(p_error), '(^|\D)404(\D|$)|not[ _-]?found|no such|does not exist|nosuchkey|未找到|不存在') THEN true END
  WHEN p_response IS NOT NULL THEN CASE WHEN length(p_response::VARCHAR) > 1000 THEN false
    WHEN starts_with(p_response::VARCHAR, '"') THEN trim(p_response ->> '$') = '' OR coalesce(says_nothing(p_response ->> '$'), false)
    WHEN contains(p_response::VARCHAR, '"content"') THEN empty_json(p_response::VARCHAR)
      OR coalesce(says_nothing(p_response ->> '$.content[0].text') OR empty_json(p_response ->> '$.content[0].text'), false)
    ELSE empty_json(p_response::VARCHAR) END
  WHEN p_bytes IS NOT NULL THEN p_bytes = 0 END;
-- one spelling of a path, address or id: wide letters, invisible ones, upper case, %2F, \, scheme, default port, //, /./, /x/../, home, fragment, trailing / and .
CREATE OR REPLACE MACRO one_letter(x) AS regexp_replace(translate(lower(x), 'ａｂｃｄｅｆｇｈｉｊｋｌｍｎｏｐｑｒｓｔｕｖｗｘｙｚ０１２３４５６７８９．／：－＿＠～\', 'abcdefghijklmnopqrstuvwxyz0123456789./:-_@~/'),
  '[\x{200b}-\x{200f}\x{2060}\x{feff}\x{00ad}]', '', 'g');
CREATE OR REPLACE MACRO one_path(x) AS regexp_replace(regexp_replace(regexp_replace(regexp_replace(x, '/(\.?/)+', '/', 'g'), '/[^/.][^/]*/\.\.(/|$)', '\1', 'g'), '/[^/.][^/]*/\.\.(/|$)', '\1', 'g'),
  '^(\$home|\$\{home\}|/home/[^/]+|/users/[^/]+|/root)(/|$)', '~/');
CREATE OR REPLACE MACRO respelt(x) AS regexp_replace(one_path(regexp_replace(regexp_replace(one_letter(url_decode(url_decode(one_letter(x)))),
  '^([a-z][a-z0-9+.-]*://([^/@]*@)?|mailto:)|#.*$', '', 'g'), '^([^/:]+?)\.?(:(80|443))?(/|$)', '\1\4')), '(/\*+|[/.:])+$', '');
CREATE OR REPLACE MACRO one_spelling(x) AS CASE WHEN regexp_full_match(x, '/?[a-z0-9_@-]+([./][a-z0-9_@-]+)*') AND NOT regexp_matches(x, '^/(home|users|root)') THEN x ELSE respelt(x) END;
-- the words of a call's parameters, without their names and without what says who calls and from where; a shell command falls into its words
CREATE OR REPLACE MACRO unescaped(x) AS CASE WHEN contains(x, '\') THEN replace(regexp_replace(x, '\\["nrtbf]', ' ', 'g'), '\\', '/') ELSE x END;
CREATE OR REPLACE MACRO raw_words(p_params, p_target) AS regexp_split_to_array(concat_ws(' ', p_target, unescaped(regexp_replace(p_params::VARCHAR,
  '"(?i:tenant|org|organi[sz]ation|workspace|project|region|env|environment|locale|currency|model|session|trace|request|cwd|work_?dir|user_?agent|idempotency)(?i:[a-z_-]*)"\s*:\s*(?:"(?:[^"\\]|\\.)*"|[^,}\]"]*)|"(?:[^"\\]|\\.)*"\s*:',
  ' ', 'g'))), '[\s"''`,;|&<>(){}\[\]=]+');
CREATE OR REPLACE MACRO words_asked(p_params, p_target) AS list_filter(list_transform(raw_words(p_params, p_target), lambda lam_w: one_spelling(lam_w)), lambda lam_w: lam_w <> '');
-- of those, what can name one thing: an id, a path, a host, an address; no plain word, small number, amount, date, flag, version or media type
CREATE OR REPLACE MACRO names_one(w) AS length(w) BETWEEN 5 AND 300 AND regexp_matches(w, '[0-9/@.]') AND NOT regexp_full_match(w,
  '[-+]?\d{1,5}|[-+]?[$€£¥]?\d*[.,]\d+%?|\d{4}-\d\d-\d\d.*|\d+:\d+.*|--?[a-z-]+|v?\d+(\.\d+){1,2}|[a-z]+([-_/][a-z]+)+|(application|text|image|audio|video)/.*|(utf|iso|gpt|claude|sha)-.*');
CREATE OR REPLACE MACRO things_asked(p_params, p_target) AS list_distinct(list_filter(list_transform(list_filter(raw_words(p_params, p_target),
  lambda lam_r: length(lam_r) >= 5 AND regexp_matches(lam_r, '[0-9/@.%]|[^\x00-\x7f]')), lambda lam_w: one_spelling(lam_w)), lambda lam_n: names_one(lam_n)));
-- a shell command that only looks where something is; a tool that tells people about it
CREATE OR REPLACE MACRO only_looks(p_words) AS list_contains(['ls', 'stat', 'test', 'file', 'echo', 'which', 'dirname', 'basename', 'pwd'], p_words[1]);
CREATE OR REPLACE MACRO tells_people(p_tool) AS coalesce(regexp_matches(words(p_tool), '(^|[^a-z])(tickets?|escalat\w*|notif\w*|comments?|notes?|ask|approvals?|human|log)([^a-z]|$)'), false);
