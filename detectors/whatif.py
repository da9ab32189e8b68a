"""Another policy over past calls: which of them would have been decided otherwise, and by what.

Calls are decided in classes, so a month is a matter of seconds. Limits are counted over what
really went through: a call that the new policy stops still counts towards them.
Reads: calls, events, policies. Writes: nothing. Next: gatewatch/commands/data.py.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

import msgspec

from detectors.controls import replay
from detectors.controls.policy import Context, Decision, decide
from ingest.policy import Controls
from ingest.store import Db, fetch

EXAMPLES = 5  # event ids of each change
SHOWN = 30  # changes in a table; the JSON has all
PLENTY = 10**9  # more than any limit
HEAD = ("calls", "agent", "tool", "logged", "in_force", "new", "step", "first", "last")
USED_UP = {  # what a limit that leaves no room looks like to decide()
    "tool_calls_per_minute": Context(calls_in_minute=PLENTY),
    "tool_calls_per_task": Context(calls_of_task=PLENTY),
    "external_requests_per_hour": Context(external_in_hour=PLENTY),
    "outbound_messages_per_day": Context(messages_today=PLENTY),
    "daily_limit": Context(tool_today=PLENTY),
    "daily_cost_limit_usd": Context(cost_today_usd=Decimal(PLENTY)),
}
# One class a row, under both policies: `a` the one in force, `b` the new one.
CLASSES = """
    SELECT c.agent, c.tool, c.said, c.by_limit, c.shape, c.operations, c.tables, c.deletes,
           c.night, c.shut, a.lim AS a_limit, b.lim AS b_limit,
           $b_night[hour(timezone($b_zone, c.ts)) * 60
                    + minute(timezone($b_zone, c.ts)) + 1] AS b_night,
           s.tool IS NOT NULL AS b_shut,
           count(*) AS calls, min(c.ts) AS ts, max(c.ts) AS last,
           min({'ts': c.ts, 'id': c.decided_by}, 5) AS examples
    FROM policy_calls($since, $until, $zone, $night,
                      $shut::STRUCT(tool VARCHAR, minutes INTEGER[])[],
                      $shaped::VARCHAR[], $granted::VARCHAR[]) c
    LEFT JOIN over_calls($since, $until, $a_doc::JSON, $zone) a ON a.call_key = c.call_key
    LEFT JOIN over_calls($since, $until, $b_doc::JSON, $b_zone) b ON b.call_key = c.call_key
    LEFT JOIN (SELECT w.tool AS tool, unnest(w.minutes) AS minute
               FROM (SELECT unnest($b_shut::STRUCT(tool VARCHAR, minutes INTEGER[])[]) AS w)) s
        ON s.tool = c.tool
        AND s.minute = hour(timezone($b_zone, c.ts)) * 60 + minute(timezone($b_zone, c.ts))
    GROUP BY ALL
