"""Who is in the fleet that detectors are measured on: agents with zones, accounts and tools, the
gates they go through, the people who approve, and the policy under which all of it is in order.
"""

import random
from typing import Any, NamedTuple

from gatewatch.fleet import HOSTS, NOUNS

ZONES = ("Europe/Berlin", "America/New_York", "Asia/Shanghai")
HOME = ZONES[0]  # the policy's zone
GATES = tuple(f"gate-{n}" for n in range(1, 9))
NEW_TOOLS = {
    area: f"{area}.get_timeline" for area in NOUNS
}  # rolled out while the fleet is watched
PEOPLE = {  # per area: who answers its approvals
    area: tuple(f"{name}@corp.example" for name in names)
    for area, names in zip(
        NOUNS,
        (
            ("mira", "jonas", "lin"), ("aiko", "pedro", "sara"), ("omar", "ines", "tom"),
            ("wei", "nadia", "paul"), ("ruth", "karl", "mei"), ("luca", "anna", "ben"),
            ("eva", "igor", "zoe"), ("max", "ida", "raj"),
        ),
        strict=True,
    )
}  # fmt: skip
ROLES = (  # a period of the fleet
    *("assistant", "worker", "batch", "poller", "ops", "assistant", "worker", "assistant"),
    *("worker", "assistant", "worker", "assistant", "batch", "ops", "assistant", "worker"),
    *("assistant", "worker") * 4, "assistant",
)  # fmt: skip

RELEASE = """\
agents  = ["*-ops-*"]
initial = "new"
final   = ["closed"]
ignore  = ["config.write"]
[transitions.new]
"release.plan" = "planned"
[transitions.planned]
"release.check" = ["checked", "planned"]
[transitions.checked]
"release.check" = ["checked", "planned"]
"release.apply" = "applied"
[transitions.applied]
"release.check"    = "applied"
"release.rollback" = "checked"
"release.close"    = "closed"
"""


class Who(NamedTuple):
    """One agent. `tools` by verb; `weight`: how busy it is beside others; `split`: its gate writes
    a line for the decision and one for the execution."""

    name: str
    area: str
    role: str
    zone: str
    gate: str
    principal: str
    tenant: str | None
    nouns: tuple[str, ...]
    hosts: tuple[str, ...]
    weight: float
    split: bool
    joined: int  # the day on which it starts to work

    @property
    def people(self) -> tuple[str, ...]:
        return PEOPLE[self.area]

    def tool(self, verb: str, noun: str) -> str:
        return f"{self.area}.{verb}_{noun}"


def cast(agents: int, seed: int, days: int) -> list[Who]:
    """The fleet's agents; some join while it is watched."""
    rng = random.Random(seed)  # noqa: S311 - a simulation
    found = []
    for n in range(agents):
        area, role = tuple(NOUNS)[n % len(NOUNS)], ROLES[n % len(ROLES)]
        name = f"{area}-{role}-{n // len(NOUNS) + 1:02}"
        late = rng.random() < 0.04 and role == "assistant"
        found.append(
            Who(
                name, area, role, ZONES[n // 3 % 3], GATES[n % len(GATES)], f"svc-{name}",
                "emea" if n % 4 == 0 else None, tuple(rng.sample(NOUNS[area], 3)),
                tuple(rng.sample(HOSTS[area], 3)), round(rng.lognormvariate(0, 0.6), 3),
                n % len(GATES) < 3, rng.randint(days // 3, days * 2 // 3) if late else 0,
            )
        )  # fmt: skip
    return found


def rules() -> dict[str, Any]:
    """The policy file: wide enough for everything that the quiet fleet does, and no wider."""
    tools: list[dict[str, Any]] = [
        {"name": f"{area}.{verb}_{noun}", "action": "allow", "op": op, "risk_level": risk}
        for area, nouns in NOUNS.items()
        for noun in nouns
        for verb, op, risk in (
            ("get", "lookup", "low"), ("list", "lookup", "low"), ("check", "verify", "low"),
            ("update", "commit", "medium"),
        )
    ]  # fmt: skip
    tools += [
        {"name": name, "action": "allow", "op": "lookup"}
        for name in (*NEW_TOOLS.values(), "web.fetch_page", "auth.login", "ops.poll_job")
    ]
    tools += [
        {"name": f"release.{verb}", "action": "allow", "op": op}
        for verb, op in (("plan", "lookup"), ("check", "verify"), ("apply", "commit"),
                         ("rollback", "commit"), ("close", "commit"))
    ]  # fmt: skip
    tools += [
        {"name": "mail.send_message", "action": "allow", "op": "commit", "risk_level": "medium"},
        {"name": "agents.delegate", "action": "allow", "op": "commit"},
        {"name": "config.write", "action": "require_approval", "op": "commit"},
        {"name": "data.query", "action": "allow", "op": "lookup",
         "forbidden_params": ["export_all", "no_limit"]},
        {"name": "data.drop_table", "action": "deny", "risk_level": "critical", "op": "commit"},
    ]  # fmt: skip
    tools += [
        each
        for area in NOUNS
        for each in (
            {"name": f"{area}.export_records", "action": "require_approval", "risk_level": "high",
             "op": "lookup", "allowed_windows": [{"start": "08:00", "end": "20:00"}]},
            {"name": f"{area}.delete_record", "action": "require_approval", "risk_level": "high",
             "op": "commit"},
            {"name": f"{area}.pay_refund", "action": "require_approval", "risk_level": "high",
             "op": "commit", "daily_limit": 200},
        )
    ]  # fmt: skip
    return {
        "global": {"timezone": HOME, "unattended_window": [{"start": "22:00", "end": "08:00"}]},
        "rate_limits": {"tool_calls_per_minute": 60, "tool_calls_per_task": 600,
                        "external_requests_per_hour": 400, "outbound_messages_per_day": 200,
                        "recipients_per_message": 10},
        "budgets": {"daily_cost_limit_usd": 100},
        "egress": {"allowed_hosts": [f"*.{area}.example" for area in NOUNS]},
        "tools": tools,
    }  # fmt: skip
