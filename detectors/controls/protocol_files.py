"""Protocols as users write them: a folder of TOML files, each its own table or a Concordat class.

The loader stores all of them as one document in the table protocols, where detectors read it.
Reads: NAME.toml, the classes that they name. Writes: nothing. Next: gatewatch/parts.py.
"""

import hashlib
import importlib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from detectors.controls.protocol import Human, Protocol, problems, refinement_problem
from ingest.config import ConfigError, convert, nearest


class Written(msgspec.Struct, frozen=True):
    """One file. With `concordat` ("module:Class") the protocol is that class's; `agents` are else
    the name of the file, or of the class. `parent`: another file, which this one refines."""

    concordat: str | None = None
    initial: str | None = None
    final: tuple[str, ...] | None = None
    transitions: dict[str, dict[str, str | tuple[str, ...]]] | None = None
    human: dict[str, Human] = {}
    agents: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    run: str = "trace"
    parent: str | None = None


@dataclass(frozen=True)
class Protocols:
    """Those of one folder, checked. `version` tells two contents apart, `doc` is a JSON array."""

    version: str
    doc: str
    all: tuple[Protocol, ...]


def load(folder: Path) -> Protocols:
    """Every protocol of a folder. Raises ConfigError: the file, the key, what was found."""
    if not folder.is_dir():
        raise ConfigError(f"{folder}: no such folder of protocols.")
    written = {path.stem: (path, _written(path)) for path in sorted(folder.glob("*.toml"))}
    found = {name: _protocol(path, each) for name, (path, each) in written.items()}
    for name, (path, each) in written.items():
        for wrong in problems(found[name]):
            raise ConfigError(f"{path}: {wrong}")
        if each.parent is None:
            continue
        if each.parent not in found:
            raise ConfigError(f"{path}: parent: {each.parent!r}.{nearest(each.parent, found)}")
        if problem := refinement_problem(found[name], found[each.parent]):
            raise ConfigError(f"{path}: it can't stand for {each.parent!r}: {problem}")
    doc = msgspec.json.encode(list(found.values()), order="deterministic").decode()
    version = hashlib.sha256(doc.encode()).hexdigest()[:12]
    return Protocols(version, doc, tuple(found.values()))


def decode(doc: str) -> list[Protocol]:
    """The document of the table protocols."""
    return msgspec.json.decode(doc, type=list[Protocol])


def _written(path: Path) -> Written:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}.") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: not TOML: {error}.") from None
    return convert(table, Written, str(path))


def _protocol(path: Path, written: Written) -> Protocol:
    own = {"initial": written.initial, "final": written.final, "transitions": written.transitions}
    given = [key for key, value in own.items() if value is not None]
    if written.concordat is not None:
        if given or written.human:
            raise ConfigError(f"{path}: {(given or ['human'])[0]}: the class says it.")
        base = of_concordat(written.concordat, str(path))
    else:
        for key in own.keys() - set(given):
            raise ConfigError(f"{path}: {key} is missing: write it, or `concordat`.")
        base = Protocol(
            path.stem,
            written.initial or "",
            written.final or (),
            {
                state: {tool: (to,) if isinstance(to, str) else to for tool, to in tools.items()}
                for state, tools in (written.transitions or {}).items()
            },
            written.human,
            (path.stem,),
        )
    table = msgspec.to_builtins(base) | {"name": path.stem, "run": written.run}
    table |= {"ignore": written.ignore, "agents": written.agents or base.agents}
    return convert(table, Protocol, str(path))


def of_concordat(place: str, where: str) -> Protocol:
    """The protocol of "module:Class", an Agent of Concordat, or of "module:name", a Protocol.

    The module is imported, so its code runs. Raises ConfigError.
    """
    module, _, name = place.partition(":")
    try:
        found = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except ModuleNotFoundError as error:
        hint = " Install gatewatch[concordat]." if error.name == "concordat" else ""
        raise ConfigError(f"{where}: concordat: {place!r}: {error}.{hint}") from None
    except Exception as error:
        raise ConfigError(f"{where}: concordat: {place!r}: {error}.") from error
    protocol = getattr(found, "protocol", found)
    if not all(hasattr(protocol, part) for part in ("initial", "final", "transitions")):
        raise ConfigError(
            f"{where}: concordat: {place!r} is no Protocol, and no Agent with final states."
        )
    steps: Mapping[str, Any] = getattr(found, "_steps", {})
    return Protocol(
        name,
        protocol.initial,
        tuple(sorted(protocol.final)),
        {
            state: {tool: tuple(sorted(targets)) for tool, targets in sorted(tools.items())}
            for state, tools in sorted(protocol.transitions.items())
        },
        {
            tool: Human(step.approve, step.reject)
            for tool, step in sorted(steps.items())
            if hasattr(step, "approve")
        },
        (getattr(found, "__name__", name),),
    )
