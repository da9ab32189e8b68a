import re
from dataclasses import replace
from typing import Any

import pytest

from detectors.controls.autonomy import FACT_OF, NAMES, Decision, Seen, State, decide, replay
from tests.kit import ROOT

FULL = State(gathers=3, commits=1)
LOOK = Seen("lookup", executed=True, passed=True)
CHECK = Seen("verify", executed=True, passed=True)
COMMIT = Seen("commit", executed=True, passed=True)
CONFLICT = frozenset({"conflict"})


@pytest.mark.parametrize(
    ("state", "step", "stance", "code"),
    [
        # each branch, alone
        (State(conflict=True), "lookup", "abstain", "conflicting_evidence"),
        (State(conflict=True), "commit", "abstain", "conflicting_evidence"),
        (State(authority_missing=True), "verify", "abstain", "no_authority"),
        (State(inputs_missing=True), "lookup", "gather", "inputs_can_be_looked_up"),
        (State(inputs_missing=True), "verify", "gather", "inputs_can_be_looked_up"),
        (State(inputs_missing=True), "commit", "clarify", "inputs_are_the_users"),
        (State(inputs_missing=True, gathers=2), "lookup", "gather", "inputs_can_be_looked_up"),
        (State(inputs_missing=True, gathers=3), "lookup", "clarify", "inputs_are_the_users"),
        (State(target_missing=True), "lookup", "abstain", "no_target"),
        (State(risk=0.7), "lookup", "clarify", "risk_is_high"),
        (State(risk=0.69), "lookup", "gather", "within_budget"),
        (State(verified=1, commits=1), "commit", "abstain", "commits_used_up"),
        (State(verified=1, risk=0.36), "commit", "clarify", "risk_of_a_commit"),
        (State(verified=1, risk=0.35), "commit", "act", "justified"),
        (State(), "commit", "gather", "not_verified"),
        (State(gathers=2), "commit", "gather", "not_verified"),
        (State(gathers=3), "commit", "act", "justified"),
        (State(verified=1), "commit", "act", "justified"),
        (State(gathers=3), "lookup", "abstain", "gathers_used_up"),
        (State(gathers=2), "lookup", "gather", "within_budget"),
        (State(gathers=9), "verify", "gather", "within_budget"),
        # two at once: the order decides
        (State(conflict=True, authority_missing=True), "commit", "abstain", "conflicting_evidence"),
        (State(conflict=True, inputs_missing=True), "lookup", "abstain", "conflicting_evidence"),
        (State(authority_missing=True, inputs_missing=True), "lookup", "abstain", "no_authority"),
        (State(authority_missing=True, risk=1), "commit", "abstain", "no_authority"),
        (State(inputs_missing=True, target_missing=True), "commit", "clarify",
         "inputs_are_the_users"),
        (State(inputs_missing=True, target_missing=True), "lookup", "gather",
         "inputs_can_be_looked_up"),
        (State(inputs_missing=True, risk=1), "lookup", "gather", "inputs_can_be_looked_up"),
        (State(target_missing=True, risk=1), "commit", "abstain", "no_target"),
        (State(risk=0.7, commits=1), "commit", "clarify", "risk_is_high"),
        (State(risk=0.5, commits=1), "commit", "abstain", "commits_used_up"),
        (State(risk=0.5), "commit", "clarify", "risk_of_a_commit"),
        (replace(FULL, inputs_missing=True), "commit", "clarify", "inputs_are_the_users"),
        (FULL, "commit", "abstain", "commits_used_up"),
        (FULL, "lookup", "abstain", "gathers_used_up"),
    ],
)  # fmt: skip
def test_the_first_condition_that_holds_decides(
    state: State, step: Any, stance: Any, code: str
) -> None:
    assert decide(state, step) == Decision(stance, code)


def test_budgets_are_the_callers() -> None:
    assert decide(State(gathers=3), "lookup", gathers=4).stance == "gather"
    assert decide(State(gathers=1), "lookup", gathers=1).stance == "abstain"
    assert decide(State(verified=1, commits=1), "commit", commits=2).stance == "act"
    assert decide(State(verified=1), "commit", commits=0).stance == "abstain"


