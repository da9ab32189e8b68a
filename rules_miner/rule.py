"""A rule file: read, checked, brought to normal form, written, and known by its fingerprint.

Reads: rule files. Writes: nothing. Next: rules_miner/check.py, detectors/controls/stopping.py.
"""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from hashlib import sha256
from typing import Any

import msgspec
import yaml

from detectors.controls.stopping import Param, Rule, Step, When
from ingest.config import ConfigError
from rules_miner.schema import Problem, problems

Doc = dict[str, Any]
DEPTH = 32  # a rule file is four levels deep; what is deeper was not written by a person
ORDER = ("schema", "id", "status", "origin", "then", "message", "when", "scope", "related")
LISTS = ("domain", "tool", "tool_prefix", "signals", "not_signals")
Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class BrokenError(ValueError):
    """Not the YAML that a rule file may be. The text is one sentence, with the line."""


@dataclass(frozen=True)
class RuleFile:
    path: str
    doc: Doc  # as written
    normal: Doc  # {"then", "when"} in normal form
    fingerprint: str
    rule: Rule  # what a gate matches


def parse(text: str) -> Any:
    """One plain YAML document. Anchors, aliases, tags and doubled keys are refused, by line."""
    depth, documents = 0, 0
    try:
        for event in yaml.parse(text, Loader=Loader):
            line = event.start_mark.line + 1 if event.start_mark else 0
            if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
                raise BrokenError(f"line {line}: anchors and aliases are not allowed.")
            if getattr(event, "tag", None):
                raise BrokenError(f"line {line}: tags are not allowed.")
            documents += isinstance(event, yaml.DocumentStartEvent)
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if documents > 1 or depth > DEPTH:
                what = "a second document" if documents > 1 else f"more than {DEPTH} levels"
                raise BrokenError(f"line {line}: {what}.")
        node = yaml.compose(text, Loader=Loader)
        _no_twins(node)
        return yaml.load(text, Loader=Loader)  # noqa: S506 - the safe loader, in C where there is one
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        if isinstance(error, BrokenError):
            raise
        raise BrokenError(f"not YAML: {' '.join(str(error).split())[:200]}") from None


def read(text: str, where: str) -> RuleFile:
    """A valid rule. The first problem raises ConfigError with file and key."""
    try:
        doc = parse(text)
    except BrokenError as error:
        raise ConfigError(f"{where}: {error}") from None
    for problem in problems(doc):
        raise ConfigError(f"{where}: {worded(problem)}")
    return build(doc, where)


def build(doc: Doc, where: str) -> RuleFile:
    """A document that is known to be valid, as everything that is asked of a rule."""
    normal = normalised(doc)
    rule = Rule(
        id=doc["id"],
        then=normal["then"],
        when=_when(normal["when"]),
        message=doc.get("message", ""),
        status=doc.get("status", "experimental"),
    )
    return RuleFile(where, doc, normal, fingerprint(normal), rule)


def worded(problem: Problem) -> str:
    return f"{problem.key}: {problem.says}" if problem.key else problem.says


def normalised(doc: Doc) -> Doc:
    """What two files must share to be the same rule, whatever their spelling."""
    when: Doc = {}
    for key, value in doc["when"].items():
        key = "signals" if key == "signal" else key
        if key in LISTS:
            when[key] = sorted({value} if isinstance(value, str) else set(value))
        elif key == "params":
            when[key] = _sorted(
                {**each, "value": _sorted(each["value"])} if each["op"] == "in" else each
                for each in value
            )
        elif key == "sequence":
            when[key] = _sorted(
                {k: v for k, v in each.items() if (k, v) != ("since", "start")} for each in value
            )
        else:
            when[key] = value
    return {"then": doc["then"].lower(), "when": when}


def fingerprint(normal: Doc) -> str:
    """sha256 over the RFC 8785 text of a normal form, in hex."""
    return sha256(canonical(normal).encode()).hexdigest()


def canonical(value: Any) -> str:
    """RFC 8785 (JCS). Keys of rule files are ASCII, so code points sort as UTF-16 does."""
    if isinstance(value, dict):
        pairs = (f"{canonical(key)}:{canonical(value[key])}" for key in sorted(value))
        return "{" + ",".join(pairs) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(canonical, value)) + "]"
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _number(value)
    return json.dumps(value, ensure_ascii=False)


def dump(doc: Doc) -> str:
    """The file's text: every string quoted. It is read back and compared before it is returned."""
    ordered = {key: doc[key] for key in sorted(doc, key=_place)}
    text: str = yaml.dump(
        ordered, Dumper=_Quoting, sort_keys=False, allow_unicode=True, width=10_000
    )
    text.encode()
    if parse(text) != doc:
        raise ValueError(f"{doc.get('id')!r} does not survive being written as YAML")
    return text


class _Quoting(yaml.SafeDumper):
    """Strings in double quotes, keys bare: no value can turn into a date, a number or a no."""

    def represent_text(self, text: str) -> yaml.Node:
        return self.represent_scalar("tag:yaml.org,2002:str", text, style='"')

    def represent_table(self, table: Mapping[str, Any]) -> yaml.Node:
        node = self.represent_mapping("tag:yaml.org,2002:map", table.items())
        for key, _ in node.value:
            key.style = None
        return node


_Quoting.add_representer(str, _Quoting.represent_text)
_Quoting.add_representer(dict, _Quoting.represent_table)


def _place(key: str) -> tuple[int, str]:
    return (ORDER.index(key) if key in ORDER else len(ORDER), key)


def _no_twins(node: yaml.Node | None) -> None:
    """The second of two equal keys would win unseen."""
    if isinstance(node, yaml.SequenceNode):
        for each in node.value:
            _no_twins(each)
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode) or key.tag != "tag:yaml.org,2002:str":
                raise BrokenError(f"line {line}: a key must be plain text.")
            if key.value in seen:
                raise BrokenError(f"line {line}: the key {key.value[:80]!r} is there twice.")
            seen.add(key.value)
            _no_twins(value)


def _sorted(values: Iterable[Any]) -> list[Any]:
    return sorted(values, key=canonical)


def _when(when: Doc) -> When:
    return When(
        signals=tuple(when["signals"]),
        point=when.get("point"),
        params=tuple(msgspec.convert(when.get("params", []), list[Param])),
        sequence=tuple(msgspec.convert(when.get("sequence", []), list[Step])),
        **{key: tuple(when.get(key, ())) for key in LISTS if key != "signals"},
    )


def _number(value: float) -> str:
    """As ECMAScript prints it, which is what RFC 8785 asks for."""
    if not math.isfinite(value):
        raise ValueError("a rule holds a number that JSON does not know")
    number = Decimal(repr(float(value)))  # the shortest digits that give the number back
    if number and not Decimal("1e-6") <= abs(number) < Decimal("1e21"):
        digits, _, power = f"{number.normalize():e}".partition("e")
        return f"{digits}e{int(power):+d}"
    text = f"{number if number else abs(number):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
