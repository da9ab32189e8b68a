# title     = "{subject}: was given {given} of {kind}, and its parent had {left} left"
# title_zh  = "{subject}：分得 {kind} {given}，而上级只剩 {left}"
# severity  = "high"
# tags      = ["budget"]
# why       = "Work was handed on with a larger budget than there was to give. A budget that is split can't be spent twice: whoever hands out more than is left lets its children spend without limit, and nobody sees it in any one of them."
# respond   = "Open the parent's trace and add up what it gave away. Lower the child's limit to what is left, or stop the child if it has spent more already. If the parent's budget was raised meanwhile, its log should say so. Then see what hands budgets out: it does not deduct them."
# respond_zh = "打开上级的调用链，把它分出去的加总。把下级的上限降到剩余额度；若已超支，停掉下级。若上级的预算期间提高过，日志里应有记录。再查是什么在分配预算：它没有扣减。"
# quiet     = "Runs that share the budget of one account: the child begins with the same limit and with what the parent has spent. A parent whose budget no line has told for a day. Children that give back what they did not use: sibling grants are taken as gone."
# lookback  = "2 days"
# gap       = "1 hour"
# needs     = ["parent_trace_id", "budget_limit", "budget_kind"]
# hot       = "SELECT 1 FROM events WHERE ts >= $since AND ts < $until AND budget_limit IS NOT NULL AND budget_kind IS NOT NULL AND parent_trace_id <> trace_id"
# facts     = ["kind", "given", "left", "limit", "spent", "siblings", "trace_id", "parent_trace_id"]
"""Grants held against what their parent had left: controls/budget.py over what the log tells."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from detectors.controls.budget import MICRO, micro_usd, overgiven
from ingest.store import Db, fetch

HELD = timedelta(days=1)  # a reading of a budget holds so long; the first after it is a grant
# What was told of the budgets of children that are heard of now, of their siblings and parents.
READINGS = """
    WITH new AS (
        SELECT DISTINCT coalesce(tenant, '') AS tenant, parent_trace_id AS parent, budget_kind AS kind
        FROM events
        WHERE ts >= $since AND ts < $until AND budget_limit IS NOT NULL AND budget_kind IS NOT NULL
          AND trace_id IS NOT NULL AND parent_trace_id <> trace_id
    )
    SELECT n.tenant, n.parent, n.kind, e.trace_id, e.trace_id = n.parent AS of_parent, e.ts, e.event_id,
           e.budget_limit, e.budget_spent,
           actor(e.agent, e.principal, e.session, e.trace_id, e.source) AS subject
    FROM new n
    JOIN events e ON coalesce(e.tenant, '') = n.tenant AND e.budget_kind = n.kind
                 AND (e.trace_id = n.parent OR e.parent_trace_id = n.parent)
    WHERE e.ts >= $since - $lookback AND e.ts < $until AND e.trace_id IS NOT NULL
      AND isfinite(e.budget_limit) AND e.budget_limit >= 0
    ORDER BY 1, 2, 3, e.ts, e.event_id
"""


def find(db: Db, since: datetime, until: datetime, *, lookback: timedelta) -> list[dict[str, Any]]:
    """One row per child that got more than its parent had left."""
    families: dict[tuple[str, str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in fetch(db, READINGS, since=since, until=until, lookback=lookback):
        families[row["tenant"], row["parent"], row["kind"]].append(row)
    return [found for rows in families.values() for found in _judged(rows, since)]


def _judged(rows: Sequence[dict[str, Any]], since: datetime) -> Iterator[dict[str, Any]]:
    """The grants of one parent and kind that are larger than what it had left."""
    heard: dict[str, datetime] = {}  # when each child's budget was last told
    grants: list[dict[str, Any]] = []
    parent: dict[str, Any] | None = None
    for row in rows:
        if row["of_parent"]:
            parent = row
            continue
        last = heard.get(row["trace_id"])
        heard[row["trace_id"]] = row["ts"]
        if last is not None and last >= row["ts"] - HELD:
            continue
        if parent and parent["ts"] >= row["ts"] - HELD and not _shared(parent, row):
            before = [each for each in grants if each["ts"] >= row["ts"] - HELD]
            if row["ts"] >= since and (found := _row(parent, before, row)):
                yield found
            grants.append(row)


def _shared(parent: dict[str, Any], child: dict[str, Any]) -> bool:
    """One account's budget, told of in both runs: nothing was handed on."""
    spent = parent["budget_spent"] or 0
    same = parent["budget_limit"] == child["budget_limit"]
    return bool(same and spent > 0 and (child["budget_spent"] or 0) >= spent)


def _row(
    parent: dict[str, Any], before: Sequence[dict[str, Any]], child: dict[str, Any]
) -> dict[str, Any] | None:
    limit, spent = (micro_usd(parent[f"budget_{name}"] or 0) for name in ("limit", "spent"))
    gone, wanted = (
        [micro_usd(each["budget_limit"]) for each in before],
        micro_usd(child["budget_limit"]),
    )
    over = overgiven(limit, max(0, spent), gone, wanted)
    if not over:
        return None
    return {
        **{key: child[key] for key in ("subject", "tenant", "kind", "trace_id")},
        "started_at": min(each["ts"] for each in (*before, parent, child)),
        "ended_at": child["ts"],
        "event_ids": sorted({each["event_id"] for each in (*before[-18:], parent, child)}),
        "given": wanted / MICRO,
        "left": (wanted - over) / MICRO,
        "limit": limit / MICRO,
        "spent": spent / MICRO,
        "siblings": len(before),
        "parent_trace_id": child["parent"],
    }
