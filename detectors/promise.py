"""What a detector's file must keep: its parameters, its columns, its titles, what it may not read.

Reads: nothing. Writes: nothing. Next: detectors/detector.py.
"""

import inspect
import re
import string
from collections.abc import Callable, Collection, Mapping
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import duckdb

from detectors.header import Header
from ingest.config import ConfigError, nearest

TIME = "TIMESTAMP WITH TIME ZONE"
PROMISED = {"subject": "VARCHAR", "started_at": TIME, "ended_at": TIME, "event_ids": "VARCHAR[]"}
OPTIONAL = {"severity": "VARCHAR", "tenant": "VARCHAR", "agent": "VARCHAR"}
NOT_READ = re.compile(  # a detector that read what it caused would find other rows on each run
    r"\b(?:from|join)\s+(alerts|alert_events|stretches|judgements|judged|silences|incidents|deliveries)\b",
    re.IGNORECASE,
)
Function = Callable[..., list[dict[str, Any]]]


def function(path: Path) -> Function:
    """`find(db, since, until, *, ...)` of a Python file; it takes what the header declares."""
    spec = spec_from_file_location(f"gatewatch_detector_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{path}: cannot be read as Python.")
    module = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ConfigError(f"{path}: {type(error).__name__}: {error}") from error
    find = getattr(module, "find", None)
    if not inspect.isfunction(find):
        raise ConfigError(f"{path}: there is no function `find(db, since, until, ...)`.")
    found: Function = find
    return found


def agree(path: Path, text: str, run: Function | None, known: set[str]) -> None:
    """The query is one SELECT and uses what the header declares: no more, no less."""
    used = one_select(path, text) if run is None else {*inspect.signature(run).parameters} - {"db"}
    for name in sorted(used - known):
        raise ConfigError(f"{path}: the header does not declare ${name}.{nearest(name, known)}")
    for name in sorted(known - used):
        raise ConfigError(f"{path}: the query never uses ${name}.")
    for read in NOT_READ.finditer(code(text)):
        raise ConfigError(f"{path}: a detector may not read {read[1]}: only what happened.")


def one_select(path: Path, sql: str) -> set[str]:
    """The parameters of what must be one SELECT."""
    try:
        statements = duckdb.extract_statements(sql)
    except duckdb.Error as error:
        raise ConfigError(f"{path}: {error}") from None
    if [each.type for each in statements] != [duckdb.StatementType.SELECT]:
        raise ConfigError(f"{path}: a detector is one SELECT, nothing else.")
    return set(statements[0].named_parameters)


def code(sql: str) -> str:
    """Without comments."""
    return re.sub("--.*", "", sql)


def columns(path: Path, found: Mapping[str, str]) -> None:
    """Are these the columns that every detector has?"""
    for name, kind in PROMISED.items():
        if found.get(name) != kind:
            raise ConfigError(f"{path}: {name} must be {kind}, found {found.get(name)}.")
    for name, kind in OPTIONAL.items():
        if found.get(name, kind) != kind:
            raise ConfigError(f"{path}: {name} must be {kind}, found {found[name]}.")


def titles(path: Path, header: Header, facts: Collection[str]) -> None:
    """Titles name facts only."""
    for _, fact, _, _ in string.Formatter().parse(header.title + header.title_zh):
        if fact and fact not in facts:
            raise ConfigError(f"{path}: a title names {fact!r}.{nearest(fact, facts)}")
