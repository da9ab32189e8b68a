"""A rules folder: read as a whole, and everything in it that is wrong, said at once.

Reads: rule files and their evidence. Writes: nothing. Next: rules_miner/proposal.py.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ingest.config import ConfigError, nearest
from rules_miner.rule import BrokenError, RuleFile, build, parse, read, worded
from rules_miner.schema import problems
from rules_miner.signals import SIGNALS
from rules_miner.subsumption import Standing, covering

REJECTED = "rejected.yaml"
GLOBAL, RETIRED = "_global", "_retired"
LINKS = re.compile(r"#\d|https?://|www\.|[\w.+-]+@[\w-]+\.\w", re.IGNORECASE)


def texts(folder: Path) -> dict[str, str]:
    """The YAML and JSON files of a rules folder by relative path; none when it is not there."""
    files = sorted(folder.rglob("*")) if folder.is_dir() else []
    return {
        file.relative_to(folder).as_posix(): file.read_text(encoding="utf-8", errors="replace")
        for file in files
        if file.suffix in (".yaml", ".yml", ".json") and file.is_file()
    }


def rules(files: Mapping[str, str], where: str) -> list[RuleFile]:
    """Every rule. The first file that is wrong raises ConfigError."""
    return [read(text, f"{where}/{path}") for path, text in files.items() if _is_rule(path)]


def rejected(files: Mapping[str, str], where: str) -> list[str]:
    """Fingerprints that a person declined, from rejected.yaml: a list of {fingerprint: ...}."""
    return [str(each.get("fingerprint", "")) for each in _listed(files, where)]


def declined(files: Mapping[str, str], where: str) -> list[RuleFile]:
    """The declined rules whose entry holds the rule too (`when`, `then`): they cover others."""
    listed = _listed(files, where)
    docs = [
        {"id": f"declined-v{number}", "then": each.get("then"), "when": each["when"]}
        for number, each in enumerate(listed, start=1)
        if "when" in each
    ]
    for doc in docs:
        for problem in problems(doc):
            raise ConfigError(f"{where}/{REJECTED}: {worded(problem)}")
    return [build(doc, f"{where}/{REJECTED}") for doc in docs]


def _listed(files: Mapping[str, str], where: str) -> list[dict[str, Any]]:
    try:
        listed = parse(files.get(REJECTED, "")) or []
    except BrokenError as error:
        raise ConfigError(f"{where}/{REJECTED}: {error}") from None
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        raise ConfigError(f"{where}/{REJECTED}: must be a list of entries with a fingerprint.")
    return listed


def check(folder: Path) -> list[str]:
    """All problems of a rules folder, one sentence each, with file and key. None: it is fine.

    A line that begins with "warning: " does not make the folder wrong.
    """
    files = texts(folder)
    found: list[str] = []
    good: list[RuleFile] = []
    for path, text in files.items():
        if path.endswith(".yml"):
            found.append(f"{path}: rule files end in .yaml.")
        elif _is_rule(path):
            try:
                doc = parse(text)
            except BrokenError as error:
                found.append(f"{path}: {error}")
                continue
            wrong = [f"{path}: {worded(each)}" for each in problems(doc)]
            found += wrong
            if not wrong:
                rule = build(doc, path)
                good.append(rule)
                found += [f"{path}: {says}" for says in _own(path, rule, files)]
    return found + _together(good)


def _is_rule(path: str) -> bool:
    return path.endswith(".yaml") and path != REJECTED and not path.startswith("evidence/")


def _own(path: str, file: RuleFile, files: Mapping[str, str]) -> Iterator[str]:
    """What the schema cannot say about one file."""
    name, folder = Path(path).stem, Path(path).parent.as_posix()
    if name != file.rule.id:
        yield f"id: {file.rule.id!r} differs from the file name."
    domains = file.rule.when.domain
    home = RETIRED if file.rule.status == "retired" else (sorted(domains) or [GLOBAL])[0]
    homes = {home, *(domains if home != RETIRED else ())}
    if folder not in homes:
        yield f"must lie in {home}/."
    for key in ("signals", "not_signals"):
        for signal in getattr(file.rule.when, key):
            if signal not in SIGNALS:
                yield f"when.{key}: no signal called {signal!r}.{nearest(signal, _usable())}"
            elif SIGNALS[signal].audit_only:
                yield f"when.{key}: {signal!r} is known only after the fact."
    if LINKS.search(file.rule.message):
        yield "message: may hold no address, no link and no issue number."
    if "evidence" in file.doc:
        yield from _evidence(file, files.get(file.doc["evidence"]["ref"]))


def _evidence(file: RuleFile, text: str | None) -> Iterator[str]:
    ref = file.doc["evidence"]["ref"]
    if text is None:
        yield f"evidence.ref: {ref} does not exist."
        return
    try:
        evidence: Any = json.loads(text)
    except (ValueError, RecursionError):
        evidence = None
    if not isinstance(evidence, dict) or evidence.get("fingerprint") != file.fingerprint:
        yield f"evidence.ref: {ref} is not about this rule: its fingerprint differs."
        return
    mined = file.doc.get("origin") == "mined"
    if mined and not file.rule.when.domain and len(evidence.get("domains") or ()) < 2:
        yield "when.domain: is missing, and the evidence comes from fewer than two domains."


def _together(good: list[RuleFile]) -> list[str]:
    """What only shows when rules lie side by side."""
    found: list[str] = []
    for at, file in enumerate(good):
        for earlier in good[:at]:
            if earlier.fingerprint == file.fingerprint:
                found.append(f"{file.path}: is the same rule as {earlier.path}.")
            if earlier.rule.id == file.rule.id:
                found.append(f"{file.path}: id: {earlier.path} has the same.")
        others = [
            Standing(each, each.rule.status)
            for each in good
            if each.fingerprint != file.fingerprint
        ]
        if (other := covering(others, file.normal)) is not None:
            found.append(f"warning: {file.path}: is covered by {other.file.path}.")
    return found


def _usable() -> list[str]:
    return [name for name, each in SIGNALS.items() if not each.audit_only]
