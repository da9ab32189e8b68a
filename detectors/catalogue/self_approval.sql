-- title     = "{subject}: {approver} approved {tool}, and is {whose}"
-- title_zh  = "{subject}：{approver} 批准了 {tool}，而批准人就是{whose_zh}"
-- severity  = "medium"
-- tags      = ["approvals", "identity"]
-- why       = "An approval is worth something because somebody else looked. Here the approver is the agent itself, the account it acts with, or the person who asked: nobody else has seen the call."
-- respond   = "Open the call and read what was done; have a second person confirm it or undo it. An agent that approved itself holds an approver's token: revoke that first. Then take the requester out of the approver's group for this tool."
-- respond_zh = "打开这次调用，查看做了什么；请第二个人确认，否则撤销。若是智能体自己批准，说明它拿到了批准人的凭证：先吊销。再把申请人移出该工具的批准人名单。"
-- quiet     = "A developer who confirms the steps of an own coding agent: with `people` as it is, a person counts only for agents that others approve for as well. Two people whose accounts have one name in different domains. Somebody who rejects an own request."
-- lookback  = "1 day"
-- gap       = "1 hour"
-- needs     = ["approver", "agent or principal or on_behalf_of", "kind approval_decided"]
-- kinds     = ["tool_proposed", "tool_decided", "tool_executed", "approval_requested", "approval_decided"]
-- hot       = "SELECT 1 FROM events WHERE ts >= $since AND ts < $until AND kind = 'approval_decided' AND decision = 'allow' AND approver IS NOT NULL"
-- [params]
-- people    = { type = "text", default = "where others approve", choices = ["where others approve", "always", "never"] }

WITH yes AS (
    SELECT event_id, ts, approver
    FROM events
    WHERE kind = 'approval_decided' AND decision = 'allow' AND approver IS NOT NULL
      AND ts >= $since AND ts < $until
),
of_calls AS (  -- the calls that were approved, each with its events
    SELECT y.event_id AS yes_id, y.ts AS said_at, y.approver, c.subject, c.tenant, c.tool, c.call_id, c.trace_id, c.event_ids
    FROM (SELECT actor(agent, principal, session, trace_id, source) AS subject, coalesce(tenant, '') AS tenant,
                 tool, call_id, trace_id, event_ids, unnest(event_ids) AS event_id
          FROM calls
          WHERE approved_at IS NOT NULL AND approver IS NOT NULL AND last_ts >= $since AND ts < $until) c
    JOIN yes y USING (event_id)
),
parts AS (
    SELECT o.* EXCLUDE (event_ids), e.event_id, e.ts, e.agent, e.on_behalf_of, e.attrs ->> 'requester' AS requester,
           e.attrs ->> 'requested_by' AS requested_by,
           -- the account on an answer may be that of the one who answers
           CASE WHEN e.kind <> 'approval_decided' THEN e.principal END AS principal
    FROM (SELECT * EXCLUDE (event_ids), event_ids, unnest(event_ids) AS event_id FROM of_calls) o
    JOIN events e USING (event_id)
    WHERE e.ts >= o.said_at - $lookback AND e.ts <= o.said_at AND e.ts >= $since - $lookback AND e.ts < $until
),
asked AS (  -- who is behind the call, one name a row
    SELECT * EXCLUDE (agent, on_behalf_of, requester, requested_by, principal, names),
           names.name AS name, names.grade AS grade
    FROM (SELECT *, unnest([{'grade': 1, 'name': agent}, {'grade': 2, 'name': principal}, {'grade': 3, 'name': on_behalf_of},
                            {'grade': 4, 'name': requester}, {'grade': 4, 'name': requested_by}]) AS names FROM parts)
    WHERE names.name IS NOT NULL
),
bare AS (  -- CORP\wang, Wang <wang@corp.example> and user:wang are spellings of one name
    SELECT *, person_of(approver) AS said_by, person_of(name) AS asked_by
    FROM asked
),
same AS (
    SELECT yes_id, said_at, approver, subject, tenant, tool, call_id, trace_id, min(grade) AS grade,
           min(ts) AS first_ts, min({'grade': grade, 'event_id': event_id}).event_id AS named_by
    FROM bare
    WHERE said_by.name <> '' AND said_by.name = asked_by.name
      AND (said_by.place = '' OR asked_by.place = '' OR said_by.place = asked_by.place
           OR starts_with(said_by.place, asked_by.place || '.') OR starts_with(asked_by.place, said_by.place || '.'))
    GROUP BY ALL
),
others AS (  -- who else approves for the same agent: then it is meant that somebody else does
    SELECT DISTINCT s.yes_id
    FROM same s
    JOIN events e ON e.ts >= s.said_at - $lookback AND e.ts <= s.said_at AND coalesce(e.tenant, '') = s.tenant
                 AND actor(e.agent, e.principal, e.session, e.trace_id, e.source) = s.subject
    WHERE s.grade > 1 AND e.kind = 'approval_decided' AND e.decision = 'allow' AND e.approver IS NOT NULL
      AND e.ts >= $since - $lookback AND e.ts < $until
      AND person_of(e.approver).name <> person_of(s.approver).name
)
SELECT subject, tenant, first_ts AS started_at, said_at AS ended_at,
       list_sort(list_distinct([yes_id, named_by])) AS event_ids,
       CASE WHEN grade = 1 THEN 'high' ELSE 'medium' END AS severity, tool, approver,
       ['the agent itself', 'the account it acts with', 'the person it acts for', 'who asked for it'][grade] AS whose,
       ['智能体自身', '它所用的账号', '它所代表的人', '提出申请的人'][grade] AS whose_zh, call_id, trace_id
FROM same
WHERE grade = 1 OR $people = 'always' OR ($people = 'where others approve' AND yes_id IN (SELECT yes_id FROM others))
