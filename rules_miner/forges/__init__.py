"""Where proposals go: one module per kind of forge, all with the shape of `Forge`."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol


class Known(NamedTuple):
    """A proposal that the forge holds already. What is on its branch is what counts."""

    branch: str
    rule: str  # text of the rule file; "" when the branch holds none
    evidence: str  # text of its sidecar, likewise
    ours: bool  # the last commit is the miner's own
    merged: bool
    made_at: datetime


class Forge(Protocol):
    def proposals(self) -> Sequence[Known]:
        """Every branch of ours, merged ones included."""

    def publish(self, branch: str, files: Mapping[str, str], message: str, now: datetime) -> str:
        """One commit on a new branch at the default branch's head. Returns the commit's id."""

    def tell(self, rule: str, text: str) -> str:
        """Open the pull request, or store its text. Returns where it is."""
