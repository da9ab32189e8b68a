from pathlib import Path
from typing import Any

import pytest

from detectors import receivers, routing
from detectors.routing import Desk, load
from ingest.config import ConfigError
from tests.kit_receivers import NOW

SLACK = {"type": "slack", "webhook": "https://hooks.slack.com/services/FAKE"}
DING = {"type": "dingtalk", "webhook": "https://oapi.dingtalk.com/robot/send?access_token=FAKE"}


def test_a_receiver_is_told_from_its_severity_up_and_of_its_detectors_alone() -> None:
    routes = load(
        {
            "ops": SLACK | {"min_severity": "high"},
            "soc": DING | {"detectors": ["deny_retry"], "language": "zh"},
        }
    )

    def told(severity: str, detector: str) -> list[str]:
        alert = {"severity": severity, "detector": detector, "subject": "a1", "tenant": ""}
        return [route.name for route in Desk(routes).chosen(alert, NOW)]

    assert told("critical", "deny_retry") == ["ops", "soc"]
    assert told("low", "deny_retry") == ["soc"]
    assert told("high", "egress_new_host") == ["ops"]
    assert [route.language for route in routes] == ["en", "zh"]


@pytest.mark.parametrize(
    ("table", "text"),
    [
        ({"type": "dingding"}, "receivers.ops.type: no receiver called 'dingding'"),
        ({"type": "slak"}, "receivers.ops.type: no receiver called 'slak'. Did you mean 'slack'?"),
        ({}, f"receivers.ops: `type` says which service: {', '.join(receivers.names())}."),
        (SLACK | {"min_severty": "low"}, "unknown key 'min_severty'. Did you mean 'min_severity'?"),
        (SLACK | {"keyword": "x"}, "receivers.ops: unknown key 'keyword'."),
        (SLACK | {"min_severity": "urgent"}, "min_severity"),
        ({"type": "slack"}, "webhook"),
        (SLACK | {"webhook": "env:NO_SUCH_VARIABLE"}, "no variable 'NO_SUCH_VARIABLE'"),
        (SLACK | {"webhook": "file:/no/such"}, "/no/such: a secret names this file"),
        (SLACK | {"webhook": "http://s3cret.example/"}, "receivers.ops: the address must"),
        (SLACK | {"webhook": "https://127.1/s3cret"}, "the address is 127.0.0.1, inside"),
        (SLACK | {"ca_file": "/no/such.pem"}, "receivers.ops.ca_file: /no/such.pem: no such file"),
        (7, "receivers.ops: expected a table, found 7."),
    ],
)
def test_a_mistake_is_named_with_its_place(table: Any, text: str) -> None:
    with pytest.raises(ConfigError) as error:
        load({"ops": table})

    assert text in str(error.value)
    assert str(error.value).startswith("gatewatch.toml: receivers.ops")
    assert "s3cret" not in str(error.value)


def test_a_secret_comes_from_the_environment_or_a_file_and_is_never_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK", "https://hooks.slack.com/services/s3cret")
    (tmp_path / "hook").write_text("https://hooks.slack.com/services/s3cret\n")

    routes = load(
        {"a": SLACK | {"webhook": "env:HOOK"}, "b": SLACK | {"webhook": f"file:{tmp_path}/hook"}}
    )

    assert {r.options.webhook.reveal for r in routes} == {"https://hooks.slack.com/services/s3cret"}
    assert "s3cret" not in repr(routes)


def test_a_file_without_a_certificate_is_named(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("no certificate")

    with pytest.raises(ConfigError, match="holds no certificate in PEM"):
        load({"ops": SLACK | {"ca_file": str(tmp_path / "ca.pem")}})


def test_a_route_to_a_detector_that_there_is_not_is_named() -> None:
    routes = load({"ops": SLACK | {"detectors": ["deny_retri"]}})

    with pytest.raises(ConfigError, match="Did you mean 'deny_retry'"):
        routing.check_detectors(routes, ["deny_retry"])
