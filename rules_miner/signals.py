"""The signals: the only facts that a stopping rule may rest on, each a function of its own.

A signal is given what happened before the point and the pending call, and nothing else: no result
of that call, nothing later, so it cannot look ahead. Its id is the function's name.
Reads: nothing. Writes: nothing. Next: rules_miner/points.py.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from rules_miner.traces import Call, Event

CATALOGUE = 1  # raise it when the meaning of a signal changes: all counts must then be redone
Prefix = Sequence[Event]
Holds = Callable[[Prefix, Call], bool]
Enter = Callable[[Holds], Holds]

WORD = re.compile(r"[\w.@-]{2,}")
NOTHING: tuple[Any, ...] = ("", [], {})
NOTHING_SAID = re.compile(
    r"\s*(no|0) (results?|match(es)?|records?|rows?|entries|hits)( found)?\W*"
    r"|\s*(nothing|not) found\W*",
    re.IGNORECASE,
)
NOT_FOUND = re.compile(
    r"not[ _]found|does ?n[o']t exist|no such|unknown (id|user|order)|\b404\b", re.I
)
YES = re.compile(
    r"\b(yes|yeah|yep|sure|confirm(ed)?|go ahead|proceed|ok(ay)?|please do|agreed?|correct)\b"
    r"|是的|好的|可以|确认|同意|没问题",
    re.IGNORECASE,
)
NOT_YET = re.compile(
    r"\b(do not|don't|don’t|not yet|wait|hold on|stop|never mind)\b|不要|先别|不行|等一下",
    re.I,
)
REFUSED = re.compile(
    r"\b(can(not|'t|’t)|unable to|not able to|not allowed|against policy|sorry)\b|无法|不能|抱歉",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Signal:
    holds: Holds
    why: str  # for the person who reads a proposal
    needs: tuple[str, ...]  # event fields without which it is never true
    says: str  # what the agent tells the user when a rule rests on it
    asks: bool = False  # the user's answer can settle it: clarify rather than abstain
    audit_only: bool = False  # known only after the fact: never in a rule


SIGNALS: dict[str, Signal] = {}


def signal(why: str, *needs: str, says: str, asks: bool = False, audit_only: bool = False) -> Enter:
    """Enter the function into the catalogue under its own name."""

    def enter(holds: Holds) -> Holds:
        SIGNALS[holds.__name__] = Signal(holds, why, needs, says, asks, audit_only)
        return holds

    return enter


def observed(prefix: Prefix, call: Call, audit: bool = False) -> frozenset[str]:
    """The names of the signals that hold before `call`; those for audits only on demand."""
    return frozenset(
        name
        for name, each in SIGNALS.items()
        if (audit or not each.audit_only) and each.holds(prefix, call)
    )


@signal(
    "The thing that the call or the request is about was looked up, nothing was found, and no "
    "later lookup found it.",
    "response or response_rows",
    "params",
    says="What this call is about was looked up and not found.",
)
def missing_target(prefix: Prefix, call: Call) -> bool:
    about = call.asked | set(WORD.findall(_last_user(prefix) or ""))
    missing: list[frozenset[str]] = []
    for event in prefix:
        if event.kind != "tool_executed" or event.op == "commit":
            continue
        if _nothing(event) or (_failed(event) and NOT_FOUND.search(_said(event))):
            missing.append(event.asked & about)
        elif _answered(event):
            missing = [each for each in missing if not each <= event.asked]
    return any(missing) or _logged(prefix, "missing_target")


@signal(
    "Two lookups gave two values for one field of one thing, and no check has settled it since.",
    "response",
    says="The records disagree about what this call is based on.",
)
def conflict(prefix: Prefix, call: Call) -> bool:
    known: dict[tuple[str, str], Any] = {}
    disagree = False
    for event in prefix:
        if event.kind != "tool_executed" or event.status not in (None, "ok"):
            continue
        if event.op in ("commit", "verify"):  # a commit changes the world, a check settles it
            known, disagree = {}, disagree and event.op == "commit"
            continue
        for thing, record in things(event.response):
            for field, value in record.items():
                if isinstance(value, str | int | float):
                    disagree |= known.setdefault((thing, field), value) != value
    return disagree or _logged(prefix, "conflict")


@signal(
    "The last answer of a tool of the same kind was empty.",
    "response or response_rows",
    says="The last lookup of this kind came back empty.",
    asks=True,
)
def empty_result(prefix: Prefix, call: Call) -> bool:
    last = _last_result(prefix, prefixes(call.tool)[0])
    return last is not None and _nothing(last)


@signal("The last call failed.", "status", says="The call before this one failed.")
def error_result(prefix: Prefix, call: Call) -> bool:
    last = _last_result(prefix)
    return last is not None and _failed(last)


@signal("Two calls or more of this run failed.", "status", says="Several calls have failed.")
def errors_ge_2(prefix: Prefix, call: Call) -> bool:
    return sum(map(_failed, prefix)) >= 2


@signal(
    "This very call, arguments and all, was denied earlier in the run.",
    "decision",
    "params",
    says="This call was denied before.",
)
def retry_after_denied(prefix: Prefix, call: Call) -> bool:
    return any(_denied(each) and _same(each, call) for each in prefix)


@signal(
    "This tool was denied earlier in the run, with other arguments.",
    "decision",
    "params",
    says="This tool was denied before with other arguments.",
)
def retry_denied_tool(prefix: Prefix, call: Call) -> bool:
    return any(
        _denied(each) and each.tool == call.tool and not _same(each, call) for each in prefix
    )


@signal(
    "Something is about to be changed, and the user's last message holds no clear yes.",
    "role",
    "text",
    says="The user has not said yes to this.",
    asks=True,
)
def unconfirmed(prefix: Prefix, call: Call) -> bool:
    said = _last_user(prefix)
    if call.op != "commit" or said is None:  # a log without messages says nothing about consent
        return False
    return not YES.search(said) or bool(NOT_YET.search(said))


@signal(
    "The same tool was called with the same arguments before.",
    "params",
    says="This call was made before with the same arguments.",
)
def repeat_same_call(prefix: Prefix, call: Call) -> bool:
    return any(_same(each, call) for each in prefix)


@signal(
    "The call names things, and none of them occurs in anything that was read so far.",
    "params",
    "response",
    says="Nothing that this call names was read first.",
)
def target_never_read(prefix: Prefix, call: Call) -> bool:
    wanted = {value for value in call.asked if any(sign.isdigit() for sign in value)}
    read = (each for each in prefix if each.op != "commit" and _answered(each))
    return bool(wanted) and all(wanted.isdisjoint(each.seen | each.asked) for each in read)


@signal(
    "A user message arrived since the previous call.",
    "role",
    "text",
    says="The user has said something new.",
)
def new_user_input(prefix: Prefix, call: Call) -> bool:
    for event in reversed(prefix):
        if event.tool:
            return False
        if event.role == "user":
            return True
    return False


@signal(
    "The agent refused in words and is about to commit all the same.",
    "role",
    "text",
    says="",
    audit_only=True,
)
def refusal_text_then_commit(prefix: Prefix, call: Call) -> bool:
    said = [each.text for each in prefix if each.text and each.role in ("assistant", "agent")]
    return call.op == "commit" and bool(said) and bool(REFUSED.search(said[-1]))


@lru_cache(maxsize=10_000)
def prefixes(tool: str) -> tuple[str, ...]:
    """The ladder of a name's prefixes, shortest first: crm., crm.export_. None: the name itself."""
    ends = [mark.end() for mark in re.finditer(r"[._:/-]+", tool) if mark.start() > 0]
    return tuple(tool[:end] for end in ends if end < len(tool)) or (tool,)


