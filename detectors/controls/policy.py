"""What a policy says of one call. Pure: policy, call and what went before in, the decision out.

The order is that of a policy engine with default deny; the first step that has something to say
decides. What a log does not tell (an operation, a table, a count) is not held against a call.
Reads: nothing. Writes: nothing. Next: detectors/controls/replay.py, which replays stored calls.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal
from zoneinfo import ZoneInfo

from ingest.policy import Action, Agent, Controls, Grant, Tool, Window

Step = Literal[
    "forbidden tool", "tool not listed", "tool denied", "critical risk", "parameters", "grant",
    "outside window", "unattended delete", "limit", "approval required", "unattended risk",
    "allowed",
]  # fmt: skip


@dataclass(frozen=True)
class Call:
    """`at` is aware. `params` as decoded from JSON. `operations`, `tables`: what it does to which
    tables of a database, empty where the log does not tell."""

    tool: str | None
    at: datetime
    agent: str | None = None
    params: Any = None
    operations: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    deletes: bool = False
    external: bool = False
    message: bool = False
    recipients: int = 0


@dataclass(frozen=True)
class Context:
    """What the agent had used up before this call, which is not counted itself. Days are local."""

    calls_in_minute: int = 0
    calls_of_task: int = 0
    external_in_hour: int = 0
    messages_today: int = 0
    tool_today: int = 0
    cost_today_usd: Decimal = Decimal(0)
    approved: bool = False  # a person said yes to this call


@dataclass(frozen=True)
class Decision:
    action: Action
    step: Step
    reason: str


def decide(policy: Controls, call: Call, context: Context = Context()) -> Decision:
    """Allow, deny or require approval, which step of the order said so, and why in words."""
    agent = next((each for each in policy.agents if each.agent == call.agent), None)
    if agent and call.tool in agent.forbidden_tools:
        return Decision("deny", "forbidden tool", f"{call.tool} is forbidden to {call.agent}")
    tool, grant, listed = _entry(policy, agent, call.tool)
    if tool.action == "deny":
        step: Step = "tool denied" if listed else "tool not listed"
        return Decision("deny", step, f"{call.tool} is {'denied' if listed else 'not listed'}")
    if tool.risk_level == "critical":
        return Decision("deny", "critical risk", f"{call.tool} is of critical risk")
    night = unattended(policy, call.at)
    for step, reason in _denials(policy, tool, grant, call, context, night):
        return Decision("deny", step, reason)
    if not context.approved:
        if tool.action == "require_approval":
            why = "needs approval" if listed else "is not listed, and what is not needs approval"
            return Decision("require_approval", "approval required", f"{call.tool} {why}")
        if tool.risk_level == "high" and night:
            reason = f"{call.tool} is of high risk, and nobody attends"
            return Decision("require_approval", "unattended risk", reason)
    return Decision("allow", "allowed", "approved" if context.approved else "nothing forbids it")


def _entry(
    policy: Controls, agent: Agent | None, name: str | None
) -> tuple[Tool, Grant | None, bool]:
    """The tool's entry, the agent's grant of it, and whether there is any of the two.

    An agent with a list has its tools only; a tool that only such a list names is allowed by it.
    What is in no list is a tool of low risk with the default action: nights and limits hold for it.
    """
    tool = next((each for each in policy.tools if each.name == name), None)
    if agent and agent.allowed_tools is not None:
        grant = next((each for each in agent.allowed_tools if each.name == name), None)
        if grant is not None:
            return tool or Tool(grant.name, "allow"), grant, True
        tool = None
    if tool is None:
        return Tool(name or "(no tool)", policy.general.default_action), None, False
    return tool, None, True


def _denials(
    policy: Controls, tool: Tool, grant: Grant | None, call: Call, context: Context, night: bool
) -> Iterator[tuple[Step, str]]:
    """Each reason to deny a tool that is allowed as such, in the order of evaluation."""
    for reason in _parameters(tool, call.params):
        yield "parameters", reason
    for reason in _beyond(grant, call):
        yield "grant", reason
    if tool.allowed_windows is not None and not _covers(
        tool.allowed_windows, local_minute(policy, call.at)
    ):
        yield "outside window", f"{call.tool} is outside its hours, approved or not"
    if call.deletes and night:
        yield "unattended delete", "nothing is deleted while nobody attends, approved or not"
    for reason in _used_up(policy, tool, call, context):
        yield "limit", reason


def _parameters(tool: Tool, params: Any) -> Iterator[str]:
    """A forbidden name counts at any depth, or where its dotted path says. An allowed one is of
    the first level and holds for all below it, or it is a dotted path."""
    found = list(paths(params))
    for name in tool.forbidden_params:
        if any(path == name or name in path.split(".") for path, _ in found):
            yield f"the parameter {name} is forbidden"
    if tool.allowed_params is not None:
        for path, inner in found:
            if not any(_within(path, inner, name) for name in tool.allowed_params):
                yield f"the parameter {path} is not among the allowed ones"


def _within(path: str, inner: bool, allowed: str) -> bool:
    """Is it allowed itself, below what is, or a table on the way there?"""
    below = path == allowed or path.startswith(f"{allowed}.")
    return below or (inner and allowed.startswith(f"{path}."))


def paths(params: Any, above: str = "") -> Iterator[tuple[str, bool]]:
    """The dotted path of each key, and whether there is more below it. A key whose value is null
    was not given. The elements of a list stand at the path of their list."""
    if isinstance(params, Mapping):
        for key, value in params.items():
            if value is not None:
                yield f"{above}{key}", isinstance(value, Mapping | list | tuple)
                yield from paths(value, f"{above}{key}.")
    elif isinstance(params, list | tuple):
        for each in params:
            yield from paths(each, above)


def _beyond(grant: Grant | None, call: Call) -> Iterator[str]:
    """Operations and tables outside those of the agent's grant. Upper and lower case are one."""
    if grant is None:
        return
    for what, used, granted in (
        ("operation", call.operations, grant.allowed_operations),
        ("table", call.tables, grant.table_allowlist),
    ):
        known = {each.lower() for each in granted or ()}
        for name in used:
            if granted is not None and name.lower() not in known:
                yield f"the {what} {name} is not granted"


