import random
from typing import Any

import pytest
from concordat import Budget as Theirs
from concordat import BudgetExceeded

from detectors.controls.budget import (
    NOTHING,
    Budget,
    OverdrawnError,
    micro_usd,
    overgiven,
    spend,
    split,
)


@pytest.mark.parametrize(
    ("left", "cost", "rest"),
    [
        (Budget(), Budget(5, 5, 5), Budget()),
        (Budget(10, 2, 7), Budget(), Budget(10, 2, 7)),
        (Budget(10, 2, 7), NOTHING, Budget(10, 2, 7)),
        (Budget(10, 2, 7), Budget(10, 2, 7), NOTHING),
        (Budget(10, None, 7), Budget(1, 9, 7), Budget(9, None, 0)),
        (Budget(10), Budget(11), "tokens: 11 wanted, 10 left."),
        (Budget(10, 0), Budget(1, 1), "calls: 1 wanted, 0 left."),
        (Budget(10, 1, 5), Budget(1, 1, 6), "micro_usd: 6 wanted, 5 left."),
    ],
)
def test_all_is_spent_or_nothing(left: Budget, cost: Budget, rest: Budget | str) -> None:
    if isinstance(rest, str):
        with pytest.raises(OverdrawnError) as raised:
            spend(left, cost)
        assert str(raised.value) == rest
    else:
        assert spend(left, cost) == rest


@pytest.mark.parametrize(
    ("parent", "child", "kept"),
    [
        (Budget(), Budget(), Budget()),
        (Budget(), Budget(5), Budget()),
        (Budget(10, 4), Budget(6, 4, 9), Budget(4, 0)),
        (Budget(10), Budget(11), "tokens: 11 wanted, 10 left."),
        (Budget(10), Budget(None, 3), "tokens: no limit for the child, 10 left."),
        (Budget(10, 4), Budget(1), "calls: no limit for the child, 4 left."),
    ],
)
def test_the_parent_loses_what_the_child_gets(
    parent: Budget, child: Budget, kept: Budget | str
) -> None:
    if isinstance(kept, str):
        with pytest.raises(OverdrawnError) as raised:
            split(parent, child)
        assert str(raised.value) == kept
    else:
        assert split(parent, child) == (kept, child)


def test_nothing_is_spent_twice_however_it_is_handed_on() -> None:
    dice = random.Random("hand-over")  # noqa: S311 - no secret
    for _ in range(200):
        whole = Budget(dice.randrange(100), dice.randrange(20), dice.randrange(1_000))
        pots, spent, tries = [whole], NOTHING, 0
        while tries < 60:
            tries += 1
            at = dice.randrange(len(pots))
            some = Budget(dice.randrange(40), dice.randrange(8), dice.randrange(400))
            try:
                if dice.random() < 0.5:
                    pots[at], child = split(pots[at], some)
                    pots.append(child)
                else:
                    pots[at] = spend(pots[at], some)
                    spent = added(spent, some)
            except OverdrawnError:
                continue
        total = spent
        for pot in pots:
            total = added(total, pot)
        assert total == whole


def added(one: Budget, other: Budget) -> Budget:
    return Budget(
        (one.tokens or 0) + (other.tokens or 0),
        (one.calls or 0) + (other.calls or 0),
        (one.micro_usd or 0) + (other.micro_usd or 0),
    )


def test_the_real_concordat_says_the_same() -> None:
    dice = random.Random("concordat")  # noqa: S311 - no secret
    verdicts = set()
    for _ in range(500):
        have, want = ([dice.choice([None, 0, 3, 5, 8]) for _ in range(3)] for _ in range(2))
        theirs, ours = Theirs(*have), Budget(*have)
        parts: dict[str, Any] = dict(zip(("tokens", "tool_calls", "usd"), want, strict=True))
        try:
            child = theirs.split(**parts)
        except BudgetExceeded:
            with pytest.raises(OverdrawnError):
                split(ours, Budget(*want))
            verdicts.add("refused")
            continue
        kept, given = split(ours, Budget(*want))
        assert (kept.tokens, kept.calls, kept.micro_usd) == (
            theirs.tokens,
            theirs.tool_calls,
            theirs.usd,
        )
        assert (given.tokens, given.calls, given.micro_usd) == (
            child.tokens,
            child.tool_calls,
            child.usd,
        )
        verdicts.add("split")
    assert verdicts == {"refused", "split"}


def test_less_than_nothing_is_no_budget() -> None:
    with pytest.raises(OverdrawnError, match="tokens: -1 is no budget"):
        Budget(-1)


@pytest.mark.parametrize(
    ("amount", "micro"),
    [(0.1, 100_000), ("12.5", 12_500_000), (1e-7, 0), ("0.0000005", 0), ("0.0000015", 2)],
)
def test_dollars_are_whole_millionths(amount: float | str, micro: int) -> None:
    assert micro_usd(amount) == micro


@pytest.mark.parametrize(
    ("limit", "spent", "given", "wanted", "by"),
    [
        (10, 0, [], 10, 0),
        (10, 0, [], 11, 1),
        (10, 3, [], 7, 0),
        (10, 3, [], 8, 1),
        (10, 0, [6], 4, 0),
        (10, 0, [6], 6, 2),
        # spent counts the grant of 6 already, or it does not: 6 are gone for certain
        (10, 6, [6], 4, 0),
        (10, 7, [6], 4, 1),
        (10, 12, [], 1, 1),
        (10, 12, [], 0, 0),
    ],
)
def test_a_grant_is_held_against_what_the_parent_had_left(
    limit: int, spent: int, given: list[int], wanted: int, by: int
) -> None:
    assert overgiven(limit, spent, given, wanted) == by
