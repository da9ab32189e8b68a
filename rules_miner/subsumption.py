"""Is one rule at least as general as another? Then the narrower one need not be proposed.

Reads: nothing. Writes: nothing. Next: rules_miner/mine.py.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from rules_miner.rule import Doc, RuleFile, canonical
from rules_miner.schema import same

STRICT = {"abstain": 2, "clarify": 1}
IN_FORCE = ("canary", "enforced")
STANDING = ("experimental", "shadow", *IN_FORCE, "open", "rejected")


class Standing(NamedTuple):
    """A rule that is there already, and how: its status, or `open` (proposed), or `rejected`."""

    file: RuleFile
    state: str


def covering(standing: Iterable[Standing], normal: Doc) -> Standing | None:
    """The first rule that makes `normal` superfluous. Deprecated and retired ones do not count."""
    held = (each for each in standing if each.state in STANDING)
    return next((each for each in held if covers(each.file.normal, normal)), None)


def covers(a: Doc, b: Doc) -> bool:
    """Every point at which `b` holds, `a` holds too, and stops as strictly. Normal forms."""
    wide, narrow = a["when"], b["when"]
    return (
        STRICT[a["then"]] >= STRICT[b["then"]]
        and _points(wide.get("point"), narrow.get("point"))
        and _within(wide, narrow, "signals")
        and _within(wide, narrow, "not_signals")
        and ("domain" not in wide or _subset(narrow.get("domain"), wide["domain"]))
        and _tools(wide, narrow)
        and all(
            any(_implies(each, test) for each in narrow.get("params", ()))
            for test in wide.get("params", ())
        )
        and _within(wide, narrow, "sequence")
    )


def _points(wide: str | None, narrow: str | None) -> bool:
    """No point means before any call; after a result is asked for by name only."""
    return wide == narrow or (wide is None and narrow != "post_result")


def _within(wide: Doc, narrow: Doc, key: str) -> bool:
    asked, given = (set(map(canonical, each.get(key, ()))) for each in (wide, narrow))
    return asked <= given


def _subset(narrow: list[str] | None, wide: list[str]) -> bool:
    return narrow is not None and set(narrow) <= set(wide)


def _tools(wide: Doc, narrow: Doc) -> bool:
    tools, begins = wide.get("tool", ()), tuple(wide.get("tool_prefix", ()))
    if not tools and not begins:
        return True
    names, prefixes = narrow.get("tool", ()), narrow.get("tool_prefix", ())
    if not names and not prefixes:
        return False
    if prefixes and not begins:
        return False
    return all(each.startswith(begins) for each in prefixes) and all(
        each in tools or bool(begins and each.startswith(begins)) for each in names
    )


def _implies(strong: Doc, weak: Doc) -> bool:
    """Whatever passes `strong` passes `weak`."""
    if strong["path"] != weak["path"]:
        return False
    if canonical(strong) == canonical(weak):
        return True
    mine, his = strong["value"], weak["value"]
    match weak["op"]:
        case "exists":
            return his is True and strong["op"] != "exists"
        case "in":
            given = mine if strong["op"] == "in" else [mine] if strong["op"] == "eq" else None
            return given is not None and all(any(same(v, w) for w in his) for v in given)
        case "ne":
            return strong["op"] == "eq" and not same(mine, his)
        case "prefix":
            return strong["op"] == "prefix" and str(mine).startswith(his)
        case "lt" | "lte" | "gt" | "gte":
            return _tighter(strong["op"], mine, weak["op"], his)
    return False


def _tighter(op: str, mine: Any, weak: str, his: float) -> bool:
    if isinstance(mine, bool) or not isinstance(mine, int | float):
        return False
    if op == "eq":
        return {"lt": mine < his, "lte": mine <= his, "gt": mine > his, "gte": mine >= his}[weak]
    if op[0] != weak[0]:
        return False
    if op == weak or weak.endswith("e"):
        return mine <= his if weak[0] == "l" else mine >= his
    return mine < his if weak[0] == "l" else mine > his