def _used_up(policy: Controls, tool: Tool, call: Call, context: Context) -> Iterator[str]:
    """Each limit that leaves no room for this call."""
    rates = policy.rate_limits
    for name, used, limit in (
        ("tool_calls_per_minute", context.calls_in_minute, rates.tool_calls_per_minute),
        ("tool_calls_per_task", context.calls_of_task, rates.tool_calls_per_task),
        (
            "external_requests_per_hour",
            context.external_in_hour if call.external else -1,
            rates.external_requests_per_hour,
        ),
        ("daily_limit", context.tool_today, tool.daily_limit),
        (
            "outbound_messages_per_day",
            context.messages_today if call.message else -1,
            rates.outbound_messages_per_day,
        ),
    ):
        if limit is not None and used >= limit:
            yield f"{name} of {limit} is used up"
    most = rates.recipients_per_message
    if call.message and most is not None and call.recipients > most:
        yield f"recipients_per_message: {call.recipients} are more than {most}"
    budget = Decimal(str(policy.budgets.daily_cost_limit_usd))
    if context.cost_today_usd >= budget:
        yield f"daily_cost_limit_usd of {budget} is used up"


def unattended(policy: Controls, at: datetime) -> bool:
    """Does nobody attend at that time?"""
    return _covers(policy.general.unattended_window, local_minute(policy, at))


def local_minute(policy: Controls, at: datetime) -> int:
    """Minutes since midnight on the wall clock of the policy's zone."""
    local = at.astimezone(ZoneInfo(policy.general.timezone))
    return local.hour * 60 + local.minute


def shut_minutes(windows: Iterable[Window]) -> list[int]:
    """The minutes of a day that lie in none of the windows."""
    every = tuple(windows)
    return [minute for minute in range(24 * 60) if not _covers(every, minute)]


def _covers(windows: Iterable[Window], minute: int) -> bool:
    """Half-open; a window that ends before it starts runs over midnight."""
    for window in windows:
        start, until = _minutes(window.start), _minutes(window.end)
        inside = start <= minute < until if start < until else minute >= start or minute < until
        if inside:
            return True
    return False


def _minutes(clock: str) -> int:
    hours, _, minutes = clock.partition(":")
    return int(hours) * 60 + int(minutes)
