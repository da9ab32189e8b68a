"""What of a change of settings gives more rights than before. Pure: two contents in, reasons out.

A content is what was decoded from JSON, or text in lines of `key: value` or `key = value`.
Where nothing is known of before, only what is wide by itself is named.
Reads: nothing. Writes: nothing. Next: detectors/catalogue/self_config_change.py.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

ALLOWS = re.compile(r"allow|permit|grant|trusted|whitelist|scopes?\b|roles?\b")
DENIES = re.compile(r"deny|denied|block|forbid|disallow|exclude|revoke")
GUARDS = re.compile(
    r"approv|confirm|review|audit|logging|sandbox|enforce|guard|require|verify|mfa|redact|protect"
)
BYPASSES = re.compile(
    r"bypass|dangerous|yolo|full_?auto|unrestricted|allow_?all|auto_?approve|skip_"
)
LEVEL = re.compile(r"log_?level|logging\.level|audit_?level|verbosity")
LEVELS = ("trace", "debug", "info", "notice", "warning", "error", "critical", "off")
SAME = {"warn": "warning", "err": "error", "fatal": "critical", "none": "off", "silent": "off"}
ON = {"true", "on", "yes", "enabled", "1", "always", "required"}
OFF = {"false", "off", "no", "none", "never", "disabled", "0"}
ASKS = {"deny", "denied", "block", "ask", "prompt", "require_approval", "forbid", "reject"}
OPEN = {"allow", "allowed", "permit", "auto", "accept"}
WIDE = {  # a value that says it all, under whatever key: modes of coding agents, and the wildcard
    "bypasspermissions", "dontask", "yolo", "full-auto", "danger-full-access", "allow_all", "*",
    "0.0.0.0/0", "::/0",
}  # fmt: skip
LINE = re.compile(r"^\s*[\"']?([\w.\-]+)[\"']?\s*[:=]\s*(.*?)[\s,]*$")
MOST = 10  # reasons that are named
Leaves = dict[str, set[str]]  # dotted path, list positions left out, to its values as text


def widened(before: Any, after: Any) -> list[str]:
    """Why `after` gives more than `before`, a few words each; nothing where it does not."""
    old, new = leaves(content(before)), leaves(content(after))
    known = before is not None
    reasons = (
        why for path in sorted(new.keys() | old.keys()) for why in _of(path, old, new, known)
    )
    return list(dict.fromkeys(reasons))[:MOST]


def content(value: Any) -> Any:
    """Text that holds JSON, or lines of keys and values, as what it holds."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        found = [each for each in map(LINE.match, value.splitlines()) if each]
        return {each[1]: each[2].strip("\"'") for each in found} if found else value


def leaves(value: Any, path: str = "") -> Leaves:
    """Every scalar of a tree under its path."""
    found: Leaves = {}
    for place, text in _walk(value, path, 0):
        found.setdefault(place, set()).add(text)
    return found


def _walk(value: Any, path: str, depth: int) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and depth < 20:
        for key, inner in value.items():
            yield from _walk(inner, f"{path}.{key}".lstrip("."), depth + 1)
    elif isinstance(value, list) and depth < 20:
        for inner in value:
            yield from _walk(inner, path, depth + 1)
    elif value is not None:
        yield path, str(value).lower() if isinstance(value, bool) else str(value)


def _of(path: str, old: Leaves, new: Leaves, known: bool) -> Iterator[str]:
    """The reasons that the values under one path give."""
    name = re.sub(r"(?<=[a-z])(?=[A-Z])|-", "_", path).lower()
    was, now = old.get(path, set()), new.get(path, set())
    came, gone = sorted(now - was), sorted(was - now)
    low, before = {each.lower() for each in came}, {each.lower() for each in gone}
    wide = sorted(low & WIDE)
    if wide and (known or wide != ["*"]):
        yield f"{path or 'it'} becomes {wide[0]}"
    elif low & OPEN and before & ASKS:
        yield f"{path or 'it'} becomes {sorted(low & OPEN)[0]}"
    elif BYPASSES.search(name) and low & ON:
        yield f"{path} is on"
    elif GUARDS.search(name) and low & OFF and not before & OFF:
        yield f"{path} is off"
    elif LEVEL.search(name) and was and _level(came) > _level(gone) >= 0:
        yield f"{path} becomes {came[0]}"
    elif known and came and ALLOWS.search(name) and not DENIES.search(name) and len(now) > len(was):
        yield f"{path} gains {', '.join(came[:3])}"
    elif gone and now and DENIES.search(name) and len(now) < len(was):
        yield f"{path} loses {', '.join(gone[:3])}"


def _level(values: list[str]) -> int:
    """How little a level logs; -1 for what is no level."""
    name = SAME.get(values[0].lower(), values[0].lower()) if values else ""
    return LEVELS.index(name) if name in LEVELS else -1
