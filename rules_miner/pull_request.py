"""What a pull request says. Rule text, counts and digests only: nothing that a log can write into.

Reads: nothing. Writes: nothing. Next: rules_miner/proposal.py.
"""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from rules_miner.backtest import Backtest
from rules_miner.gates import down, up
from rules_miner.rule import Doc
from rules_miner.signals import SIGNALS

LISTED = 10  # good runs and unknown runs named one by one


def title(doc: Doc) -> str:
    return f"rule({place(doc)}): add {doc['id']}: {doc['message'][:50].rstrip()}"


def place(doc: Doc) -> str:
    """The folder that the rule lives in: its first domain."""
    return str(doc["when"].get("domain", ["_global"])[0])


def branch(doc: Doc) -> str:
    return f"gatewatch/{place(doc)}/{doc['id']}"


def labels(doc: Doc) -> list[str]:
    return ["stop-rule", "rule:new", f"domain:{place(doc)}", f"status:{doc['status']}"]


def text(doc: Doc, evidence: Mapping[str, Any], tested: Backtest, head: str, now: datetime) -> str:
    """Title, branch and labels, a line, and the body: what a forge takes apart again."""
    marks = ", ".join(f"`{label}`" for label in labels(doc))
    top = f"Title: `{title(doc)}`\nBranch: `{branch(doc)}` · Labels: {marks}"
    return f"{top}\n\n---\n\n{body(doc, evidence, tested, head, now)}"


def body(doc: Doc, evidence: Mapping[str, Any], tested: Backtest, head: str, now: datetime) -> str:
    """Evidence first, then what it cannot say, then how to repeat it and how to say no."""
    parts = [
        _sentence(doc),
        "It enters as `experimental`: it is replayed and logged, it stops nothing yet.",
        f"**It would have stopped {tested.stopped} of {tested.incidents} incidents, "
        f"{evidence['marginal']} of them stopped by no rule today, and {tested.good_stopped} of "
        f"{tested.good} good runs.**",
        _table(evidence, tested),
        _beside(evidence),
        _look(evidence),
        _silent(doc, tested),
        _found(doc, evidence),
        "**To say no:** close this pull request, or delete the branch and enter the fingerprint in "
        "`rejected.yaml`. The same rule will not be proposed again. **To change it:** commit to "
        "this branch; the miner leaves branches alone that carry someone else's commit. **To say "
        "yes:** merge.",
        marker(doc["id"], evidence, head, now),
    ]
    return "\n\n".join(parts) + "\n"


def marker(rule: str, evidence: Mapping[str, Any], head: str, now: datetime) -> str:
    """The hidden last line by which the proposal is known again."""
    year, week, _ = now.isocalendar()
    known = {
        "v": 1,
        "id": rule,
        "fp": evidence["fingerprint"],
        "data": evidence["data"][:10],
        "head": head[:7],
        "week": f"{year}-W{week:02d}",
    }
    return f"<!-- gatewatch-proposal {json.dumps(known, separators=(',', ':'))} -->"


def _sentence(doc: Doc) -> str:
    when = doc["when"]
    tools = [f"`{name}`" for name in when.get("tool", ())]
    tools += [f"`{name}*`" for name in when.get("tool_prefix", ())]
    kind = {"pre_commit": "changing", "pre_call": "reading"}[when["point"]]
    call = f"{' or '.join(tools)} call" if tools else f"{kind} call"
    why = " ".join(f"{SIGNALS[name].why}" for name in when["signals"])
    where = ", ".join(f"**{name}**" for name in when.get("domain", ()))
    return (
        f"When a {call} is about to be made in {where}, and "
        f"{' and '.join(f'`{name}`' for name in when['signals'])} holds, then **{doc['then']}** "
        f'and say: "{doc["message"]}"\n\n{why}'
    )


