"""From runs to a few rules that stand up to every gate, or to the reasons why there are none.

Reads: nothing. Writes: nothing. Next: rules_miner/choice.py, rules_miner/proposal.py.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rules_miner import bounds
from rules_miner.choice import Found, choose, found_in
from rules_miner.columns import cases, digest, table
from rules_miner.gates import No, Refused, judge, refused, scoped, then_of, when_of
from rules_miner.search import Hypothesis, search
from rules_miner.settings import Settings
from rules_miner.subsumption import Standing, covering
from rules_miner.traces import Run

SHOWN = 20  # refused conjunctions that are listed; the others are counted per gate
DULL = ("incidents", "productive")  # gates whose refusals nobody needs to read one by one
Verdict = tuple[Hypothesis, No]


@dataclass(frozen=True)
class Mined:
    proposals: tuple[Found, ...]  # best first
    refused: tuple[Refused, ...]  # the most telling ones, best first
    gates: dict[str, int]  # how many conjunctions each gate refused
    tests: tuple[int, ...]  # conjunctions tested, by number of conditions
    runs: dict[str, int]  # misaction, good, unknown: those with a decision point
    data: str  # digest of what was mined


def mine(
    runs: Iterable[Run], existing_rules: Sequence[Standing], settings: Settings, seed: int = 0
) -> Mined:
    """At most `max_new_per_week` proposals. The same runs in any order give the same answer.

    Nothing here is drawn by chance yet; `seed` is part of the call so that it need not change.
    """
    del seed
    held = cases(runs, [each.file.rule for each in existing_rules])
    tests = [0] * settings.depth
    tried: list[Hypothesis] = []
    for point in ("pre_commit", "pre_call"):
        rows = table(held, point)
        tried += search(rows, settings.depth, settings.min_incidents, settings.min_families, tests)
    alpha = bounds.spent(settings.alpha, settings.week)
    critical = bounds.critical(alpha, tests)
    wide, no = _sieved(tried, settings, critical)
    for each in wide:  # to narrow a conjunction to its domains is one more test
        tests[len(each.body) - 1] += 1
    critical = bounds.critical(alpha, tests)
    passed, more = _standing(wide, existing_rules, settings, critical)
    chosen, left = choose(passed, existing_rules, settings)
    no += more + left
    counts = Counter(case.label or "unknown" for case in held)
    return Mined(
        proposals=tuple(chosen),
        refused=_telling(no),
        gates=dict(sorted(Counter(why.gate for _, why in no).items())),
        tests=tuple(tests),
        runs={label: counts[label] for label in ("misaction", "good", "unknown")},
        data=digest(held),
    )


def _sieved(
    tried: Iterable[Hypothesis], settings: Settings, critical: Sequence[float]
) -> tuple[list[Hypothesis], list[Verdict]]:
    passed: list[Hypothesis] = []
    no: list[Verdict] = []
    for each in tried:
        verdict = judge(each, settings, critical[len(each.body) - 1])
        if verdict is None:
            passed.append(each)
        else:
            no.append((each, verdict))
    return passed, no


def _standing(
    wide: Iterable[Hypothesis],
    existing: Sequence[Standing],
    settings: Settings,
    critical: Sequence[float],
) -> tuple[list[Found], list[Verdict]]:
    """Narrowed to their domains, judged again, and held against the rules that are there."""
    passed: list[Found] = []
    no: list[Verdict] = []
    for each in wide:
        narrow, domains = scoped(each)
        limit = critical[len(each.body) - 1]
        if not domains:
            no.append((each, No("domain", "no domain holds 3 of the incidents that it stops")))
            continue
        if (verdict := judge(narrow, settings, limit)) is not None:
            no.append((narrow, verdict))
            continue
        normal = {"then": then_of(narrow.body), "when": when_of(narrow, domains)}
        others = [one for one in existing if (one.state, one.file.normal) != ("open", normal)]
        if (other := covering(others, normal)) is not None:
            why = f"covered by {other.file.rule.id}, which is {other.state}"
            no.append((narrow, No("covered", why)))
            continue
        passed.append(found_in(narrow, normal, domains, limit, existing))
    return passed, no


def _telling(no: Iterable[Verdict]) -> tuple[Refused, ...]:
    """Those that came furthest, one per set of runs: a dozen spellings of one thing are one."""
    ranked = sorted(
        (each for each in no if each[1].gate not in DULL),
        key=lambda each: (each[0].p, -each[0].score.k, len(each[0].body), each[0].body),
    )
    seen: set[tuple[str, int]] = set()
    shown: list[Refused] = []
    for found, why in ranked:
        mark = (found.table.point, found.score.fired)
        if mark not in seen and len(shown) < SHOWN:
            seen.add(mark)
            shown.append(refused(found, why))
    return tuple(shown)
