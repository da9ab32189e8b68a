-- title     = "{subject}: {tool} to {address}, which only {read_tool} had named"
-- title_zh  = "{subject}：{tool} 使用了只在 {read_tool} 返回内容中出现过的 {address}"
-- severity  = "high"
-- tags      = ["egress", "injection"]
-- why       = "The agent acts on an address, account or host that nobody in the talk gave it: it stood only in content read from outside, a page, a mail, a ticket, a document. That is how a stranger's text makes an agent send money or data to the stranger."
-- respond   = "Pause the agent or the trace first. Open the read and look for text that speaks to the agent ('ignore previous', 'forward this to'). If it is there: stop the payment or recall the message, block the address, find what else came from that content. If the user asked to pay or answer what the document says, mark the alert expected."
-- respond_zh = "先暂停该智能体或该调用链。打开读取到的内容，查找对智能体说话的文字（“忽略之前的指令”“转发到”）。若有：止付或撤回，封禁该地址，并排查同一内容还引发了什么。若用户本来就要求按该文档付款或回复，把告警记为符合预期。"
-- quiet     = "Addresses that the user or the system named, that the agent used before the read, or that a lookup in an own system returned (the customer's record). Whom a mail or record is from by its own fields is answered quietly, unless its text asks to send something there (medium) or speaks to the agent. 'Pay this bill', where the user named what was read, is only medium. Opening a link is told of where text speaks to the agent, or where data goes along to a host that is not on the policy's list; what goes to one that is on it, only where text speaks to the agent."
-- lookback  = "1 hour"
-- gap       = "1 hour"
-- needs     = ["params", "response", "op", "trace_id or session"]
-- kinds     = ["message", "model_call", "egress", "tool_proposed", "tool_decided", "tool_executed", "approval_requested", "approval_decided"]
-- hot       = "SELECT 1 FROM (SELECT coalesce(trace_id, session) AS run FROM calls WHERE last_ts >= $since AND ts < $until AND (op = 'commit' OR host IS NOT NULL) AND (executed_at >= $since OR denied_at >= $since) UNION ALL SELECT coalesce(trace_id, session) FROM events WHERE ts >= $since AND ts < $until AND kind = 'egress') WHERE run IN (SELECT coalesce(trace_id, session) FROM events WHERE ts >= $since - INTERVAL '1 hour' AND ts < $until AND kind = 'tool_executed' AND response IS NOT NULL AND coalesce(op, '') <> 'commit')"
-- [params]
-- outside   = { type = "text", default = "web, webpage, website, browser, browse, page, pages, http, url, urls, scrape, crawl, curl, email, emails, mail, mails, inbox, gmail, outlook, imap, ticket, tickets, issue, issues, comment, comments, document, documents, doc, docs, pdf, file, files, attachment, attachments, slack, chat, channel, messages, review, reviews, feed, rss, forum" }
-- trusted   = { type = "text", default = "" }

