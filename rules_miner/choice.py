"""Which of the rules that passed are worth a reviewer's time: greedy, by what each one adds.

Reads: nothing. Writes: nothing. Next: rules_miner/proposal.py.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rules_miner import bounds
from rules_miner.columns import Case
from rules_miner.gates import No, clusters
from rules_miner.rule import Doc
from rules_miner.search import Hypothesis
from rules_miner.settings import Settings
from rules_miner.subsumption import IN_FORCE, Standing, covers

ALREADY = 0.9  # share of its incidents that others stop: beyond it, a rule adds too little


@dataclass(frozen=True)
class Found:
    """A rule that passed every gate, and what speaks for it."""

    hypothesis: Hypothesis  # in its scope: its score is the rule's
    normal: Doc
    domains: tuple[str, ...]
    critical: float  # what its p had to stay below
    plain: float  # Clopper-Pearson lower bound of the precision
    clustered: float  # the same, runs of one family taken to resemble each other
    effect: float  # design effect
    harm: float  # upper bound of the share of good runs that it stops
    replaces: tuple[str, ...]  # rules in force that it makes superfluous
    beside: tuple[tuple[str, str, int], ...]  # rule, state, incidents that both stop in time
    open: bool = False  # proposed already, and waiting for an answer
    marginal: int = 0  # incidents that neither a rule in force nor a better proposal stops
    value: float = 0.0


def found_in(
    narrow: Hypothesis,
    normal: Doc,
    domains: tuple[str, ...],
    critical: float,
    existing: Sequence[Standing],
) -> Found:
    runs, good = narrow.score, narrow.table.good.bit_count()
    clustered, effect = bounds.clustered(clusters(narrow))
    stopped = list(narrow.table.picked(runs.stopped))
    return Found(
        hypothesis=narrow,
        normal=normal,
        domains=domains,
        critical=critical,
        plain=bounds.lower(runs.k, runs.n),
        clustered=clustered,
        effect=effect,
        open=any(each.state == "open" and each.file.normal == normal for each in existing),
        harm=bounds.upper(runs.g, good) if good else 1.0,
        replaces=tuple(
            each.file.rule.id
            for each in existing
            if each.state in IN_FORCE and covers(normal, each.file.normal)
        ),
        beside=tuple(
            (each.file.rule.id, each.state, sum(_stops(each, case) for case in stopped))
            for each in existing
        ),
    )


def choose(
    passed: Iterable[Found], existing: Sequence[Standing], settings: Settings
) -> tuple[list[Found], list[tuple[Hypothesis, No]]]:
    """The best one, then the best of what is left beside it, up to the cap."""
    force = [each for each in existing if each.state in IN_FORCE]
    waiting, chosen = list(passed), list[Found]()
    left: list[tuple[Hypothesis, No]] = []
    while waiting:
        scored: list[Found] = []
        for each in waiting:
            valued = _valued(each, force, chosen, settings)
            if isinstance(valued, Found):
                scored.append(valued)
            else:
                left.append((each.hypothesis, valued))
        if sum(not each.open for each in chosen) == settings.max_new_per_week:
            why = No("cap", f"{settings.max_new_per_week} new proposals a week are enough")
            return chosen, left + [(each.hypothesis, why) for each in scored]
        scored.sort(key=_best)
        chosen += scored[:1]
        waiting = scored[1:]
    return chosen, left


def _valued(
    found: Found, force: Sequence[Standing], chosen: Sequence[Found], settings: Settings
) -> Found | No:
    """Severity of what it adds, times how sure that is, less what it may cost good runs."""
    table, runs = found.hypothesis.table, found.hypothesis.score
    for each in chosen:
        if covers(each.normal, found.normal):
            return No("covered", "covered by a better proposal of the same mining")
    taken = {
        case.key
        for each in chosen
        for case in each.hypothesis.table.picked(each.hypothesis.score.stopped)
    }
    free = [
        case
        for case in table.picked(runs.stopped)
        if case.key not in taken and not any(_stops(rule, case) for rule in force)
    ]
    if runs.k - len(free) >= ALREADY * runs.k:
        why = f"{runs.k - len(free)} of its {runs.k} incidents are stopped by other rules"
        return No("marginal", why)
    cost = {"abstain": settings.cost_abstain, "clarify": settings.cost_clarify}
    harm = found.harm * table.good.bit_count()
    gain = sum(case.weight for case in free) * min(found.plain, found.clustered)
    value = gain - cost[found.normal["then"]] * harm - settings.cost_review
    if value <= 0:
        return No("value", f"{len(free)} more incidents do not outweigh {harm:.1f} good runs")
    return replace(found, marginal=len(free), value=value)


def _best(found: Found) -> tuple[Any, ...]:
    return (
        -found.value,
        len(found.hypothesis.body),
        found.hypothesis.table.point,
        (found.hypothesis.body),
    )


def _stops(other: Standing, case: Case) -> bool:
    """The other rule holds in this incident's run at or before the commit step."""
    at = case.matched.get(other.file.rule.id)
    return at is not None and case.commit is not None and at <= case.commit
