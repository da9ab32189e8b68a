"""Commands by which people act on alerts: ack, verdict, reopen, assign, comment, silence, silences.

Reads: the database, or the service that holds it. Writes: through detectors/triage.py, silences.py.
Next: gatewatch/commands/run.py.
"""

import getpass
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Annotated, Any

import typer

from detectors import silences as silencing
from detectors import triage
from detectors.spelling import many
from gatewatch.client import Remote
from gatewatch.commands.terminal import (
    Config,
    Database,
    Json,
    emit,
    moment,
    out,
    printable,
    reached,
    settings,
    table,
)
from gatewatch.parts import Parts, utc_now
from ingest.config import ConfigError, Duration

Alert = Annotated[str, typer.Argument(help="Its id, such as al_7f3a.")]
Actor = Annotated[str | None, typer.Option("--actor", help="Who you are; default: your login.")]
Reason = Annotated[str, typer.Option("--reason", help="For those who read it later.")]
Pattern = Annotated[str | None, typer.Option(help="A name, or a pattern as in billing-*.")]
HIDDEN = ("alert_id", "severity", "detector", "subject", "title")
LISTED = ("silence_id", "active", "matchers", "expires_at", "author", "reason", "ended_by")


def ack(
    alert: Alert, actor: Actor = None, reason: Reason = "", db: Database = None,
    config: Config = None, as_json: Json = False,
) -> None:  # fmt: skip
    """Say that you have it: reminders stop."""
    who = _who(actor)
    done = _act(alert, "ack", triage.acknowledge, {"actor": who, "reason": reason}, config, db)
    _done(done, f"acknowledged by {who}", as_json)