def test_a_code_belongs_to_one_stance() -> None:
    """Clarify names what the user can supply, abstain what nobody can."""
    flags = (False, True)
    stances: dict[str, set[str]] = {}
    for conflict in flags:
        for authority in flags:
            for inputs in flags:
                for target in flags:
                    for risk in (0.0, 0.5, 0.9):
                        for gathers in (0, 3):
                            for verified in (0, 1):
                                for commits in (0, 1):
                                    state = State(conflict, authority, inputs, target, risk,
                                                  gathers, verified, commits)  # fmt: skip
                                    for step in ("lookup", "verify", "commit"):
                                        found = decide(state, step)
                                        stances.setdefault(found.code, set()).add(found.stance)

    assert {len(each) for each in stances.values()} == {1}
    assert len(stances) == 12


def states(*trace: Seen) -> list[State]:
    return [state for state, _ in replay(trace)]


def test_a_state_is_what_came_before_and_what_its_own_line_says() -> None:
    first, second, third, fourth = states(LOOK, CHECK, COMMIT, replace(COMMIT, signals=CONFLICT))

    assert first == State()
    assert second == State(gathers=1)
    assert third == State(gathers=1, verified=1)
    assert fourth == State(gathers=1, verified=1, commits=1, conflict=True)


@pytest.mark.parametrize(
    ("between", "holds"),
    [
        ((), True),
        ((LOOK,), True),
        ((replace(CHECK, passed=False),), True),
        ((replace(CHECK, executed=False),), True),
        ((Seen(signals=frozenset({"clock_skew"})),), True),
        ((Seen(stance="abstain"),), True),
        ((Seen(user=True),), True),
        ((CHECK,), False),
        ((Seen(stance="act"),), False),
        ((Seen(signals=frozenset({"missing_inputs"})),), False),
        ((CHECK, Seen(signals=CONFLICT)), True),
    ],
)
def test_a_signal_holds_until_it_is_settled(between: tuple[Seen, ...], holds: bool) -> None:
    last = states(Seen(signals=CONFLICT), *between, COMMIT)[-1]

    assert last.conflict is holds


def test_what_the_user_can_supply_is_settled_when_the_user_speaks() -> None:
    asked = Seen(signals=frozenset({"missing_input"}), stance="clarify")

    before, after = states(asked, COMMIT)[-1], states(asked, Seen(user=True), COMMIT)[-1]

    assert (before.inputs_missing, before.said) == (True, "clarify")
    assert (after.inputs_missing, after.said) == (False, None)


C9, C9_OF_SHOP = frozenset({"c-9"}), frozenset({"c-9", "shop"})


@pytest.mark.parametrize(
    ("trace", "about", "missing"),
    [
        ([replace(LOOK, passed=False, empty=True, about=C9)], C9_OF_SHOP, True),
        ([replace(LOOK, passed=False, empty=True, about=C9_OF_SHOP)], C9, False),
        ([replace(LOOK, passed=False, empty=True)], C9, False),
        ([replace(COMMIT, passed=False, empty=True, about=C9)], C9, False),
        ([replace(LOOK, passed=False, empty=True, about=C9), replace(LOOK, about=C9)], C9, False),
        ([replace(LOOK, about=C9), replace(LOOK, passed=False, empty=True, about=C9)], C9, True),
        ([replace(LOOK, passed=False, empty=True, about=C9), LOOK], C9, True),
        ([replace(LOOK, executed=False, empty=True, about=C9)], C9, False),
    ],
)
def test_a_target_that_was_looked_up_in_vain_is_missing_for_what_is_about_it(
    trace: list[Seen], about: frozenset[str], missing: bool
) -> None:
    assert states(*trace, replace(COMMIT, about=about))[-1].target_missing is missing


def test_risk_is_the_last_that_was_told() -> None:
    assert states(Seen(risk=0.8), LOOK, Seen(risk=0.1), LOOK)[-1].risk == 0.1


def test_every_name_of_a_fact_is_of_one_fact() -> None:
    assert len(FACT_OF) == sum(map(len, NAMES.values()))
    assert {"conflict", "missing_target"} <= FACT_OF.keys()


def test_the_book_has_every_code_and_every_name() -> None:
    book = (ROOT / "docs/controls.md").read_text(encoding="utf-8")
    codes = [
        code
        for state in (
            State(conflict=True), State(authority_missing=True), State(inputs_missing=True),
            State(target_missing=True), State(risk=1), State(risk=0.5), State(), State(verified=1),
            FULL,
        )
        for code in (decide(state, "lookup").code, decide(state, "commit").code)
    ]  # fmt: skip

    told = re.findall(r"\| (\w+) \| `(\w+)` \|", book)
    assert {code for _, code in told} == set(codes)
    for names in NAMES.values():
        assert all(f"`{name}`" in book for name in names)
