"""The statistics behind a proposal: tails, bounds and what likeness inside families costs.

Reads: nothing. Writes: nothing. Next: rules_miner/mine.py.
"""

import math
from collections.abc import Sequence

CONFIDENCE = 0.05  # one-sided: all bounds are 95% bounds


def tail(total: int, positive: int, drawn: int, hits: int) -> float:
    """P(X >= hits) for X ~ Hypergeometric(total, positive, drawn): Fisher's one-sided test."""
    low = max(hits, drawn - (total - positive), 0)
    high = min(positive, drawn)
    whole = _log_choose(total, drawn)
    parts = (
        math.exp(_log_choose(positive, x) + _log_choose(total - positive, drawn - x) - whole)
        for x in range(low, high + 1)
    )
    return min(1.0, math.fsum(parts))


def lower(hits: float, drawn: float, alpha: float = CONFIDENCE) -> float:
    """Clopper-Pearson lower bound of hits of drawn. Fractions of runs are allowed."""
    return 0.0 if hits <= 0 else _quantile(alpha, hits, drawn - hits + 1)[0]


def upper(hits: float, drawn: float, alpha: float = CONFIDENCE) -> float:
    """Clopper-Pearson upper bound of hits of drawn."""
    return 1.0 if hits >= drawn else _quantile(1 - alpha, hits + 1, drawn - hits)[1]


def clustered(families: Sequence[Sequence[bool]]) -> tuple[float, float]:
    """Lower bound of precision when runs of one family resemble each other, and the design effect.

    One sequence per family: for each fired run, whether it was a stopped incident.
    """
    sizes = [len(family) for family in families]
    drawn, count = sum(sizes), len(sizes)
    if count < 2:
        return 0.0, float(max(drawn, 1))
    mean = sum(map(sum, families)) / drawn
    typical = (drawn - sum(size * size for size in sizes) / drawn) / (count - 1)
    effect = 1 + (typical - 1) * _likeness(families, mean, typical)
    effective = drawn / effect
    return lower(mean * effective, effective), effect


def _likeness(families: Sequence[Sequence[bool]], mean: float, typical: float) -> float:
    """Intra-family correlation by analysis of variance; .5 where there is no variance to read."""
    if mean in (0.0, 1.0):
        return 0.5
    drawn, count = sum(map(len, families)), len(families)
    means = [sum(family) / len(family) for family in families]
    pairs = list(zip(families, means, strict=True))
    between = math.fsum(len(f) * (own - mean) ** 2 for f, own in pairs) / (count - 1)
    within = math.fsum((y - own) ** 2 for f, own in pairs for y in f) / max(drawn - count, 1)
    spread = between + (typical - 1) * within
    return max(0.0, (between - within) / spread) if spread > 0 else 0.0


def spent(alpha: float, week: int) -> float:
    """What of alpha the mining of this week may use: the sum over all weeks is alpha."""
    return alpha * 6 / (math.pi**2 * week**2)


def critical(alpha: float, tests: Sequence[int]) -> list[float]:
    """Per level of conjunction: what p must not exceed, given how many were tested there."""
    return [alpha / (len(tests) * max(count, 1)) for count in tests]


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def _quantile(share: float, a: float, b: float) -> tuple[float, float]:
    """The bracket that holds the beta quantile: bisection on the regularised incomplete beta."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if _beta(middle, a, b) < share:
            low = middle
        else:
            high = middle
    return low, high


def _beta(x: float, a: float, b: float) -> float:
    """Regularised incomplete beta function, by the continued fraction of Lentz."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - _beta(1 - x, b, a)
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )
    tiny = 1e-300
    c, d = 1.0, 1 / _away(1 - (a + b) * x / (a + 1), tiny)
    fraction = d
    for m in range(1, 500):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 / _away(1 + term * d, tiny)
            c = _away(1 + term / c, tiny)
            fraction *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return front * fraction / a


def _away(value: float, tiny: float) -> float:
    return value if abs(value) > tiny else tiny
