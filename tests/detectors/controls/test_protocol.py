"""Protocols by hand, and against the real Concordat on protocols made at random."""

import random
from collections.abc import Sequence
from typing import Any

import pytest
from concordat import Agent, ProtocolError, ProtocolViolation, human, tool
from concordat.protocol import Protocol as Theirs
from concordat.session import Session

from detectors.controls.protocol import (
    Human,
    Protocol,
    Step,
    check,
    problems,
    refinement_problem,
    step_of,
)
from tests.kit import at

REFUNDS = Protocol(
    "refunds",
    "start",
    ("done", "refused"),
    {
        "start": {"lookup": ("verified", "start")},
        "verified": {"approve": ("approved", "refused")},
        "approved": {"refund": ("done",)},
    },
    {"approve": Human("approved", "refused")},
    ("Refunds", "refund-*"),
    ("think", "log.*"),
)
YES, NO = Step("approve", answer="approved"), Step("approve", "refused", "rejected")
FOUND, REFUND = Step("lookup", to="verified"), Step("refund")


def told(*steps: Step) -> list[tuple[int, str]]:
    """Which of the steps are wrong, and why."""
    return [(steps.index(each.step), each.why) for each in check(REFUNDS, steps)]


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ((), []),
        ((FOUND, YES, REFUND), []),
        ((FOUND, NO), []),
        ((Step("think"), FOUND, Step("log.write"), YES, REFUND), []),
        # out of its place
        ((REFUND,), [(0, "illegal")]),
        ((FOUND, REFUND), [(1, "illegal")]),
        ((FOUND, NO, REFUND), [(2, "final")]),
        ((FOUND, YES, REFUND, Step("lookup")), [(3, "final")]),
        ((FOUND, YES, REFUND, Step("refund", tag=2)), [(3, "final")]),
        ((Step("wire"),), [(0, "unknown")]),
        # where it led is open: each possibility counts
        ((Step("lookup"), YES), []),
        ((Step("lookup"), Step("lookup", tag=2)), []),
        ((Step("lookup"), REFUND), [(1, "illegal")]),
        ((Step("lookup", to="start"), YES), [(1, "illegal")]),
        # what changed nothing leads nowhere; what is unclear may have
        ((Step("lookup", "failed"), YES), [(1, "illegal")]),
        ((Step("lookup", "refused"), YES), [(1, "illegal")]),
        ((Step("lookup", "unclear"), YES), []),
        ((FOUND, YES, Step("refund", "unclear"), Step("refund", tag=2)), []),
        ((FOUND, YES, Step("refund", "failed"), REFUND), []),
        # an attempt counts, and the run stays where it was
        ((Step("refund", "refused"), FOUND, YES, REFUND), [(0, "illegal")]),
        # a person's step
        ((FOUND, Step("approve")), [(1, "human")]),
        ((FOUND, Step("approve"), REFUND), [(1, "human")]),
        ((FOUND, Step("approve", "refused"), YES, REFUND), []),
        ((FOUND, Step("approve", "unclear", "approved"), REFUND), []),
        # where it led is not where it may lead
        ((Step("lookup", to="done"),), [(0, "outcome")]),
        ((Step("lookup", to="done"), REFUND), [(0, "outcome"), (1, "final")]),
        ((Step("lookup", to="nowhere"), YES), [(0, "outcome")]),
        # what happened all the same may have led on: no alarm about each step after it
        ((Step("refund"), Step("refund", tag=2)), [(0, "illegal"), (1, "illegal")]),
        ((YES, REFUND), [(0, "illegal")]),
    ],
)
def test_a_run_is_held_against_its_protocol(
    steps: Sequence[Step], expected: list[tuple[int, str]]
) -> None:
    assert told(*steps) == expected


def test_a_violation_says_where_the_run_was_and_what_was_allowed() -> None:
    [found] = check(REFUNDS, [Step("lookup"), REFUND])

    assert found.states == ("start", "verified")
    assert found.allowed == ("approve", "lookup")
    assert (found.carried_out, check(REFUNDS, [Step("refund", "refused")])[0].carried_out) == (
        True,
        False,
    )


def test_a_run_whose_beginning_is_not_known_can_be_anywhere() -> None:
    assert check(REFUNDS, [REFUND], REFUNDS.states) == []
    assert len(check(REFUNDS, [REFUND, Step("refund", tag=2)], REFUNDS.states)) == 1
    assert len(check(REFUNDS, [Step("wire")], REFUNDS.states)) == 1


