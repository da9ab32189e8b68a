"""Stored calls as classes that a policy decides alike: millions of calls, hundreds of decisions.

Reads: calls, policies. Writes: nothing. Next: detectors/catalogue/policy_mismatch.py and
detectors/whatif.py.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import msgspec

from detectors.controls.policy import Call, shut_minutes
from ingest.policy import Controls
from ingest.store import Db, fetch

EARLIEST, LATEST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Span:
    """A policy, and from when until when it was in force."""

    since: datetime
    until: datetime
    version: str
    controls: Controls


def in_force(db: Db) -> list[Span]:
    """Which policy was in force when, the oldest first. The first one also before it was loaded."""
    rows = fetch(db, "SELECT loaded_at, version, doc FROM policies ORDER BY loaded_at, rowid")
    later = [row["loaded_at"] for row in rows[1:]]
    return [
        Span(since, until, row["version"], controls(row["doc"]))
        for row, since, until in zip(rows, [EARLIEST, *later], [*later, LATEST], strict=False)
    ]


@lru_cache(maxsize=16)
def controls(doc: str) -> Controls:
    """A policy as the loader stored it."""
    return msgspec.json.decode(doc, type=Controls)


def lens(policy: Controls) -> dict[str, Any]:
    """What SQL must know of a policy to tell its classes apart: the parameters of the macro
    policy_calls in ingest/limits.sql."""
    grants = [grant for agent in policy.agents for grant in agent.allowed_tools or ()]
    attended = set(shut_minutes(policy.general.unattended_window))
    return {
        "zone": policy.general.timezone,
        "night": [minute not in attended for minute in range(24 * 60)],
        "shut": [
            {"tool": tool.name, "minutes": shut_minutes(tool.allowed_windows)}
            for tool in policy.tools
            if tool.allowed_windows is not None
        ],
        "shaped": sorted(
            tool.name
            for tool in policy.tools
            if tool.forbidden_params or tool.allowed_params is not None
        ),
        "granted": sorted(
            {each.name for each in grants if each.allowed_operations or each.table_allowlist}
        ),
    }


def call(row: Mapping[str, Any]) -> Call:
    """One call that stands for all of its class. `row` has columns of policy_calls."""
    shape = row["shape"]
    return Call(
        row["tool"],
        row["ts"],
        row["agent"],
        _given(msgspec.json.decode(shape)) if shape else None,
        tuple(row["operations"]),
        tuple(row["tables"]),
        row["deletes"],
    )


def _given(shape: Any) -> Any:
    """Keys of which the shape says that their value is null have None."""
    match shape:
        case dict():
            return {key: _given(value) for key, value in shape.items()}
        case list():
            return [_given(each) for each in shape]
        case "NULL":
            return None
        case _:
            return shape
