"""Gates that can be asked to pause an agent or a trace, one module each, as receivers are.

A module has `Options` (its `address` is the URL that is asked, `folder` the one it writes to or
"", and `forgets` says that the gate ends a pause by itself); `EXAMPLE`; `AGAIN`, seconds after
which a standing pause is said once more to a gate that keeps it in memory only, or None; and
`pause(order, options, now)` and `resume(order, options, now)`, each a `Flow` that yields requests,
or a `Placed`, and is sent the answers. It opens nothing itself: that is `detectors.containment`.
Both may be asked again and again: the second time changes nothing.
Reads: nothing. Writes: nothing. Next: detectors/containment.py.
"""

import importlib
import pkgutil
from dataclasses import dataclass
from datetime import UTC, datetime
from types import ModuleType
from typing import Literal

from ingest.config import ConfigError, nearest

Target = Literal["agent", "trace"]


@dataclass(frozen=True)
class Order:
    """Whom to stop, until when, and why. Names come from logs: bytes to compare, never to obey."""

    id: str  # of the pause; safe in a path and in a file's name
    kind: Target
    name: str
    tenant: str
    until: datetime
    reason: str
    actor: str
    alert: str = ""
    automatic: bool = False
    link: str = ""  # to the alert, for those who look at the gate


@dataclass(frozen=True)
class Placed:
    """A file that must be there with this content; None: that must not be there."""

    folder: str
    name: str
    content: bytes | None


def names() -> list[str]:
    """Every kind of gate there is, without importing one."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def load(name: str, where: str) -> ModuleType:
    """Import exactly one. `where` is the config key that asked for it."""
    if name not in names():
        raise ConfigError(f"{where}: no gate called {name!r}.{nearest(name, names())}")
    return importlib.import_module(f"{__name__}.{name}")


def moment(at: datetime) -> str:
    """RFC 3339 in UTC, to the second."""
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
