"""Commands about alerts: detect, alerts, explain, ack, verdict.

Reads: the database, or the service that holds it. Writes: through detectors/triage.py.
Next: gatewatch/commands/run.py.
"""

import getpass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from detectors import engine, triage
from detectors import explain as explaining
from detectors.detector import Detector
from gatewatch.client import Remote
from gatewatch.commands.terminal import (
    Config,
    Database,
    Json,
    emit,
    err,
    moment,
    opened,
    out,
    reached,
    settings,
    table,
)
from gatewatch.parts import Parts, utc_now
from ingest.config import ConfigError, nearest

SHOWN = ("severity", "detector", "subject", "title", "started_at", "ended_at")
LISTED = ("alert_id", "severity", "status", "title", "started_at", "ended_at", "verdict")
Actor = Annotated[str | None, typer.Option("--actor", help="Who you are; default: your login.")]
Reason = Annotated[str, typer.Option("--reason", help="For those who read it later.")]


def detect(
    db: Database = None,
    config: Config = None,
    since: Annotated[str | None, typer.Option("--since", help="A time, or an age: 30d.")] = None,
    until: Annotated[str | None, typer.Option("--until")] = None,
    only: Annotated[str | None, typer.Option("--only", help="Detectors, comma-separated.")] = None,
    policy: Annotated[
        Path | None, typer.Option("--policy", help="Hold against this policy.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Keep nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Judge what is stored. Alerts are kept unless --dry-run."""
    low, high = moment(since, "--since"), moment(until, "--until")
    with opened(settings(config, db, policy), db, "judge its database by hand") as parts:
        chosen = _only(parts.detectors, only)
        if dry_run:
            found = _dry(parts, chosen, low, high)
        else:
            tick = parts.tick(utc_now(), tell=False)
            for name, reason in tick.failed.items():
                err.print(f"{name}: {reason}", markup=False)
            found = [row for row in _stored(parts, low, high) if row["detector"] in chosen]
    if as_json:
        emit(found)
    else:
        table(found, SHOWN, "Nothing fired.")
    if not dry_run and tick.failed:
        raise typer.Exit(1)


def _only(detectors: dict[str, Detector], only: str | None) -> dict[str, Detector]:
    if only is None:
        return detectors
    wanted = [name.strip() for name in only.split(",")]
    for name in wanted:
        if name not in detectors:
            raise ConfigError(f"--only: no detector {name!r}.{nearest(name, detectors)}")
    return {name: detectors[name] for name in wanted}


def _dry(
    parts: Parts, chosen: dict[str, Detector], low: datetime | None, high: datetime | None
) -> list[dict[str, Any]]:
    """Without `high` up to now, as live judging does: a window may close after the last event."""
    with parts.store.reading() as db:
        span = engine.history(db)
        if span is None:
            return []
        found = engine.backtest(
            db, chosen.values(), low or span[0], high or max(span[1], utc_now())
        )
    return [_row(vars(each)) for each in found]


def _stored(parts: Parts, low: datetime | None, high: datetime | None) -> list[dict[str, Any]]:
    rows = parts.store.rows(
        "SELECT * FROM alerts WHERE status IN ('open', 'resolved')"
        " AND ended_at >= coalesce($low::TIMESTAMPTZ, ended_at)"
        " AND started_at < coalesce($high::TIMESTAMPTZ, TIMESTAMPTZ '9999-01-01')"
        " ORDER BY started_at, detector, subject",
        low=low, high=high,
    )  # fmt: skip
    return [_row(row | {"facts": msgspec.json.decode(row["facts"])}) for row in rows]


def _row(found: dict[str, Any]) -> dict[str, Any]:
    keys = (
        "detector",
        "subject",
        "severity",
        "started_at",
        "ended_at",
        "event_ids",
        "title",
        "facts",
    )
    row = {key: found[key] for key in keys}
    row["facts"] = row["facts"] | {"rows": found["rows"]}
    if "alert_id" in found:
        row["alert_id"] = found["alert_id"]
    return row


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
        table(rows, LISTED, "Nothing is open.")


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
