"""From what was mined to what a person decides on: rule file, evidence, pull request.

Reads: events, calls, incidents, rule files. Writes: through a forge, branches and texts.
Next: rules_miner/forges/.
"""

import json
import re
from collections.abc import Sequence
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from ingest.config import ConfigError
from ingest.store import Reader
from rules_miner import pull_request
from rules_miner.backtest import Backtest, replay
from rules_miner.check import declined, rejected, rules, texts
from rules_miner.choice import Found
from rules_miner.evidence import evidence
from rules_miner.forges import Known
from rules_miner.forges.local import Local
from rules_miner.gates import Refused
from rules_miner.mine import Mined, mine
from rules_miner.rule import Doc, RuleFile, build, dump, fingerprint, read
from rules_miner.settings import Settings
from rules_miner.signals import SIGNALS
from rules_miner.subsumption import Standing
from rules_miner.traces import stream

LEDGER = "SELECT min(ledger_seq) AS first, max(ledger_seq) AS last FROM events"
SAYS = {"abstain": "Stop and tell the user.", "clarify": "Ask the user before going on."}
ID_ROOM, MESSAGE_ROOM = 40, 200  # a branch name of 100 characters holds domain and id


def run(
    reader: Reader,
    rules_dir: Path,
    settings: Settings,
    now: datetime,
    propose: bool = False,
    since: datetime | None = None,
    until: datetime | None = None,
) -> list[dict[str, Any]]:
    """Mine, backtest, and with `propose` write branches. One JSON-able dict per result.

    `state` is proposed (on a branch), found (passed every gate, not on a branch) or refused; each
    carries `reason` where there is one. Raises ConfigError for what the user must change.
    """
    forge = _forge(rules_dir, propose)
    folder = forge.folder if forge else rules_dir
    files = forge.rule_files() if forge and forge.bare else texts(folder)
    known = [each for each in forge.proposals() if not each.merged] if forge else []
    existing = _existing(files, known, str(folder))
    no_more = rejected(files, str(folder))
    mined = mine(stream(reader, since, until, settings.domains), existing, settings, settings.seed)
    docs = _named(mined, existing)
    tested = replay(
        [build(doc, doc["id"]).rule for doc in docs],
        stream(reader, since, until, settings.domains) if docs else (),
        [each.file.rule for each in existing],
    )
    [ledger] = reader.rows(LEDGER)
    span = {name: each and each.isoformat() for name, each in (("since", since), ("until", until))}
    answers: list[dict[str, Any]] = []
    for found, doc in zip(mined.proposals, docs, strict=True):
        proof = evidence(found, doc, mined, settings, {"ledger": ledger, "window": span})
        answers.append(_answer(doc, proof, tested[doc["id"]]))
        if answers[-1]["fingerprint"] in no_more:
            answers[-1] |= {"state": "refused", "reason": "a person declined it: rejected.yaml"}
    if forge is not None:
        _settle(forge, known, answers, settings, now if propose else None)
    return answers + [_refusal(each) for each in mined.refused]


def _forge(rules_dir: Path, propose: bool) -> Local | None:
    """The repository around the rules; only a proposal must have one."""
    try:
        return Local(rules_dir)
    except ConfigError:
        if propose:
            raise
        return None


def _existing(files: dict[str, str], known: Sequence[Known], where: str) -> list[Standing]:
    """Rules of the folder, rules on branches, and those that people declined."""
    return [
        *(Standing(each, each.rule.status) for each in rules(files, where)),
        *(Standing(file, "open") for each in known if (file := _file(each.rule))),
        *(Standing(each, "rejected") for each in declined(files, where)),
    ]


def _file(text: str) -> RuleFile | None:
    """A rule on a branch. One that a person left unfinished there is no reason to stop."""
    try:
        return read(text, "") if text else None
    except ConfigError:
        return None


def _named(mined: Mined, existing: Sequence[Standing]) -> list[Doc]:
    """The rule files. A name that another rule has already gets the next version."""
    taken = {each.file.rule.id: each.file.fingerprint for each in existing}
    docs = []
    for found in mined.proposals:
        print_ = fingerprint(found.normal)
        own = next((name for name, other in taken.items() if other == print_ and found.open), None)
        stem, version = _stem(found.normal["when"]), 1
        while own is None and f"{stem}-v{version}" in taken:
            version += 1
        name = own or f"{stem}-v{version}"
        taken[name] = print_
        docs.append(_doc(name, found))
    return docs


