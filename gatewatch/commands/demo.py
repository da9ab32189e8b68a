"""`gatewatch demo`: a simulated fleet, its alerts as they arrive, and what was found in the end.

Reads: nothing. Writes: a folder, temporary unless it is named. Next: gatewatch/demo.py.
"""

import shutil
import signal
import tempfile
import threading
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from gatewatch.commands.terminal import Json, emit, err, out, printable
from gatewatch.summary import Alert, Summary

COLOURS = {"critical": "bold white on red", "high": "bold red", "medium": "yellow", "low": "cyan"}
STATES = {"resolved": "over", "withdrawn": "withdrawn", "worse": "worse", "reminder": "still"}


def demo(
    seconds: Annotated[
        float | None, typer.Option("--seconds", min=1, help="Live for so long; default: Ctrl-C.")
    ] = None,
    no_dashboard: Annotated[bool, typer.Option("--no-dashboard", help="Start no pages.")] = False,
    directory: Annotated[
        Path | None, typer.Option("--dir", help="Work in this empty folder, and leave it there.")
    ] = None,
    as_json: Json = False,
) -> None:
    """See it work: a simulated fleet, five troubles, a chat and a dashboard."""
    from gatewatch.demo import Demo  # the server is loaded only where one is started

    shown = err if as_json else out
    folder = directory or Path(tempfile.mkdtemp(prefix="gatewatch-demo-"))
    over = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: over.set())
    run = Demo(
        folder.resolve(),
        not no_dashboard,
        lambda line: shown.print(line, markup=False),
        lambda alert: shown.print(_alert(alert), soft_wrap=True),
        over=over,
    )
    try:
        summary = run.run(seconds)
    finally:
        if directory is None:
            shutil.rmtree(folder, ignore_errors=True)
    if as_json:
        emit(summary)
    else:
        for line in _report(summary, over.is_set()):
            out.print(line, soft_wrap=True)
    if seconds is not None and not summary.good:
        raise typer.Exit(1)


def _alert(alert: Alert) -> Text:
    """One line: when, how bad, what, and how long after it was injected."""
    clock = alert.at[11:19]
    late = (
        "" if alert.since_injection is None else f"  {alert.since_injection:.1f} s after it began"
    )
    word = STATES.get(alert.kind, alert.severity)
    return Text.assemble(
        (clock, "dim"), "  ",
        (f"{printable(word):<9}", COLOURS.get(word, "dim")),
        (f"{printable(alert.detector):<20}", "bold"), printable(alert.title), (late, "dim"),
    )  # fmt: skip


def _report(summary: Summary, interrupted: bool) -> list[Text]:
    lines, missed = [Text()], "not yet" if interrupted else "MISSED"
    for each in summary.troubles:
        found = f"detected after {each.seconds:.1f} s" if each.detected else missed
        style = "green" if each.detected else "bold red"
        lines.append(
            Text.assemble((f"{each.detector:<20}{each.subject:<36}", "bold"), (found, style))
        )
    first = (
        "never" if summary.first_alert_seconds is None else f"{summary.first_alert_seconds:.1f} s"
    )
    lines += [
        Text(f"{summary.detected} of {summary.injected} detected; first alert {first} after start;"
             f" {len(summary.false_alerts)} false alerts"),
        Text(f"{summary.lines_written} lines written, {summary.lines_in_ledger} in the ledger:"
             f" {summary.events} events, {summary.duplicates} duplicates,"
             f" {summary.quarantined} quarantined; {summary.lost} lost"),
    ]  # fmt: skip
    lines += [Text(f"false alert: {printable(each)}", style="red") for each in summary.false_alerts]
    return lines
