"""Commands about what detectors say, or would say: detect, tune, why-not.

Reads: the database, or the service that holds it. Writes: alerts, unless it is a dry run.
Next: gatewatch/trying.py.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from detectors import whatif, whynot
from detectors.whatif import WhatIf
from gatewatch import pushing, trying
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
from gatewatch.trying import Backtest, Otherwise, Tune, WhyNot, only
from ingest import policy as policies
from ingest.config import ConfigError
from ingest.policy import Policy
from ingest.store import Db, insert

SHOWN = ("severity", "detector", "subject", "title", "started_at", "ended_at")
KEYS = ("detector", "subject", "severity", "started_at", "ended_at", "event_ids", "title", "facts")
STEPS = ("param", "value", "in_force", "alerts", "per_day", "subjects", "right", "wrong",
         "precision", "lost")  # fmt: skip
Since = Annotated[str | None, typer.Option("--since", help="A time, or an age: 30d.")]
Until = Annotated[str | None, typer.Option("--until")]


def detect(
    db: Database = None,
    config: Config = None,
    since: Since = None,
    until: Until = None,
    named: Annotated[str | None, typer.Option("--only", help="Detectors, comma-separated.")] = None,
    sets: Annotated[
        list[str] | None, typer.Option("--set", help="name=value, for a dry run; may be repeated.")
    ] = None,
    policy: Annotated[
        Path | None, typer.Option("--policy", help="Hold against this policy.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Keep nothing.")] = False,
    counted: Annotated[
        bool, typer.Option("--counts", help="Of a dry run: counts a day and by subject.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Judge what is stored. Alerts are kept unless --dry-run."""
    low, high = moment(since, "--since"), moment(until, "--until")
    names = named.split(",") if named else []
    if not dry_run:
        if sets or counted:
            raise ConfigError("--set and --counts are for a --dry-run; values that are to hold"
                              " stand in gatewatch.toml.")  # fmt: skip
        _kept(settings(config, db, policy), db, names, low, high, as_json)
        return
    asked = Backtest(low, high, names, sets or [])
    _dry(settings(config, db), db, policy, asked, counted=counted, as_json=as_json)