def _doc(name: str, found: Found) -> Doc:
    when, then = found.normal["when"], found.normal["then"]
    said = [SIGNALS[signal].says for signal in when["signals"]]
    message = f"{' '.join(said)} {SAYS[then]}"
    if len(message) > MESSAGE_ROOM:
        message = f"{said[0]} {SAYS[then]}"
    doc: Doc = {
        "schema": "stop-rule/1",
        "id": name,
        "status": "experimental",
        "origin": "mined",
        "then": then,
        "message": message,
        "when": when,
        "evidence": {"ref": f"evidence/{name}.json"},
    }
    if found.replaces:
        doc["related"] = [{"id": each, "type": "obsoletes"} for each in found.replaces]
    return doc


def _stem(when: Doc) -> str:
    """What the rule is about, in the letters that an id may have: tool first, then signals."""
    names = [*when.get("tool", ()), *when.get("tool_prefix", ()), *when["signals"]]
    text = re.sub(r"[^a-z0-9]+", "-", " ".join(names).lower()).strip("-")
    if len(text) > ID_ROOM:
        tail = sha256(text.encode()).hexdigest()[:6]
        text = f"{text[: ID_ROOM - 7].rstrip('-')}-{tail}"
    return text


def _answer(doc: Doc, proof: dict[str, Any], tested: Backtest) -> dict[str, Any]:
    return {
        "state": "found",
        "reason": None,
        "rule_id": doc["id"],
        "fingerprint": proof["fingerprint"],
        "domain": pull_request.place(doc),
        "rule": doc,
        "backtest": msgspec.to_builtins(tested),
        "evidence": proof,
        "title": pull_request.title(doc),
        "branch": None,
        "url": None,
    }


def _refusal(refused: Refused) -> dict[str, Any]:
    normal = {"then": refused.then, "when": refused.when}
    return {
        "state": "refused",
        "reason": refused.reason,
        "gate": refused.gate,
        "rule_id": None,
        "fingerprint": fingerprint(normal),
        "domain": None,
        "rule": normal,
        "backtest": {
            "stopped": refused.k,
            "fired": refused.n,
            "families": refused.families,
            "p": refused.p,
        },
        "evidence": None,
        "title": None,
        "branch": None,
        "url": None,
    }


def _settle(
    forge: Local,
    known: Sequence[Known],
    answers: list[dict[str, Any]],
    settings: Settings,
    now: datetime | None,
) -> None:
    """Say what is proposed already; with `now`, write what is new, best first, up to the caps.

    A second time changes nothing.
    """
    there = {print_: each.branch for each in known for print_ in _prints(each)}
    room = settings.max_open - len(known)
    if now is not None:
        week = now.isocalendar()[:2]
        fresh = sum(each.made_at.isocalendar()[:2] == week for each in known)
        room = min(room, settings.max_new_per_week - fresh)
    for answer in answers:
        if answer["state"] == "refused":
            continue
        if answer["fingerprint"] in there:
            branch = there[answer["fingerprint"]]
            answer |= {"state": "proposed", "branch": branch, "reason": "proposed already"}
        elif now is not None and room <= 0:
            answer["reason"] = f"not proposed yet: {len(known)} are open, or new this week"
        elif now is not None:
            answer |= {"state": "proposed", **_published(forge, answer, now)}
            room -= 1


def _published(forge: Local, answer: dict[str, Any], now: datetime) -> dict[str, str]:
    doc, proof = answer["rule"], answer["evidence"]
    branch = pull_request.branch(doc)
    files = {
        f"{answer['domain']}/{doc['id']}.yaml": dump(doc),
        doc["evidence"]["ref"]: json.dumps(proof, indent=1, sort_keys=True) + "\n",
    }
    head = forge.publish(branch, files, answer["title"], now)
    tested = msgspec.convert(answer["backtest"], Backtest)
    text = pull_request.text(doc, proof, tested, head, now)
    return {"branch": branch, "url": forge.tell(doc["id"], text)}


def _prints(known: Known) -> set[str]:
    """The rule on the branch, and the one proposed there: a person may have changed it since."""
    file = _file(known.rule)
    try:
        proposed = json.loads(known.evidence or "{}").get("fingerprint")
    except (ValueError, AttributeError, RecursionError):
        proposed = None
    return {each for each in (file and file.fingerprint, proposed) if isinstance(each, str)}