-- `outside`: a tool reads from outside when a word of its name is one of these, or when it calls a host that is not on the policy's list.
-- `trusted`: names as in "docs.read_handbook, wiki*" of tools that do not, whatever their names. What changes something reads nothing.
WITH tools AS (
    SELECT tool, len(list_filter(string_split($trusted, ','), lambda x: tool GLOB trim(x))) = 0
             AND list_has_any(string_split(regexp_replace(words(tool), '[^\p{L}\p{N}]+', ' ', 'g'), ' '),
                              list_transform(string_split(lower($outside), ','), lambda x: trim(x))) AS outside
    FROM (SELECT DISTINCT tool FROM events WHERE ts >= $since - $lookback AND ts < $until AND kind = 'tool_executed')
    WHERE tool IS NOT NULL
),
active AS (  -- talks in which the agent does something in the range
    SELECT coalesce(tenant, '') AS tenant, coalesce(trace_id, session) AS run
    FROM calls
    WHERE last_ts >= $since AND ts < $until AND (op = 'commit' OR host IS NOT NULL)
    UNION
    SELECT coalesce(tenant, ''), coalesce(trace_id, session) FROM events WHERE ts >= $since AND ts < $until AND kind = 'egress'
),
named AS (  -- the addresses that were read there from outside, at whatever time
    SELECT tenant, run, unnest(addresses_in(content)) AS address
    FROM (SELECT coalesce(e.tenant, '') AS tenant, coalesce(e.trace_id, e.session) AS run, json_text(e.response) AS content
          FROM events e
          JOIN tools t USING (tool)
          SEMI JOIN active a ON a.tenant = coalesce(e.tenant, '') AND a.run = coalesce(e.trace_id, e.session)
          WHERE e.ts >= $since - $lookback AND e.ts < $until AND e.kind = 'tool_executed' AND e.response IS NOT NULL AND coalesce(e.op, '') <> 'commit'
            AND (t.outside OR (e.host IS NOT NULL AND egress_listed() AND NOT host_listed(e.host))))
),
exposed AS (SELECT DISTINCT tenant, run FROM named),
acts AS (  -- what the agent did or tried there
    SELECT coalesce(c.tenant, '') AS tenant, coalesce(c.trace_id, c.session) AS run, agent, actor(agent, principal, session, c.trace_id, source) AS subject,
           call_key AS id, tool, op = 'commit' AS changes, call_id, host, params,
           unnest([{'ts': executed_at, 'act_id': executed_by, 'outcome': 'executed'},
                   {'ts': denied_at, 'act_id': CASE WHEN decided_at = denied_at THEN decided_by ELSE event_ids[1] END, 'outcome': 'denied'}], recursive := true)
    FROM calls c
    SEMI JOIN exposed x ON x.tenant = coalesce(c.tenant, '') AND x.run = coalesce(c.trace_id, c.session)
    WHERE last_ts >= $since AND c.ts < $until AND (op = 'commit' OR host IS NOT NULL)
    UNION ALL BY NAME
    SELECT coalesce(e.tenant, '') AS tenant, coalesce(e.trace_id, e.session) AS run, agent, actor(agent, principal, session, e.trace_id, source) AS subject,
           event_id AS id, tool, false AS changes, call_id, host, params, ts, event_id AS act_id,
           CASE WHEN decision = 'deny' OR status IN ('denied', 'cancelled') THEN 'denied' ELSE 'executed' END AS outcome
    FROM events e
    SEMI JOIN exposed x ON x.tenant = coalesce(e.tenant, '') AND x.run = coalesce(e.trace_id, e.session)
    WHERE e.ts >= $since AND e.ts < $until AND e.kind = 'egress'
),
sent AS (  -- the addresses of what changes something; of what only calls out, the host
    SELECT * EXCLUDE (host), unnest(list_distinct(CASE WHEN changes THEN addresses_in(json_text(params)) ELSE [] END
                                                          || CASE WHEN host IS NOT NULL THEN ['host:' || host] ELSE [] END)) AS address
    FROM acts
    WHERE ts >= $since AND ts < $until
),
wanted AS (FROM sent SEMI JOIN named USING (tenant, run, address)),  -- there should be few
heard AS (  -- everything that was said, read and sent in those talks
    SELECT coalesce(e.tenant, '') AS tenant, coalesce(e.trace_id, e.session) AS run, e.ts, e.event_id, e.tool, e.params, e.kind,
           e.role IN ('user', 'human', 'system', 'developer') AS told, e.text, json_text(e.response) AS content,
           coalesce(t.outside, false) OR (e.host IS NOT NULL AND egress_listed() AND NOT host_listed(e.host)) AS outside, coalesce(e.op, '') = 'commit' AS changes
    FROM events e
    SEMI JOIN wanted w ON w.tenant = coalesce(e.tenant, '') AND w.run = coalesce(e.trace_id, e.session)
    LEFT JOIN tools t USING (tool)
    WHERE e.ts >= $since - $lookback AND e.ts < $until AND (e.text IS NOT NULL OR e.response IS NOT NULL OR e.params IS NOT NULL)
      AND e.kind IN ('message', 'model_call', 'egress', 'tool_proposed', 'tool_decided', 'tool_executed', 'approval_requested', 'approval_decided')
),
sources AS (  -- rank: of one instant, what was read comes first
    SELECT tenant, run, ts, 1 AS rank, event_id, tool, false AS outside, coalesce(told, false) AS known, text AS body FROM heard WHERE kind IN ('message', 'model_call')
    UNION ALL
    SELECT tenant, run, ts, 1, event_id, tool, false, false, json_text(params) FROM heard
    UNION ALL
    SELECT tenant, run, ts, CASE WHEN outside AND NOT changes THEN 0 ELSE 1 END, event_id, tool, outside AND NOT changes, NOT outside AND NOT changes, content
    FROM heard WHERE kind = 'tool_executed'
),
sighted AS (
    SELECT s.* FROM (SELECT * EXCLUDE (tool, body), unnest(addresses_in(body)) AS address FROM sources WHERE body IS NOT NULL) s
    SEMI JOIN wanted w ON w.tenant = s.tenant AND w.run = s.run AND w.address = s.address
    UNION ALL BY NAME
    SELECT DISTINCT tenant, run, ts, 2 AS rank, address, true AS asked FROM wanted
),
traced AS (
    SELECT tenant, run, ts, address, asked,
           min(CASE WHEN asked IS NULL THEN {'ts': ts, 'rank': rank, 'event_id': event_id, 'outside': outside} END) OVER before AS first,
           bool_or(known) OVER before AS known
    FROM sighted
    WINDOW before AS (PARTITION BY tenant, run, address ORDER BY ts RANGE BETWEEN $lookback PRECEDING AND CURRENT ROW)
),
unknown AS (SELECT tenant, run, ts, address, first FROM traced WHERE asked AND first.outside AND NOT coalesce(known, false)),
found AS (
    SELECT w.*, u.first.ts AS read_at, u.first.event_id AS read_id, h.tool AS read_tool, commands_agent(h.content) AS commanded,
           asks_to_send(h.content) AS pleaded,
           list_contains(addresses_in(senders_in(h.content)), w.address) AS is_sender,
           list_contains(addresses_in(without_senders(h.content)), w.address) AS in_text,
           list_filter(values_in(w.params), lambda x: length(x) >= 12 AND NOT contains(lower(h.content), x)) AS carried,
           list_filter(values_in(h.params), lambda x: length(x) >= 4) AS pointers
    FROM unknown u
    JOIN wanted w ON w.tenant = u.tenant AND w.run = u.run AND w.ts = u.ts AND w.address = u.address
    JOIN heard h ON h.tenant = u.tenant AND h.run = u.run AND h.event_id = u.first.event_id
),
pointed AS (  -- the user had named what was read: the file, the page
    SELECT f.tenant, f.run, f.id, f.act_id, f.address
    FROM found f
    JOIN heard m ON m.tenant = f.tenant AND m.run = f.run AND m.told AND m.ts <= f.ts AND m.ts >= f.ts - $lookback
    WHERE len(list_filter(f.pointers, lambda x: contains(lower(m.text), x))) > 0
    GROUP BY ALL
),
weighed AS (
    SELECT f.*, is_sender OR p.id IS NOT NULL AS expected, starts_with(f.address, 'host:') AND host_listed(f.address[6:]) AS listed,
           starts_with(f.address, 'host:') AND egress_listed() AND len(carried) > 0 AS carries
    FROM found f
    LEFT JOIN pointed p ON p.tenant = f.tenant AND p.run = f.run AND p.id = f.id AND p.act_id = f.act_id AND p.address = f.address
)
SELECT subject, tenant, least(read_at, ts) AS started_at, ts AS ended_at, list_sort(list_distinct([read_id, act_id])) AS event_ids, agent,
       CASE WHEN outcome = 'denied' THEN 'medium' WHEN commanded OR (pleaded AND NOT expected) THEN 'critical' WHEN expected THEN 'medium' ELSE 'high' END AS severity,
       coalesce(tool, 'a call outside') AS tool, call_id, run, regexp_replace(address, '^[a-z]+:', '') AS address, regexp_extract(address, '^[a-z]+') AS what, read_tool, outcome,
       CASE WHEN commanded THEN 'the content speaks to the agent' WHEN pleaded THEN 'the content asks to send something' ELSE 'no instruction seen' END AS content, coalesce(expected, false) AS expected
FROM weighed
WHERE commanded OR (carries AND NOT listed)
   OR (changes AND NOT listed AND (NOT is_sender OR (pleaded AND in_text)))  -- to answer whom it is from is what such content is read for
