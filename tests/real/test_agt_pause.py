"""A pause through the real sidecar of Microsoft's agent-governance-toolkit, in a process of its
own: a file in its folder of policies, a reload, and its own answer."""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from detectors.containment import Gate, Verb, ask, client_for
from detectors.gates import Order
from detectors.receivers import Delivered, Refused, Retry
from gatewatch.demo import free_ports
from tests.kit_gates import HOSTILE, ORDER, TRACE, gate
from tests.kit_http import until
from tests.kit_receivers import NOW

POLICY = """
apiVersion: governance.toolkit/v1
name: till
agents: ["a1", "a2"]
default_action: allow
rules:
  - {name: urgent, condition: "action == 'mail.send'", action: allow, priority: 9000}
"""


class Sidecar:
    def __init__(self, folder: Path, port: int) -> None:
        self.folder, self.url = folder, f"http://127.0.0.1:{port}"
        self.http = httpx.Client(base_url=self.url, trust_env=False)
        self.gate: Gate = gate(
            type="agt", url=self.url, policies=str(folder), allow_http=True, allow_private=True
        )

    def asked(self, verb: Verb, order: Order = ORDER) -> Any:
        with client_for(self.gate) as client:
            return ask(self.gate, verb, order, client, NOW)

    def decides(self, agent: str, action: str = "crm.read", **context: Any) -> str:
        body = {"agent_did": agent, "action": action, "context": context}
        answer = self.http.post("/api/v1/policy/evaluate", json=body)
        return str(answer.json()["decision"])

    def up(self) -> bool:
        try:
            return self.http.get("/healthz").is_success
        except httpx.TransportError:
            return False


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sidecar]:
    folder, [port] = tmp_path_factory.mktemp("policies"), free_ports(1)
    environment = os.environ | {
        "AGT_POLICY_DIR": str(folder), "AGT_HOST": "127.0.0.1", "AGT_PORT": str(port),
    }  # fmt: skip
    command = [sys.executable, "-m", "agentmesh.server.sidecar"]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as running:
        found = Sidecar(folder, port)
        try:
            until(found.up)
            yield found
        finally:
            found.http.close()
            running.terminate()


@pytest.fixture
def sidecar(process: Sidecar) -> Sidecar:
    """With one policy, and nobody paused."""
    for file in process.folder.iterdir():
        file.unlink()
    (process.folder / "till.yaml").write_text(POLICY)
    assert process.http.post("/api/v1/policy/reload").json()["total_loaded"] == 1
    assert process.decides("a1") == "allow"
    return process


def test_a_paused_agent_is_denied_whatever_it_does_and_another_is_not(sidecar: Sidecar) -> None:
    answer = sidecar.asked("pause")

    assert answer.outcome == Delivered()
    assert answer.status == 200
    assert [sidecar.decides("a1", each) for each in ("crm.read", "mail.send")] == ["deny"] * 2
    assert sidecar.decides("a1", gatewatch={"paused": "a"}) == "deny"  # nothing it says lifts it
    assert sidecar.decides("a2") == "allow"
    assert sidecar.decides("nobody's") == "deny"  # as before: no policy names it


def test_a_resumed_agent_goes_on_and_leaves_nothing_behind(sidecar: Sidecar) -> None:
    sidecar.asked("pause")

    answers = [sidecar.asked("resume").outcome for _ in range(2)]

    assert answers == [Delivered()] * 2
    assert sidecar.decides("a1") == "allow"
    assert [each.name for each in sidecar.folder.iterdir()] == ["till.yaml"]


def test_two_pauses_of_one_agent_both_hold_until_both_are_over(sidecar: Sidecar) -> None:
    second = replace(ORDER, id="pa_0000000000000000")
    answers = [sidecar.asked("pause", each).outcome for each in (ORDER, second)]
    sidecar.asked("resume", second)
    between = sidecar.decides("a1")
    sidecar.asked("resume")

    assert answers == [Delivered()] * 2
    assert (between, sidecar.decides("a1")) == ("deny", "allow")


def test_a_paused_trace_is_denied_to_every_agent_and_other_traces_are_not(
    sidecar: Sidecar,
) -> None:
    assert sidecar.asked("pause", TRACE).outcome == Delivered()

    for agent in ("a1", "a2"):
        assert sidecar.decides(agent, trace_id="t-17") == "deny"
        assert sidecar.decides(agent, trace_id="t-18") == "allow"
        assert sidecar.decides(agent) == "allow"  # our default decides for nobody


def test_a_hostile_agent_is_paused_and_the_policy_says_nothing_else(sidecar: Sidecar) -> None:
    order = replace(ORDER, name=HOSTILE, reason=f"'{HOSTILE}", actor='"x')

    assert sidecar.asked("pause", order).outcome == Delivered()
    assert sidecar.decides(HOSTILE) == "deny"
    assert [sidecar.decides(each) for each in ("a1", "a2")] == ["allow"] * 2


@pytest.mark.parametrize("name", ["t' or trace_id != 'x", 't"', "a and b", "*"])
def test_a_name_that_a_policy_cannot_say_is_refused_before_anything_is_written(
    sidecar: Sidecar, name: str
) -> None:
    answer = sidecar.asked("pause", replace(TRACE, name=name))

    assert isinstance(answer.outcome, Refused)
    assert [each.name for each in sidecar.folder.iterdir()] == ["till.yaml"]
    assert sidecar.decides("a1") == "allow"


def test_an_agent_called_star_is_not_everybody(sidecar: Sidecar) -> None:
    assert isinstance(sidecar.asked("pause", replace(ORDER, name="*")).outcome, Refused)
    assert sidecar.decides("a1") == "allow"


def test_a_sidecar_that_reads_another_folder_does_not_confirm(
    sidecar: Sidecar, tmp_path: Path
) -> None:
    sidecar.gate = gate(
        type="agt", url=sidecar.url, policies=str(tmp_path), allow_http=True, allow_private=True
    )
    try:
        answer = sidecar.asked("pause")
    finally:
        sidecar.gate = gate(
            type="agt", url=sidecar.url, policies=str(sidecar.folder), allow_http=True,
            allow_private=True,
        )  # fmt: skip

    assert isinstance(answer.outcome, Refused)
    assert "allow" in answer.text


def test_a_sidecar_that_is_away_is_asked_again(tmp_path: Path) -> None:
    [port] = free_ports(1)
    away = gate(
        type="agt", url=f"http://127.0.0.1:{port}", policies=str(tmp_path), allow_http=True,
        allow_private=True,
    )  # fmt: skip
    with client_for(away) as client:
        answer = ask(away, "pause", ORDER, client, NOW)

    assert isinstance(answer.outcome, Retry)
    assert len(list(tmp_path.iterdir())) == 1  # the file is there for when it comes back
