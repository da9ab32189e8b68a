-- title  = "Squid access.log, its default format or as JSON"
-- format = "text"
-- paths  = ["/v1/ingest/squid"]

-- A line is a connection or request that has ended: an open tunnel shows only then, and ts is the end.
-- Text is Squid's default `squid` format, also behind a syslog header (never the other way: an address may look like a line); JSON is the logformat of docs/sources/squid.md.
-- 407 asks for a name and password before any verdict: denied, but no decision, else every login would look like a denial.
-- A line without an address (a connection that sent no request, Squid's own pages, ICP) is kind other.
-- Equal text lines are two connections, so only a line with a sequence number (%sn, in the JSON) is known when it comes again.

WITH lines_read AS (
    SELECT
        ledger_seq, source, doc,
        doc ->> 'text' AS line,
        CASE WHEN line IS NULL THEN from_json(doc, '{
            "ts": "VARCHAR", "ms": "VARCHAR", "client": "VARCHAR", "user": "VARCHAR", "method": "VARCHAR", "url": "VARCHAR",
            "status": "VARCHAR", "squid": "VARCHAR", "hier": "VARCHAR", "peer": "VARCHAR", "bytes": "VARCHAR",
            "sent": "VARCHAR", "mime": "VARCHAR", "sni": "VARCHAR", "ua": "VARCHAR", "sn": "VARCHAR"}')
        ELSE struct_insert(regexp_extract(
            line, '^(?:[^"]{0,200}?: +)??(\d+\.\d+) +(-?\d+) (\S+) ([A-Z_0-9]+)/(\S+) (\S+) (\S+) (.+) (\S+) ([A-Z_0-9]+)/(\S+) (\S*)$',
            ['ts', 'ms', 'client', 'squid', 'status', 'bytes', 'method', 'url', 'user', 'hier', 'peer', 'mime']),
            sent := NULL::VARCHAR, sni := NULL::VARCHAR, ua := NULL::VARCHAR, sn := NULL::VARCHAR)
        END AS d
    FROM lines
),
told AS (
    SELECT
        *,
        -- %tu is milliseconds; a logformat that forgets %03tu writes 7 ms as .7
        ep_ts(CASE WHEN regexp_matches(d.ts, '\.\d{1,2}$') THEN split_part(d.ts, '.', 1) || '.' || lpad(split_part(d.ts, '.', 2), 3, '0')
            ELSE nz(d.ts) END) AS claimed,
        nz(d.ts) || ':' || nz(d.sn) AS own_id,
        nz(d.url) AS dest,
        try_cast(d.status AS INTEGER) AS http,
        CASE WHEN isfinite(try_cast(d.ms AS DOUBLE)) AND try_cast(d.ms AS DOUBLE) >= 0 THEN try_cast(d.ms AS DOUBLE) END AS took,
        contains(d.squid, 'DENIED') AS refused,
        refused AND coalesce(http = 407, false) AS challenged,
        CASE WHEN starts_with(d.squid, 'UDP_') OR dest IS NULL OR dest = '/' OR starts_with(dest, 'error:')
            OR starts_with(dest, 'cache_object:') OR contains(dest, '/squid-internal-') THEN 'other' ELSE 'egress' END AS kind,
        -- Not WHERE: DuckDB would push it down to the lines and read each of them twice.
        unnest(CASE WHEN nz(d.squid) IS NOT NULL AND nz(d.ts) IS NOT NULL THEN [true] END) AS kept
    FROM lines_read
)
SELECT
    eid(source, coalesce('id:' || own_id, 'seq:' || ledger_seq), CASE WHEN own_id IS NOT NULL THEN doc END) AS event_id,
    kind,
    source,
    ledger_seq,
    own_id AS native_id,
    claimed AS ts,
    nz(d.user) AS agent,
    dest AS target,
    CASE WHEN kind = 'egress' THEN dest END AS host,
    CASE WHEN kind = 'egress' THEN coalesce(
        CASE WHEN port_of(dest) <= 65535 THEN port_of(dest) END,
        CASE WHEN starts_with(lower(dest), 'https://') THEN 443 WHEN starts_with(lower(dest), 'http://') THEN 80
            WHEN starts_with(lower(dest), 'ftp://') THEN 21 END) END AS port,
    CASE
        WHEN refused THEN 'denied'
        WHEN contains(d.squid, 'TIMEDOUT') OR contains(d.squid, 'TIMEOUT') THEN 'timeout'
        -- broken off before anything was answered; later, what was answered counts
        WHEN contains(d.squid, 'ABORTED') AND coalesce(http, 0) = 0 THEN 'cancelled'
        ELSE status_http(http)
    END AS status,
    took AS latency_ms,
    try_cast(nz(d.bytes) AS BIGINT) AS response_bytes,
    CASE WHEN kind = 'other' OR challenged THEN NULL WHEN refused THEN 'deny' ELSE 'allow' END AS decision,
    d.squid AS decision_native,
    CASE WHEN challenged THEN ['auth_challenge'] END AS signals,
    compact(json_object(
        'client', nz(d.client), 'peer', nz(d.peer), 'hierarchy', nz(d.hier), 'sni', nz(d.sni), 'user_agent', nz(d.ua),
        'http_method', nz(d.method), 'result_code', http, 'request_bytes', try_cast(nz(d.sent) AS BIGINT), 'mime', nz(d.mime),
        'start', try(strftime(claimed - to_microseconds(try_cast(took AS BIGINT) * 1000), '%Y-%m-%dT%H:%M:%S.%gZ')),
        'ts_claimed', CASE WHEN claimed IS NULL THEN nz(d.ts) END)) AS attrs
FROM told
