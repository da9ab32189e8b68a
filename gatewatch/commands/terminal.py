"""What commands share: options, output, and how they reach the data.

stdout is data, stderr talks. Reads: gatewatch.toml. Writes: nothing. Next: gatewatch/parts.py.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gatewatch.client import Remote, running
from gatewatch.parts import Parts, open_parts, settings_of, utc_now
from ingest.config import ConfigError, Settings
from ingest.store import StoreBusyError

err = Console(stderr=True, highlight=False)
out = Console(highlight=False, width=None if sys.stdout.isatty() else 200)

Config = Annotated[Path | None, typer.Option("--config", help="gatewatch.toml; default: here.")]
Database = Annotated[
    Path | None, typer.Option("--db", help="Database file; default: the config's.")
]
Adapters = Annotated[
    Path | None,
    typer.Option("--adapters", help="Folder of your own adapters; default: adapters_folder."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


@contextmanager
def reached(settings: Settings, db: Path | None) -> Iterator[Parts | Remote]:
    """The database itself, or, while a service holds it, that service."""
    path = db or settings.db
    try:
        parts = open_parts(settings, path)
    except StoreBusyError as busy:
        remote = running(path)
        if remote is None:
            raise ConfigError(f"{busy} It left no address: stop that process first.") from None
        with closing(remote):
            yield remote
        return
    try:
        yield parts
    finally:
        parts.close()


@contextmanager
def opened(settings: Settings, db: Path | None, what: str) -> Iterator[Parts]:
    """The database itself; for what only its owner can do. `what` says so in the error."""
    try:
        parts = open_parts(settings, db)
    except StoreBusyError as busy:
        raise ConfigError(f"{busy} Stop the service to {what}.") from None
    try:
        yield parts
    finally:
        parts.close()


def settings(
    config: Path | None,
    db: Path | None = None,
    policy: Path | None = None,
    adapters: Path | None = None,
) -> Settings:
    """The settings of a command. A `--db` that is named needs no gatewatch.toml."""
    found = settings_of(config)
    if policy is not None:
        found = msgspec.structs.replace(found, policy=str(policy.resolve()))
    if adapters is not None:
        found = msgspec.structs.replace(found, adapters_folder=str(adapters.resolve()))
    return found


def emit(value: Any) -> None:
    """JSON on stdout, one document."""
    data = msgspec.json.format(msgspec.json.encode(value, enc_hook=_plain), indent=2)
    sys.stdout.write(data.decode() + "\n")


def _plain(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def table(rows: Sequence[Mapping[str, Any]], columns: Iterable[str], empty: str) -> None:
    """Rows for people. Text from logs is shown, never obeyed."""
    if not rows:
        err.print(empty)
        return
    shown = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        shown.add_column(name.replace("_", " "), overflow="fold")
    for row in rows:
        shown.add_row(*(Text(printable(row.get(name))) for name in columns))
    out.print(shown)


def printable(value: object) -> str:
    """One line, no terminal escapes."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
    text = value if isinstance(value, str) else _plain(value)
    return "".join(char if char.isprintable() else "\u00b7" for char in text)


def moment(text: str | None, key: str) -> datetime | None:
    """A time as people write it: RFC 3339, a date, or an age such as `30d`, `6h`, `15m`."""
    if text is None:
        return None
    units: dict[str, Callable[[float], timedelta]] = {
        "d": lambda n: timedelta(days=n),
        "h": lambda n: timedelta(hours=n),
        "m": lambda n: timedelta(minutes=n),
    }
    try:
        if text[-1:] in units:
            return utc_now() - units[text[-1]](float(text[:-1]))
        found = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        raise ConfigError(
            f"{key}: {text!r} is no time. Write 2026-03-10T09:00:00Z, 2026-03-10 or 30d."
        ) from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
