-- title    = "AWS CloudTrail, with the decisions of Amazon Verified Permissions"
-- format   = "json"
-- paths    = ["/v1/ingest/cloudtrail"]
-- envelope = "Records"

-- A line is a record, bare, in {"Records": [...]} as CloudTrail's files hold them, or in an EventBridge event's `detail`.
-- Refused calls are tool_decided, changes of the account config_changed, writes of data tool_executed, the rest other.
-- What a service did by itself (AwsServiceEvent), a sign-in and the reports of the SSM agent change no configuration.
-- The service that was called is no host: an account's calls of AWS are not an agent's way out.
-- Throttling is no denial. A digest file, and a file without records, are known and say nothing.

WITH lines_read AS (
    SELECT
        ledger_seq, source, doc,
        from_json(doc, '{"Records": ["JSON"], "detail": "JSON", "detail-type": "VARCHAR", "digestStartTime": "VARCHAR"}') AS f
    FROM lines
),
each_record AS (
    SELECT
        ledger_seq, source,
        f.digestStartTime IS NOT NULL OR coalesce(len(f.Records) = 0, false) AS empty,
        unnest(CASE WHEN len(f.Records) > 0 THEN f.Records
            WHEN f."detail-type" IS NOT NULL AND json_type(f.detail) = 'OBJECT' THEN [f.detail] ELSE [doc] END) AS e
    FROM lines_read
),
records AS (
    SELECT
        *,
        from_json(e, '{
            "eventTime": "VARCHAR", "eventSource": "VARCHAR", "eventName": "VARCHAR", "eventID": "VARCHAR",
            "requestID": "VARCHAR", "eventType": "VARCHAR", "eventCategory": "VARCHAR", "readOnly": "VARCHAR",
            "awsRegion": "VARCHAR", "sourceIPAddress": "VARCHAR", "userAgent": "VARCHAR", "errorCode": "VARCHAR",
            "errorMessage": "VARCHAR", "recipientAccountId": "VARCHAR", "sharedEventID": "VARCHAR",
            "userIdentity": {"type": "VARCHAR", "arn": "VARCHAR", "principalId": "VARCHAR", "invokedBy": "VARCHAR",
                "accountId": "VARCHAR", "sessionContext": {"sessionIssuer": {"arn": "VARCHAR"}}},
            "additionalEventData": {"decision": "VARCHAR", "bytesTransferredOut": "VARCHAR"},
            "resources": [{"ARN": "VARCHAR"}], "requestParameters": "JSON", "responseElements": "JSON"
        }') AS d
    FROM each_record
),
told AS (
    SELECT
        *,
        iso_ts(d.eventTime) AS claimed,
        nz(d.eventID) AS own_id,
        nz(d.errorCode) AS code,
        lower(d.readOnly) AS reads,
        split_part(d.eventSource, '.', 1) AS service,
        -- a question that AWS itself refused or could not read was never judged
        coalesce(service = 'verifiedpermissions' AND starts_with(d.eventName, 'IsAuthorized') AND code IS NULL, false) AS avp,
        coalesce(regexp_matches(code, 'AccessDenied|Unauthorized|NotAuthorized|Forbidden|AuthorizationError|AuthFailure'), false) AS refused,
        from_json(CASE WHEN json_type(d.requestParameters) = 'OBJECT' THEN d.requestParameters END, '{
            "principal": {"entityId": "VARCHAR"}, "action": {"actionId": "VARCHAR"},
            "resource": {"entityType": "VARCHAR", "entityId": "VARCHAR"}, "policyStoreId": "VARCHAR",
            "roleName": "VARCHAR", "userName": "VARCHAR", "groupName": "VARCHAR", "instanceProfileName": "VARCHAR",
            "policyArn": "VARCHAR", "policyName": "VARCHAR", "bucketName": "VARCHAR", "functionName": "VARCHAR",
            "secretId": "VARCHAR", "keyId": "VARCHAR", "name": "VARCHAR", "trailName": "VARCHAR", "groupId": "VARCHAR",
            "instanceId": "VARCHAR", "routeTableId": "VARCHAR", "subnetId": "VARCHAR", "vpcId": "VARCHAR",
            "tableName": "VARCHAR", "stackName": "VARCHAR", "dBInstanceIdentifier": "VARCHAR"
        }') AS q,
        nz(d.resources[1].ARN) AS arn,
        -- Not WHERE: DuckDB would push it down to the lines and read each of them twice.
        unnest(CASE WHEN empty OR nz(d.eventName) IS NOT NULL THEN [true] END) AS kept
    FROM records
),
kinded AS (
    SELECT
        *,
        CASE
            WHEN empty THEN 'other'
            WHEN avp OR refused THEN 'tool_decided'
            WHEN reads IS DISTINCT FROM 'false' OR code IS NOT NULL OR d.eventType IN ('AwsServiceEvent', 'AwsConsoleSignIn')
                OR d.eventName IN ('UpdateInstanceInformation', 'UpdateInstanceAssociationStatus', 'PutInventory', 'PutComplianceItems')
                THEN 'other'
            WHEN d.eventCategory = 'Data' THEN 'tool_executed'
            ELSE 'config_changed'
        END AS kind,
        nz(CASE WHEN avp THEN q.action.actionId ELSE nz(service) || '.' || d.eventName END) AS tool_name
    FROM told
)
SELECT
    eid(source, coalesce('id:' || own_id, CASE WHEN NOT empty THEN 'record' END, 'seq:' || ledger_seq),
        CASE WHEN own_id IS NULL AND NOT empty THEN e END) AS event_id,
    kind,
    source,
    ledger_seq,
    CASE WHEN NOT empty THEN coalesce(own_id, left(sha256(e::VARCHAR), 32)) END AS native_id,
    claimed AS ts,
    CASE WHEN avp THEN nz(q.principal.entityId) END AS agent,
    coalesce(nz(d.userIdentity.arn), nz(d.userIdentity.principalId), nz(d.userIdentity.invokedBy)) AS principal,
    coalesce(nz(d.recipientAccountId), nz(d.userIdentity.accountId)) AS tenant,
    tool_name AS tool,
    nz(d.requestID) AS call_id,
    CASE WHEN avp THEN op_of(tool_name) WHEN reads = 'true' THEN 'lookup' WHEN reads = 'false' THEN 'commit' END AS op,
    CASE WHEN avp THEN CASE WHEN op_of(tool_name) IS NOT NULL THEN 'inferred' END
        WHEN reads IN ('true', 'false') THEN 'declared' END AS op_basis,
    CASE WHEN NOT avp THEN jn(d.requestParameters) END AS params,
    CASE WHEN avp THEN nz(concat_ws('/', q.resource.entityType, q.resource.entityId)) ELSE arn END AS target,
    CASE WHEN avp OR empty THEN NULL WHEN refused THEN 'denied' WHEN code IS NOT NULL OR nz(d.errorMessage) IS NOT NULL THEN 'error'
        ELSE 'ok' END AS status,
    nz(concat_ws(': ', code, nz(d.errorMessage))) AS error,
    jn(d.responseElements) AS response,
    try_cast(try_cast(d.additionalEventData.bytesTransferredOut AS DOUBLE) AS BIGINT) AS response_bytes,
    CASE WHEN avp THEN CASE d.additionalEventData.decision WHEN 'ALLOW' THEN 'allow' WHEN 'DENY' THEN 'deny' END
        WHEN refused THEN 'deny' END AS decision,
    coalesce(CASE WHEN avp THEN nz(d.additionalEventData.decision) END, CASE WHEN refused THEN code END) AS decision_native,
    CASE WHEN refused THEN nz(d.errorMessage) END AS reason,
    CASE WHEN refused THEN code END AS reason_code,
    CASE WHEN regexp_matches(code, 'Throttl|RequestLimitExceeded|TooManyRequests|SlowDown') THEN ['throttled'] END AS signals,
    CASE WHEN kind = 'config_changed' OR (refused AND reads = 'false') THEN service || '/' || coalesce(
        arn, nz(q.roleName), nz(q.userName), nz(q.groupName), nz(q.instanceProfileName), nz(q.policyArn), nz(q.policyName),
        nz(q.bucketName), nz(q.functionName), nz(q.secretId), nz(q.keyId), nz(q.trailName), nz(q.groupId), nz(q.instanceId),
        nz(q.routeTableId), nz(q.subnetId), nz(q.vpcId), nz(q.tableName), nz(q.stackName), nz(q.dBInstanceIdentifier),
        nz(q.name), d.eventName) END AS config_object,
    CASE WHEN kind = 'config_changed' THEN jn(d.requestParameters) END AS config_after,
    CASE WHEN contains(d.requestParameters::VARCHAR, 'HIDDEN_DUE_TO_SECURITY_REASONS') THEN ['params'] END AS redacted,
    compact(json_object(
        'service', nz(lower(d.eventSource)), 'region', nz(d.awsRegion), 'client', nz(d.sourceIPAddress), 'user_agent', nz(d.userAgent),
        'event_category', nz(d.eventCategory), 'event_type', nz(d.eventType), 'identity_type', nz(d.userIdentity.type),
        'role', nz(d.userIdentity.sessionContext.sessionIssuer.arn), 'policy_store', CASE WHEN avp THEN nz(q.policyStoreId) END,
        'shared_event_id', nz(d.sharedEventID), 'error_type', code,
        'ts_claimed', CASE WHEN claimed IS NULL THEN nz(d.eventTime) END)) AS attrs
FROM kinded
