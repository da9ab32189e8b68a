"""What the detectors say about themselves: the headers of detectors/catalogue/, nothing run."""

from functools import cache
from pathlib import Path
from typing import Any

from detectors.detector import files
from ingest.config import ConfigError, header


@cache  # files of the installed release: the same for everybody, until the next start
def headers() -> dict[str, dict[str, Any]]:
    """Per detector its header: title, severity, why, respond, quiet, params. One page of text."""
    return {path.stem: _header(path) for path in files().values()}


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
        return header(path)[0]
    except ConfigError:
        return {}
