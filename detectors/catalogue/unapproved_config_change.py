# title     = "{subject}: changed by {who} without an approval{wider}"
# title_zh  = "{subject}：{who} 未经审批进行了更改{wider_zh}"
# severity  = "medium"
# tags      = ["approvals", "config"]
# why       = "What agents may do was changed and nobody but the one who changed it has seen it. Most bad changes are honest mistakes; the rest begin with an allow list that grows or an approval that is switched off."
# respond   = "Compare before and after in the evidence. If it widens rights, put back the old content first and ask afterwards. Then ask whoever made it. If it was agreed on elsewhere, write that into the gate's log as an approval with the same call id or trace next time. For a planned roll-out, exempt the object with an end."
# respond_zh = "对照证据中的变更前后内容。若扩大了权限，先恢复旧内容，再追问。然后询问更改者。若已在别处同意，下次请在网关日志中以相同的调用编号或调用链记录审批。计划内的发布可对该对象设置带期限的豁免。"
# quiet     = "Where nobody approves changes at all: a change is told of only if it widens rights, if the policy asks for approval of its tool, or if others of its kind had an approval in the week before. A person's change of an object that was never under approval. A change that was refused or changed nothing. Objects named in `free`. Raised limits and new values are no wider rights."
# lookback  = "8 days"
# gap       = "1 hour"
# needs     = ["config_object"]
# kinds     = ["config_changed", "approval_decided", "tool_decided"]
# hot       = "SELECT 1 FROM events WHERE ts >= $since AND ts < $until AND kind = 'config_changed' AND config_object IS NOT NULL"
# facts     = ["who", "wider", "wider_zh", "widens", "demanded", "before", "after", "tool", "trace_id"]
# [params]  # lookback >= habit + within
# within    = { type = "interval", default = "1 day", min = "1 minute", max = "1 day" }
# habit     = { type = "interval", default = "7 days", min = "1 hour", max = "7 days" }
# free      = { type = "text", default = "" }
"""Changes behind which no approval is found; what of them widens rights: controls/widening.py."""

import json
from datetime import datetime, timedelta
from typing import Any

from detectors.controls.widening import widened
from ingest.store import Db, fetch

# An approval is of a change that has its call, its approval id, or its trace and tool.
FOUND = """
    WITH hot AS (
        SELECT DISTINCT kind FROM events
        WHERE ts >= $since AND ts < $until AND kind = 'config_changed' AND config_object IS NOT NULL
    ),
    every AS (
        SELECT coalesce(tenant, '') AS tenant, config_object, ts, event_id, source, agent, principal, session, trace_id, call_id,
               approval_id, approver, tool, nullif(config_before::VARCHAR, 'null') AS stated, nullif(config_after::VARCHAR, 'null') AS after
        FROM events
        WHERE ts >= $since - $lookback AND ts < $until AND kind IN (FROM hot) AND config_object IS NOT NULL
          AND coalesce(decision, '') <> 'deny' AND coalesce(status, 'ok') NOT IN ('denied', 'cancelled', 'error')
    ),
    approved AS (SELECT tenant, config_object, ts FROM every WHERE coalesce(approver, approval_id) IS NOT NULL),
    linked AS (
        SELECT *, lag(after) OVER earlier AS known, lag(ts) OVER earlier AS known_at
        FROM every
        WINDOW earlier AS (PARTITION BY tenant, config_object ORDER BY ts, event_id)
    ),
    changed AS (
        SELECT * EXCLUDE (known, known_at, stated),
               coalesce(stated, CASE WHEN known_at >= ts - $lookback THEN known END) AS before
        FROM linked
        WHERE ts >= $since AND NOT named_in(config_object, $free)
    ),
    words AS (
        SELECT coalesce(tenant, '') AS tenant, ts, call_id, approval_id, trace_id, session, tool
        FROM events
        WHERE ts >= $since - $within AND ts < $until AND EXISTS (FROM changed)
          AND decision = 'allow' AND (kind = 'approval_decided' OR (kind = 'tool_decided' AND approver IS NOT NULL))
    ),
    bare AS (
        SELECT c.* FROM changed c
        ANTI JOIN words w ON w.tenant = c.tenant AND w.approval_id = c.approval_id AND w.ts BETWEEN c.ts - $within AND c.ts
        WHERE c.approver IS NULL AND c.after IS DISTINCT FROM coalesce(c.before, '')
    ),
    alone AS (
        SELECT b.* FROM bare b
        ANTI JOIN words w ON w.tenant = b.tenant AND w.call_id = b.call_id AND w.ts BETWEEN b.ts - $within AND b.ts
                         AND (length(w.call_id) >= 16 OR w.trace_id = b.trace_id OR w.session = b.session)
    ),
    unapproved AS (
        SELECT a.* FROM alone a
        ANTI JOIN words w ON w.tenant = a.tenant AND w.trace_id = a.trace_id AND w.ts BETWEEN a.ts - $within AND a.ts
                         AND coalesce(w.tool = a.tool, true)
    )
    SELECT u.*, coalesce(u.agent IS NULL AND NOT machine_account(u.principal), false) AS person,
           actor(u.agent, u.principal, u.session, u.trace_id, u.source) AS who,
           coalesce(list_contains(list_transform(
               list_filter(arr(policy_doc() -> '$.tools'), lambda x: (x ->> 'action') = 'require_approval'),
               lambda x: x ->> 'name'), u.tool), false) AS by_policy,
           coalesce(t.ts >= u.ts - $habit, false) AS by_habit, coalesce(o.ts >= u.ts - $habit, false) AS of_object
    FROM unapproved u
    ASOF LEFT JOIN (SELECT DISTINCT tenant, ts FROM approved) t ON t.tenant = u.tenant AND t.ts < u.ts
    ASOF LEFT JOIN (SELECT DISTINCT tenant, config_object, ts FROM approved) o
        ON o.tenant = u.tenant AND o.config_object = u.config_object AND o.ts < u.ts
"""
SHOWN = 300  # characters of a content in the evidence


def find(
    db: Db,
    since: datetime,
    until: datetime,
    *,
    lookback: timedelta,
    within: timedelta,
    habit: timedelta,
    free: str,
) -> list[dict[str, Any]]:
    """One row per change."""
    rows = fetch(
        db,
        FOUND,
        since=since,
        until=until,
        lookback=lookback,
        within=within,
        habit=habit,
        free=free,
    )
    return [found for row in rows if (found := _row(row)) is not None]


def _row(row: dict[str, Any]) -> dict[str, Any] | None:
    asked = row["by_policy"] or row["of_object"] or (row["by_habit"] and not row["person"])
    before, after = (json.loads(row[key]) if row[key] else None for key in ("before", "after"))
    widens = widened(before, after)
    if not asked and (row["person"] or not widens):
        return None
    return {
        "subject": row["config_object"], "tenant": row["tenant"], "agent": row["agent"],
        "started_at": row["ts"], "ended_at": row["ts"], "event_ids": [row["event_id"]],
        "severity": "high" if widens else "medium", "who": row["who"], "widens": widens,
        "wider": f", and it widens rights: {widens[0]}" if widens else "",
        "wider_zh": f"，且扩大了权限：{widens[0]}" if widens else "",
        "demanded": "by the policy" if row["by_policy"] else "by what others did" if asked else None,
        "before": (row["before"] or "")[:SHOWN], "after": (row["after"] or "")[:SHOWN],
        "tool": row["tool"], "trace_id": row["trace_id"],
    }  # fmt: skip
