"""A simulated fleet: forty agents at work by day and by night, as lines of the native format.

Everything follows from a seed and from the times that are asked for; no clock is read.
What it does is ordinary: single denials that are then allowed, approvals, errors and retries, small
deploys. None of it is trouble; that is injected from gatewatch/troubles.py.
Reads: nothing. Writes: nothing. Next: gatewatch/gates.py.
"""

import heapq
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta, tzinfo
from typing import Any, NamedTuple

import msgspec

DAY = range(8, 22)  # local hours in which people watch
NOUNS = {  # each with four verbs: 128 tools
    "crm": ("contact", "account", "lead", "note"),
    "billing": ("invoice", "refund", "plan", "receipt"),
    "support": ("ticket", "reply", "macro", "queue"),
    "search": ("page", "index", "snippet", "source"),
    "data": ("table", "report", "extract", "model"),
    "mail": ("draft", "thread", "label", "template"),
    "ops": ("service", "route", "certificate", "job"),
    "docs": ("article", "outline", "review", "asset"),
}
READS = ("get", "list", "check")
VERBS = ("get", "list", "update", "check")
TOOLS = [
    f"{area}.{verb}_{noun}" for area, nouns in NOUNS.items() for noun in nouns for verb in VERBS
]
PLACES = [f"{part}{number}" for part in ("eu", "us", "ap") for number in range(1, 5)]
GUARDED = [f"{area}.update_{nouns[1]}" for area, nouns in NOUNS.items()]  # a person must say yes
HOSTS = {  # 104 hosts, each below a name that the policy allows
    area: [f"{place}.{area}.example" for place in ("api", *PLACES)] for area in NOUNS
}
AGENTS = ["a1", *(f"{area}-agent-{n}" for area in NOUNS for n in range(1, 6))][:40]
APPROVERS = ("mira", "jonas", "lin")
PARTS = ("limits", "routes", "prompts", "tools", "flags", "alerts")
OBJECTS = [f"{area}/{name}.yaml" for area in NOUNS for name in PARTS]
RATES = {  # acts an hour of the whole fleet, by day and by night
    "call": (500, 160),
    "outside": (
        720,
        260,
    ),  # calls to a host: what the usual number of external calls is learned from
    "model": (160, 50),
    "message": (60, 20),
    "retry": (20, 6),
    "denial": (12, 4),
    "approval": (6, 1),
    "deploy": (3, 0.4),
}
QUICKENED = (
    "call",
    "model",
    "message",
    "retry",
)  # nothing that any detector holds against a usual number
SAME_DAY = 2  # changes of one object on one local day: fewer than are churn


class Line(NamedTuple):
    """One line as a gate writes it, and the agent whose gate that is. `data` has no line end."""

    at: datetime
    agent: str
    data: bytes


@dataclass
class _Task:
    """What an agent is working on: calls of one trace."""

    trace: str
    session: str
    left: int


class Stream(ABC):
    """Acts that come by chance, each kind at a rate of its own; an act says lines, later ones too.

    Goes through time in one direction: `until(moment)` gives every line before that moment.
    """

    def __init__(
        self, start: datetime, acts: Mapping[str, Callable[[datetime], None]], seed: int
    ) -> None:
        self._rng = random.Random(seed)  # noqa: S311 - a simulation, and the same one each time
        self._at, self._acts = start, acts
        self._waiting: list[tuple[datetime, int, str, dict[str, Any]]] = []
        self._count = 0
        self._next = {kind: self._after(kind, start) for kind in acts}

    @abstractmethod
    def rate(self, kind: str, when: datetime) -> float:
        """Acts of this kind an hour."""

    def until(self, moment: datetime) -> list[Line]:
        """Every line from where the last call ended up to `moment`, in order of time."""
        done = self.told(moment)
        return [line(at, f"ev-{n:07}", {"agent": who, **fields}) for at, n, who, fields in done]

    def told(self, moment: datetime) -> list[tuple[datetime, int, str, dict[str, Any]]]:
        """The same, not yet as text: time, number, agent, the other fields."""
        while True:
            kind = min(self._next, key=lambda each: self._next[each])
            when = self._next[kind]
            if when >= moment:
                break
            self._acts[kind](when)
            self._next[kind] = self._after(kind, when)
        self._at = moment
        done = []
        while self._waiting and self._waiting[0][0] < moment:
            done.append(heapq.heappop(self._waiting))
        return done

    def _after(self, kind: str, when: datetime) -> datetime:
        return when + timedelta(hours=self._rng.expovariate(self.rate(kind, when)))

    def _say(self, at: datetime, agent: str, /, **fields: Any) -> None:
        self._count += 1
        heapq.heappush(self._waiting, (at, self._count, agent, fields))

    def _seconds(self, low: float, high: float) -> timedelta:
        return timedelta(seconds=self._rng.uniform(low, high))


