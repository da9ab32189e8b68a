"""Alerts that belong together: one trace or one agent within an hour; and what had changed before.

Together they are easier to understand, and no worse: nothing here touches a severity.
Reads: alerts, events, calls, policies. Writes: nothing. Next: detectors/explain.py.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from ingest.store import Reader

NEAR = timedelta(hours=1)  # R: alerts further apart than this are two stories
KNOWN = timedelta(days=7)  # a tool that was not used for so long before is new
MOST = 50  # alerts of one story that are named, and changes
AROUND = """
    SELECT alert_id, detector, tenant, subject, severity, status, title, title_zh, started_at,
           ended_at, about
    FROM alerts
    WHERE status IN ('open', 'resolved') AND tenant = $tenant
      AND started_at <= $high::TIMESTAMPTZ AND ended_at >= $low::TIMESTAMPTZ
    ORDER BY started_at, alert_id LIMIT 2000
"""
CHANGES = """
    SELECT ts, 'config' AS what, concat_ws(' ', config_object, 'by',
               coalesce(agent, principal, approver, source)) AS says, event_id
    FROM events
    WHERE kind = 'config_changed' AND ts >= $low::TIMESTAMPTZ AND ts < $high::TIMESTAMPTZ
      AND coalesce(tenant, '') = $tenant AND coalesce(decision, '') <> 'deny'
    UNION ALL
    SELECT loaded_at, 'policy', concat_ws(' ', version, path), NULL FROM policies
    WHERE loaded_at >= $low::TIMESTAMPTZ AND loaded_at < $high::TIMESTAMPTZ
    UNION ALL
    SELECT min(ts), 'new tool', agent || ' uses ' || tool, min_by(event_ids[1], ts) FROM calls
    WHERE ts >= $known::TIMESTAMPTZ AND ts < $high::TIMESTAMPTZ AND list_contains($agents, agent)
      AND coalesce(tenant, '') = $tenant AND tool IS NOT NULL
    GROUP BY agent, tool HAVING min(ts) >= $low::TIMESTAMPTZ
    UNION ALL
    SELECT min(ts), 'new version', agent || ' is ' || agent_version, min_by(event_id, ts)
    FROM events
    WHERE ts >= $known::TIMESTAMPTZ AND ts < $high::TIMESTAMPTZ AND list_contains($agents, agent)
      AND coalesce(tenant, '') = $tenant AND agent_version IS NOT NULL
    GROUP BY agent, agent_version HAVING min(ts) >= $low::TIMESTAMPTZ
    ORDER BY 1 DESC, 2, 3 LIMIT 50
"""
Row = dict[str, Any]


def story(reader: Reader, alert: Mapping[str, Any]) -> dict[str, Any]:
    """`{"alerts": [...], "changes": [...]}` of an alert (a row of `alerts`).

    Each other alert says in `shares` what it has in common; each change of the hour before the
    first of them has `ts`, `what` and `says`, the newest first. A tool is new to an agent that was
    at work before.
    """
    low, high = alert["started_at"] - NEAR, alert["ended_at"] + NEAR
    near = reader.rows(AROUND, tenant=alert["tenant"], low=low, high=high)
    mine = {*(alert["about"] or ())}
    others = [
        row | {"shares": sorted(mine & {*(row["about"] or ())})}
        for row in near
        if row["alert_id"] != alert["alert_id"] and mine & {*(row["about"] or ())}
    ][:MOST]
    first = min([alert["started_at"], *(row["started_at"] for row in others)])
    agents = sorted({key.removeprefix("agent ") for key in mine if key.startswith("agent ")})
    changes = reader.rows(
        CHANGES, tenant=alert["tenant"], agents=agents, low=first - NEAR,
        high=max(first, alert["started_at"]) + timedelta(microseconds=1), known=first - KNOWN,
    )  # fmt: skip
    return {"alerts": others, "changes": _worth(reader, changes, agents, first)}


def stories(rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The story of each alert (rows of `alerts`), by the id of its first alert. One that stands
    alone is left out."""
    root = {row["alert_id"]: row["alert_id"] for row in rows}
    last: dict[tuple[str, str], Mapping[str, Any]] = {}

    def top(name: str) -> str:
        while root[name] != name:
            root[name] = root[root[name]]
            name = root[name]
        return name

    for row in sorted(rows, key=lambda row: (row["started_at"], row["alert_id"])):
        for key in row["about"] or ():
            place = (row["tenant"], key)
            before = last.get(place)
            if before is not None and row["started_at"] <= before["ended_at"] + NEAR:
                root[top(row["alert_id"])] = top(before["alert_id"])
            if before is None or row["ended_at"] > before["ended_at"]:
                last[place] = row
    found: dict[str, list[str]] = {}
    for name in root:
        found.setdefault(top(name), []).append(name)
    return {name: first for first, names in found.items() if len(names) > 1 for name in names}


def _worth(reader: Reader, changes: list[Row], agents: Sequence[str], first: datetime) -> list[Row]:
    """Without what is new because the agent itself is."""
    rows = reader.rows(
        "SELECT DISTINCT agent FROM calls WHERE list_contains($agents, agent)"
        " AND ts >= $known::TIMESTAMPTZ AND ts < $before::TIMESTAMPTZ",
        agents=list(agents), known=first - KNOWN, before=first - NEAR,
    )  # fmt: skip
    at_work = {row["agent"] for row in rows}
    return [
        row for row in changes
        if not row["what"].startswith("new ")
        or any(row["says"].startswith(f"{agent} ") for agent in at_work)
    ]  # fmt: skip
