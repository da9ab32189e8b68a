"""A rule over stored runs: what it would have stopped, when, and whom it would have bothered.

Reads: nothing. Writes: nothing. Next: rules_miner/proposal.py.
"""

from collections.abc import Iterable, Sequence
from statistics import median

import msgspec

from detectors.controls.stopping import Observation, Rule, holds
from rules_miner.points import observations
from rules_miner.traces import Point, Run

TIMELY = 1  # further calls between trigger and stop that still count as in time (R7.1)
Seen = Sequence[tuple[Point, Observation]]


class Backtest(msgspec.Struct):
    """Runs with a decision point, by what the rule's first firing in them meant."""

    incidents: int = 0
    good: int = 0
    unknown: int = 0
    stopped: int = 0  # incidents fired in at or before the commit step
    late: int = 0  # incidents fired in only after it: not stopped
    good_stopped: int = 0
    unknown_fired: int = 0
    timely: int = 0  # of the stopped: at most one call between trigger and stop
    strictly_timely: int = 0  # of the stopped: none
    lag_median: float = 0.0  # calls between trigger and stop, over the stopped
    lag_max: int = 0
    commits_after_match: int = 0  # runs in which a commit took effect at or after the firing
    overlap: dict[str, int] = {}  # other rule -> incidents that both stop in time


def replay(
    rules: Sequence[Rule], runs: Iterable[Run], beside: Sequence[Rule] = ()
) -> dict[str, Backtest]:
    """One pass over the runs for all rules, by rule id. `beside`: rules to count overlap with."""
    found = {rule.id: Backtest(overlap={each.id: 0 for each in beside}) for rule in rules}
    lags: dict[str, list[int]] = {rule.id: [] for rule in rules}
    for run in runs:
        if not (seen := observations(run)):
            continue
        others = [each.id for each in beside if _stops(run, seen, first(each, seen))]
        for rule in rules:
            at, each = first(rule, seen), found[rule.id]
            _count(each, run, seen, at)
            if at is not None and _stops(run, seen, at):
                lags[rule.id].append(_lag(rule, seen, at))
                for other in others:
                    each.overlap[other] += 1
    for name, each in found.items():
        each.timely = sum(lag <= TIMELY for lag in lags[name])
        each.strictly_timely = lags[name].count(0)
        each.lag_median = float(median(lags[name] or [0]))
        each.lag_max = max(lags[name], default=0)
    return found


def first(rule: Rule, seen: Seen) -> int | None:
    """Index of the first decision point at which the rule holds."""
    return next((at for at, (_, each) in enumerate(seen) if holds(rule.when, each)), None)


def _count(found: Backtest, run: Run, seen: Seen, at: int | None) -> None:
    fired = at is not None
    match run.label:
        case "misaction":
            found.incidents += 1
            stopped = _stops(run, seen, at)
            found.stopped += stopped
            found.late += fired and not stopped
        case "good":
            found.good += 1
            found.good_stopped += fired
        case _:
            found.unknown += 1
            found.unknown_fired += fired
    if at is not None:
        after = run.events[seen[at][0].at :]
        found.commits_after_match += any(
            event.kind == "tool_executed" and event.op == "commit" and event.status in (None, "ok")
            for event in after
        )


def _stops(run: Run, seen: Seen, at: int | None) -> bool:
    """An incident run whose first firing comes at or before the commit step."""
    return at is not None and run.commit is not None and seen[at][0].at <= run.commit


def _lag(rule: Rule, seen: Seen, at: int) -> int:
    """Calls between the point where the rule's signals first held and the point where it fired."""
    wanted = set(rule.when.signals)
    return at - next(step for step, (_, each) in enumerate(seen) if wanted <= each.signals)
