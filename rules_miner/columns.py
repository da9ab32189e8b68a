"""Runs as bits: one bit per run in each layer, the n-th decision point of every run being layer n.

A conjunction is an AND of layers; where it fires in a run is the OR of its layers. Runs with many
points come first, so the deep layers are short numbers and the whole costs one bit per point.
Reads: nothing. Writes: nothing. Next: rules_miner/mine.py.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from hashlib import sha256
from operator import or_
from typing import NamedTuple

from detectors.controls.stopping import Observation, Rule, holds
from rules_miner.points import observations
from rules_miner.signals import prefixes
from rules_miner.traces import Run

Layers = tuple[int, ...]
KINDS = ("signal", "domain", "prefix", "tool")  # the order in which conjunctions are written
TOOL = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,127}")
WEIGHT = {"low": 1, "medium": 2, "high": 4, "critical": 8}
SEEN_OFTEN = 10  # decision points that a tool, prefix or domain needs to enter the vocabulary


class Atom(NamedTuple):
    rank: int  # position in KINDS
    name: str

    @property
    def kind(self) -> str:
        return KINDS[self.rank]


class Spot(NamedTuple):
    point: str
    at: int
    atoms: frozenset[Atom]


@dataclass(frozen=True)
class Case:
    """A run with all that mining asks of it; its events are gone."""

    key: tuple[str, str]
    family: str
    label: str | None
    commit: int | None
    weight: int
    agents: tuple[str, ...]
    spots: tuple[Spot, ...]
    matched: dict[str, int]  # existing rule -> event before which it first held
    digest: str


@dataclass(frozen=True)
class Table:
    point: str
    cases: tuple[Case, ...]
    columns: dict[Atom, Layers]
    timely: Layers  # incident runs, up to and including the commit step
    incidents: int
    good: int

    @property
    def labelled(self) -> int:
        return self.incidents | self.good

    def picked(self, runs: int) -> Iterator[Case]:
        """The runs whose bits are set."""
        while runs:
            lowest = runs & -runs
            yield self.cases[lowest.bit_length() - 1]
            runs ^= lowest

    def families(self, runs: int) -> int:
        return len({case.family for case in self.picked(runs)})


def cases(runs: Iterable[Run], rules: Sequence[Rule] = ()) -> list[Case]:
    """One pass over the runs, in whatever order; by tenant and trace id afterwards."""
    same: dict[frozenset[Atom], frozenset[Atom]] = {}  # equal sets are kept once
    found = [_case(run, rules, same) for run in runs]
    return sorted((case for case in found if case.spots), key=lambda case: case.key)


def digest(cases: Sequence[Case]) -> str:
    """What the figures rest on: runs, labels and commit steps, in hex."""
    return sha256("\n".join(case.digest for case in cases).encode()).hexdigest()


def table(cases: Sequence[Case], point: str) -> Table:
    """The runs that have such a point."""
    rows = [(case, [spot for spot in case.spots if spot.point == point]) for case in cases]
    rows = sorted((row for row in rows if row[1]), key=lambda row: (-len(row[1]), row[0].key))
    known = _vocabulary(spot for _, spots in rows for spot in spots)
    depth = len(rows[0][1]) if rows else 0
    grid = {atom: [0] * depth for atom in known}
    timely = [0] * depth
    for run, (case, spots) in enumerate(rows):
        for layer, spot in enumerate(spots):
            for atom in spot.atoms & known:
                grid[atom][layer] |= 1 << run
            if case.commit is not None and spot.at <= case.commit:
                timely[layer] |= 1 << run
    of_label = {
        label: sum(1 << run for run, (case, _) in enumerate(rows) if case.label == label)
        for label in ("misaction", "good")
    }
    return Table(
        point, tuple(case for case, _ in rows),
        {atom: _trimmed(grid[atom]) for atom in sorted(grid)}, tuple(timely),
        of_label["misaction"], of_label["good"],
    )  # fmt: skip


def both(left: Layers, right: Layers) -> Layers:
    return _trimmed([a & b for a, b in zip(left, right, strict=False)])


def either(columns: Iterable[Layers]) -> Layers:
    """Holds where one of the columns holds."""
    done: list[int] = []
    for layers in columns:
        done += [0] * (len(layers) - len(done))
        for at, layer in enumerate(layers):
            done[at] |= layer
    return tuple(done)


def anywhere(layers: Layers) -> int:
    """The runs in which it holds at some point."""
    return reduce(or_, layers, 0)


def _trimmed(layers: list[int]) -> Layers:
    while layers and not layers[-1]:
        layers.pop()
    return tuple(layers)


def _case(run: Run, rules: Sequence[Rule], same: dict[frozenset[Atom], frozenset[Atom]]) -> Case:
    spots, matched = [], {}
    for point, seen in observations(run):
        atoms = frozenset(_atoms(seen))
        spots.append(Spot(point.point, point.at, same.setdefault(atoms, atoms)))
        for rule in rules:
            if rule.id not in matched and holds(rule.when, seen):
                matched[rule.id] = point.at
    parts = (*run.key, run.family, run.label, run.commit, *(each.event_id for each in run.events))
    return Case(
        key=run.key, family=run.family, label=run.label, commit=run.commit,
        weight=WEIGHT.get(run.severity or "", WEIGHT["medium"]),
        agents=tuple(sorted({event.agent for event in run.events if event.agent})),
        spots=tuple(spots), matched=matched,
        digest=sha256(repr(parts).encode(errors="surrogatepass")).hexdigest(),
    )  # fmt: skip


def _atoms(seen: Observation) -> Iterator[Atom]:
    yield from (Atom(KINDS.index("signal"), name) for name in seen.signals)
    yield Atom(KINDS.index("domain"), seen.domain)
    if TOOL.fullmatch(seen.tool):  # a name that no rule file can carry is no atom
        yield Atom(KINDS.index("tool"), seen.tool)
        for prefix in prefixes(seen.tool):
            if prefix != seen.tool:
                yield Atom(KINDS.index("prefix"), prefix)


def _vocabulary(spots: Iterable[Spot]) -> set[Atom]:
    """Signals and domains as they come; tools and prefixes seen often enough; a prefix must hold
    two tools that were seen, or it would only be a wider guess at one."""
    counts: Counter[Atom] = Counter()
    below: dict[Atom, set[str]] = {}
    for spot in spots:
        counts.update(spot.atoms)
        tool = next((atom.name for atom in spot.atoms if atom.kind == "tool"), None)
        for atom in spot.atoms:
            if atom.kind == "prefix" and tool:
                below.setdefault(atom, set()).add(tool)
    return {
        atom
        for atom, count in counts.items()
        if atom.kind in ("signal", "domain")
        or (count >= SEEN_OFTEN and (atom.kind == "tool" or len(below[atom]) >= 2))
    }
