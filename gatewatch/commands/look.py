"""Commands about alerts: alerts, explain, ack, verdict.

Reads: the database, or the service that holds it. Writes: through detectors/triage.py.
Next: gatewatch/commands/run.py.
"""

import getpass
from typing import Annotated, Any

import msgspec
import typer

from detectors import explain as explaining
from detectors import triage
from detectors.story import stories
from gatewatch.client import Remote
from gatewatch.commands.terminal import (
    Config,
    Database,
    Json,
    emit,
    out,
    reached,
    settings,
    table,
)
from gatewatch.parts import utc_now

LISTED = ("alert_id", "severity", "status", "title", "started_at", "ended_at", "verdict", "story")
Actor = Annotated[str | None, typer.Option("--actor", help="Who you are; default: your login.")]
Reason = Annotated[str, typer.Option("--reason", help="For those who read it later.")]


def alerts(
    db: Database = None,
    config: Config = None,
    all_of_them: Annotated[bool, typer.Option("--all", help="Also those that are over.")] = False,
    as_json: Json = False,
) -> None:
    """What is wrong now; with --all also what is over."""
    with reached(settings(config, db), db) as there:
        rows = there.rows(
            "SELECT * FROM alerts WHERE status = 'open' OR ($all AND status <> 'merged')"
            " ORDER BY status, started_at DESC LIMIT 1000",
            all=all_of_them,
        )
    if as_json:
        emit([row | {"facts": msgspec.json.decode(row["facts"])} for row in rows])
    else:
        told = stories(rows)
        shown = [row | {"story": told.get(row["alert_id"], "")} for row in rows]
        table(shown, LISTED, "Nothing is open.")


def explain(
    alert: Annotated[str, typer.Argument(help="Its id, such as al_7f3a.")],
    db: Database = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """One alert whole: why it fired, on what evidence, who was told, what to do."""
    with reached(settings(config, db), db) as there:
        if isinstance(there, Remote):
            told = there.explain(alert)
        else:
            told = explaining.explain(there.store, alert, there.detectors)
    if as_json:
        emit(told)
    else:
        out.print(explaining.render(told), markup=False)


def ack(
    alert: Annotated[str, typer.Argument()],
    actor: Actor = None,
    reason: Reason = "",
    db: Database = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Say that you have it: reminders stop."""
    who = actor or getpass.getuser()
    with reached(settings(config, db), db) as there:
        if isinstance(there, Remote):
            done = there.act(alert, "ack", actor=who, reason=reason)
        else:
            done = triage.acknowledge(there.store, there.lander, alert, who, reason, utc_now())
    _done(done, f"acknowledged by {who}", as_json)


def verdict(
    alert: Annotated[str, typer.Argument()],
    is_: Annotated[str, typer.Argument(metavar="true|false|expected|accepted")],
    actor: Actor = None,
    reason: Reason = "",
    db: Database = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Close the triage. `true` makes an incident, from which the miner learns."""
    who = actor or getpass.getuser()
    with reached(settings(config, db), db) as there:
        if isinstance(there, Remote):
            done = there.act(alert, "verdict", verdict=is_, actor=who, reason=reason)
        else:
            done = triage.judge(there.store, there.lander, alert, is_, who, reason, utc_now())
    _done(done, f"{is_}, says {who}", as_json)


def _done(alert: dict[str, Any], what: str, as_json: bool) -> None:
    if as_json:
        emit(alert)
    else:
        out.print(f"{alert['alert_id']}: {what}", markup=False)
