-- title     = "{source}: the gate takes {p95_ms} ms for a decision, 95 of 100 are below that ({decisions} in {window})"
-- title_zh  = "{source}：网关决策 p95 为 {p95_ms} 毫秒（{window}内 {decisions} 次）"
-- severity  = "medium"
-- tags      = ["health"]
-- why       = "A gate that answers slowly is a gate that people switch off, and that callers run past when they time out. It is also how an overloaded policy server, a bad new rule or a lost cache first shows."
-- respond   = "Look at the gate's own load, and at what changed in the hour before: a policy, a rule set, a release. Roll that back if it fits the time. Check that callers wait for the answer and do not go on without one: undecided_execution says so. If the delay is one slow rule, move it to shadow until it is mended."
-- respond_zh = "查看网关自身的负载，以及此前一小时的变更：策略、规则集、发布。时间吻合就回滚。确认调用方确实等待裁决，没有在超时后直接放行（undecided_execution 会报告）。若只是一条规则慢，修好前先转为影子模式。"
-- quiet     = "Fewer than `decisions` in a window. A few slow answers among many quick ones. Decisions of people: those are approvals and are not counted. A gate that asks a model for each decision is slow by nature: raise `slow_ms` for it."
-- lookback  = "30 minutes"
-- gap       = "30 minutes"
-- inhibited_by = ["silent_source"]
-- needs     = ["decision_ms"]
-- kinds     = ["tool_decided", "tool_executed"]
-- [params]
-- window    = { type = "interval", default = "10 minutes", min = "1 minute", max = "30 minutes" }
-- slow_ms   = { type = "integer", default = 50, min = 1 }
-- decisions = { type = "integer", default = 20, min = 2 }

-- The gate says itself how long it took, so no clock is compared with another. A window closes on the grid of its own width.
WITH took AS (
    SELECT coalesce(tenant, '') AS tenant, source, time_bucket($window, ts) AS began_at, decision_ms, event_id
    FROM events
    WHERE ts >= $since - $window AND ts < $until AND decision_ms >= 0 AND isfinite(decision_ms)
      AND ts >= $since - $lookback
      -- a gate that writes one line a call says its decision with the execution
      AND (kind = 'tool_decided' OR (kind = 'tool_executed' AND decision IS NOT NULL))
),
ranked AS (  -- the nearest rank: a logged value, not one in between
    SELECT tenant, source, began_at, count(*) AS decisions, count(*) FILTER (decision_ms > $slow_ms) AS slow,
           list_sort(list({'ms': decision_ms, 'event_id': event_id})) AS by_time
    FROM took
    WHERE began_at + $window >= $since AND began_at + $window < $until
    GROUP BY ALL
    HAVING count(*) >= $decisions AND count(*) FILTER (decision_ms > $slow_ms) * 20 > count(*)
)
SELECT source AS subject, tenant, began_at AS started_at, began_at + $window AS ended_at,
       list_sort(list_distinct(list_transform(by_time[-20:], lambda x: x.event_id))) AS event_ids,
       source, decisions, slow, round(by_time[((decisions * 95 + 99) // 100)].ms, 1) AS p95_ms, round(by_time[-1].ms, 1) AS worst_ms
FROM ranked
