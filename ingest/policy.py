"""The user's policy file: what agents may do, when nobody watches, where they may connect to.

Reads: policy.json. Writes: nothing; the loader stores `doc` in the table policies, where the
macros at the end of ingest/macros.sql and of ingest/limits.sql read it. Next: ingest/land.py.
"""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Literal, get_args, get_origin
from zoneinfo import ZoneInfo

import msgspec

from ingest.config import ConfigError, nearest
from ingest.hosts import canonical_host

CLOCK = re.compile(r"(?:[01][0-9]|2[0-3]):[0-5][0-9]|24:00")
NUMBER = re.compile(r"[0-9]+|0[xX][0-9a-fA-F]*")
Action = Literal["allow", "deny", "require_approval"]


class Window(msgspec.Struct, frozen=True):
    """Local wall time, start included, end not; an end before the start is past midnight."""

    start: str
    end: str


NIGHT = (Window("22:00", "08:00"),)


class General(msgspec.Struct, frozen=True):
    default_action: Action = "deny"
    timezone: str = "UTC"
    unattended_window: tuple[Window, ...] = NIGHT


class RateLimits(msgspec.Struct, frozen=True):
    tool_calls_per_minute: int = 30
    tool_calls_per_task: int = 300
    external_requests_per_hour: int = 50
    outbound_messages_per_day: int | None = None
    recipients_per_message: int | None = None


class Budgets(msgspec.Struct, frozen=True):
    daily_cost_limit_usd: float = 100


class Egress(msgspec.Struct, frozen=True):
    """`x` allows the host x, `*.x` every host below x. An empty list allows none."""

    allowed_hosts: tuple[str, ...]


class Tool(msgspec.Struct, frozen=True):
    name: str
    action: Action
    risk_level: Literal["low", "medium", "high", "critical"] = "low"
    op: Literal["lookup", "verify", "commit"] | None = None
    allowed_params: tuple[str, ...] | None = None
    forbidden_params: tuple[str, ...] = ()
    allowed_windows: tuple[Window, ...] | None = None
    daily_limit: int | None = None
    approval_channel: str | None = None


class Grant(msgspec.Struct, frozen=True):
    """What one agent may do with one tool. None: no narrower than the tool itself."""

    name: str
    allowed_operations: tuple[str, ...] | None = None
    table_allowlist: tuple[str, ...] | None = None
    row_filter: str | None = None


class Agent(msgspec.Struct, frozen=True):
    agent: str
    allowed_tools: tuple[Grant, ...] | None = None
    forbidden_tools: tuple[str, ...] = ()


class Controls(msgspec.Struct, frozen=True):
    """What a policy file may hold. `egress` is None where the file has no list of hosts."""

    general: General = msgspec.field(name="global", default=General())
    rate_limits: RateLimits = RateLimits()
    budgets: Budgets = Budgets()
    egress: Egress | None = None
    tools: tuple[Tool, ...] = ()
    agents: tuple[Agent, ...] = ()


@dataclass(frozen=True)
class Policy:
    """A policy that was checked. `version` tells two files apart, `doc` is `controls` as JSON."""

    version: str
    doc: str
    controls: Controls

    def tool(self, name: str) -> Tool | None:
        return next((tool for tool in self.controls.tools if tool.name == name), None)

    def op(self, name: str) -> str | None:
        """lookup, verify or commit, where the policy says which the tool is."""
        tool = self.tool(name)
        return tool.op if tool else None

    def agent(self, name: str) -> Agent | None:
        return next((each for each in self.controls.agents if each.agent == name), None)


def load(path: Path) -> Policy:
    """Read and check a policy file. Raises ConfigError: the file, the key, what was found."""
    try:
        data = path.read_bytes()
        table = msgspec.json.decode(data)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}.") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{path}: not JSON: {error}.") from None
    for problem in _spelling(table, Controls, ""):
        raise ConfigError(f"{path}: {problem}")
    try:
        controls = msgspec.convert(table, Controls)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: {error}.") from None
    for problem in _meaning(controls):
        raise ConfigError(f"{path}: {problem}")
    if controls.egress:
        hosts = tuple(_canonical(each) or each for each in controls.egress.allowed_hosts)
        controls = msgspec.structs.replace(controls, egress=Egress(hosts))
    version = hashlib.sha256(data).hexdigest()[:12]
    return Policy(version, msgspec.json.encode(controls).decode(), controls)


