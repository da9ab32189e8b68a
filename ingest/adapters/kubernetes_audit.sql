-- title    = "Kubernetes audit log"
-- format   = "ndjson"
-- paths    = ["/v1/ingest/kubernetes_audit"]
-- envelope = "items"

-- A line is an audit event, bare (the file backend) or in an EventList (the webhook backend).
-- Every request comes once a stage; only ResponseComplete and Panic say how it ended, the rest is kind other.
-- A change is a write that succeeded and is no dry run, of something that is configuration: not the leases, endpoints, statuses
-- and reviews that a cluster writes all day. exec, attach, portforward, proxy and eviction do something: tool_executed.
-- Who asks may choose the audit id (header Audit-ID): content is part of an event's identity, and no call is joined by it.
-- A refusal is the authorizer's forbid, 401, 403, or an admission webhook's denial under any code.

WITH lines_read AS (
    SELECT
        ledger_seq, source, doc,
        from_json(doc, '{"kind": "VARCHAR", "items": ["JSON"]}') AS f
    FROM lines
),
each_event AS (
    SELECT
        ledger_seq, source,
        coalesce(f.kind = 'EventList' AND len(f.items) = 0, false) AS empty,
        unnest(CASE WHEN len(f.items) > 0 THEN f.items ELSE [doc] END) AS e
    FROM lines_read
),
events_read AS (
    SELECT
        *,
        from_json(e, '{
            "auditID": "VARCHAR", "stage": "VARCHAR", "level": "VARCHAR", "verb": "VARCHAR", "requestURI": "VARCHAR",
            "user": {"username": "VARCHAR", "groups": "JSON"}, "impersonatedUser": {"username": "VARCHAR"},
            "sourceIPs": ["VARCHAR"], "userAgent": "VARCHAR",
            "objectRef": {"resource": "VARCHAR", "namespace": "VARCHAR", "name": "VARCHAR", "subresource": "VARCHAR",
                "apiGroup": "VARCHAR", "resourceVersion": "VARCHAR"},
            "responseStatus": {"code": "VARCHAR", "message": "VARCHAR", "reason": "VARCHAR"},
            "requestObject": "JSON", "requestReceivedTimestamp": "VARCHAR", "stageTimestamp": "VARCHAR",
            "annotations": "JSON"
        }') AS d
    FROM each_event
),
told AS (
    SELECT
        *,
        iso_ts(d.stageTimestamp) AS claimed,
        nz(d.auditID) || ':' || d.stage AS own_id,
        try_cast(d.responseStatus.code AS INTEGER) AS http,
        -- that parameter and no other: fieldManager=dryRun=All changes things
        coalesce(regexp_matches(d.requestURI, '^[^?]*\?(?:[^&]*&)*dryRun=All(?:&|$)'), false) AS dry_run,
        nz(d.objectRef.resource) AS resource,
        coalesce(nz(d.objectRef.name), CASE WHEN d.verb = 'create' AND json_type(d.requestObject) = 'OBJECT'
            THEN nz(d.requestObject ->> '$.metadata.name') END) AS object_name,
        coalesce(nz(d.objectRef.subresource), '') AS sub,
        coalesce(d.stage IN ('ResponseComplete', 'Panic'), false) AS final,
        coalesce(d.verb IN ('create', 'update', 'patch', 'delete', 'deletecollection'), false) AS writes,
        from_json(CASE WHEN json_type(d.annotations) = 'OBJECT' THEN d.annotations END, '{
            "authorization.k8s.io/decision": "VARCHAR", "authorization.k8s.io/reason": "VARCHAR",
            "audit.k8s.io/truncated": "VARCHAR"}') AS notes,
        -- Not WHERE: DuckDB would push it down to the lines and read each of them twice.
        unnest(CASE WHEN empty OR (nz(d.auditID) IS NOT NULL AND nz(d.stage) IS NOT NULL) THEN [true] END) AS kept
    FROM events_read
),
kinded AS (
    SELECT
        *,
        coalesce(notes."authorization.k8s.io/decision" = 'forbid' OR http IN (401, 403)
            OR (http >= 400 AND regexp_matches(d.responseStatus.message, '^admission webhook .* denied the request')), false) AS refused,
        CASE
            WHEN empty OR NOT final THEN 'other'
            WHEN refused THEN 'tool_decided'
            WHEN coalesce(http, 500) >= 400 OR d.stage = 'Panic' OR dry_run THEN 'other'
            WHEN sub IN ('exec', 'attach', 'portforward', 'proxy', 'eviction') THEN 'tool_executed'
            WHEN NOT writes OR sub IN ('status', 'binding', 'token', 'log') OR resource IN (
                'events', 'leases', 'endpoints', 'endpointslices', 'tokenreviews', 'subjectaccessreviews',
                'localsubjectaccessreviews', 'selfsubjectaccessreviews', 'selfsubjectrulesreviews', 'selfsubjectreviews')
                THEN 'other'
            ELSE 'config_changed'
        END AS kind,
        writes OR sub IN ('exec', 'attach', 'portforward', 'proxy', 'eviction') AS acts
    FROM told
)
SELECT
    eid(source, coalesce('id:' || own_id, 'seq:' || ledger_seq), CASE WHEN own_id IS NOT NULL THEN e END) AS event_id,
    kind,
    source,
    ledger_seq,
    own_id AS native_id,
    claimed AS ts,
    nz(d.user.username) AS principal,
    nz(d.impersonatedUser.username) AS on_behalf_of,
    CASE WHEN nz(d.verb) IS NOT NULL THEN concat_ws('.', 'k8s', d.verb, resource, nullif(sub, '')) END AS tool,
    CASE WHEN acts THEN 'commit' WHEN nz(d.verb) IS NOT NULL THEN 'lookup' END AS op,
    CASE WHEN nz(d.verb) IS NOT NULL THEN 'declared' END AS op_basis,
    CASE WHEN kind IN ('tool_decided', 'tool_executed') THEN jn(d.requestObject) END AS params,
    nz(d.requestURI) AS target,
    CASE WHEN NOT final THEN NULL WHEN refused THEN 'denied' WHEN d.stage = 'Panic' THEN 'error' ELSE status_http(http) END AS status,
    CASE WHEN http >= 400 THEN coalesce(nz(d.responseStatus.message), nz(d.responseStatus.reason)) END AS error,
    CASE WHEN final THEN ms_between(iso_ts(d.requestReceivedTimestamp), claimed) END AS latency_ms,
    CASE WHEN NOT final THEN NULL WHEN refused THEN 'deny'
        WHEN notes."authorization.k8s.io/decision" = 'allow' THEN 'allow' END AS decision,
    CASE WHEN final THEN nz(notes."authorization.k8s.io/decision") END AS decision_native,
    CASE WHEN final THEN coalesce(CASE WHEN refused THEN nz(d.responseStatus.message) END,
        nz(notes."authorization.k8s.io/reason")) END AS reason,
    CASE WHEN refused THEN coalesce(nz(d.responseStatus.reason), http::VARCHAR) END AS reason_code,
    CASE WHEN http = 429 THEN ['throttled'] END AS signals,
    -- a name that the server makes up (generateName) is not in the request: then the object is nameless, not all of its kind
    CASE WHEN d.verb = 'create' AND object_name IS NULL THEN NULL
        ELSE nz(concat_ws('/', resource, nz(d.objectRef.namespace), object_name, nullif(sub, ''))) END AS config_object,
    -- what the server counts and keeps is no change
    CASE WHEN kind <> 'config_changed' THEN NULL
        WHEN json_type(d.requestObject, '$.metadata') = 'OBJECT' THEN json_merge_patch(d.requestObject,
            '{"metadata":{"managedFields":null,"resourceVersion":null,"generation":null,"uid":null}}')
        ELSE jn(d.requestObject) END AS config_after,
    CASE WHEN notes."audit.k8s.io/truncated" = 'true' THEN true END AS truncated,
    compact(json_object(
        'request_id', nz(d.auditID), 'level', nz(d.level), 'stage', nz(d.stage), 'groups', jn(d.user.groups), 'client', nz(d.sourceIPs[1]),
        'user_agent', nz(d.userAgent), 'result_code', http, 'api_group', nz(d.objectRef.apiGroup),
        'resource_version', nz(d.objectRef.resourceVersion), 'annotations', jn(d.annotations),
        'ts_claimed', CASE WHEN claimed IS NULL THEN nz(d.stageTimestamp) END)) AS attrs
FROM kinded