def tune(
    detector: Annotated[str, typer.Argument(help="Which detector.")],
    param: Annotated[str | None, typer.Option("--param", help="Default: each of them.")] = None,
    values: Annotated[
        str | None, typer.Option("--values", help="Comma-separated; default: around today's.")
    ] = None,
    since: Since = "30d",
    until: Until = None,
    db: Database = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Over history and verdicts: alerts a day and precision for a range of a parameter."""
    asked = Tune(
        detector, moment(since, "--since"), moment(until, "--until"), param,
        [each.strip() for each in values.split(",")] if values else [],
    )  # fmt: skip
    told = _answered(settings(config, db), db, "/v1/tune", asked, trying.tune)
    if as_json:
        emit(told["steps"])
        return
    rows = [each | {"in_force": "now" if each["in_force"] else ""} for each in told["steps"]]
    table(rows, STEPS, "There are no events in this range.")
    if told["steps"] and not any(each["right"] + each["wrong"] for each in told["steps"]):
        err.print("No verdicts yet: `gatewatch verdict ALERT true|false` makes a precision of it.")


def why_not(
    detector: Annotated[str, typer.Argument(help="Which detector.")],
    subject: Annotated[str, typer.Argument(help="Of whom: an agent, a trace, a host...")],
    time: Annotated[str, typer.Argument(help="When: a time, or an age such as 2h.")],
    around: Annotated[
        float, typer.Option("--around", help="Minutes before and after it.", min=1)
    ] = 30.0,
    db: Database = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Why there is no alert: what was seen, what kept it quiet, what value would have fired."""
    ts = moment(time, "TIME")
    if ts is None:
        raise ConfigError("TIME: none was given.")
    asked = WhyNot(detector, subject, ts, around * 60)
    told = _answered(settings(config, db), db, "/v1/why-not", asked, trying.why_not)
    if as_json:
        emit(told)
    else:
        out.print("\n".join(whynot.lines(told)), markup=False)


def _kept(
    chosen: Any, db: Path | None, names: list[str], low: datetime | None, high: datetime | None,
    as_json: bool,
) -> None:  # fmt: skip
    with opened(chosen, db, "judge its database by hand") as parts:
        those = only(parts.detectors, names)
        tick = parts.tick(utc_now(), tell=False)
        for name, reason in tick.failed.items():
            err.print(f"{name}: {reason}", markup=False)
        found = [row for row in _stored(parts, low, high) if row["detector"] in those]
    pushing.count(alerts=len(found))
    if as_json:
        emit(found)
    else:
        table(found, SHOWN, "Nothing fired.")
    if tick.failed:
        raise typer.Exit(1)


def _dry(
    chosen: Any, db: Path | None, policy: Path | None, asked: Backtest, *, counted: bool,
    as_json: bool,
) -> None:  # fmt: skip
    other = policies.load(policy) if policy else None
    changed: dict[str, Any] | None = None
    with reached(chosen, db) as there:
        if other is not None:
            otherwise = Otherwise(other.controls, asked.since, asked.until)
            changed = _asked(there, "/v1/what-if", otherwise, trying.otherwise)
        told = _under(there, other, asked)
    pushing.count(alerts=len(told["alerts"]))
    found = told["counts"] if counted else [_row(each) for each in told["alerts"]]
    if as_json:
        emit(found if changed is None else {"what_if": changed, "alerts": found})
        return
    if changed is not None:
        _changed(msgspec.convert(changed, WhatIf))
    if not counted:
        table(found, SHOWN, "Nothing fired.")
    _count(told["counts"])


def _answered(
    chosen: Any, db: Path | None, path: str, asked: msgspec.Struct,
    function: Callable[[Parts, Db, Any], dict[str, Any]],
) -> dict[str, Any]:  # fmt: skip
    with reached(chosen, db) as there:
        return _asked(there, path, asked, function)


def _asked(
    there: Parts | Remote, path: str, asked: msgspec.Struct,
    function: Callable[[Parts, Db, Any], dict[str, Any]],
) -> dict[str, Any]:  # fmt: skip
    if isinstance(there, Remote):
        return there.tried(path, asked)
    with there.store.reading() as cursor:
        return function(there, cursor, asked)


class _Undone(Exception):  # noqa: N818 - no error: it ends a transaction that is not to be kept
    pass


def _under(there: Parts | Remote, other: Policy | None, asked: Backtest) -> dict[str, Any]:
    """A backtest under another policy than the one in force. Nothing of it is kept."""
    if other is None:
        return _asked(there, "/v1/backtest", asked, trying.backtest)
    if isinstance(there, Remote):
        err.print("Alerts under another policy: not while a service holds the database.")
        return {"alerts": [], "counts": []}
    told: dict[str, Any] = {}
    with suppress(_Undone), there.store.writing() as cursor:
        now = utc_now()
        insert(cursor, "policies", {"version": other.version, "loaded_at": now, "doc": other.doc})
        told = trying.backtest(there, cursor, asked)
        raise _Undone
    return told


def _changed(found: WhatIf) -> None:
    """The calls that another policy would have decided otherwise."""
    head, *rest = whatif.summary(found)
    out.print(head, markup=False)
    table(whatif.table(found), whatif.HEAD, "No call would have been decided otherwise.")
    for line in rest:
        out.print(line, markup=False)


def _count(counts: Iterable[Mapping[str, Any]]) -> None:
    """Of each detector the alerts a day, and of whom most."""
    for each in counts:
        out.print(f"{each['detector']}: {each['alerts']} alerts, {each['per_day']:g} a day, of"
                  f" {each['subjects_total']} subjects", markup=False)  # fmt: skip
        for part in ("days", "subjects"):
            rows = [{part[:-1]: key, "alerts": count} for key, count in each[part].items()]
            table(rows, (part[:-1], "alerts"), "")


def _stored(parts: Parts, low: datetime | None, high: datetime | None) -> list[dict[str, Any]]:
    rows = parts.store.rows(
        "SELECT * FROM alerts WHERE status IN ('open', 'resolved')"
        " AND ended_at >= coalesce($low::TIMESTAMPTZ, ended_at)"
        " AND started_at < coalesce($high::TIMESTAMPTZ, TIMESTAMPTZ '9999-01-01')"
        " ORDER BY started_at, detector, subject",
        low=low, high=high,
    )  # fmt: skip
    return [_row(row | {"facts": msgspec.json.decode(row["facts"])}) for row in rows]


def _row(found: Mapping[str, Any]) -> dict[str, Any]:
    row = {key: found[key] for key in KEYS}
    row["facts"] = row["facts"] | {"rows": found["rows"]}
    if "alert_id" in found:
        row["alert_id"] = found["alert_id"]
    return row
