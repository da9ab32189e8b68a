"""A JSON document as lines that a person reads from top to bottom."""

import json
from typing import Any

LINES = 60  # of one document on a page; the service has the rest


def flat(text: str | None) -> dict[str, Any]:
    """Dotted names and plain values, LINES at most. What is no JSON stays as it is."""
    try:
        document = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {"text": text}
    lines: dict[str, Any] = {}
    _walk("", document, lines)
    return lines


def _walk(name: str, value: Any, lines: dict[str, Any]) -> None:
    if len(lines) >= LINES:
        return
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            _walk(f"{name}.{key}" if name else str(key), inner, lines)
    elif isinstance(value, list) and any(isinstance(each, dict | list) for each in value):
        for number, inner in enumerate(value, 1):
            _walk(f"{name}.{number}" if name else str(number), inner, lines)
    elif name or value not in ({}, []):
        lines[name or "value"] = None if value in ({}, []) else value
