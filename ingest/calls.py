"""Joins the events of one tool call into one row of `calls`, whatever order they arrive in.

An event is turned into a call of its own; calls with one key are then merged by functions that do
not depend on order (least, greatest, and the value at the greatest time). So the table is the
same for any order and split of the lines.
Reads: fresh (temporary), calls. Writes: calls, minute_counts. Next: ingest/apply.py.
"""

from datetime import datetime

from ingest.store import Db, one

HORIZON = "24 hours"  # parts further apart than this are not one call; bounds the look back
UNIQUE_ID = 16  # characters: a shorter call id is a counter, unique within its trace or agent only

KEY = f"""
    CASE WHEN call_id IS NOT NULL AND length(call_id) >= {UNIQUE_ID} THEN call_id
         WHEN call_id IS NOT NULL
         THEN concat_ws('|', call_id, coalesce(trace_id, session, agent, source))
         WHEN approval_id IS NOT NULL THEN concat_ws('|', 'approval', source, approval_id)
         WHEN span_id IS NOT NULL THEN concat_ws('|', 'span', trace_id, span_id)
         ELSE event_id END
"""
OF_CALLS = """
    kind IN ('tool_proposed', 'tool_decided', 'tool_executed',
             'approval_requested', 'approval_decided')
"""
# An event that belongs to a call, as a call that has this one event.
ONE = f"""
    SELECT
        {KEY} AS call_key,
        tenant, source, agent, principal, approver, tool, op, call_id, params, params_digest,
        target, host, trace_id, parent_trace_id, session, task, approval_id, risk,
        ts, ts AS last_ts,
        decision,
        CASE WHEN decision IS NOT NULL THEN ts END AS decided_at,
        CASE WHEN decision IS NOT NULL THEN event_id END AS decided_by,
        decision_native, reason, reason_code, rule_ids, stance,
        CASE WHEN decision = 'deny' THEN ts END AS denied_at,
        CASE WHEN kind = 'approval_requested' OR decision = 'require_approval' THEN ts END
            AS approval_requested_at,
        CASE WHEN kind = 'approval_decided' AND decision = 'allow' THEN ts END AS approved_at,
        CASE WHEN kind = 'tool_executed' AND coalesce(status, '') NOT IN ('denied', 'cancelled')
             THEN ts END AS executed_at,
        CASE WHEN kind = 'tool_executed' AND coalesce(status, '') NOT IN ('denied', 'cancelled')
             THEN event_id END AS executed_by,
        status, error, latency_ms, cost_usd,
        [event_id] AS event_ids
    FROM fresh
    WHERE {OF_CALLS}
"""

# The merge. Names of people and things rarely differ between parts; where they do, the least wins.
MERGE = """
    SELECT
        call_key,
        min(tenant) AS tenant, min(source) AS source, min(agent) AS agent,
        min(principal) AS principal, min(approver) AS approver, min(tool) AS tool, min(op) AS op,
        min(call_id) AS call_id, min(params::VARCHAR)::JSON AS params,
        min(params_digest) AS params_digest, min(target) AS target, min(host) AS host,
        min(trace_id) AS trace_id, min(parent_trace_id) AS parent_trace_id,
        min(session) AS session, min(task) AS task, min(approval_id) AS approval_id,
        min(risk) AS risk, min(ts) AS ts, max(last_ts) AS last_ts,
        unnest(arg_max({'decision': decision, 'decided_at': decided_at, 'decided_by': decided_by,
                        'decision_native': decision_native, 'reason': reason,
                        'reason_code': reason_code, 'rule_ids': rule_ids, 'stance': stance},
                       CASE WHEN decided_at IS NOT NULL
                            THEN {'at': decided_at, 'by': decided_by} END)),
        min(denied_at) AS denied_at, min(approval_requested_at) AS approval_requested_at,
        max(approved_at) AS approved_at,
        unnest(arg_max({'executed_at': executed_at, 'executed_by': executed_by, 'status': status,
                        'error': error, 'latency_ms': latency_ms},
                       {'ran': executed_at IS NOT NULL, 'at': coalesce(executed_at, last_ts),
                        'by': executed_by, 'status': status, 'error': error, 'took': latency_ms})),
        max(cost_usd) AS cost_usd,
        list_sort(list_distinct(flatten(list(event_ids)))) AS event_ids
    FROM parts
    GROUP BY call_key, island
"""