def _table(evidence: Mapping[str, Any], tested: Backtest) -> str:
    bound = evidence["bounds"]
    n = tested.stopped + tested.late + tested.good_stopped
    rows = [
        ("incidents stopped in time", f"{tested.stopped} of {tested.incidents}"),
        ("of these at most one call after the trigger", f"{tested.timely}"),
        (
            "calls between trigger and stop, median (max)",
            f"{tested.lag_median:g} ({tested.lag_max})",
        ),
        ("fired only after the wrong call (not counted as stopped)", f"{tested.late}"),
        (
            "good runs stopped",
            f"{tested.good_stopped} of {tested.good} (at most {up(bound['harm']):.2%})",
        ),
        ("runs without a label in which it fired", f"{tested.unknown_fired} of {tested.unknown}"),
        (
            "precision, with lower bound",
            f"{tested.stopped}/{n} = {tested.stopped / n:.2f}, >= {down(bound['lower']):.3f}",
        ),
        (
            "families · agents · domains",
            f"{evidence['families']} · {evidence['agents']} · {len(evidence['domains'])}",
        ),
        ("runs in which a commit took effect after it fired", f"{tested.commits_after_match}"),
    ]
    window = f"{evidence['window']['since'] or 'start'} to {evidence['window']['until'] or 'end'}"
    lines = [f"| | mined: {window} |", "|---|---|", *(f"| {a} | {b} |" for a, b in rows)]
    return "\n".join(lines) + (
        "\n\nBounds are one-sided 95%; the precision bound is widened for runs of one family that "
        f'resemble each other (design effect {bound["design_effect"]:.2f}). "At most" is the '
        "upper bound.\n**Unconfirmed:** it was not held against a later window, so it may only "
        "enter as `experimental`."
    )


def _beside(evidence: Mapping[str, Any]) -> str:
    lines = ["**Beyond the rules that are there**", ""]
    shared = [each for each in evidence["beside"] if each["incidents"]]
    for each in sorted(shared, key=lambda each: (-each["incidents"], each["id"]))[:5]:
        lines.append(
            f"- `{each['id']}` ({each['state']}) stops {each['incidents']} of these incidents too."
        )
    for rule in evidence["replaces"]:
        lines.append(f"- It makes `{rule}` superfluous: whatever that one stops, this one does.")
    if len(lines) == 2:
        lines.append("No rule in force, in shadow or proposed stops any of these incidents.")
    return "\n".join(lines)


def _look(evidence: Mapping[str, Any]) -> str:
    good, unknown = evidence["good_runs"], evidence["unknown_runs"]
    lines = [
        "**Look at these**",
        "",
        f"- Stopped: {_ids(evidence['examples'])} (of {len(evidence['incidents'])})",
        f"- Good runs it would stop{', all of them' if len(good) <= LISTED else ''}: "
        f"{_ids(good[:LISTED]) or 'none'}",
        f"- Fired, label unknown: {_ids(unknown[:LISTED]) or 'none'}"
        + (" A verdict on these changes the numbers above most." if unknown else ""),
    ]
    return "\n".join(lines)


def _silent(doc: Doc, tested: Backtest) -> str:
    domains = ", ".join(doc["when"].get("domain", ()))
    return "\n".join(
        [
            "**What these numbers cannot say**",
            "",
            "- Replay: a stop would have changed the rest of the run. Only the first firing of a "
            "run counts.",
            "- A good run that is stopped counts as harm in full. A clarify may cost less than one "
            "run (the user says yes), an abstain more (retries, a user who gives up).",
            "- An incident that is stopped here may come back by another road. Only a canary can "
            "show it.",
            f"- All evidence is from {domains}, so the rule is limited to that.",
            f"- The rule says nothing about {tested.incidents - tested.stopped} incidents.",
        ]
    )


def _found(doc: Doc, evidence: Mapping[str, Any]) -> str:
    tests = evidence["tests"]
    window = evidence["window"]
    span = "".join(f" --{name} {window[name]}" for name in ("since", "until") if window[name])
    return "\n".join(
        [
            "<details><summary>How it was found, and how to repeat it</summary>",
            "",
            f"- {sum(tests):,} conjunctions tested ({', '.join(map(str, tests))} by length), of "
            f"catalogue {evidence['catalogue']}; this one has p = {evidence['p']:.1e} against a "
            f"limit of {evidence['critical']:.1e} (mining week {evidence['week']}, alpha "
            f"{evidence['alpha']:.5f}, hypergeometric over runs)",
            f"- ledger positions {evidence['ledger']['first']} - {evidence['ledger']['last']}, "
            f"data sha256 `{evidence['data'][:12]}`, miner {evidence['miner']}, "
            f"seed {evidence['seed']}",
            "",
            "```sh",
            f"gatewatch mine --db gatewatch.duckdb --rules rules --json{span}",
            "```",
            "",
            f"Evidence in full: `{doc['evidence']['ref']}`, part of this change.",
            "</details>",
        ]
    )


def _ids(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
