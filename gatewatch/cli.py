"""The command line: names the commands, and turns errors into one sentence and an exit code.

0 done, 1 it ran and the answer is bad or something failed, 2 the user must change something.
"""

import sys

import typer

from detectors.explain import UnknownAlertError
from gatewatch import pushing
from gatewatch.client import ServiceError
from gatewatch.commands import (
    contain,
    coverage,
    data,
    deliveries,
    demo,
    doctor,
    ledger,
    look,
    push,
    route,
    run,
    triage,
    tuning,
)
from gatewatch.commands.terminal import err, printable
from ingest.config import ConfigError
from ingest.export import ExportError
from ingest.land import BehindError
from ingest.ledger import LedgerError
from ingest.store import StoreBrokenError, StoreBusyError

app = typer.Typer(
    name="gatewatch",
    help="Reads the logs of the gates in front of AI agents and says what goes wrong.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
for function in (
    demo.demo, run.init, data.ingest, tuning.tune, look.alerts, look.explain, route.route,
    triage.ack, triage.verdict, triage.reopen, triage.assign, triage.comment, triage.silence,
    triage.silences, contain.pause, contain.resume, contain.pauses, run.serve, run.mine, data.sql,
    coverage.coverage, doctor.doctor, ledger.rebuild, push.unpush,
):  # fmt: skip
    app.command()(function)
app.add_typer(deliveries.app, name="deliveries")
for ending in (tuning.detect, ledger.verify, ledger.export, ledger.prune):
    app.command()(pushing.told(ending))  # these end before anybody could scrape them
app.command("test-send")(run.send)
app.command("why-not")(tuning.why_not)

MUST_CHANGE = (ConfigError, StoreBusyError, UnknownAlertError)
FAILED = (ServiceError, BehindError, LedgerError, StoreBrokenError, ExportError, OSError)


def main() -> None:
    """Run one command."""
    try:
        app()
    except MUST_CHANGE as error:
        err.print(printable(str(error)), markup=False, soft_wrap=True)
        sys.exit(2)
    except FAILED as error:
        err.print(printable(str(error)), markup=False, soft_wrap=True)
        sys.exit(1)
