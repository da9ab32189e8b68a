"""Every conjunction worth testing, level by level, scored by runs: stopped, late, good, unknown.

What is tested is decided without a look at the labels, so the number of tests is exact.
Reads: nothing. Writes: nothing. Next: rules_miner/mine.py.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from rules_miner import bounds
from rules_miner.columns import Atom, Layers, Table, anywhere, both

Body = tuple[Atom, ...]


@dataclass(frozen=True)
class Score:
    """Runs as bits: incidents stopped in time, incidents fired in too late, good, unknown."""

    stopped: int
    late: int
    good: int
    unknown: int

    @property
    def k(self) -> int:
        return self.stopped.bit_count()

    @property
    def g(self) -> int:
        return self.good.bit_count()

    @property
    def n(self) -> int:
        return self.k + self.late.bit_count() + self.g

    @property
    def fired(self) -> int:
        return self.stopped | self.late | self.good

    @property
    def precision(self) -> float:
        return self.k / self.n if self.n else 0.0


@dataclass(frozen=True)
class Hypothesis:
    table: Table
    body: Body
    layers: Layers
    score: Score
    tested: bool = True  # False: fired in too few labelled runs to be worth a test
    scope: Layers | None = None  # the domains that it was narrowed to, if it was

    @property
    def p(self) -> float:
        """Chance of stopping so many by luck, runs drawn at random. A late one counts against."""
        total, positive = self.table.labelled.bit_count(), self.table.incidents.bit_count()
        return bounds.tail(total, positive, self.score.n, self.score.k)


def search(
    table: Table, depth: int, min_runs: int, min_families: int, tests: list[int]
) -> Iterator[Hypothesis]:
    """All conjunctions with a signal in them, up to `depth` atoms; counts into `tests` by level.

    A conjunction that fires in exactly the runs of a shorter one says nothing new and is dropped.
    """
    atoms = sorted(table.columns)
    level: list[tuple[int, Hypothesis]] = []
    for at, atom in enumerate(atoms):
        if atom.kind == "signal":
            level += [(at, each) for each in _tried(table, (atom,), table.columns[atom])]
    for length in range(1, depth + 1):
        kept: list[tuple[int, Hypothesis]] = []
        for at, found in level:
            if _supported(found, min_runs, min_families):
                tests[length - 1] += 1
                yield found
                kept.append((at, found))
            else:
                yield replace(found, tested=False)
        level = list(_longer(table, atoms, kept)) if length < depth else []


def score(table: Table, layers: Layers) -> Score:
    """The first firing decides: an incident is stopped if it fires at or before the commit step."""
    fired = anywhere(layers)
    stopped = anywhere(both(layers, table.timely)) & table.incidents
    return Score(
        stopped, fired & table.incidents & ~stopped, fired & table.good, fired & ~table.labelled
    )


def shorter(found: Hypothesis) -> Iterator[Score]:
    """The score of every conjunction inside this one, in the same scope."""
    for length in range(1, len(found.body)):
        for part in combinations(found.body, length):
            layers = conjunction(found.table, part)
            yield score(found.table, layers if found.scope is None else both(layers, found.scope))


def conjunction(table: Table, body: Sequence[Atom]) -> Layers:
    layers = table.columns[body[0]]
    for atom in body[1:]:
        layers = both(layers, table.columns[atom])
    return layers


def _tried(table: Table, body: Body, layers: Layers) -> Iterator[Hypothesis]:
    if anywhere(layers) & table.labelled:
        yield Hypothesis(table, body, layers, score(table, layers))


def _longer(
    table: Table, atoms: list[Atom], kept: list[tuple[int, Hypothesis]]
) -> Iterator[tuple[int, Hypothesis]]:
    for last, found in kept:
        fired = anywhere(found.layers)
        taken = {atom.kind for atom in found.body}
        for at in range(last + 1, len(atoms)):
            kind = atoms[at].kind
            if kind == "domain" and "domain" in taken:
                continue
            if kind in ("prefix", "tool") and taken & {"prefix", "tool"}:
                continue
            layers = both(found.layers, table.columns[atoms[at]])
            if anywhere(layers) != fired:
                for each in _tried(table, (*found.body, atoms[at]), layers):
                    yield at, each


def _supported(found: Hypothesis, min_runs: int, min_families: int) -> bool:
    fired = found.score.fired
    return found.score.n >= min_runs and found.table.families(fired) >= min_families
