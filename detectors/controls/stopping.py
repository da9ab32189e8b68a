"""Does a stopping rule hold here? Pure: rules and one observation in, the answer out.

Reads: nothing. Writes: nothing. Next: rules_miner/rule.py, which reads rules from files.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

SHELL = frozenset(";&|`$()<>\n\r\\")  # what can turn one command into two
MISSING: Any = object()


class Param(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: str
    op: Literal["eq", "ne", "in", "lt", "lte", "gt", "gte", "prefix", "exists"]
    value: Any


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A condition on the calls before the pending one; exactly one of the first four is set."""

    prev: str | None = None
    seen: str | None = None
    absent: str | None = None
    count: str | None = None
    not_followed_by: str | None = None
    gte: int = 1
    since: Literal["start", "last_user", "last_commit"] = "start"


class When(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that is given must hold; what is absent or empty asks for nothing."""

    signals: tuple[str, ...]
    point: Literal["pre_commit", "pre_call", "post_result"] | None = None
    domain: tuple[str, ...] = ()
    tool: tuple[str, ...] = ()
    tool_prefix: tuple[str, ...] = ()
    not_signals: tuple[str, ...] = ()
    params: tuple[Param, ...] = ()
    sequence: tuple[Step, ...] = ()


class Rule(msgspec.Struct, frozen=True):
    id: str
    then: Literal["abstain", "clarify"]
    when: When
    message: str = ""
    status: str = "experimental"


@dataclass(frozen=True)
class Past:
    """One earlier call of the run, and whether it came after the last user message and commit."""

    tool: str
    op: str | None = None
    since_user: bool = True
    since_commit: bool = True


@dataclass(frozen=True)
class Observation:
    """What a gate knows at a decision point: nothing of the pending call's result, nothing later.

    `target` is the latest state seen of the thing that the call is aimed at.
    """

    point: str
    tool: str
    domain: str
    signals: frozenset[str]
    op: str | None = None
    args: Any = None
    target: Any = None
    history: Sequence[Past] = field(default=())


@dataclass(frozen=True)
class Match:
    then: str
    id: str
    message: str
    matched: tuple[str, ...]  # every rule that holds, the deciding one first


def match(rules: Iterable[Rule], observation: Observation) -> Match | None:
    """The rule that decides: abstain before clarify, then the lower id. None: nothing holds."""
    held = sorted(
        (rule for rule in rules if holds(rule.when, observation)),
        key=lambda rule: (rule.then != "abstain", rule.id),
    )
    if not held:
        return None
    return Match(held[0].then, held[0].id, held[0].message, tuple(rule.id for rule in held))


def holds(when: When, seen: Observation) -> bool:
    """Every condition holds. Names compare literally and case-sensitively."""
    points = (when.point,) if when.point else ("pre_commit", "pre_call")
    return (
        seen.point in points
        and (not when.domain or seen.domain in when.domain)
        and (not when.tool or seen.tool in when.tool)
        and (not when.tool_prefix or seen.tool.startswith(when.tool_prefix))
        and all(name in seen.signals for name in when.signals)
        and not any(name in seen.signals for name in when.not_signals)
        and all(_param(param, seen) for param in when.params)
        and all(_step(step, seen.history) for step in when.sequence)
    )


def _param(test: Param, seen: Observation) -> bool:
    """A missing path makes every test false but `exists: false`: what nobody saw stops no run."""
    root, *path = test.path.split(".")
    value = seen.args if root == "args" else seen.target
    for key in path:
        value = value.get(key, MISSING) if isinstance(value, Mapping) else MISSING
    if test.op == "exists":
        return bool(test.value) == (value is not MISSING)
    if value is MISSING:
        return False
    match test.op:
        case "eq":
            return _same(value, test.value)
        case "ne":
            return not _same(value, test.value)
        case "in":
            return any(_same(value, each) for each in test.value)
        case "prefix":
            return _begins(value, test.value)
    return _ordered(test.op, value, test.value)


def _same(left: Any, right: Any) -> bool:
    """Equal as JSON: true is not 1."""
    return isinstance(left, bool) == isinstance(right, bool) and bool(left == right)


def _begins(value: Any, prefix: str) -> bool:
    """A literal prefix, and nothing in the rest that a shell would read as a second command."""
    return (
        isinstance(value, str)
        and value.startswith(prefix)
        and SHELL.isdisjoint(value[len(prefix) :])
    )


def _ordered(op: str, value: Any, bound: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    match op:
        case "lt":
            return bool(value < bound)
        case "lte":
            return bool(value <= bound)
        case "gt":
            return bool(value > bound)
    return bool(value >= bound)


def _step(step: Step, history: Sequence[Past]) -> bool:
    if step.prev is not None:
        return bool(history) and _named(step.prev, history[-1])
    past = [
        call
        for call in history
        if step.since == "start"
        or (call.since_user if step.since == "last_user" else call.since_commit)
    ]
    if step.absent is not None:
        return not any(_named(step.absent, call) for call in past)
    if step.count is not None:
        return sum(_named(step.count, call) for call in past) >= step.gte
    seen = [at for at, call in enumerate(past) if _named(step.seen or "", call)]
    after = step.not_followed_by
    return bool(seen) and not (after and any(_named(after, call) for call in past[seen[-1] + 1 :]))


def _named(pattern: str, call: Past) -> bool:
    """A tool name, or a prefix with one trailing star."""
    if pattern.endswith("*"):
        return call.tool.startswith(pattern[:-1])
    return call.tool == pattern