def verdict(
    alert: Alert, is_: Annotated[str, typer.Argument(metavar="true|false|expected|accepted")],
    actor: Actor = None, reason: Reason = "", db: Database = None, config: Config = None,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Close the triage. `true` makes an incident, from which the miner learns."""
    body = {"verdict": is_, "actor": _who(actor), "reason": reason}
    done = _act(alert, "verdict", triage.judge, body, config, db)
    _done(done, f"{is_}, says {body['actor']}", as_json)


def reopen(
    alert: Alert, actor: Actor = None, reason: Reason = "", db: Database = None,
    config: Config = None, as_json: Json = False,
) -> None:  # fmt: skip
    """Take back acknowledgement and verdict, and the incidents that a verdict made."""
    body = {"actor": _who(actor), "reason": reason}
    done = _act(alert, "reopen", triage.reopen, body, config, db)
    _done(done, f"reopened by {body['actor']}", as_json)


def assign(
    alert: Alert, to: Annotated[str, typer.Argument(help="A person; '' for nobody.")],
    actor: Actor = None, reason: Reason = "", db: Database = None, config: Config = None,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Say who is to look into it."""
    body = {"to": to, "actor": _who(actor), "reason": reason}
    done = _act(alert, "assign", triage.assign, body, config, db)
    _done(done, f"assigned to {done['assigned_to'] or 'nobody'}", as_json)


def comment(
    alert: Alert, text: Annotated[str, typer.Argument()], actor: Actor = None,
    db: Database = None, config: Config = None, as_json: Json = False,
) -> None:  # fmt: skip
    """Write a line into the alert's history."""
    body = {"text": text, "actor": _who(actor)}
    done = _act(alert, "comment", triage.comment, body, config, db)
    _done(done, f"{body['actor']}: {text}", as_json)


def silence(
    detector: Pattern = None, subject: Pattern = None, agent: Pattern = None,
    tenant: Pattern = None, tag: Pattern = None,
    severity: Annotated[str | None, typer.Option(help="Exactly that bad.")] = None,
    at_most: Annotated[str | None, typer.Option("--at-most", help="No worse than that.")] = None,
    until: Annotated[str | None, typer.Option(help="A time, as in 2026-03-10T09:00:00Z.")] = None,
    for_: Annotated[str | None, typer.Option("--for", help="As in '2 hours'.")] = None,
    reason: Annotated[str, typer.Option("--reason", help="Why. Demanded.")] = "",
    actor: Actor = None,
    preview: Annotated[bool, typer.Option("--preview", help="Only say what it hides.")] = False,
    db: Database = None, config: Config = None, as_json: Json = False,
) -> None:  # fmt: skip
    """Tell nobody of matching alerts for a while. With --preview, only say which they would be."""
    given = {"detector": detector, "subject": subject, "agent": agent, "tenant": tenant,
             "tag": tag, "severity": severity, "at_most": at_most}  # fmt: skip
    wanted = {key: value for key, value in given.items() if value}
    ends = None if preview else _ends(until, for_)
    with reached(settings(config, db), db) as there:
        if ends is None:
            _previewed(_preview(there, wanted), as_json)
            return
        who = _who(actor)
        if isinstance(there, Remote):
            body = {"until": ends.isoformat(), "actor": who, "reason": reason}
            made = there.silence(wanted | body)
        else:
            asked = silencing.matchers(wanted, there.detectors, "silence")
            made = silencing.add(
                there.store, there.lander, asked, ends, who, reason, utc_now()
            )  # fmt: skip
    if as_json:
        emit(made)
    else:
        line = f"{made['silence_id']}: until {printable(_when(made['expires_at']))} UTC"
        out.print(line, markup=False)


def silences(
    end: Annotated[str | None, typer.Option("--end", metavar="ID", help="End it now.")] = None,
    actor: Actor = None, db: Database = None, config: Config = None, as_json: Json = False,
) -> None:  # fmt: skip
    """Who is told nothing of what, and until when; what ended in the last week, too."""
    with reached(settings(config, db), db) as there:
        if end is not None:
            if isinstance(there, Remote):
                there.end_silence(end, _who(actor))
            else:
                silencing.end(there.store, there.lander, end, _who(actor), utc_now())
        if isinstance(there, Remote):
            rows = there.silences()
        else:
            rows = silencing.listed(there.store, utc_now())
    if as_json:
        emit(rows)
        return
    shown = [
        row | {"expires_at": _when(row["expires_at"]), "matchers": _matchers(row)} for row in rows
    ]
    table(shown, LISTED, "No silence is in force, and none ended in the last week.")


def _who(actor: str | None) -> str:
    return actor or getpass.getuser()


def _act(
    alert: str, name: str, action: Callable[..., dict[str, Any]], body: dict[str, str],
    config: Any, db: Any,
) -> dict[str, Any]:  # fmt: skip
    """`action` takes what `body` holds, by the same names."""
    with reached(settings(config, db), db) as there:
        if isinstance(there, Remote):
            return there.act(alert, name, **body)
        return action(there.store, there.lander, alert, **body, now=utc_now())


def _done(alert: dict[str, Any], what: str, as_json: bool) -> None:
    if as_json:
        emit(alert)
    else:
        out.print(printable(f"{alert['alert_id']}: {what}"), markup=False)


def _ends(until: str | None, for_: str | None) -> datetime:
    if (until is None) == (for_ is None):
        raise ConfigError("silence: say until when: --until TIME, or --for '2 hours'.")
    if for_ is not None:
        return utc_now() + Duration(for_)
    found = moment(until, "--until")
    assert found is not None  # noqa: S101 - a text gives a time, or an error
    return found


def _preview(there: Parts | Remote, wanted: Mapping[str, str]) -> dict[str, Any]:
    if isinstance(there, Remote):
        return there.preview(wanted)
    asked = silencing.matchers(wanted, there.detectors, "silence")
    return silencing.preview(there.store, asked, silencing.tags(there.detectors), utc_now())


def _previewed(told: dict[str, Any], as_json: bool) -> None:
    if as_json:
        emit(told)
        return
    hidden = many(told["open_count"], "open alert")
    out.print(f"It would hide {hidden}; of those of the last seven days, {told['week_count']}.",
              markup=False)  # fmt: skip
    table(told["open"], HIDDEN, "Nothing that is open now.")


def _when(value: Any) -> datetime:
    return value if isinstance(value, datetime) else datetime.fromisoformat(value)


def _matchers(row: Mapping[str, Any]) -> str:
    names = silencing.Matchers.__struct_fields__
    return " ".join(f"{name}={row[name]}" for name in names if row[name] is not None)
