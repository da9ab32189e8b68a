"""The turn that tells Alertmanagers, where some are configured.

Reads: gatewatch.toml. Writes: through detectors/alertmanager_push.py. Next: gatewatch/service.py.
"""

from collections.abc import Callable

from detectors import alertmanager
from detectors.alertmanager_push import Pusher
from gatewatch.parts import DEFAULT, Parts, utc_now


def pusher(parts: Parts) -> Callable[[], float] | None:
    """A turn, which returns how long to wait; None where no Alertmanager is to be told.

    Raises ConfigError.
    """
    configured = alertmanager.read(parts.settings, f"{DEFAULT}: alertmanager")
    if configured is None:
        return None
    made = Pusher(parts.store, configured, parts.settings, utc_now())

    def turn() -> float:
        return made.step(parts.detectors, utc_now())

    return turn
