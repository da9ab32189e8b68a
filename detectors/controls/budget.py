"""Budgets that are split when work is handed on: what one run may give another. Pure.

Amounts are whole: tokens, calls, and millionths of a dollar, so that sums are exact. None is no
limit. What was given to a child is gone for the parent: it can't be spent twice.
Reads: nothing. Writes: nothing. Next: detectors/catalogue/budget_overdelegation.py.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_EVEN, Decimal

MICRO = 1_000_000


class OverdrawnError(ValueError):
    """More than is left was spent, or given. Names the kind, what was wanted and what is left."""


@dataclass(frozen=True)
class Budget:
    """What may still be spent."""

    tokens: int | None = None
    calls: int | None = None
    micro_usd: int | None = None

    def __post_init__(self) -> None:
        for kind, amount in self.amounts.items():
            if amount is not None and amount < 0:
                raise OverdrawnError(f"{kind}: {amount} is no budget.")

    @property
    def amounts(self) -> Mapping[str, int | None]:
        return {"tokens": self.tokens, "calls": self.calls, "micro_usd": self.micro_usd}


NOTHING = Budget(0, 0, 0)


def micro_usd(amount: float | str | Decimal) -> int:
    """Dollars as whole millionths, half to even."""
    exact = Decimal(str(amount)) * MICRO
    return int(exact.to_integral_value(ROUND_HALF_EVEN))


def spend(left: Budget, cost: Budget) -> Budget:
    """What is left after it: all of it, or OverdrawnError and nothing is spent."""
    rest: dict[str, int | None] = {}
    for kind, have in left.amounts.items():
        want = cost.amounts[kind]
        if want is None:
            want = 0
        if have is not None and want > have:
            raise OverdrawnError(f"{kind}: {want} wanted, {have} left.")
        rest[kind] = None if have is None else have - want
    return replace(left, **rest)


def split(parent: Budget, child: Budget) -> tuple[Budget, Budget]:
    """(what the parent keeps, what the child gets). A child of a limited parent has limits."""
    for kind, have in parent.amounts.items():
        if have is not None and child.amounts[kind] is None:
            raise OverdrawnError(f"{kind}: no limit for the child, {have} left.")
    return spend(parent, child), child


def overgiven(limit: int, spent: int, given: Iterable[int], wanted: int) -> int:
    """By how much a grant exceeds what the parent had left, 0 where it does not.

    `given`: grants to other children before. A log may count them in `spent` or not, so the larger
    of the two is gone for certain.
    """
    return max(0, wanted - max(0, limit - max(spent, sum(given))))
