"""`gatewatch doctor` finds what would keep `serve` from starting."""

import json
from pathlib import Path

import pytest

from tests.kit_command import run

CONFIG = """
redact_key = "redact.key"

[sources.gate]
paths = ["gate.jsonl"]

[links]
url = "https://gatewatch.example"
key = "0123456789abcdef0123456789abcdef"

[containment.till]
type = "webhook"
webhook = "https://gate.example/hook"
secrets = ["whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="]
automatic = ["denied_then_executed"]

[[maintenance]]
name = "backup"
agent = "backup-*"
days = ["sun"]
from = "02:00"
to = "04:00"
zone = "Europe/Berlin"
"""


def said(folder: Path, text: str) -> tuple[int, dict[str, tuple[bool, str]]]:
    """The exit code, and what is said of each thing."""
    (folder / "gatewatch.toml").write_text(text)
    done = run("doctor", "--json", folder=folder)
    checks = json.loads(done.stdout)
    return done.returncode, {each["check"]: (each["ok"], each["says"]) for each in checks}


def test_it_says_of_each_table_what_it_holds(tmp_path: Path) -> None:
    code, checks = said(tmp_path, CONFIG)

    assert code == 0
    assert checks["config"] == (True, "1 source")
    assert checks["maintenance"] == (True, "1 window")
    assert checks["containment"] == (True, "1 gate can pause")
    assert checks["links"] == (True, "signed")


@pytest.mark.parametrize(
    ("right", "wrong", "check", "says"),
    [
        ("https://gatewatch.example", "http://gatewatch.example", "links", "links.url: a link is"),
        ('type = "webhook"', 'type = "webhok"', "containment", "Did you mean 'webhook'?"),
        ("denied_then_executed", "denied_then_execute", "containment", "'denied_then_executed'"),
        ("Europe/Berlin", "Europe/Berlinn", "maintenance", "Europe/Berlinn"),
        ('"sun"', '"sund"', "maintenance", "Did you mean 'sun'?"),
        ("redact_key", 'language = "cn"\nredact_key', "config", "Known: en, zh."),
    ],
)
def test_a_mistake_is_named_before_the_service_is_started(
    right: str, wrong: str, check: str, says: str, tmp_path: Path
) -> None:
    code, checks = said(tmp_path, CONFIG.replace(right, wrong))

    assert code == 2
    assert [name for name, (good, _) in checks.items() if not good] == [check]
    assert says in checks[check][1]
