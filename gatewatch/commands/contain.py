"""Commands that stop agents: pause, resume, pauses.

Reads: the database, or the service that holds it. Writes: through detectors/pauses.py.
Next: gatewatch/containing.py.
"""

import getpass
import sys
import threading
import time
from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any

import typer

from detectors import pauses as pausing
from detectors.pausing import Keeper
from gatewatch import containing
from gatewatch.client import Remote
from gatewatch.commands.terminal import (
    Config,
    Database,
    Json,
    emit,
    err,
    printable,
    reached,
    settings,
    table,
)
from gatewatch.parts import Parts, utc_now
from ingest.config import ConfigError

PATIENCE = 15.0  # seconds that a command waits for what gates answer
OPEN = ("asked", "confirmed", "refused", "resuming", "stuck")
LISTED = ("pause_id", "gate", "state", "kind", "name", "until", "status", "answer", "actor",
          "reason", "ended_by")  # fmt: skip
Actor = Annotated[str | None, typer.Option("--actor", help="Who you are; default: your login.")]
Reason = Annotated[str, typer.Option("--reason", help="For the gate and the log.")]


def pause(
    target: Annotated[str, typer.Argument(metavar="AGENT|TRACE")],
    kind: Annotated[str | None, typer.Option("--kind", metavar="agent|trace")] = None,
    for_: Annotated[str | None, typer.Option("--for", help="1h, 90m; default: the gate's.")] = None,
    reason: Reason = "",
    tenant: Annotated[str | None, typer.Option("--tenant", help="Whose, if of several.")] = None,
    alert: Annotated[str | None, typer.Option("--alert", help="Because of this one.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    actor: Actor = None,
    db: Database = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Have the gates stop an agent or a trace for a while; asks first, and shows their answers."""
    given = {"target": target, "kind": kind, "for": for_, "tenant": tenant, "alert": alert}
    asked = {key: value for key, value in given.items() if value}
    who = actor or getpass.getuser()
    with reached(settings(config, db), db) as there:
        told = (
            there.pause_preview(asked)
            if isinstance(there, Remote)
            else containing.plan(there, asked, utc_now()).told()
        )
        if not yes:
            _confirmed(told)
        if isinstance(there, Remote):
            found = there.pause(asked | {"actor": who, "reason": reason})[0]["pause_id"]
        else:
            found = containing.order(there, asked, who, reason, utc_now())
        rows = _answered(there, found, ("asked",))
    _shown(rows, as_json)
    _judge(rows, "confirmed", "NOT PAUSED", isinstance(there, Remote))


def resume(
    pause: Annotated[str, typer.Argument(metavar="PAUSE|AGENT|TRACE")],
    reason: Reason = "",
    actor: Actor = None,
    db: Database = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Let a paused agent or trace go on before the time."""
    who, rows = actor or getpass.getuser(), list[dict[str, Any]]()
    with reached(settings(config, db), db) as there:
        for each in _meant(there, pause):
            if isinstance(there, Remote):
                there.resume(each, who, reason)
            else:
                containing.release(there, each, who, reason, utc_now())
            rows += _answered(there, each, ("resuming",))
    _shown(rows, as_json)
    _judge(rows, "resumed", "STILL PAUSED", isinstance(there, Remote))


def pauses(
    all_of_them: Annotated[bool, typer.Option("--all", help="Also those that are over.")] = False,
    alert: Annotated[str | None, typer.Option("--alert", help="Because of this one.")] = None,
    db: Database = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Who is paused, until when, and what each gate answered."""
    with reached(settings(config, db), db) as there:
        rows = [row for row in _list(there, alert=alert) if all_of_them or row["state"] in OPEN]
    _shown(rows, as_json)


def _confirmed(told: dict[str, Any]) -> None:
    """Say what would be asked of whom, and ask the person at the terminal."""
    if not sys.stdin.isatty():
        raise ConfigError("nobody to ask: this is no terminal. Say --yes.")
    name = f"{told['kind']} {told['name']}" + (f" of {told['tenant']}" if told["tenant"] else "")
    until = _when(told["until"])
    err.print(printable(f"Pause {name} until {until:%Y-%m-%d %H:%M} UTC. Asked is:"), markup=False)
    for gate in told["gates"]:
        err.print(printable(f"  {gate['gate']}: {gate['where']}"), markup=False)
    typer.confirm("Do it?", abort=True, err=True)


def _answered(there: Parts | Remote, found: str, waiting: tuple[str, ...]) -> list[dict[str, Any]]:
    """The rows of a pause once each gate has said yes or no, or time is over."""
    until = time.monotonic() + PATIENCE
    keepers = [] if isinstance(there, Remote) else list(_keepers(there))
    while True:
        for keeper in keepers:
            keeper.step(utc_now())
        rows = _list(there, pause=found)
        if time.monotonic() > until or not any(row["state"] in waiting for row in rows):
            return rows
        threading.Event().wait(0.25)


def _keepers(parts: Parts) -> Iterator[Keeper]:
    for gate in parts.gates:
        yield Keeper(gate, parts.store, parts.lander, parts.settings.public_url)


def _meant(there: Parts | Remote, word: str) -> list[str]:
    """Pauses by their id, or by whom they stop. Raises ConfigError where there is none."""
    rows = _list(there)
    if any(row["pause_id"] == word for row in rows) or word.startswith("pa_"):
        return [word]
    standing = [row["pause_id"] for row in rows if row["name"] == word and row["state"] in OPEN]
    if not standing:
        raise ConfigError(f"{word!r} is not paused. `gatewatch pauses` lists who is.")
    return list(dict.fromkeys(standing))


def _list(
    there: Parts | Remote, alert: str | None = None, pause: str | None = None
) -> list[dict[str, Any]]:
    if isinstance(there, Remote):
        return there.pauses(alert=alert, pause=pause)
    return pausing.listed(there.store, utc_now(), alert, pause)


def _shown(rows: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        emit(rows)
        return
    shown = [row | {"until": _when(row["until"])} for row in rows]
    table(shown, LISTED, "Nobody is paused.")


def _judge(rows: list[dict[str, Any]], good: str, bad: str, served: bool) -> None:
    """Exit with 1 where a gate did not do it. Somebody relies on it."""
    open_ = [row["gate"] for row in rows if row["state"] not in (good, "expired")]
    if not open_:
        return
    tried = any(row["state"] in ("asked", "resuming") for row in rows)
    more = "The service goes on asking." if served else "Nobody goes on asking: start the service."
    said = f"{bad} by {', '.join(open_)}.{f' {more}' if tried else ''}"
    err.print(printable(said), markup=False)
    raise typer.Exit(1)


def _when(value: Any) -> datetime:
    return value if isinstance(value, datetime) else datetime.fromisoformat(value)