def test_a_protocol_is_for_the_agents_that_it_names() -> None:
    assert [REFUNDS.holds_for(name) for name in ("Refunds", "refund-bot", "refunds")] == [
        True,
        True,
        False,
    ]


def protocol(transitions: dict[str, dict[str, tuple[str, ...]]], *final: str, **more: Any) -> Any:
    return Protocol("p", "a", final, transitions, **more)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (protocol({"a": {"x": ("b",)}}, "b"), None),
        (protocol({"a": {"x": ("b",)}}), "it has no final state."),
        (
            protocol({"a": {"x": ("b",)}, "b": {"y": ("a",)}}, "b"),
            "the final state 'b' allows 'y'.",
        ),
        (protocol({"a": {"x": ("b",), "y": ()}}, "b"), "'y' in 'a' leads nowhere."),
        (protocol({"a": {"x": ("b",)}, "c": {"y": ("b",)}}, "b"), "no run reaches 'c'."),
        (protocol({"a": {"x": ("b", "c")}}, "b"), "from 'c' no run comes to an end."),
        (
            protocol({"a": {"x": ("b",)}}, "b", human={"y": Human("b", "b")}),
            "the human step 'y' is legal in no state.",
        ),
        (
            protocol({"a": {"x": ("b",)}}, "b", human={"x": Human("b", "c")}),
            "'x' leads to ['b'], not to what a person's yes and no do.",
        ),
    ],
)
def test_what_is_wrong_with_a_protocol_itself_is_said(wrong: Protocol, said: str | None) -> None:
    assert next(problems(wrong), None) == said


def made_up(dice: random.Random, states: str, tools: str) -> tuple[str, dict[str, Any], list[str]]:
    transitions: dict[str, dict[str, list[str]]] = {}
    for state in states:
        for name in dice.sample(tools, dice.randrange(len(tools))):
            targets = dice.sample(states, dice.choice([1, 1, 1, 2]))
            transitions.setdefault(state, {})[name] = targets
    final = dice.sample(states, dice.choice([1, 1, 2]))
    for state in final:
        transitions.pop(state, None)
    return dice.choice(states[:2]), transitions, final


def both(made: tuple[str, dict[str, Any], list[str]]) -> tuple[Protocol, Theirs | None]:
    initial, transitions, final = made
    typed = {s: {t: tuple(to) for t, to in tools.items()} for s, tools in transitions.items()}
    ours = Protocol("p", initial, tuple(final), typed)
    try:
        return ours, Theirs(initial, transitions, final)
    except ProtocolError:
        return ours, None


def test_a_protocol_is_sound_where_concordat_says_so() -> None:
    dice = random.Random("sound")  # noqa: S311 - no secret
    verdicts = set()
    for _ in range(2_000):
        ours, theirs = both(made_up(dice, "abcd", "xyz"))
        assert (next(problems(ours), None) is None) == (theirs is not None)
        verdicts.add(theirs is None)
    assert verdicts == {True, False}


def test_a_protocol_refines_another_where_concordat_says_so() -> None:
    dice = random.Random("refines")  # noqa: S311 - no secret
    sound: list[tuple[Protocol, Theirs]] = []
    while len(sound) < 150:
        ours, theirs = both(made_up(dice, "abcde"[: dice.choice([3, 4, 5])], "xyz"))
        if theirs is not None:
            sound.append((ours, theirs))
    verdicts = {True: 0, False: 0}
    for child, their_child in sound:
        for parent, their_parent in sound:
            fits = refinement_problem(child, parent) is None
            assert fits == (their_child.refinement_problem(their_parent) is None)
            verdicts[fits] += 1
    assert min(verdicts.values()) > 150  # more than that each refines itself


class Shop(Agent):
    final = ("paid", "kept")

    @tool(when="start", then={True: "checked", False: "kept"})
    def look(self, found: bool = True) -> bool:
        return found

    @human(when="checked", approve="agreed", reject="kept")
    def agree(self) -> str:
        return "12 USD"

    @tool(when="agreed", then="paid")
    def pay(self, works: bool = True) -> None:
        if not works:
            raise ValueError("the till is closed")


def of(agent: type[Agent], name: str = "shop") -> Protocol:
    theirs = agent.protocol
    typed = {
        state: {step: tuple(sorted(to)) for step, to in steps.items()}
        for state, steps in theirs.transitions.items()
    }
    people = {"agree": Human("agreed", "kept")} if hasattr(agent._steps["agree"], "approve") else {}
    return Protocol(name, theirs.initial, tuple(theirs.final), typed, people)


