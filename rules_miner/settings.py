"""What a user may set about mining: `[miner]` in gatewatch.toml.

Reads: nothing. Writes: nothing. Next: rules_miner/mine.py.
"""

import msgspec


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    depth: int = 3  # conditions of a rule, its domain apart
    alpha: float = 0.05
    week: int = 1  # of this rule base: mining again and again is testing again and again
    min_incidents: int = 5
    min_families: int = 5
    floor_abstain: float = 0.8
    floor_clarify: float = 0.6
    cost_abstain: float = 1.0  # incidents (weight 1) that one good run wrongly stopped outweighs
    cost_clarify: float = 0.5
    cost_review: float = 1.0
    max_new_per_week: int = 3
    max_open: int = 5
    seed: int = 0
    key: str = ""  # of the digests that stand for runs in evidence and pull requests
    domains: dict[str, str] = {}  # tool prefix -> domain, where a tool's name does not say it
