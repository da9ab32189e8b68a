"""rule.schema.json, read as it stands: every way in which a document breaks it, in words.

Only the keywords that the schema uses; a test holds it against another validator.
Reads: rules_miner/rule.schema.json. Writes: nothing. Next: rules_miner/rule.py.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

from ingest.config import nearest

SCHEMA: dict[str, Any] = json.loads(
    Path(__file__).with_name("rule.schema.json").read_text(encoding="utf-8")
)
SAYS_NOTHING = {"$schema", "$id", "$comment", "$defs", "title", "description", "default"}
BESIDE = {"then", "else"}  # read together with `if`


class Problem(NamedTuple):
    key: str  # dotted path inside the document; "" is the document itself
    says: str


Check = Callable[[Any, Any, str, Mapping[str, Any]], Iterator[Problem]]


def problems(value: Any, schema: Any = SCHEMA, key: str = "") -> Iterator[Problem]:
    """Everything about `value` that the schema refuses. Nothing: the value is valid."""
    if schema is True:
        return
    for word, rule in schema.items():
        if word not in SAYS_NOTHING and word not in BESIDE:
            yield from CHECKS[word](value, rule, key, schema)


def same(left: Any, right: Any) -> bool:
    """Equal as JSON: true is not 1, and 1.0 is 1."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[k], right[k]) for k in left)
    return bool(left == right)


def _is(value: Any, kind: str) -> bool:
    match kind:
        case "object":
            return isinstance(value, dict)
        case "array":
            return isinstance(value, list)
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return kind == "number" or float(value).is_integer()


def _type(value: Any, rule: Any, key: str, _: Any) -> Iterator[Problem]:
    kinds = rule if isinstance(rule, list) else [rule]
    if not any(_is(value, kind) for kind in kinds):
        yield Problem(key, f"{_short(value)} is not of type {' or '.join(kinds)}.")


def _const(value: Any, rule: Any, key: str, _: Any) -> Iterator[Problem]:
    if not same(value, rule):
        yield Problem(key, f"{_short(value)} must be {rule!r}.")


def _enum(value: Any, rule: Any, key: str, _: Any) -> Iterator[Problem]:
    if not any(same(value, each) for each in rule):
        yield Problem(key, f"{_short(value)} is no choice here.{nearest(str(value)[:200], rule)}")


def _pattern(value: Any, rule: Any, key: str, _: Any) -> Iterator[Problem]:
    if isinstance(value, str) and not re.search(rule, value):
        yield Problem(key, f"{_short(value)} does not have the right form, {rule}")


def _at_least(kind: str, size: Callable[[Any], float], of: str) -> Check:
    def check(value: Any, rule: Any, key: str, _: Any) -> Iterator[Problem]:
        if _is(value, kind) and size(value) < rule:
            yield Problem(key, f"{_short(value)}{of} is below the minimum, {rule}.")

    return check


def _at_most(kind: str, size: Callable[[Any], float], of: str) -> Check:
    def check(value: Any, rule: Any, key: str, _: Any) -> Iterator[Problem]:
        if _is(value, kind) and size(value) > rule:
            yield Problem(key, f"{_short(value)}{of} is above the maximum, {rule}.")

    return check


def _unique(value: Any, rule: Any, key: str, _: Any) -> Iterator[Problem]:
    if rule and isinstance(value, list):
        for at, each in enumerate(value):
            if any(same(each, earlier) for earlier in value[:at]):
                yield Problem(f"{key}[{at}]", f"{_short(each)} is there twice.")


def _items(value: Any, rule: Any, key: str, _: Any) -> Iterator[Problem]:
    for at, each in enumerate(value if isinstance(value, list) else []):
        yield from problems(each, rule, f"{key}[{at}]")


def _properties(value: Any, rule: Any, key: str, _: Any) -> Iterator[Problem]:
    for name, inner in rule.items():
        if isinstance(value, dict) and name in value:
            yield from problems(value[name], inner, f"{key}.{name}" if key else name)


def _closed(value: Any, rule: Any, key: str, schema: Any) -> Iterator[Problem]:
    known = schema.get("properties", {})
    for name in value if rule is False and isinstance(value, dict) else ():
        if name not in known:
            yield Problem(key, f"unknown key {_short(name)}.{nearest(str(name)[:200], known)}")


def _required(value: Any, rule: Any, key: str, _: Any) -> Iterator[Problem]:
    for name in rule:
        if isinstance(value, dict) and name not in value:
            yield Problem(key, f"the key {name!r} is missing.")


def _ref(value: Any, rule: Any, key: str, _: Any) -> Iterator[Problem]:
    target: Any = SCHEMA
    for part in rule.removeprefix("#/").split("/"):
        target = target[part]
    yield from problems(value, target, key)


def _all(value: Any, rule: Any, key: str, _: Any) -> Iterator[Problem]:
    for each in rule:
        yield from problems(value, each, key)


def _one(value: Any, rule: Any, key: str, _: Any) -> Iterator[Problem]:
    answers = [list(problems(value, each, key)) for each in rule]
    fitting = sum(not answer for answer in answers)
    if fitting > 1:
        yield Problem(key, f"{_alternatives(rule)} exclude each other.")
    if not fitting:
        yield min(answers, key=lambda answer: (len(answer), _shape(answer)))[0]


def _shape(answer: list[Problem]) -> int:
    """Of two alternatives that fail, speak of the one whose type was right."""
    return sum("is not of type" in each.says for each in answer)


def _alternatives(rule: Any) -> str:
    keys = [name for each in rule if isinstance(each, dict) for name in each.get("required", ())]
    return " and ".join(map(repr, keys)) or "two forms"


def _not(value: Any, rule: Any, key: str, _: Any) -> Iterator[Problem]:
    if not any(problems(value, rule, key)):
        names = " and ".join(map(repr, rule.get("required", ())))
        yield Problem(
            key,
            f"{names} must not be there together."
            if "and" in names
            else f"{names} must not be there.",
        )


def _if(value: Any, rule: Any, key: str, schema: Any) -> Iterator[Problem]:
    branch = "else" if any(problems(value, rule, key)) else "then"
    if branch in schema:
        yield from problems(value, schema[branch], key)


def _format(value: Any, rule: Any, key: str, _: Any) -> Iterator[Problem]:
    if rule == "date" and isinstance(value, str):
        try:
            date.fromisoformat(value)
        except ValueError:
            yield Problem(key, f"{_short(value)} is not a date.")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


CHECKS: dict[str, Check] = {
    "type": _type,
    "const": _const,
    "enum": _enum,
    "pattern": _pattern,
    "format": _format,
    "minLength": _at_least("string", len, ": its length"),
    "maxLength": _at_most("string", len, ": its length"),
    "minItems": _at_least("array", len, ": its length"),
    "maxItems": _at_most("array", len, ": its length"),
    "minimum": _at_least("number", float, ""),
    "maximum": _at_most("number", float, ""),
    "uniqueItems": _unique,
    "items": _items,
    "properties": _properties,
    "additionalProperties": _closed,
    "required": _required,
    "$ref": _ref,
    "allOf": _all,
    "oneOf": _one,
    "not": _not,
    "if": _if,
}
