"""Typed protocols (Concordat): in which state a tool is legal, and where it leads. Pure.

`check` follows the calls of one run and says which were not legal. Where a log leaves open where a
call led, every state that it can have led to is kept: a call is illegal only if it is in all.
Reads: nothing. Writes: nothing. Next: detectors/controls/protocol_files.py.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal

import msgspec

States = frozenset[str]
# illegal: in no state that the run can be in; final: it was over; unknown: no tool of the protocol;
# human: a person's step, and no person took it; outcome: legal, and led where it may not
Why = Literal["illegal", "final", "unknown", "human", "outcome"]


class Human(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A step that only a person takes, and the states that a yes and a no lead to."""

    approve: str
    reject: str


class Protocol(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`transitions`: state to tool to the states it may lead to. `agents`: whose calls it is for,
    as patterns; `ignore`: tools that are no part of it. `run`: what one run of it is."""

    name: str
    initial: str
    final: tuple[str, ...]
    transitions: Mapping[str, Mapping[str, tuple[str, ...]]]
    human: Mapping[str, Human] = {}
    agents: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    run: Literal["trace", "session"] = "trace"

    @property
    def states(self) -> States:
        return frozenset({self.initial, *self.final, *self.transitions}).union(
            *(targets for _, _, targets in self.moves())
        )

    @property
    def tools(self) -> States:
        return frozenset(tool for _, tool, _ in self.moves())

    def moves(self) -> Iterator[tuple[str, str, tuple[str, ...]]]:
        """(state, tool, targets)"""
        for state, tools in self.transitions.items():
            for tool, targets in tools.items():
                yield state, tool, targets

    def leads(self, states: States, tool: str) -> States:
        """Where the tool can lead from any of these states; nowhere: it is legal in none."""
        return frozenset(
            target for each in states for target in self.transitions.get(each, {}).get(tool, ())
        )

    def holds_for(self, agent: str) -> bool:
        return any(fnmatchcase(agent, pattern) for pattern in self.agents)


@dataclass(frozen=True)
class Step:
    """One call, as the log has it. `outcome`: failed and refused changed nothing; unclear may have.

    `answer` is a person's, None where nobody was asked. `to`: where the log says that it led.
    """

    tool: str
    outcome: Literal["done", "failed", "refused", "unclear"] = "done"
    answer: Literal["approved", "rejected"] | None = None
    to: str | None = None
    tag: Any = None  # the caller's own, to know it again


def step_of(call: Mapping[str, Any], tag: Any = None) -> Step:
    """A row of `calls`, with `to` where its execution names a state, as a step.

    A yes counts from somebody else than the agent, and not after the execution.
    """
    ran, yes = call["executed_at"], call["approved_at"]
    asked = call["approval_requested_at"] is not None or call["reason_code"] == "rejected"
    answer: Literal["approved", "rejected"] | None = None
    if call["decision"] == "deny" and asked and call["reason_code"] not in ("expired", "cancelled"):
        answer = "rejected"
    elif yes is not None and (ran is None or yes <= ran) and call["approver"] != call["agent"]:
        answer = "approved"
    outcome: Literal["done", "failed", "refused", "unclear"] = "done"
    if ran is None:
        no = call["decision"] == "deny" or call["status"] in ("denied", "cancelled")
        outcome = "refused" if no else "unclear"
    elif call["status"] in ("error", "timeout"):
        outcome = "failed" if call["status"] == "error" else "unclear"
    return Step(call["tool"], outcome, answer, call["to"], tag)


@dataclass(frozen=True)
class Violation:
    step: Step
    why: Why
    states: tuple[str, ...]  # those that the run could be in
    allowed: tuple[str, ...]  # what was legal there

    @property
    def carried_out(self) -> bool:
        return self.step.outcome in ("done", "unclear")


def check(
    protocol: Protocol, steps: Iterable[Step], start: States | None = None
) -> list[Violation]:
    """The calls of one run that the protocol does not allow, attempts that changed nothing too.

    `start`: the states that the run can have begun in, where its beginning is not in the log.
    """
    found = []
    states = frozenset({protocol.initial}) if start is None else start
    for step in steps:
        if any(fnmatchcase(step.tool, pattern) for pattern in protocol.ignore):
            continue
        why, after = _judge(protocol, states, step)
        if why is not None:
            allowed = {tool for each in states for tool in protocol.transitions.get(each, {})}
            found.append(Violation(step, why, tuple(sorted(states)), tuple(sorted(allowed))))
        states = after
    return found


def _judge(protocol: Protocol, states: States, step: Step) -> tuple[Why | None, States]:
    """What is wrong with a step, and the states after it."""
    targets = protocol.leads(states, step.tool)
    if not targets:
        why: Why = "illegal" if step.tool in protocol.tools else "unknown"
        over = states <= frozenset(protocol.final)
        if step.outcome in ("failed", "refused"):
            return "final" if over else why, states
        # it happened all the same: the run may be where it leads from anywhere
        return "final" if over else why, states | protocol.leads(protocol.states, step.tool)
    if person := protocol.human.get(step.tool):
        return _persons(person, states, targets, step)
    if step.outcome in ("failed", "refused"):
        return None, states
    if step.to is not None and step.outcome == "done":
        if step.to not in targets:
            return "outcome", frozenset({step.to}) if step.to in protocol.states else targets
        targets = frozenset({step.to})
    return None, targets if step.outcome == "done" else states | targets


def _persons(
    person: Human, states: States, targets: States, step: Step
) -> tuple[Why | None, States]:
    """A no is an outcome of its own, and leads on as a yes does."""
    if step.answer == "rejected" and step.outcome in ("done", "refused"):
        return None, frozenset({person.reject})
    if step.outcome in ("failed", "refused"):
        return None, states
    if step.answer is None:
        return "human", targets
    yes = frozenset({person.approve})
    return None, yes if step.outcome == "done" else states | yes


def problems(protocol: Protocol) -> Iterator[str]:
    """What is wrong with a protocol itself: a run could get stuck, or a state is never reached."""
    if not protocol.final:
        yield "it has no final state."
    for state, tool, targets in protocol.moves():
        if state in protocol.final:
            yield f"the final state {state!r} allows {tool!r}."
        if not targets:
            yield f"{tool!r} in {state!r} leads nowhere."
    for tool, person in protocol.human.items():
        if tool not in protocol.tools:
            yield f"the human step {tool!r} is legal in no state."
        for _, own, targets in protocol.moves():
            if own == tool and {person.approve, person.reject} != set(targets):
                yield f"{tool!r} leads to {sorted(targets)}, not to what a person's yes and no do."
    backwards: dict[str, set[str]] = {}
    forwards: dict[str, set[str]] = {}
    for state, _, targets in protocol.moves():
        forwards.setdefault(state, set()).update(targets)
        for target in targets:
            backwards.setdefault(target, set()).add(state)
    if lost := sorted(protocol.states - _reached({protocol.initial}, forwards)):
        yield f"no run reaches {lost[0]!r}."
    if stuck := sorted(protocol.states - _reached(protocol.final, backwards)):
        yield f"from {stuck[0]!r} no run comes to an end."


def _reached(start: Iterable[str], edges: Mapping[str, Iterable[str]]) -> set[str]:
    found, waiting = set(start), list(start)
    while waiting:
        for each in edges.get(waiting.pop(), ()):
            if each not in found:
                found.add(each)
                waiting.append(each)
    return found


def refinement_problem(child: Protocol, parent: Protocol) -> str | None:
    """Why the child can't stand for its parent, or None where it can.

    It may add states and tools of its own. It may not take the parent's tools out of order, come
    to the parent's states by another route, end elsewhere, or take a step from the hands of people.
    """
    for state in sorted(set(child.final) - set(parent.final)):
        return f"it ends in {state!r}, where {parent.name} does not."
    for tool in sorted(parent.human.keys() - child.human.keys()):
        return f"{tool!r} is a person's step in {parent.name}."
    begun = _met(parent, child.initial, frozenset({parent.initial}))
    if begun is None:
        return f"it begins in {child.initial!r}, where {parent.name} does not."
    # a state of the child, and the parent's states that the run can be in meanwhile
    waiting = deque([(child.initial, begun)])
    seen = {waiting[0]}
    while waiting:
        state, meanwhile = waiting.popleft()
        for tool, targets in sorted(child.transitions.get(state, {}).items()):
            after = parent.leads(meanwhile, tool) if tool in parent.tools else meanwhile
            if not after:
                return f"in {state!r} it allows {tool!r}, which {parent.name} does not allow there."
            for target in sorted(targets):
                met = _met(parent, target, after)
                if met is None:
                    return (
                        f"{tool!r} in {state!r} reaches {target!r},"
                        f" to which {parent.name} has another route."
                    )
                if (target, met) not in seen:
                    seen.add((target, met))
                    waiting.append((target, met))
    return None


def _met(parent: Protocol, state: str, possible: States) -> States | None:
    """The parent's states once the child is in `state`; None: the parent can't be there."""
    if state not in parent.states:
        return possible
    return frozenset({state}) if state in possible else None
