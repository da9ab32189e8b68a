"""`gatewatch route`, as a command and over HTTP; what `doctor` and the book say of routes."""

import json
import re
from datetime import timedelta
from pathlib import Path

import pytest

from detectors import detector, routing
from gatewatch import starter
from gatewatch.parts import utc_now
from ingest.config import read_settings
from tests.kit_command import ROOT, run
from tests.kit_http import running, until

CONFIG = """
redact_key = "redact.key"

[sources.gate]
paths = ["gate.jsonl"]

[receivers.ops]
type = "webhook"
webhook = "https://ops.example/hook"

[receivers.soc]
type = "slack"
webhook = "https://hooks.slack.com/services/FAKE"
detectors = ["deny_retry"]
"""
TREE = """
[routing]
to = ["ops"]

[[routing.routes]]
name = "outbound"
tags = ["egress"]
agents = ["billing-*"]
to = ["soc"]
"""


def denials() -> str:
    """a1 is denied three times, just now."""
    doc = {"kind": "tool_call", "agent": "a1", "trace_id": "t-1", "tool": "crm.export_contacts",
           "decision": "deny"}  # fmt: skip
    times = [(utc_now() - timedelta(seconds=9 - n)).isoformat() for n in range(3)]
    return "".join(json.dumps(doc | {"ts": ts, "event_id": ts}) + "\n" for ts in times)


def test_an_alert_that_is_supposed_is_routed_as_text_and_as_json(tmp_path: Path) -> None:
    (tmp_path / "gatewatch.toml").write_text(CONFIG + TREE)
    words = ("route", "--detector", "unlisted_egress", "--agent", "billing-3")

    text, data = run(*words, folder=tmp_path), run(*words, "--json", folder=tmp_path)

    assert (text.returncode, data.returncode) == (0, 0), text.stderr + data.stderr
    assert "  routing.routes[0] 'outbound': takes it, and decides: soc" in text.stdout
    assert "its own filter refuses: it takes any severity, deny_retry" in text.stdout
    assert json.loads(data.stdout)["told"] == []

    unknown = run("route", "al_0", folder=tmp_path)
    assert unknown.returncode == 2
    assert unknown.stderr.startswith("no alert 'al_0'")
    wrong = run("route", "--detector", "deny_retry", "--at", "soon", folder=tmp_path)
    assert (wrong.returncode, wrong.stderr.split(".")[0]) == (2, "--at: 'soon' is no time")


def test_doctor_says_how_many_routes_there_are_and_whom_they_leave_out(tmp_path: Path) -> None:
    (tmp_path / "gatewatch.toml").write_text(CONFIG + TREE)

    done = run("doctor", "--json", folder=tmp_path)

    [said] = [each for each in json.loads(done.stdout) if each["check"] == "routing"]
    assert said == {
        "check": "routing", "ok": True,
        "says": "1 route; warning: nobody would be told of a critical alert of"
                " external_call_spike, injected_instruction, unlisted_egress (agent billing-*)"
                " at any time",
    }  # fmt: skip

    (tmp_path / "gatewatch.toml").write_text(CONFIG + TREE.replace("egress", "egres"))
    done = run("doctor", "--json", folder=tmp_path)
    assert done.returncode == 2
    [said] = [each for each in json.loads(done.stdout) if each["check"] == "routing"]
    assert "routing.routes[0].tags: no detector has the tag 'egres'." in said["says"]


def test_a_running_service_says_it_of_an_alert_and_of_a_supposed_one(tmp_path: Path) -> None:
    (tmp_path / "gate.jsonl").write_text(denials())
    with running(tmp_path, CONFIG.replace('redact_key = "redact.key"', "") + TREE) as service:
        until(lambda: service.rows("SELECT 1 FROM alerts WHERE told_at IS NOT NULL"))
        [row] = service.rows("SELECT alert_id FROM alerts WHERE detector = 'deny_retry'")
        alert = row["alert_id"]

        found = service.http.get(f"/v1/alerts/{alert}/route").json()
        assert (found["told"], found["alert"]["alert_id"]) == (["ops"], alert)
        assert [each["receiver"] for each in found["sent"]] == ["ops"]
        done = run("route", alert, "--severity", "low", "--json", folder=tmp_path)
        assert json.loads(done.stdout)["alert"]["severity"] == "low"
        done = run("route", "--detector", "deny_retry", "--agent", "b", "--json", folder=tmp_path)
        supposed = json.loads(done.stdout)
        assert (supposed["told"], supposed["alert"]["subject"]) == (["ops"], "b")
        for path, text in (
            ("/v1/alerts/al_0/route", "no alert 'al_0'"),
            ("/v1/route?detector=deny_retry&at=soon", "Invalid RFC3339"),
            ("/v1/route?detectors=deny_retry", "unknown field `detectors`"),
            (
                "/v1/route?detector=deny_retry&at=0001-01-01T00:00:00Z",
                "a time, or a text, that nothing",
            ),
        ):
            answer = service.http.get(path)
            assert (answer.status_code, text in answer.text) == (400, True), answer.text


BLOCKS = re.findall(
    r"^```toml\n(.*?)^```$", (ROOT / "docs" / "routing.md").read_text("utf-8"), re.M | re.S
)


@pytest.mark.parametrize("text", [*BLOCKS, "starter"])
def test_every_tree_in_the_book_and_in_the_first_config_is_one(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if text == "starter":
        text = re.sub(r"^# (?=\[|[a-z_]+ +=)", "", starter.CONFIG, flags=re.MULTILINE)
        for name in ("pager", "lead"):
            text += f'\n[receivers.{name}]\ntype = "webhook"\nwebhook = "https://{name}.example/"\n'
    for name in re.findall(r"env:(\w+)", text):
        monkeypatch.setenv(name, "https://hooks.example.test/x")
    (tmp_path / "gatewatch.toml").write_text(text)
    settings = read_settings(tmp_path / "gatewatch.toml")
    tags = {name: detector.declared(path).tags for name, path in detector.files().items()}
    for name, table in settings.detectors.items():
        tags[name] += tuple(table.get("tags", ()))

    tree = routing.load_tree(settings.routing, routing.load(settings.receivers), tags)

    assert (tree is None) == ("[routing]" not in text)


def test_the_book_names_every_tag_that_a_detector_has() -> None:
    page = (ROOT / "docs" / "routing.md").read_text("utf-8")
    told = set(re.findall(r"^\| `([a-z]+)` \| [A-Za-z]", page.split("### Tags")[1], re.MULTILINE))

    tags = {tag for path in detector.files().values() for tag in detector.declared(path).tags}
    assert told == tags