"""


@dataclass(frozen=True)
class Change:
    """Calls of one agent and tool that the new policy decides otherwise than the log or the policy
    that was in force (None: there was none). `examples`: ids of deciding events, the oldest."""

    agent: str | None
    tool: str | None
    logged: str
    in_force: str | None
    new: str
    step: str  # of the new policy's order of evaluation
    reason: str
    calls: int
    first: datetime
    last: datetime
    examples: tuple[str, ...]


@dataclass(frozen=True)
class WhatIf:
    """`left_out`: calls that a gate's limit refused. What would have come of them hangs on all
    that came before, so nothing is said about them."""

    since: datetime
    until: datetime
    calls: int
    left_out: int
    against_log: dict[str, int]  # "allow -> deny" and so on, in calls
    against_policy: dict[str, int]
    changes: tuple[Change, ...]  # the most calls first

    def as_dict(self) -> dict[str, Any]:
        """For JSON: times as ISO 8601 text."""
        told: dict[str, Any] = msgspec.to_builtins(asdict(self))
        return told


def what_if(db: Db, policy: Controls, since: datetime, until: datetime) -> WhatIf:
    """Hold the decided calls in [since, until) against `policy`."""
    left_out, every = 0, []
    for start, stop, old in _stretches(db, since, until):
        limit = "b_limit" if _same_limits(old or policy, policy) else "a_limit"
        for row in fetch(db, CLASSES, since=start, until=stop, **_given(old or policy, policy)):
            if row["by_limit"]:
                left_out += row["calls"]
            else:
                every.append(_change(row, old, policy, limit))
    return WhatIf(
        since,
        until,
        left_out + sum(each.calls for each in every),
        left_out,
        _directions((each.logged, each.new, each.calls) for each in every),
        _directions((each.in_force, each.new, each.calls) for each in every),
        _united(e for e in every if e.new != e.logged or e.in_force not in (e.new, None)),
    )


def _stretches(
    db: Db, since: datetime, until: datetime
) -> Iterator[tuple[datetime, datetime, Controls | None]]:
    """Which policy was in force, from when until when."""
    spans = replay.in_force(db)
    if not spans:
        yield since, until, None
    for span in spans:
        start, stop = max(since, span.since), min(until, span.until)
        if start < stop:
            yield start, stop, span.controls


def _given(old: Controls, new: Controls) -> dict[str, Any]:
    """The parameters of CLASSES beside the times."""
    a, b = replay.lens(old), replay.lens(new)
    return {
        **{key: a[key] for key in ("zone", "night", "shut")},
        **{key: sorted({*a[key], *b[key]}) for key in ("shaped", "granted")},
        **{f"b_{key}": b[key] for key in ("zone", "night", "shut")},
        "a_doc": "{}" if _same_limits(old, new) else msgspec.json.encode(old).decode(),
        "b_doc": msgspec.json.encode(new).decode(),
    }


def _same_limits(old: Controls, new: Controls) -> bool:
    """Then they are counted once, which is most of the work."""
    one, other = (
        (
            each.general.timezone,
            each.rate_limits,
            each.budgets,
            {(tool.name, tool.daily_limit) for tool in each.tools if tool.daily_limit is not None},
        )
        for each in (old, new)
    )
    return one == other


def _change(row: dict[str, Any], old: Controls | None, new: Controls, limit: str) -> Change:
    """`limit`: in which column the limits of the old policy are."""
    decided = _decided(row, row["b_limit"], new)
    return Change(
        row["agent"],
        row["tool"],
        "allow" if row["said"] == "approved" else row["said"],
        _decided(row, row[limit], old).action if old else None,
        decided.action,
        decided.step,
        decided.reason,
        row["calls"],
        row["ts"],
        row["last"],
        tuple(each["id"] for each in row["examples"]),
    )


def _decided(row: dict[str, Any], limit: str | None, policy: Controls) -> Decision:
    """What a policy says of a class. A person's yes to a call stays one under every policy."""
    call, approved = replay.call(row), row["said"] == "approved"
    if limit is None:
        return decide(policy, call, Context(approved=approved))
    most = PLENTY if limit == "recipients_per_message" else 0
    call = replace(call, external=True, message=True, recipients=most)
    context = replace(USED_UP.get(limit, Context()), approved=approved)
    return decide(policy, call, context)


def _directions(pairs: Iterable[tuple[str | None, str, int]]) -> dict[str, int]:
    """How many calls went from one decision to another."""
    counts: Counter[str] = Counter()
    for before, after, calls in pairs:
        if before not in (after, None):
            counts[f"{before} -> {after}"] += calls
    return dict(sorted(counts.items()))


def _united(changes: Iterable[Change]) -> tuple[Change, ...]:
    """One change for all classes of an agent, a tool, and the same decisions by the same step."""
    groups: dict[tuple[Any, ...], list[Change]] = {}
    for each in changes:
        key = each.agent, each.tool, each.logged, each.in_force, each.new, each.step
        groups.setdefault(key, []).append(each)
    done = []
    for group in groups.values():
        group.sort(key=lambda each: (each.first, each.examples))
        ids = [example for each in group for example in each.examples]
        done.append(
            replace(
                group[0],
                calls=sum(each.calls for each in group),
                last=max(each.last for each in group),
                examples=tuple(ids[:EXAMPLES]),
            )
        )
    return tuple(sorted(done, key=lambda e: (-e.calls, e.agent or "", e.tool or "", e.new, e.step)))


def table(found: WhatIf) -> list[dict[str, str]]:
    """The changes as rows of text under HEAD, the most calls first, no more than SHOWN."""
    return [{key: _cell(getattr(each, key)) for key in HEAD} for each in found.changes[:SHOWN]]


def _cell(value: object) -> str:
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M")
    return "-" if value is None else str(value)


def summary(found: WhatIf) -> list[str]:
    """What stands above and below the table, a sentence a line."""
    lines = [f"{found.calls} decided calls from {_cell(found.since)} to {_cell(found.until)}."]
    for what, counts in (
        ("the log", found.against_log),
        ("the policy in force then", found.against_policy),
    ):
        told = ", ".join(f"{count} {direction}" for direction, count in counts.items())
        lines.append(f"Against {what}: {told or 'nothing changes'}.")
    if found.left_out:
        lines.append(f"{found.left_out} were refused by a limit of the gate and are left out.")
    if len(found.changes) > SHOWN:
        lines.append(f"{len(found.changes) - SHOWN} further rows: --json has them all.")
    return lines
