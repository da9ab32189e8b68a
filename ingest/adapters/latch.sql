-- title  = "latch-agent audit log"
-- format = "ndjson"
-- paths  = ["/v1/ingest/latch"]

-- A line is a decision of the policy, or (method browser or webauthn) the answer of a person.
-- No line names an agent, a session or a person; a hook that failed lets the call through and says so.
-- `ask` hands the question to the client, whose answer is not written.

WITH lines_read AS (
    SELECT
        ledger_seq, source, received_at, doc,
        from_json(doc, '{
            "id": "VARCHAR", "timestamp": "VARCHAR", "toolName": "VARCHAR", "toolInput": "JSON",
            "action": "VARCHAR", "decision": "VARCHAR", "reason": "VARCHAR", "method": "VARCHAR", "mode": "VARCHAR"
        }') AS d
    FROM lines
),
input_read AS (
    SELECT
        *,
        from_json(CASE WHEN json_type(d.toolInput) = 'OBJECT' THEN d.toolInput END, '{
            "file_path": "VARCHAR", "command": "VARCHAR", "url": "VARCHAR"
        }') AS i,
        iso_ts(d.timestamp) AS claimed,
        coalesce(d.method IN ('browser', 'webauthn'), false) AS asked,
        coalesce(d.method = 'fail-open', false) AS failed_open,
        -- Not WHERE: DuckDB would push it down to the lines and read each of them twice.
        unnest(CASE WHEN nz(d.toolName) IS NOT NULL AND nz(d.decision) IS NOT NULL THEN [true] END) AS kept
    FROM lines_read
)
SELECT
    eid(source, coalesce('id:' || nz(d.id), 'seq:' || ledger_seq), doc) AS event_id,
    CASE WHEN asked THEN 'approval_decided' ELSE 'tool_decided' END AS kind,
    source,
    ledger_seq,
    nz(d.id) AS native_id,
    claimed AS ts,
    CASE
        WHEN failed_open THEN NULL
        -- the proxy puts the server's alias before the name: alias__tool
        WHEN d.mode = 'mcp' THEN coalesce(nz(regexp_extract(d.toolName, '^.+?__(.+)$', 1)), d.toolName)
        ELSE bare_tool(d.toolName)
    END AS tool,
    CASE WHEN NOT failed_open THEN jval(d.toolInput) END AS params,
    coalesce(nz(i.file_path), nz(i.url), nz(i.command)) AS target,
    CASE WHEN contains(i.url, '://') THEN host_of(i.url) END AS host,
    CASE
        WHEN asked THEN CASE WHEN d.decision = 'allow' THEN 'allow' ELSE 'deny' END
        WHEN d.decision = 'ask' THEN 'require_approval'
        WHEN d.decision IN ('allow', 'deny') THEN d.decision
    END AS decision,
    concat_ws('/', nz(d.action), d.decision) AS decision_native,
    lst([nz(regexp_extract(d.reason, '^Policy rule: "(.*)" ', 1))]) AS rule_ids,
    nz(d.reason) AS reason,
    CASE WHEN asked THEN CASE WHEN d.decision = 'allow' THEN 'approved' ELSE 'rejected' END END AS reason_code,
    CASE WHEN failed_open THEN ['fail_open'] END AS signals,
    CASE WHEN asked THEN nz(d.id) END AS approval_id,
    compact(json_object(
        'method', nz(d.method), 'mode', nz(d.mode),
        'tool_server', CASE WHEN d.mode = 'mcp' THEN nz(regexp_extract(d.toolName, '^(.+?)__', 1))
            ELSE tool_server(d.toolName) END,
        'ts_claimed', CASE WHEN claimed IS NULL THEN nz(d.timestamp) END)) AS attrs
FROM input_read
