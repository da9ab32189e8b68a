"""What the benchmarks share: a figure, and lines of the simulated fleet."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import msgspec

from gatewatch.fleet import NOUNS, Fleet
from gatewatch.parts import Parts, open_parts
from ingest.config import Settings

HOUR = timedelta(hours=1)


class Figure(NamedTuple):
    """One row of the table: what was measured, its value with unit, and in one clause how."""

    what: str
    value: str
    how: str


def history(count: int, until: datetime) -> list[bytes]:
    """The `count` newest lines of a fleet's past, at its usual pace."""
    start = until - HOUR * (count // 800 + 48)  # some 1,000 lines an hour, day and night
    found = [each.data for each in Fleet(start, UTC).until(until)]
    assert len(found) >= count
    return found[-count:]


def opened(folder: Path) -> Parts:
    """An empty database with a policy, its ledger beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    policy = {"egress": {"allowed_hosts": [f"*.{area}.example" for area in NOUNS]}}
    (folder / "policy.json").write_bytes(msgspec.json.encode(policy))
    settings = Settings(policy="policy.json", redact_key="redact.key", folder=str(folder))
    return open_parts(settings)


def size(folder: Path, pattern: str) -> int:
    """Bytes of the files that match."""
    return sum(each.stat().st_size for each in folder.rglob(pattern))
