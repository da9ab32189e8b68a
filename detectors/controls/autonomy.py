"""The autonomy gate (least autonomy): what a trajectory's state permits as its next step. Pure.

`decide` is R2.4, in its order. `replay` makes the states of a trace from what its log says.
Reads: nothing. Writes: nothing. Next: detectors/catalogue/unjustified_commit.py.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

Op = Literal["lookup", "verify", "commit"]
Stance = Literal["gather", "act", "clarify", "abstain"]
GATHERS, COMMITS = 3, 1  # budgets of R2.4
RISK_TO_STOP, RISK_TO_COMMIT = 0.7, 0.35
Fact = Literal["conflict", "authority_missing", "inputs_missing", "target_missing"]
# The names under which gates log the facts. Our own rule miner says the second of each.
NAMES: dict[Fact, frozenset[str]] = {
    "conflict": frozenset({"conflicting_evidence", "conflict", "conflicting_constraints"}),
    "authority_missing": frozenset({"authority_missing", "missing_authority", "no_authority"}),
    "inputs_missing": frozenset({"inputs_missing", "missing_inputs", "missing_input"}),
    "target_missing": frozenset({"target_missing", "missing_target", "target_not_found"}),
}
FACT_OF: dict[str, Fact] = {name: fact for fact, names in NAMES.items() for name in names}


@dataclass(frozen=True)
class State:
    """What is known before a step. `gathers`: lookups so far; `verified`: checks that passed."""

    conflict: bool = False
    authority_missing: bool = False
    inputs_missing: bool = False
    target_missing: bool = False
    risk: float = 0.0
    gathers: int = 0
    verified: int = 0
    commits: int = 0
    said: Stance | None = None  # the gate's own last word


@dataclass(frozen=True)
class Decision:
    """A code belongs to one stance: the user can supply what clarify names, nobody can what
    abstain names."""

    stance: Stance
    code: str


@dataclass(frozen=True)
class Seen:
    """One thing of a trace, as its log has it. `about`: what a lookup was for, or a commit is.

    `passed`: executed and answered well; `empty`: executed, and nothing was found.
    """

    op: Op | None = None
    executed: bool = False
    passed: bool = False
    empty: bool = False
    signals: frozenset[str] = frozenset()
    stance: Stance | None = None
    risk: float | None = None
    user: bool = False
    about: frozenset[str] = frozenset()
    tag: Any = None  # the caller's own, to know it again


def decide(state: State, next_op: Op, gathers: int = GATHERS, commits: int = COMMITS) -> Decision:
    """What the gate says of the next step. The first that holds decides."""
    may_gather = state.gathers < gathers
    if state.conflict:
        return Decision("abstain", "conflicting_evidence")
    if state.authority_missing:
        return Decision("abstain", "no_authority")
    if state.inputs_missing:
        if may_gather and next_op != "commit":
            return Decision("gather", "inputs_can_be_looked_up")
        return Decision("clarify", "inputs_are_the_users")
    if state.target_missing:
        return Decision("abstain", "no_target")
    if state.risk >= RISK_TO_STOP:
        return Decision("clarify", "risk_is_high")
    if next_op == "commit":
        return _commit(state, may_gather, state.commits < commits)
    if next_op == "lookup" and not may_gather:
        return Decision("abstain", "gathers_used_up")
    return Decision("gather", "within_budget")


def _commit(state: State, may_gather: bool, may_commit: bool) -> Decision:
    if not may_commit:
        return Decision("abstain", "commits_used_up")
    if state.risk > RISK_TO_COMMIT:
        return Decision("clarify", "risk_of_a_commit")
    if not state.verified and may_gather:
        return Decision("gather", "not_verified")
    return Decision("act", "justified")


def replay(trace: Iterable[Seen]) -> Iterator[tuple[State, Seen]]:
    """Each thing of a trace with the state before it. What its own line says of it counts too.

    A signal holds until a check passes, the gate says act, or a later line names other facts;
    missing inputs and the gate's own word until the user speaks, too; an empty lookup until one
    for the same finds something: then the target of whatever is about the same is missing.
    """
    state = State()
    sought: set[frozenset[str]] = set()
    for seen in trace:
        state = _told(state, seen)
        missing = state.target_missing or any(each <= seen.about for each in sought)
        yield replace(state, target_missing=missing), seen
        state = _done(state, seen)
        if seen.executed and seen.about and seen.op != "commit":
            if seen.empty:
                sought.add(seen.about)
            elif seen.passed:
                sought = {each for each in sought if not each <= seen.about}


def _told(state: State, seen: Seen) -> State:
    """What the line itself tells of the state."""
    if seen.user:
        state = replace(state, inputs_missing=False, said=None)
    facts = {FACT_OF[name] for name in seen.signals if name in FACT_OF}
    if facts or seen.stance == "act":
        state = _settled(state, facts)
    return replace(
        state,
        said=seen.stance or state.said,
        risk=state.risk if seen.risk is None else seen.risk,
    )


def _done(state: State, seen: Seen) -> State:
    if not seen.executed:
        return state
    match seen.op:
        case "lookup":
            return replace(state, gathers=state.gathers + 1)
        case "commit":
            return replace(state, commits=state.commits + 1)
        case "verify" if seen.passed:
            return replace(_settled(state, set()), verified=state.verified + 1)
    return state


def _settled(state: State, left: set[Fact]) -> State:
    """Of the facts that stand in the way, these are left."""
    return replace(
        state,
        conflict="conflict" in left,
        authority_missing="authority_missing" in left,
        inputs_missing="inputs_missing" in left,
        target_missing="target_missing" in left,
    )