class Fleet(Stream):
    """Forty agents; people watch by day, in `zone`."""

    def __init__(self, start: datetime, zone: tzinfo, seed: int = 7) -> None:
        self._zone, self._quick = zone, dict[str, float]()  # acts an hour, where quickened
        self._tasks: dict[str, _Task] = {}
        self._busy: dict[tuple[str, str], datetime] = {}  # agent and tool that a denial concerns
        self._changed: dict[tuple[str, date], int] = {}
        acts: Mapping[str, Callable[[datetime], None]] = {
            "call": self._call,
            "outside": self._outside,
            "model": self._model,
            "message": self._message,
            "retry": self._retry,
            "denial": self._denial,
            "approval": self._approval,
            "deploy": self._deploy,
        }
        super().__init__(start, acts, seed)

    def quicken(self, per_second: float) -> None:
        """From now on about so many lines a second, of kinds that nobody compares with before."""
        whole = sum(RATES[kind][1] for kind in QUICKENED)
        for kind in QUICKENED:
            self._quick[kind] = per_second * 3600 * RATES[kind][1] / whole
            self._next[kind] = self._after(kind, self._at)

    def rate(self, kind: str, when: datetime) -> float:
        day, night = RATES[kind]
        usual = day if when.astimezone(self._zone).hour in DAY else night
        return self._quick.get(kind, usual)

    def _task(self, agent: str, fresh: bool = False) -> dict[str, str]:
        """The chain that the agent's next call belongs to."""
        task = self._tasks.get(agent)
        if task is None or task.left <= 0 or fresh:
            number = self._rng.getrandbits(48)
            session = f"s-{self._rng.getrandbits(32):08x}"
            task = _Task(f"t-{number:012x}", session, self._rng.randint(3, 15))
            self._tasks[agent] = task
        task.left -= 1
        return {"trace_id": task.trace, "session": task.session}

    def _tool(self, agent: str, verbs: Sequence[str]) -> str:
        """Mostly a tool of the agent's own area; none that a person must say yes to."""
        own = [f"{_area(agent)}.{verb}_" for verb in verbs]
        area = own if self._rng.random() < 0.8 else [f".{verb}_" for verb in verbs]
        free = [tool for tool in TOOLS if tool not in GUARDED]
        return self._rng.choice([tool for tool in free if any(part in tool for part in area)])

    def _used(
        self, agent: str, fresh: bool = False, tool: str | None = None, verbs: Sequence[str] = VERBS
    ) -> dict[str, Any]:
        """A tool call's own fields, whatever became of it."""
        number = self._rng.randint(1000, 9999)
        return {
            "kind": "tool_call",
            "tool": tool or self._tool(agent, verbs),
            "call_id": f"c-{self._rng.getrandbits(48):012x}",
            **self._task(agent, fresh),
            "params": {
                "id": number,
                "tenant_id": f"org-{number % 40}",
                "fields": ["id", "state", "owner"],
                "note": f"Customer {number} asked for it on the phone",
            },
        }

    def _done(self, low: float = 20, high: float = 900) -> dict[str, Any]:
        return {
            "decision": "allow",
            "status": "ok",
            "latency_ms": round(self._rng.uniform(low, high), 1),
            "rule_id": "default",
            "policy_version": "2026-06",
        }

    def _call(self, at: datetime) -> None:
        agent = self._rng.choice(AGENTS)
        self._say(at, agent, **self._used(agent), **self._done())

    def _outside(self, at: datetime) -> None:
        agent = self._rng.choice(AGENTS)
        used = self._used(agent)
        area = used["tool"].partition(".")[0]
        host = self._rng.choice(HOSTS[area])
        url = f"https://{host}/v1/{used['tool'].rpartition('_')[2]}/{used['params']['id']}"
        self._say(at, agent, **used, **self._done(80, 2500), url=url)

    def _model(self, at: datetime) -> None:
        agent = self._rng.choice(AGENTS)
        tokens = self._rng.randint(400, 9000)
        used = {"kind": "model_call", "model": "large-2", "tokens_in": tokens}
        cost = {"tokens_out": tokens // 9, "cost_usd": round(tokens / 4e5, 6)}
        self._say(at, agent, **used, **cost, latency_ms=tokens / 4, **self._task(agent))

    def _message(self, at: datetime) -> None:
        agent = self._rng.choice(AGENTS)
        text = self._rng.choice(
            ("I have updated the record.", "Shall I go on?", "Das ist erledigt.", "已完成。")
        )
        self._say(at, agent, kind="message", role="assistant", text=text, **self._task(agent))

    def _retry(self, at: datetime) -> None:
        """A tool that only reads fails once, and does it at the second try."""
        agent = self._rng.choice(AGENTS)
        used = self._used(agent, verbs=READS)
        failed = {"status": "error", "error": "upstream timed out", "latency_ms": 30000.0}
        again = used | {"call_id": f"{used['call_id']}-2"}
        self._say(at, agent, **used, **self._done() | failed)
        self._say(at + self._seconds(2, 9), agent, **again, **self._done())

    def _denial(self, at: datetime) -> None:
        """Denied once, corrected, allowed. One at a time for an agent and a tool."""
        agent = self._rng.choice(AGENTS)
        used = self._used(agent, fresh=True, verbs=READS)
        key = (agent, used["tool"])
        if self._busy.get(key, at) > at:
            return
        later = at + self._seconds(4, 40)
        self._busy[key] = later + timedelta(minutes=11)
        wide = used | {"params": used["params"] | {"all_fields": True}}
        no = {"decision": "deny", "rule_id": "no-wildcards", "reason": "all_fields: name them"}
        self._say(at, agent, **wide, **no)
        self._say(later, agent, **used | {"call_id": f"{used['call_id']}-2"}, **self._done())

    def _approval(self, at: datetime) -> None:
        """Asked for, granted by a person, carried out."""
        agent = self._rng.choice(AGENTS)
        guarded = next(tool for tool in GUARDED if tool.startswith(_area(agent)))
        used = self._used(agent, tool=guarded)
        asked = used | {"kind": "approval", "approval_id": f"ap-{self._rng.getrandbits(32):08x}"}
        granted = at + self._seconds(20, 240)
        self._say(at, agent, **asked)
        who = self._rng.choice(APPROVERS)
        self._say(granted, agent, **asked, decision="approve", approver=who)
        self._say(granted + self._seconds(1, 5), agent, **used, **self._done())

    def _deploy(self, at: datetime) -> None:
        """One object is changed, as a person approved, and sometimes put right a little later."""
        agent = self._rng.choice([each for each in AGENTS if each.startswith("ops")])
        task, day = self._task(agent, fresh=True), at.astimezone(self._zone).date()
        free = [each for each in OBJECTS if self._changed.get((each, day), 0) < SAME_DAY]
        if not free:
            return
        name = self._rng.choice(free)
        for n in range(self._rng.randint(1, SAME_DAY - self._changed.get((name, day), 0))):
            self._changed[name, day] = self._changed.get((name, day), 0) + 1
            limit = self._rng.randint(10, 500)
            what = {"config_object": name, "config_after": {"limit": limit}, "status": "ok",
                    "approver": self._rng.choice(APPROVERS)}  # fmt: skip
            used = {"kind": "config_change", "tool": "ops.update_route", **task}
            self._say(at + n * self._seconds(60, 300), agent, **used, **what)


def _area(agent: str) -> str:
    return agent.split("-")[0] if agent != "a1" else "crm"


def line(at: datetime, event_id: str, fields: Mapping[str, Any]) -> Line:
    """One native line. `fields` names the agent."""
    ts = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    doc = {"ts": ts, "event_id": event_id, **fields}
    return Line(at, str(fields["agent"]), msgspec.json.encode(doc))
