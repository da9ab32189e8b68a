"""The table of one receiver or gate: keys that all of its kind have, and keys of its own type.

Reads: gatewatch.toml. Writes: nothing. Next: detectors/routing.py, detectors/containment.py.
"""

from collections.abc import Mapping
from types import ModuleType
from typing import Any, Protocol, TypeVar

import msgspec

from ingest.config import ConfigError, convert, nearest

Shared = TypeVar("Shared", bound=msgspec.Struct)


class Types(Protocol):
    """The package in which each module is a type: detectors.receivers, or detectors.gates."""

    def names(self) -> list[str]: ...
    def load(self, name: str, where: str) -> ModuleType: ...


def read(
    table: Any, shared: type[Shared], types: Types, which: str, where: str
) -> tuple[ModuleType, Shared, Any]:
    """The module that `type` names, the keys that all have, and its own `Options`. `which` says in
    a word what a type stands for. Raises ConfigError on the first mistake."""
    if not isinstance(table, Mapping):
        raise ConfigError(f"{where}: expected a table, found {table!r}.")
    if not isinstance(table.get("type"), str):
        raise ConfigError(f"{where}: `type` says which {which}: {', '.join(types.names())}.")
    module = types.load(table["type"], f"{where}.type")
    common, own = _keys(shared), _keys(module.Options)
    for key in sorted(table.keys() - common - own):
        raise ConfigError(f"{where}: unknown key {key!r}.{nearest(key, common | own)}")
    found = convert({key: table[key] for key in table.keys() & common}, shared, where)
    options = convert({key: table[key] for key in table.keys() & own}, module.Options, where)
    return module, found, options


def _keys(of: Any) -> set[str]:
    return {field.encode_name for field in msgspec.structs.fields(of)}
