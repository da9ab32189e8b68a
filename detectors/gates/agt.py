"""Microsoft's agent-governance-toolkit: a policy file that denies, and its sidecar told to read it.

Its sidecar (`agentmesh.server.sidecar` of agent-governance-toolkit-core 5.0.0) has no call that
pauses anybody. It reads a folder of policies again when `POST /api/v1/policy/reload` says so, and
answers what it would decide at `POST /api/v1/policy/evaluate`. So a pause is a file in that
folder, a reload, and the question whether the agent is denied now: its own answer is the proof.
Conditions are read by a small parser (`agentmesh.governance.policy`) without escapes.
"""

import json
from datetime import datetime
from typing import Any

import httpx
import msgspec

from detectors.gates import Order, Placed, moment
from detectors.receivers import Delivered, Flow, Refused, body, judge, quoted

EXAMPLE = """
[containment.agt]
type     = "agt"
url      = "https://agt.example:8081"
policies = "/etc/agt/policies"
"""
AGAIN: float | None = None  # the file outlives a restart
STAGES = ("pre_input", "pre_tool", "post_tool", "pre_output")
OURS = "gatewatch-"  # how the names of our rules begin
FIRST = 1_000_000  # a priority above those that people write: the highest that matches decides
ALWAYS = "gatewatch.paused != 'a' or gatewatch.paused != 'b'"  # true whatever the context holds
LONGEST = 1_000  # characters of a name; the parser takes 2,000 of a whole condition
BREAKS = ("'", '"', " or ", " and ")  # what its parser would read as more than a value


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`policies`: the sidecar's AGT_POLICY_DIR, as this machine sees it. `trace_key`: under which
    name of the context your agents pass their trace."""

    url: str
    policies: str
    trace_key: str = "trace_id"

    def __post_init__(self) -> None:
        if not self.trace_key.replace(".", "_").isidentifier():
            raise ValueError(f"trace_key: {self.trace_key!r} is no name of the context: trace_id")

    @property
    def address(self) -> str:
        return self.url

    @property
    def folder(self) -> str:
        return self.policies

    @property
    def forgets(self) -> bool:
        return False  # a rule of its cannot say until when


def pause(order: Order, options: Options, now: datetime) -> Flow:
    if not _sayable(order):
        return Refused("a policy of it cannot say this name", "clientError")
    content = json.dumps(policy(order, options), ensure_ascii=False, indent=1).encode()
    yield Placed(options.policies, _file(order), content)
    answer = yield _reload(options)
    if outcome := judge(answer, now):
        return outcome
    answer = yield _evaluate(order, options)
    if outcome := judge(answer, now):
        return outcome
    found = body(answer)
    rule = str(found.get("matched_rule"))
    if found.get("decision") == "deny" and rule.startswith(OURS):  # an older pause may come first
        return Delivered()
    return Refused(f"the file is there, but it decides {quoted(answer)}", "other")


def resume(order: Order, options: Options, now: datetime) -> Flow:
    yield Placed(options.policies, _file(order), None)
    answer = yield _reload(options)
    if outcome := judge(answer, now):
        return outcome
    if body(answer).get("status") == "reloaded":
        return Delivered()
    return Refused(f"it answered {quoted(answer)}", "other", "address")


def policy(order: Order, options: Options) -> dict[str, Any]:
    """One document of governance.toolkit/v1: denies everything of one agent, or of one trace."""
    agent = order.kind == "agent"
    condition = ALWAYS if agent else f"{options.trace_key} == '{order.name}'"
    said = f"paused by gatewatch until {moment(order.until)} for {order.actor}: {order.reason}"
    return {
        "apiVersion": "governance.toolkit/v1",
        "name": f"gatewatch-{order.id}",
        "description": "Written by gatewatch, and taken away by it when the pause is over.",
        "agents": [order.name if agent else "*"],
        "scope": "agent" if agent else "global",
        "default_action": "deny",  # as AGT itself for those whom no policy names
        "rules": [
            {
                "name": _rule(order, stage), "stage": stage, "condition": condition,
                "action": "deny", "priority": FIRST, "description": said[:500],
            }
            for stage in STAGES
        ],
    }  # fmt: skip


def _sayable(order: Order) -> bool:
    """An agent called `*` would be everybody; a trace stands between quotes in a condition."""
    if len(order.name) > LONGEST or order.name == "*":
        return False
    return order.kind == "agent" or not any(part in order.name for part in BREAKS)


def _rule(order: Order, stage: str) -> str:
    return f"{OURS}{order.id}-{stage}"


def _file(order: Order) -> str:
    """JSON is read after YAML, and in the order of names: where no rule matches, the default of
    the first policy that applies decides, and that shall never be ours."""
    return f"zz-gatewatch-{order.id}.json"


def _reload(options: Options) -> httpx.Request:
    return httpx.Request("POST", f"{options.url.rstrip('/')}/api/v1/policy/reload")


def _evaluate(order: Order, options: Options) -> httpx.Request:
    context: dict[str, Any] = {}
    if order.kind == "trace":
        place = context
        *outer, last = options.trace_key.split(".")
        for each in outer:
            place = place.setdefault(each, {})
        place[last] = order.name
    agent = order.name if order.kind == "agent" else "gatewatch"
    asked = {"agent_did": agent, "action": "gatewatch.probe", "context": context}
    return httpx.Request("POST", f"{options.url.rstrip('/')}/api/v1/policy/evaluate", json=asked)
