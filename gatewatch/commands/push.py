"""The command that takes away what one-shot commands have left on a Pushgateway.

Reads: gatewatch.toml. Writes: nothing. Next: gatewatch/pushing.py.
"""

from typing import Annotated

import typer

from detectors.receivers import Delivered
from gatewatch import pushing
from gatewatch.commands.terminal import Config, err, printable, settings
from ingest.config import ConfigError, nearest

PUSHED = ("detect", "verify", "export", "prune")  # commands that tell the Pushgateway of themselves


def unpush(
    command: Annotated[str, typer.Argument(help="One of: " + ", ".join(PUSHED) + ".")],
    config: Config = None,
) -> None:
    """Take what a command has left on the Pushgateway away."""
    if command not in PUSHED:
        raise ConfigError(f"{command!r} tells the Pushgateway nothing.{nearest(command, PUSHED)}")
    gateway = pushing.read(settings(config))
    if gateway is None:
        raise ConfigError("gatewatch.toml has no [pushgateway].")
    outcome = pushing.delete(gateway, pushing.job(command))
    if not isinstance(outcome, Delivered):
        err.print(printable(f"not taken away: {outcome.reason}"), markup=False)
        raise typer.Exit(1)
