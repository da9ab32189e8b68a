"""What a conjunction must pass to become a proposal, and why one did not.

Reads: nothing. Writes: nothing. Next: rules_miner/mine.py.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from rules_miner import bounds
from rules_miner.columns import Atom, Layers, anywhere, both, either
from rules_miner.search import Body, Hypothesis, score, shorter
from rules_miner.settings import Settings
from rules_miner.signals import SIGNALS

IN_DOMAIN = 3  # incidents stopped there that speak for a domain
KEYS = {"signal": "signals", "tool": "tool", "prefix": "tool_prefix", "domain": "domain"}


class No(NamedTuple):
    gate: str
    reason: str


TOO_LITTLE = No("incidents", "it stops too few incidents")


@dataclass(frozen=True)
class Refused:
    """A conjunction that did not pass, with the gate and the figures that decided."""

    when: dict[str, Any]
    then: str
    gate: str
    reason: str
    k: int  # incidents stopped
    n: int  # labelled runs in which it fired
    families: int
    p: float


def refused(found: Hypothesis, no: No) -> Refused:
    runs = found.score
    families = found.table.families(runs.stopped)
    when, then = when_of(found, ()), then_of(found.body)
    return Refused(when, then, no.gate, no.reason, runs.k, runs.n, families, found.p)


def judge(found: Hypothesis, settings: Settings, critical: float) -> No | None:
    """The first gate that refuses it, in the order of the reference; None when it passed all."""
    runs, floor = found.score, floor_of(found.body, settings)
    families = found.table.families(runs.stopped) if runs.k >= 2 else 0
    if runs.k < settings.min_incidents or families < settings.min_families or not found.tested:
        if runs.k < 2 or runs.precision < floor:
            return TOO_LITTLE
        return No("evidence", _wanted(runs.k, families, settings))
    if found.p > critical:
        return No("significance", f"p = {found.p:.1e}, the limit is {critical:.1e}")
    if any(part.precision >= runs.precision for part in shorter(found)):
        return No("productive", "a shorter conjunction is as precise")
    bound = min(bounds.lower(runs.k, runs.n), bounds.clustered(clusters(found))[0])
    if bound < floor:
        share = f"{runs.k} of {runs.n} runs, precision at least {down(bound)}"
        return No("precision", f"{share}: below the floor of {floor}")
    return None


def scoped(found: Hypothesis) -> tuple[Hypothesis, tuple[str, ...]]:
    """The conjunction in those domains that hold enough of the incidents it stops."""
    own = tuple(atom.name for atom in found.body if atom.kind == "domain")
    if own:
        return found, own
    domains: dict[Atom, Layers] = {}
    for atom, layers in found.table.columns.items():
        if atom.kind == "domain":
            there = anywhere(both(both(found.layers, layers), found.table.timely))
            if (there & found.score.stopped).bit_count() >= IN_DOMAIN:
                domains[atom] = layers
    scope = either(domains.values())
    narrow = both(found.layers, scope)
    inside = replace(found, layers=narrow, score=score(found.table, narrow), scope=scope)
    return inside, tuple(atom.name for atom in domains)


def clusters(found: Hypothesis) -> list[list[bool]]:
    """Per family: for each labelled run that it fires in, whether that is a stopped incident."""
    families: dict[str, list[bool]] = {}
    for case in found.table.picked(found.score.stopped):
        families.setdefault(case.family, []).append(True)
    for case in found.table.picked(found.score.late | found.score.good):
        families.setdefault(case.family, []).append(False)
    return [families[name] for name in sorted(families)]


def when_of(found: Hypothesis, domains: Sequence[str]) -> dict[str, Any]:
    """The condition in normal form."""
    when: dict[str, Any] = {"point": found.table.point}
    for atom in found.body:
        when.setdefault(KEYS[atom.kind], []).append(atom.name)
    if domains:
        when["domain"] = sorted(domains)
    return {key: sorted(when[key]) if key != "point" else when[key] for key in sorted(when)}


def then_of(body: Body) -> str:
    """Ask where the user's answer can settle it, else stop."""
    asks = any(SIGNALS[atom.name].asks for atom in body if atom.kind == "signal")
    return "clarify" if asks else "abstain"


def floor_of(body: Body, settings: Settings) -> float:
    return settings.floor_clarify if then_of(body) == "clarify" else settings.floor_abstain


def down(bound: float) -> float:
    """A lower bound for display: never rounded up."""
    return math.floor(bound * 1000) / 1000


def up(bound: float) -> float:
    return math.ceil(bound * 10_000) / 10_000


def _wanted(k: int, families: int, settings: Settings) -> str:
    more, others = settings.min_incidents - k, settings.min_families - families
    parts = [
        f"{count} more {one if count == 1 else many}"
        for count, one, many in ((more, "incident", "incidents"), (others, "family", "families"))
        if count > 0
    ]
    if not parts:
        return "needs evidence: more labelled runs in which it fires"
    return f"needs evidence: {' from '.join(parts) if len(parts) == 2 else parts[0]}"
