"""What the detectors say about themselves: the headers of detectors/catalogue/, nothing run."""

import ast
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import detectors
from ingest.config import ConfigError, header

FOLDER = Path(detectors.__file__).with_name("catalogue")


@cache  # files of the installed release: the same for everybody, until the next start
def headers() -> dict[str, dict[str, Any]]:
    """Per detector its header: title, severity, why, respond, quiet, params. One page of text."""
    files = [path for path in sorted(FOLDER.glob("*.*")) if path.suffix in (".sql", ".py")]
    return {path.stem: _header(path) for path in files if path.stem != "__init__"}


def said(detector: str, key: str) -> str:
    """One text of a header; for a detector of the user's own folder, where it can be read."""
    words = headers().get(detector, {}).get(key)
    return str(words) if words else f"See the header of {detector} in your own detectors folder."


def thresholds(detector: str) -> dict[str, Any]:
    """The parameters with the values that hold when gatewatch.toml says nothing else."""
    table = headers().get(detector, {})
    spans = {name: table[name] for name in ("lookback", "gap") if name in table}
    params = table.get("params", {})
    return {name: spec["default"] for name, spec in params.items() if "default" in spec} | spans


def _header(path: Path) -> dict[str, Any]:
    try:
        if path.suffix == ".sql":
            return header(path)[0]
        words = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        return tomllib.loads(words)
    except (ConfigError, tomllib.TOMLDecodeError, SyntaxError):
        return {}
