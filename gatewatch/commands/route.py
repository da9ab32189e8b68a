"""The command `route`: who would be told of an alert, and why. And what `doctor` says of routes.

Reads: the database, or the service that holds it. Writes: nothing. Next: detectors/whom.py.
"""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from detectors import routing, whom_words
from detectors.detector import Detector
from detectors.routing import Desk
from detectors.spelling import many
from detectors.whom import Supposed, whom
from gatewatch.client import Remote
from gatewatch.commands.terminal import (
    Config,
    Database,
    Json,
    emit,
    moment,
    out,
    reached,
    settings,
)
from gatewatch.parts import DEFAULT, utc_now
from gatewatch.routing_answers import office
from ingest import policy
from ingest.config import Settings
from ingest.policy import Controls


def route(
    alert: Annotated[
        str | None, typer.Argument(help="Its id, such as al_7f3a; none: one that you suppose.")
    ] = None,
    detector: Annotated[
        str | None, typer.Option("--detector", help="Suppose it is of this.")
    ] = None,
    severity: Annotated[
        str | None, typer.Option("--severity", help="low, medium, high or critical.")
    ] = None,
    agent: Annotated[str | None, typer.Option("--agent", help="Whom it is about.")] = None,
    subject: Annotated[str | None, typer.Option("--subject", help="Its subject.")] = None,
    tenant: Annotated[str | None, typer.Option("--tenant", help="Its tenant.")] = None,
    at: Annotated[str | None, typer.Option("--at", help="Not now: 2026-03-10T23:00:00Z.")] = None,
    db: Database = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Who would be told of an alert now and why, and who later if nobody takes it."""
    asked = Supposed(detector, severity, agent, subject, tenant, moment(at, "--at"))
    with reached(settings(config, db), db) as there:
        if isinstance(there, Remote):
            found = there.route(alert, asked)
        else:
            found = whom(office(there), alert, asked, utc_now())
    if as_json:
        emit(found)
    else:
        out.print(whom_words.render(found), markup=False, end="", soft_wrap=True)


def checked(chosen: Settings, detectors: Mapping[str, Detector]) -> str:
    """What `doctor` says of `[routing]`. Raises ConfigError."""
    where = f"{DEFAULT}: receivers"
    routes = routing.load(chosen.receivers, where, chosen.language)
    tags = {name: each.tags for name, each in detectors.items()}
    routing.check_detectors(routes, list(detectors), where)
    tree = routing.load_tree(chosen.routing, routes, tags, f"{DEFAULT}: routing")
    rules = policy.load(chosen.path(chosen.policy)).controls if chosen.policy else Controls()
    gaps = Desk(routes, tree=tree, policy=rules).gaps(tags)
    return "; ".join([_told(tree and tree.top), *(f"warning: {gap}" for gap in gaps)])


def _told(top: Any) -> str:
    if top is None:
        return "none: each receiver's own filter decides"
    return many(len(list(top.all())) - 1, "route")
