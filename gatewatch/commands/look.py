"""Commands that show alerts: alerts, explain.

Reads: the database, or the service that holds it. Writes: nothing.
Next: gatewatch/commands/triage.py.
"""

from typing import Annotated

import msgspec
import typer

from detectors import explain as explaining
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

LISTED = ("alert_id", "severity", "status", "title", "started_at", "ended_at", "verdict",
          "assigned_to", "story")  # fmt: skip


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