def things(value: Any, depth: int = 4) -> list[tuple[str, dict[str, Any]]]:
    """The records inside an answer that say what they are: their `id` or `*_id`, and the record."""
    if isinstance(value, list):
        return [thing for each in value for thing in things(each, depth - 1)] if depth else []
    if not isinstance(value, dict) or not depth:
        return []
    inner = [thing for each in value.values() for thing in things(each, depth - 1)]
    for key in ("id", *sorted(key for key in value if key.endswith("_id"))):
        if isinstance(value.get(key), str | int):
            return [(f"{key}={value[key]}", value), *inner]
    return inner


def _last_result(prefix: Prefix, kind: str = "") -> Event | None:
    for event in reversed(prefix):
        if event.kind == "tool_executed" and (event.tool or "").startswith(kind):
            return event
    return None


def _last_user(prefix: Prefix) -> str | None:
    said = (each.text for each in reversed(prefix) if each.role == "user" and each.text)
    return next(said, None)


def _failed(event: Event) -> bool:
    return event.kind == "tool_executed" and event.status in ("error", "timeout")


def _answered(event: Event) -> bool:
    return event.kind == "tool_executed" and event.status in (None, "ok") and not _nothing(event)


def _denied(event: Event) -> bool:
    """Refused by a gate or a person. An approval that nobody answered is not a denial."""
    refused = event.decision == "deny" or event.status == "denied"
    return refused and event.reason_code != "expired"


def _said(event: Event) -> str:
    return f"{event.error or ''} {event.response if isinstance(event.response, str) else ''}"


def _nothing(event: Event) -> bool:
    """The answer is known and holds nothing. An answer that was never logged is not empty."""
    if event.kind != "tool_executed" or event.status not in (None, "ok"):
        return False
    if event.response_rows is not None:
        return event.response_rows == 0
    if isinstance(event.response, str) and NOTHING_SAID.fullmatch(event.response):
        return True
    return event.response is not None and event.response in NOTHING


def _same(event: Event, call: Call) -> bool:
    return event.tool == call.tool and (event.params or {}) == (call.params or {})


def _logged(prefix: Prefix, name: str) -> bool:
    """The gate itself reported the signal before this point, and no check has passed since."""
    for event in reversed(prefix):
        if event.op == "verify" and _answered(event):
            return False
        if name in event.signals:
            return True
    return False