def test_a_subclass_that_goes_another_way_is_refused_by_both() -> None:
    with pytest.raises(ProtocolError, match="breaks Shop's protocol"):

        class Hasty(Shop):  # pays without asking
            @tool(when="checked", then="paid")
            def rush(self) -> None: ...

    hasty = of(Shop)
    moves = {state: dict(steps) for state, steps in hasty.transitions.items()}
    moves["checked"]["rush"] = ("paid",)
    child = Protocol("hasty", hasty.initial, hasty.final, moves, hasty.human)
    assert refinement_problem(child, of(Shop)) == (
        "'rush' in 'checked' reaches 'paid', to which shop has another route."
    )


def test_a_subclass_that_takes_a_step_from_people_is_refused_by_both() -> None:
    with pytest.raises(ProtocolError, match="no longer decided by a human"):

        class Alone(Shop):
            @tool(when="checked", then={True: "agreed", False: "kept"})
            def agree(self) -> bool:
                return True

    alone = Protocol("alone", "start", ("paid", "kept"), of(Shop).transitions)
    assert refinement_problem(alone, of(Shop)) == "'agree' is a person's step in shop."


def test_a_subclass_with_states_of_its_own_between_is_taken_by_both() -> None:
    class Careful(Shop):
        @tool(when="agreed", then="agreed")
        def weigh(self) -> None: ...

    assert refinement_problem(of(Careful, "careful"), of(Shop)) is None


@pytest.mark.parametrize("seed", range(20))
def test_what_concordat_refuses_at_each_step_is_what_is_found(seed: int) -> None:
    """Random sessions of the real agent: each attempt, and what became of it."""
    dice = random.Random(f"session-{seed}")  # noqa: S311 - no secret
    refused: list[int] = []
    steps: list[Step] = []
    agent = Shop(lambda step, request: dice.random() < 0.7)
    for number in range(30):
        name = dice.choice(["look", "agree", "pay"])
        try:
            given = (dice.random() < 0.8,) if name != "agree" else ()
            answer = getattr(agent, name)(*given)
        except ProtocolViolation:
            refused.append(number)
            steps.append(Step(name, "refused", tag=number))
        except ValueError:
            steps.append(Step(name, "failed", tag=number))
        else:
            said: Any = {True: "approved", False: "rejected"}[answer] if name == "agree" else None
            steps.append(Step(name, "done", said, agent.state, number))
        if agent.done and dice.random() < 0.3:
            break

    assert [each.step.tag for each in check(of(Shop), steps)] == refused


def test_a_session_by_hand_agrees_too() -> None:
    session = Session(Shop.protocol)
    with pytest.raises(ProtocolViolation):
        session.check("pay")

    assert len(check(of(Shop), [Step("pay", "refused")])) == 1


BARE: dict[str, Any] = {
    "tool": "approve", "agent": "a1", "approver": None, "status": None, "decision": None,
    "reason_code": None, "executed_at": None, "approved_at": None, "approval_requested_at": None,
    "to": None,
}  # fmt: skip


@pytest.mark.parametrize(
    ("row", "outcome", "answer"),
    [
        ({"executed_at": at("09:05"), "status": "ok"}, "done", None),
        ({"executed_at": at("09:05")}, "done", None),
        ({"executed_at": at("09:05"), "status": "error"}, "failed", None),
        ({"executed_at": at("09:05"), "status": "timeout"}, "unclear", None),
        ({"decision": "allow"}, "unclear", None),
        ({"decision": "deny"}, "refused", None),
        ({"status": "cancelled"}, "refused", None),
        ({"executed_at": at("09:05"), "approved_at": at("09:04")}, "done", "approved"),
        ({"executed_at": at("09:05"), "approved_at": at("09:06")}, "done", None),
        ({"executed_at": at("09:05"), "approved_at": at("09:04"), "approver": "a1"}, "done", None),
        ({"decision": "deny", "approval_requested_at": at("09:00")}, "refused", "rejected"),
        ({"decision": "deny", "reason_code": "rejected"}, "refused", "rejected"),
        ({"decision": "deny", "reason_code": "expired", "approval_requested_at": at("09:00")},
         "refused", None),
    ],
)  # fmt: skip
def test_a_row_of_calls_is_a_step(row: dict[str, Any], outcome: str, answer: str | None) -> None:
    found = step_of(BARE | row)

    assert (found.outcome, found.answer) == (outcome, answer)
