"""Gates of a config: which is asked for whom, what a mistake says, and what one answers."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from detectors import containment
from detectors.containment import Whom
from detectors.gates import Placed
from detectors.receivers import Refused
from ingest.config import ConfigError
from tests.kit_gates import TILL, asked, gate

A1 = Whom("agent", "billing-7", "acme", ("billing-7",), ("till",))
TRACE = Whom("trace", "t-17", "acme", ("billing-7", "mailer"), ("till", "mail"))


@pytest.mark.parametrize(
    ("table", "asks"),
    [
        ({}, True),
        ({"agents": ["billing-*"]}, True),
        ({"agents": ["mailer"]}, False),
        ({"agents": ["BILLING-7"]}, False),
        ({"tenants": ["acme"], "sources": ["till"]}, True),
        ({"tenants": ["acme"], "sources": ["mail"]}, False),
        ({"tenants": ["other"], "sources": ["till"]}, False),
    ],
)
def test_a_gate_is_asked_where_all_that_it_names_fits(table: dict[str, Any], asks: bool) -> None:
    assert gate(**TILL, **table).serves(A1) is asks


def test_a_trace_is_for_each_gate_that_one_of_its_agents_or_sources_passes() -> None:
    mail = gate("mail", **TILL, agents=["mail*"], sources=["mail"])
    other = gate("other", **TILL, agents=["nobody"])

    assert [each.name for each in containment.chosen((mail, other), TRACE)] == ["mail"]


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"type": "opaa"}, "containment.g.type: no gate called 'opaa'. Did you mean 'opa'?"),
        ({}, "containment.g: `type` says which gate: agt, opa, webhook."),
        (TILL | {"agent": ["a1"]}, "containment.g: unknown key 'agent'. Did you mean 'agents'?"),
        (TILL | {"expires": "1 fortnight"}, "containment.g: '1 fortnight' is no length of time"),
        (TILL | {"expires": "60 days"}, "containment.g.expires: at most 30 days."),
        (TILL | {"automatic_per_hour": 0}, "containment.g.automatic_per_hour: between 1 and 100."),
        (TILL | {"webhook": "http://gate.example"}, "(or the gate says allow_http = true)."),
        (TILL | {"webhook": "https://10.0.0.1/x"}, "inside this network (allow_private = true"),
        (TILL | {"ca_file": "/none.pem"}, "containment.g.ca_file: /none.pem: no such file."),
        (
            {"type": "agt", "url": "https://agt.example", "policies": "/none"},
            "containment.g: /none: no such folder.",
        ),
    ],
)
def test_a_mistake_is_named(table: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        containment.load({"g": table})

    assert says in str(caught.value)
    assert "FAKE" not in str(caught.value)


def test_an_automatic_detector_must_exist() -> None:
    wrong = gate(**TILL, automatic=["deny_rety"])

    with pytest.raises(ConfigError, match="no detector called 'deny_rety'"):
        containment.check_detectors([wrong], ["deny_retry", "call_loop"])


def test_nothing_is_automatic_unless_the_config_names_it() -> None:
    assert gate().common.automatic == ()


def test_who_is_asked_is_shown_without_what_must_stay_secret() -> None:
    assert gate().where == "webhook at gate.example"
    assert "FAKE" not in repr(gate())


def test_a_redirect_is_not_followed(tmp_path: Path) -> None:
    visited: list[str] = []

    def reply(request: httpx.Request) -> httpx.Response:
        visited.append(request.url.host)
        return httpx.Response(307, headers={"location": "https://evil.example/FAKE"})

    answer = asked(gate(), "pause", reply)

    assert visited == ["gate.example"]
    assert answer.outcome == Refused("HTTP 307: sent on to evil.example", "clientError")


def test_a_file_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    file = tmp_path / "zz-gatewatch-pa_1.json"

    containment.place(Placed(str(tmp_path), file.name, b"{}"))
    assert file.read_bytes() == b"{}"
    assert file.stat().st_mode & 0o044 == 0o044  # the gate is another user
    containment.place(Placed(str(tmp_path), file.name, None))
    containment.place(Placed(str(tmp_path), file.name, None))

    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_an_answer_and_no_crash(tmp_path: Path) -> None:
    folder = tmp_path / "policies"
    folder.mkdir()
    agt = gate(type="agt", url="https://agt.example:8081", policies=str(folder))
    folder.rmdir()

    answer = asked(agt, "pause", lambda _: httpx.Response(200))

    assert isinstance(answer.outcome, Refused)
    assert answer.outcome.reason == f"{folder}: cannot be written: No such file or directory"
