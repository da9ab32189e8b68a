-- title  = "Smokescreen decision log"
-- format = "ndjson"
-- paths  = ["/v1/ingest/smokescreen"]

-- CANONICAL-PROXY-DECISION is a connection, allowed or not. CANONICAL-PROXY-CN-CLOSE is the end of an allowed tunnel, with the
-- bytes: kind other, so that a connection counts once. Smokescreen's other lines are kind other as well.
-- start_time is when the connection was asked for; `time` is in whole seconds. A host that is refused is answered 407.

WITH lines_read AS (
    SELECT
        ledger_seq, source, doc,
        from_json(doc, '{
            "msg": "VARCHAR", "level": "VARCHAR", "time": "VARCHAR", "start_time": "VARCHAR", "end_time": "VARCHAR",
            "id": "VARCHAR", "allow": "VARCHAR", "decision_reason": "VARCHAR", "enforce_would_deny": "VARCHAR",
            "error": "VARCHAR", "role": "VARCHAR", "project": "VARCHAR", "requested_host": "VARCHAR", "req_host": "VARCHAR",
            "proxy_type": "VARCHAR", "trace_id": "VARCHAR", "inbound_remote_addr": "VARCHAR",
            "outbound_remote_addr": "VARCHAR", "inbound_remote_x509_cn": "VARCHAR", "conn_establish_time_ms": "VARCHAR",
            "dns_lookup_time_ms": "VARCHAR", "content_length": "VARCHAR", "bytes_in": "VARCHAR", "bytes_out": "VARCHAR",
            "duration": "VARCHAR"
        }') AS d
    FROM lines
),
told AS (
    SELECT
        *,
        d.msg = 'CANONICAL-PROXY-DECISION' AS decided,
        d.msg = 'CANONICAL-PROXY-CN-CLOSE' AS closed,
        lower(d.allow) AS allowed,
        coalesce(nz(d.requested_host), nz(d.req_host)) AS dest,
        CASE WHEN closed THEN coalesce(nz(d.end_time), nz(d.time))
            WHEN decided THEN coalesce(nz(d.start_time), nz(d.time)) ELSE nz(d.time) END AS stamp,
        iso_ts(stamp) AS claimed,
        nz(d.error) AS failure,
        -- Not WHERE: DuckDB would push it down to the lines and read each of them twice.
        unnest(CASE WHEN nz(d.msg) IS NOT NULL AND nz(d.level) IS NOT NULL OR decided OR closed THEN [true] END) AS kept
    FROM lines_read
)
SELECT
    eid(source, coalesce('id:' || nz(d.id), 'seq:' || ledger_seq), CASE WHEN nz(d.id) IS NOT NULL THEN doc END) AS event_id,
    CASE WHEN decided THEN 'egress' ELSE 'other' END AS kind,
    source,
    ledger_seq,
    nz(d.id) || CASE WHEN closed THEN ':close' ELSE '' END AS native_id,
    claimed AS ts,
    nz(d.role) AS agent,
    nz(d.inbound_remote_x509_cn) AS principal,
    nz(d.project) AS tenant,
    dest AS target,
    CASE WHEN decided OR closed THEN dest END AS host,
    CASE WHEN decided OR closed THEN coalesce(CASE WHEN port_of(dest) <= 65535 THEN port_of(dest) END,
        CASE WHEN d.proxy_type = 'http' THEN 80 END) END AS port,
    CASE
        WHEN decided AND allowed = 'false' THEN 'denied'
        WHEN NOT (decided OR closed) THEN NULL
        WHEN regexp_matches(failure, '(?i)time-?d? ?-?out') THEN 'timeout'
        WHEN failure IS NOT NULL THEN 'error'
        WHEN allowed = 'true' OR closed THEN 'ok'
    END AS status,
    failure AS error,
    CASE
        WHEN closed THEN CASE WHEN isfinite(try_cast(d.duration AS DOUBLE)) THEN try_cast(d.duration AS DOUBLE) * 1000 END
        WHEN isfinite(try_cast(d.conn_establish_time_ms AS DOUBLE)) THEN try_cast(d.conn_establish_time_ms AS DOUBLE)
    END AS latency_ms,
    coalesce(try_cast(d.bytes_in AS BIGINT), CASE WHEN try_cast(d.content_length AS BIGINT) >= 0
        THEN try_cast(d.content_length AS BIGINT) END) AS response_bytes,
    CASE WHEN decided THEN CASE allowed WHEN 'true' THEN 'allow' WHEN 'false' THEN 'deny' END END AS decision,
    CASE WHEN decided THEN nz(d.allow) END AS decision_native,
    CASE WHEN decided THEN nz(d.decision_reason) END AS reason,
    CASE WHEN decided AND allowed = 'true' AND lower(d.enforce_would_deny) = 'true' THEN ['report_only'] END AS signals,
    hexid(d.trace_id) AS trace_id,
    compact(json_object(
        'request_id', nz(d.id), 'client', host_of(d.inbound_remote_addr), 'peer', host_of(d.outbound_remote_addr),
        'http_method', CASE WHEN d.proxy_type = 'connect' THEN 'CONNECT' END, 'proxy_type', nz(d.proxy_type),
        'dns_ms', try_cast(d.dns_lookup_time_ms AS DOUBLE), 'request_bytes', try_cast(d.bytes_out AS BIGINT),
        'message', CASE WHEN NOT (decided OR closed) THEN d.msg END,
        'trace_id_native', CASE WHEN hexid(d.trace_id) IS NULL THEN nz(d.trace_id) END,
        'ts_claimed', CASE WHEN claimed IS NULL THEN stamp END)) AS attrs
FROM told
