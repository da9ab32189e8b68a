"""What `gatewatch init` writes: a configuration that works as it is and says what to change."""

from pathlib import Path

from ingest.config import ConfigError

CONFIG = """\
# gatewatch. Paths are relative to this file. `gatewatch doctor` checks it.

data       = "data"               # ledger and database; agents must not be able to reach it
policy     = "policy.json"        # what your gate is meant to decide: tools, limits, nights, hosts
rules      = "rules"              # a git repository; `gatewatch mine --propose` writes branches
language   = "en"                 # of messages and pages: en or zh
public_url = "http://127.0.0.1:8501"  # the dashboard, as links in messages name it
# adapters_folder = "adapters"    # your own formats: a table in NAME.toml says which JSON path is
#                                 # which column, see docs/sources/mapping.md

[service]
host = "127.0.0.1"                # anything else needs [[tokens]]
port = 8686

# Where lines come from. `gatewatch ingest FILE --adapter NAME` lands a file once.
[sources.gate]
adapter = "native"
paths   = ["logs/*.jsonl"]

# Who is told. `gatewatch test-send ops` tries it.
# [receivers.ops]
# type         = "slack"
# webhook      = "env:SLACK_WEBHOOK"
# min_severity = "medium"

# Who is told of what, when one receiver is not enough: docs/routing.md; `gatewatch route` explains.
# [routing]
# to       = ["ops"]
# fallback = "pager"              # is told when the others cannot be reached
# [[routing.routes]]
# when         = "unattended"     # the policy's window
# min_severity = "high"
# to           = ["pager", "ops"]
# [routing.routes.escalate]
# after = "15 minutes"            # after which nobody has acknowledged it
# to    = ["lead"]

# A gate that can pause an agent: docs/containment.md; `gatewatch pause AGENT` asks it.
# [containment.till]
# type    = "webhook"             # webhook, opa or agt
# webhook = "env:TILL_WEBHOOK"
# secrets = ["env:TILL_SECRET"]   # whsec_ and 24 to 64 bytes in Base64

# How often people are told, and of the day as a whole: docs/alerts.md.
# [telling]
# daily = "09:00"

# Thresholds, where the defaults do not fit. `gatewatch detect --dry-run` shows what they change.
# [detectors.deny_retry]
# denials = 4

# Who may push, read and act over HTTP.
# [[tokens]]
# name  = "dashboard"
# role  = "operator"              # writer, viewer or operator
# token = "env:GATEWATCH_TOKEN"
"""

POLICY = """\
{
  "global": {
    "default_action": "deny",
    "timezone": "UTC",
    "unattended_window": [{"start": "22:00", "end": "08:00"}]
  },
  "rate_limits": {
    "tool_calls_per_minute": 30,
    "tool_calls_per_task": 300,
    "external_requests_per_hour": 50,
    "outbound_messages_per_day": 100,
    "recipients_per_message": 5
  },
  "budgets": {"daily_cost_limit_usd": 100},
  "egress": {"allowed_hosts": ["api.crm.example", "*.billing.example"]},
  "tools": [
    {"name": "crm.query_contact", "action": "allow", "risk_level": "low", "op": "lookup"},
    {"name": "crm.export_contacts", "action": "require_approval", "risk_level": "high",
     "op": "lookup"}
  ],
  "agents": []
}
"""

RULES = """\
# Stopping rules

One rule a file, `<domain>/<id>.yaml`.
`gatewatch mine --propose` writes each proposal to a branch of its own, with its evidence.
Merge what you want.
"""


def write(folder: Path) -> list[Path]:
    """The starting files. Raises ConfigError rather than overwrite one."""
    files = {
        folder / "gatewatch.toml": CONFIG,
        folder / "policy.json": POLICY,
        folder / "rules" / "README.md": RULES,
    }
    for path in files:
        if path.exists():
            raise ConfigError(f"{path}: exists already, and init overwrites nothing.")
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return list(files)