SHARED = f"""
    CREATE OR REPLACE TEMP TABLE shared AS
    SELECT {KEY} AS call_key, min(ts) AS lo, max(ts) AS hi, count(*) AS parts FROM fresh
    WHERE {OF_CALLS} AND coalesce(call_id, approval_id, span_id) IS NOT NULL
    GROUP BY ALL
"""
OLD = f"""
    CREATE OR REPLACE TEMP TABLE old AS
    SELECT c.rowid AS row_id, c.* FROM calls c JOIN shared s USING (call_key)
    WHERE c.last_ts >= $lo::TIMESTAMPTZ - INTERVAL '{HORIZON}'
      AND c.ts <= $hi::TIMESTAMPTZ + INTERVAL '{HORIZON}'
"""
# The keys of which there is more than one part. All other events are calls as they stand.
SEVERAL = """
    CREATE OR REPLACE TEMP TABLE several AS
    SELECT call_key FROM shared WHERE parts > 1 UNION SELECT call_key FROM old
"""
ALONE = f"SELECT * FROM ({ONE}) WHERE call_key NOT IN (SELECT call_key FROM several)"
# Parts of one key that lie further apart than the horizon are islands: calls of their own.
JOINED = f"""
    CREATE OR REPLACE TEMP TABLE joined AS
    WITH many AS (
        SELECT * EXCLUDE (row_id) FROM old
        UNION ALL BY NAME
        SELECT * FROM ({ONE}) WHERE call_key IN (SELECT call_key FROM several)
    ),
    ordered AS (
        SELECT *, max(last_ts) OVER (PARTITION BY call_key ORDER BY ts, event_ids
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS so_far FROM many
    ),
    parts AS (
        SELECT * EXCLUDE (so_far),
            sum(CASE WHEN ts > so_far + INTERVAL '{HORIZON}' THEN 1 ELSE 0 END)
            OVER (PARTITION BY call_key ORDER BY ts, event_ids) AS island FROM ordered
    )
    {MERGE}
"""
# An approval is counted once a call, in the minute in which it was first asked for; so a call that
# has changed takes its old count back.
APPROVALS = """
    INSERT INTO minute_counts (minute, tenant, agent, subject, events, denied, external, approvals)
    SELECT date_trunc('minute', asked_at), tenant, agent, subject, 0, 0, 0, sum(n)
    FROM (
        SELECT tenant, agent, counted_for(agent, principal, source) AS subject, n,
            coalesce(approval_requested_at, approved_at, CASE WHEN approval_id IS NOT NULL
                OR approver IS NOT NULL OR reason_code = 'expired' THEN decided_at END) AS asked_at
        FROM ({calls}))
    WHERE asked_at IS NOT NULL
    GROUP BY ALL HAVING sum(n) <> 0
"""
CHANGED = f"""
    SELECT *, 1 AS n FROM ({ALONE}) UNION ALL BY NAME SELECT *, 1 AS n FROM joined
    UNION ALL BY NAME SELECT *, -1 AS n FROM old
"""


def join(db: Db, approvals: bool = True) -> list[tuple[datetime, datetime]]:
    """Bring `calls`, and the approvals in `minute_counts`, up to date with the events in `fresh`.

    `approvals`: whether any event in `fresh` can be of one.
    Returns the stretches (first, last; both included, UTC) of calls that were there before and
    have changed: what was judged on them must be judged again.
    """
    db.execute(SHARED)
    sql = "SELECT min(lo), max(hi), coalesce(max(parts), 0) FROM shared"
    low, high, most = db.execute(sql).fetchall()[0]
    old = int(one(db, OLD, {"lo": low, "hi": high})) if low is not None else 0
    if not old and most < 2:  # every call is a single event: nothing to join
        db.execute(f"INSERT INTO calls BY NAME {ONE}")
        if approvals:
            db.execute(APPROVALS.format(calls=f"SELECT *, 1 AS n FROM ({ONE})"))
        return []
    db.execute(SEVERAL)
    db.execute(JOINED)
    if old:
        db.execute("DELETE FROM calls WHERE rowid IN (SELECT row_id FROM old)")
    db.execute(f"INSERT INTO calls BY NAME {ALONE} UNION ALL BY NAME SELECT * FROM joined")
    if old or approvals:
        db.execute(APPROVALS.format(calls=CHANGED))
    return (
        db.execute("""
        SELECT least(min(o.ts), min(s.lo)), greatest(max(o.last_ts), max(s.hi))
        FROM old o JOIN shared s USING (call_key) GROUP BY call_key
    """).fetchall()
        if old
        else []
    )
