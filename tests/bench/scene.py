"""One run of one agent, told step by step: each step is what its gate writes, and time goes on."""

import random
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from tests.bench.cast import Who

Fields = dict[str, Any]
Step = tuple[datetime, str, Fields]  # when, which gate, what; without id


class Scene:
    """`at` is where its time stands; `steps` what was written so far, not always in order."""

    def __init__(self, who: Who, at: datetime, rng: random.Random) -> None:
        self.who, self.at, self.rng = who, at, rng
        self.steps: list[Step] = []
        self.trace = f"t-{rng.getrandbits(48):012x}"
        self.session = f"s-{rng.getrandbits(40):010x}"
        self.user = f"user-{rng.randint(1, 4000)}"

    def wait(self, low: float, high: float | None = None) -> None:
        """Seconds, or a number of them between the two."""
        self.at += timedelta(seconds=low if high is None else self.rng.uniform(low, high))

    def say(self, kind: str, /, **fields: Any) -> Fields:
        """One line. What is None is left out; so is a field of the agent's that is set to None."""
        who = self.who
        whole = {
            "kind": kind, "agent": who.name, "principal": who.principal, "tenant": who.tenant,
            "trace_id": self.trace, "session": self.session, **fields,
        }  # fmt: skip
        whole = {key: value for key, value in whole.items() if value is not None}
        self.steps.append((self.at, who.gate, whole))
        return whole

    def id(self, letter: str) -> str:
        return f"{letter}-{self.rng.getrandbits(48):012x}"

    def call(self, tool: str, params: Mapping[str, Any] | None = None, **fields: Any) -> Fields:
        """A tool call that the gate allows and that goes well, unless the fields say otherwise."""
        used: Fields = {
            "tool": tool, "call_id": self.id("c"), "params": dict(params or {}),
            "decision": "allow", "status": "ok", "rule_id": "default",
            "decision_ms": round(self.rng.lognormvariate(1.6, 0.5), 2),
            "latency_ms": round(self.rng.lognormvariate(5.0, 0.6), 1),
        } | fields  # fmt: skip
        if not self.who.split or used["decision"] is None or used["status"] is None:
            self.wait(0.2 + (used["latency_ms"] or 0) / 1000)
            return self.say("tool_call", **used)
        result = ("status", "latency_ms", "response", "response_rows", "response_bytes", "error",
                  "cost_usd")  # fmt: skip
        self.wait(0.2)
        self.say("tool_decided", **{k: v for k, v in used.items() if k not in result})
        self.wait((used["latency_ms"] or 0) / 1000)
        why = ("decision", "decision_ms", "rule_id", "reason")
        return self.say("tool_executed", **{k: v for k, v in used.items() if k not in why})

    def deny(self, tool: str, params: Mapping[str, Any] | None = None, **fields: Any) -> Fields:
        """The gate says no, and nothing is carried out."""
        base = {"decision": "deny", "status": None, "latency_ms": None, "rule_id": "policy"}
        return self.call(tool, params, **base | fields)

    def ask(self, tool: str, params: Mapping[str, Any], **fields: Any) -> Fields:
        """The gate wants a person's yes. Returns what names the call and its approval."""
        ids = {"tool": tool, "params": dict(params), "call_id": self.id("c"),
               "approval_id": self.id("ap")} | fields  # fmt: skip
        self.wait(0.3)
        self.say("tool_decided", **ids, decision="require_approval", rule_id="approval",
                 decision_ms=round(self.rng.lognormvariate(1.6, 0.5), 2))  # fmt: skip
        self.say("approval_requested", **ids)
        return ids

    def answer(self, ids: Fields, approver: str | None, decision: str = "approve") -> None:
        """What a person said; of nobody, that the time was over."""
        if approver is None:
            self.say("approval", **ids, status="timeout")
        else:
            self.say("approval", **ids, decision=decision, approver=approver)

    def carry_out(self, ids: Fields, **fields: Any) -> Fields:
        """An approved call is executed."""
        self.wait(0.5, 3)
        done = {"status": "ok", "latency_ms": round(self.rng.lognormvariate(5.5, 0.6), 1)}
        return self.say("tool_executed", **ids | done | fields)

    def hear(self, text: str, **fields: Any) -> None:
        """The user writes."""
        self.say("message", role="user", text=text, on_behalf_of=self.user, **fields)

    def tell(self, text: str, **fields: Any) -> None:
        """The agent writes."""
        self.say("message", role="assistant", text=text, **fields)

    def think(self) -> None:
        """A model is asked: tokens and what they cost."""
        tokens = self.rng.randint(400, 9000)
        self.wait(1, 4)
        self.say("model_call", model="large-2", tokens_in=tokens, tokens_out=tokens // 9,
                 cost_usd=round(tokens / 4e5, 6), latency_ms=tokens / 4)  # fmt: skip

    def look(self, tool: str, params: Mapping[str, Any], rows: int = 1, **fields: Any) -> Fields:
        """A lookup that finds so many rows."""
        found = [{"id": self.rng.randint(1000, 99999), "state": self.rng.choice(("open", "paid"))}
                 for _ in range(min(rows, 2))]  # fmt: skip
        size = rows * self.rng.randint(150, 260)
        base = {"response": found, "response_rows": rows, "response_bytes": size}
        return self.call(tool, params, **base | fields)
