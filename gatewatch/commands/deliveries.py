"""Commands about messages: what waits, what was given up and why, and once more.

Reads: the database, or the service that holds it. Writes: through detectors/letters.py.
Next: gatewatch/delivering.py.
"""

import getpass
from datetime import datetime
from typing import Annotated, Any

import typer

from detectors import letters
from gatewatch.client import Remote
from gatewatch.commands.terminal import (
    Config,
    Database,
    Json,
    emit,
    err,
    out,
    printable,
    reached,
    settings,
    table,
)
from gatewatch.delivering import Retry, again
from gatewatch.parts import utc_now
from ingest.config import ConfigError

LISTED = ("delivery_id", "receiver", "alert_id", "kind", "severity", "state", "age", "tries",
          "next", "label", "reason")  # fmt: skip

app = typer.Typer(
    help="Messages that wait or were given up, and why; `retry` sends them after all.",
    invoke_without_command=True,
)


@app.callback()
def deliveries(
    context: typer.Context,
    dead: Annotated[bool, typer.Option("--dead", help="Only what was given up.")] = False,
    pending: Annotated[bool, typer.Option("--pending", help="Only what waits.")] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Also what was delivered or accepted.")
    ] = False,
    receiver: Annotated[str | None, typer.Option("--receiver", help="Of this one.")] = None,
    alert: Annotated[str | None, typer.Option("--alert", help="About this one.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000)] = 200,
    db: Database = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """What waits and what was given up, and why."""
    if context.invoked_subcommand:
        return
    if dead + pending + everything > 1:
        raise ConfigError("--dead, --pending, --all: name one of them.")
    states: tuple[letters.State, ...] = ("pending", "dead")
    if dead or pending:
        states = ("dead",) if dead else ("pending",)
    elif everything:
        states = letters.STATES
    with reached(settings(config, db), db) as there:
        if isinstance(there, Remote):
            rows = there.deliveries(states, receiver, alert, limit)
        else:
            rows = letters.listed(there.store, states, receiver, alert, limit)
    if as_json:
        emit(rows)
        return
    now = utc_now()
    table([_shown(row, now) for row in rows], LISTED, "Nothing waits, nothing was given up.")
    for hint in dict.fromkeys(row["hint"] for row in rows if row["hint"]):
        err.print(f"- {hint}", markup=False)


@app.command("retry")
def retry(
    ids: Annotated[list[str] | None, typer.Argument(help="Their ids: dl_...")] = None,
    receiver: Annotated[
        str | None, typer.Option("--receiver", help="All that was given up of this one.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All that was given up.")] = False,
    actor: Annotated[
        str | None, typer.Option("--actor", help="Who you are; default: your login.")
    ] = None,
    db: Database = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Send after all what was given up: the message says that it comes late."""
    if (bool(ids), receiver is not None, everything).count(True) != 1:
        raise ConfigError("Name ids, or --receiver, or --all.")
    who = actor or getpass.getuser()
    asked = Retry(who, tuple(ids or ()), receiver, all=True if everything else None)
    with reached(settings(config, db), db) as there:
        remote = isinstance(there, Remote)
        done = there.retry(asked) if isinstance(there, Remote) else again(there, asked)
    if as_json:
        emit(done)
        return
    if not done["retried"]:
        out.print("Nothing of that was given up; what waits is tried again by itself.")
        return
    when = "" if remote else " They go out when the service runs."
    out.print(f"{len(done['retried'])} owed once more.{when}", markup=False)
    for each in done["left"]:
        err.print(printable(f"{each['delivery_id']}: left, {each['why']}."), markup=False)


def _shown(row: dict[str, Any], now: datetime) -> dict[str, Any]:
    moments = {key: _moment(row[key]) for key in ("created_at", "next_at")}
    waits = row["state"] == "pending" and moments["next_at"] > now
    return row | {
        "age": _span(moments["created_at"], now),
        "tries": row["attempts"],
        "next": f"in {_span(now, moments['next_at'])}" if waits else "",
    }


def _moment(value: datetime | str) -> datetime:
    return value if isinstance(value, datetime) else datetime.fromisoformat(value)


def _span(since: datetime, until: datetime) -> str:
    """How long, in the largest unit that says enough."""
    seconds = max(int((until - since).total_seconds()), 0)
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
