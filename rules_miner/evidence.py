"""The sidecar of a rule: every figure behind it, and digests in place of ids. No text from traces.

Reads: nothing. Writes: nothing. Next: rules_miner/proposal.py.
"""

import hmac
from collections.abc import Iterable
from typing import Any

from rules_miner import bounds
from rules_miner.choice import Found
from rules_miner.columns import Case
from rules_miner.mine import Mined
from rules_miner.rule import Doc, fingerprint
from rules_miner.settings import Settings
from rules_miner.signals import CATALOGUE

MINER = "1"  # raise it when the same data may give other proposals


def evidence(
    found: Found, doc: Doc, mined: Mined, settings: Settings, more: dict[str, Any]
) -> dict[str, Any]:
    """The whole sidecar. `more`: the window and the ledger range that were mined."""
    return {
        "v": 1,
        "id": doc["id"],
        "fingerprint": fingerprint(found.normal),
        "catalogue": CATALOGUE,
        "miner": MINER,
        "data": mined.data,
        **more,
        "confirmed": False,
        "runs": mined.runs,
        "domains": list(found.domains),
        "alpha": bounds.spent(settings.alpha, settings.week),
        "week": settings.week,
        "seed": settings.seed,
        "tests": list(mined.tests),
        "p": found.hypothesis.p,
        "critical": found.critical,
        "bounds": {
            "lower": min(found.plain, found.clustered),
            "plain": found.plain,
            "clustered": found.clustered,
            "design_effect": found.effect,
            "harm": found.harm,
        },
        "marginal": found.marginal,
        "value": found.value,
        "beside": [
            {"id": name, "state": state, "incidents": count} for name, state, count in found.beside
        ],
        "replaces": list(found.replaces),
        **_runs(found, settings.key),
    }


def _runs(found: Found, key: str) -> dict[str, Any]:
    """How many runs, and which, by their digests; three examples of three families."""
    table, runs = found.hypothesis.table, found.hypothesis.score
    stopped = list(table.picked(runs.stopped))
    first = {case.family: case for case in sorted(stopped, key=lambda case: case.key)[::-1]}

    def ids(kind: str, cases: Iterable[Case]) -> list[str]:
        return sorted(alias(kind, case.key, key) for case in cases)

    return {
        "k": runs.k,
        "late": runs.late.bit_count(),
        "g": runs.g,
        "u": runs.unknown.bit_count(),
        "families": len(first),
        "agents": len({agent for case in stopped for agent in case.agents}),
        "incidents": ids("inc", stopped),
        "late_incidents": ids("inc", table.picked(runs.late)),
        "good_runs": ids("run", table.picked(runs.good)),
        "unknown_runs": ids("run", table.picked(runs.unknown)),
        "examples": ids("inc", [first[family] for family in sorted(first)[:3]]),
    }


def alias(kind: str, run: tuple[str, str], key: str) -> str:
    """inc-7f3a91: stands for a run, and does not tell its id to who lacks the key."""
    text = "\0".join(run).encode(errors="surrogatepass")
    return f"{kind}-{hmac.new(key.encode(), text, 'sha256').hexdigest()[:6]}"