def _spelling(value: object, kind: Any, place: str) -> Iterator[str]:
    """Each key that no struct knows, wherever in the file it stands."""
    if get_origin(kind) is UnionType:
        for each in get_args(kind):
            yield from _spelling(value, each, place)
    elif get_origin(kind) is tuple and isinstance(value, list):
        for i, each in enumerate(value):
            yield from _spelling(each, get_args(kind)[0], f"{place}[{i}]")
    elif isinstance(kind, type) and issubclass(kind, msgspec.Struct) and isinstance(value, dict):
        known = {field.encode_name: field.type for field in msgspec.structs.fields(kind)}
        for key, inner in value.items():
            where = f"{place}.{key}".lstrip(".")
            if key not in known:
                yield f"{where}: unknown key.{nearest(key, known)}"
            else:
                yield from _spelling(inner, known[key], where)


def _meaning(controls: Controls) -> Iterator[str]:
    """What is of the right type and still can't be meant."""
    zone = controls.general.timezone
    try:
        ZoneInfo(zone)
    except (KeyError, ValueError, OSError):  # unknown, a path that leads out, a folder
        yield f"global.timezone: {zone!r} is no time zone. Write it like 'Europe/Berlin'."
    yield from _windows("global.unattended_window", controls.general.unattended_window)
    for kind, names in (
        ("tools", [tool.name for tool in controls.tools]),
        ("agents", [agent.agent for agent in controls.agents]),
    ):
        for i, name in enumerate(names):
            if name in names[:i]:
                yield f"{kind}[{i}]: {name!r} is there twice."
    yield from _negative("rate_limits", controls.rate_limits)
    yield from _negative("budgets", controls.budgets)
    for i, agent in enumerate(controls.agents):
        granted = {grant.name for grant in agent.allowed_tools or ()}
        for name in sorted(granted.intersection(agent.forbidden_tools)):
            yield f"agents[{i}]: {name!r} is allowed and forbidden."
    for i, tool in enumerate(controls.tools):
        yield from _negative(f"tools[{i}]", tool)
        for name in sorted({*(tool.allowed_params or ())}.intersection(tool.forbidden_params)):
            yield f"tools[{i}]: the parameter {name!r} is allowed and forbidden."
        yield from _windows(f"tools[{i}].allowed_windows", tool.allowed_windows or ())
    for i, pattern in enumerate(controls.egress.allowed_hosts if controls.egress else ()):
        if _canonical(pattern) is None:
            yield (
                f"egress.allowed_hosts[{i}]: {pattern!r} is no host. Write a host, an address,"
                " or '*.' and a name for all hosts below it."
            )


def _negative(place: str, limits: msgspec.Struct) -> Iterator[str]:
    for key in limits.__struct_fields__:
        value = getattr(limits, key)
        if isinstance(value, int | float) and value < 0:
            yield f"{place}.{key}: {value} is below 0, and 0 allows nothing."


def _windows(place: str, windows: tuple[Window, ...]) -> Iterator[str]:
    for i, window in enumerate(windows):
        for key in ("start", "end"):
            text = getattr(window, key)
            if not CLOCK.fullmatch(text) or (key == "start" and text == "24:00"):
                yield f"{place}[{i}].{key}: {text!r} is no time of day. Write it like '22:00'."
        if window.start == window.end:
            yield f"{place}[{i}]: starts when it ends. The whole day is 00:00 to 24:00."


def _canonical(pattern: str) -> str | None:
    """A host, or `*.` and a name. A wildcard elsewhere, or below an address, is no pattern."""
    wild = pattern.startswith("*.")
    name = canonical_host(pattern[2:] if wild else pattern)
    if not wild:
        return name
    if name is None or ":" in name or NUMBER.fullmatch(name.rpartition(".")[2]):
        return None
    return f"*.{name}"
