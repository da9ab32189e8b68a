"""Commands that run things: serve, init, test-send, mine.

Reads: gatewatch.toml. Writes: through its parts. Next: gatewatch/service.py.
"""

import signal
import threading
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from detectors import (
    routing,
    triage,
)
from detectors.letters import advice
from detectors.masking import masked
from detectors.receivers import Delivered
from detectors.routing import Route
from detectors.spelling import many
from detectors.worker import try_out
from gatewatch import starter
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
from gatewatch.parts import DEFAULT, Parts, key_of, open_parts, utc_now
from ingest.config import ConfigError, Settings, convert, nearest
from ingest.redact import load_key
from ingest.store import StoreBusyError
from rules_miner import proposal
from rules_miner.check import rules as rules_in
from rules_miner.check import texts
from rules_miner.settings import Settings as MinerSettings

KEPT = 200  # results of one mining that the pages can show


def serve(
    config: Config = None,
    dashboard: Annotated[
        bool, typer.Option("--dashboard", help="Start the pages as well.")
    ] = False,
) -> None:
    """The service: follow files, take lines over HTTP, judge, tell people."""
    from gatewatch.service import Service  # the server is loaded only where one is started

    chosen = settings(config)
    with_signals = threading.Event()
    try:
        parts = open_parts(chosen)
    except StoreBusyError as busy:
        raise ConfigError(f"{busy} Is a service running already?") from None
    on_disk = config or (DEFAULT if DEFAULT.exists() else None)
    service = Service(parts, dashboard, on_disk)
    signal.signal(signal.SIGHUP, lambda *_: service.reload())
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: with_signals.set())
    service.start()
    sources = many(len(chosen.sources), "source")
    err.print(f"gatewatch listens on {service.url}, {sources}.", markup=False)
    if dashboard:
        err.print(
            f"Dashboard: http://{chosen.dashboard.host}:{chosen.dashboard.port}", markup=False
        )
    while not with_signals.wait(0.5):
        pass
    service.stop()


def init(
    folder: Annotated[Path, typer.Argument(help="Where to.")] = Path(),
) -> None:
    """Write gatewatch.toml, policy.json and rules/, with comments."""
    for path in starter.write(folder):
        out.print(str(path), markup=False)


def send(
    receiver: Annotated[str | None, typer.Argument(help="The name in [receivers.NAME].")] = None,
    everyone: Annotated[bool, typer.Option("--all", help="Every one that is configured.")] = False,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Send one test message and print what the service answered, and what to do about it."""
    chosen = settings(config)
    where = f"{DEFAULT}: receivers"
    routes = {each.name: each for each in routing.load(chosen.receivers, where, chosen.language)}
    if (receiver is not None) == everyone:
        raise ConfigError("Name one receiver, or --all.")
    if not routes or (receiver is not None and receiver not in routes):
        missing = f"no receiver {receiver!r}." if receiver is not None else ""
        hint = nearest(receiver or "", routes) if routes else " No [receivers.NAME] is configured."
        raise ConfigError(f"{missing}{hint}".strip())
    told = [_tried(routes[name], chosen) for name in routes if everyone or name == receiver]
    if as_json:
        emit(told if everyone else told[0])
    for each in () if as_json else told:
        says = ", ".join(f"{key}: {value}" for key, value in each.items() if value)
        out.print(printable(says), markup=False)
    if any(each["outcome"] != "delivered" for each in told):
        raise typer.Exit(1)


def _tried(route: Route, chosen: Settings) -> dict[str, Any]:
    outcome = try_out(route, chosen.public_url, utc_now())
    told = {"receiver": route.name, "outcome": type(outcome).__name__.lower(), **vars(outcome)}
    if not isinstance(outcome, Delivered):
        told["reason"] = masked(outcome.reason)
        told["advice"] = advice(outcome.label, getattr(outcome, "hint", None))
    return told


def mine(
    db: Database = None,
    config: Config = None,
    rules: Annotated[
        Path | None, typer.Option("--rules", help="The rules' git repository.")
    ] = None,
    propose: Annotated[
        bool, typer.Option("--propose", help="Write a branch per proposal.")
    ] = False,
    labels: Annotated[
        Path | None, typer.Option("--labels", help="Import labelled runs first: JSON lines.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Learn from incidents; propose stopping rules, each with its backtest."""
    chosen = settings(config, db)
    folder = rules or chosen.path(chosen.rules)
    own = {"key": load_key(key_of(chosen)).hex()} | chosen.miner
    tuned = convert(own, MinerSettings, f"{DEFAULT}: miner")
    known_runs = _labelled(labels) if labels else []
    with reached(chosen, db) as there:
        if known_runs:
            _label(there, known_runs)
        found = proposal.run(there, folder, tuned, utc_now(), propose)
        kept, known = found[:KEPT], in_force(folder)
        if isinstance(there, Remote):
            there.mined(kept, known)
        else:
            triage.mined(there.store, there.lander, kept, known, "gatewatch", utc_now())
    if as_json:
        emit(found)
        return
    shown = ("state", "rule_id", "reason", "branch")
    table(found, shown, "Nothing passed, and nothing came near: more verdicts are needed.")


def _label(there: Parts | Remote, rows: list[dict[str, Any]]) -> None:
    if isinstance(there, Remote):
        there.label(rows)
    else:
        triage.label(there.store, there.lander, rows, "import", utc_now())


def _labelled(path: Path) -> list[dict[str, Any]]:
    """Labels of runs, as an export of tickets gives them: see docs/miner.md."""
    try:
        rows = [msgspec.json.decode(line) for line in path.read_bytes().splitlines() if line]
    except (OSError, msgspec.DecodeError) as error:
        raise ConfigError(f"{path}: not JSON lines: {error}") from None
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict) or row.get("label") not in ("misaction", "good"):
            raise ConfigError(f"{path}: line {number}: `label` is misaction or good.")
        if not isinstance(row.get("trace_id"), str):
            raise ConfigError(f"{path}: line {number}: `trace_id` is missing.")
    return rows


def in_force(folder: Path) -> list[dict[str, Any]]:
    """The rules of a folder, for the page that lists them."""
    return [
        {"rule_id": each.rule.id, "fingerprint": each.fingerprint, "status": each.rule.status,
         "path": path, "doc": each.doc}
        for path, text in texts(folder).items()
        for each in rules_in({path: text}, str(folder))
    ]  # fmt: skip
