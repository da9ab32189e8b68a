"""The rule that docs/containment.md gives for OPA, on a real engine for Rego, over the documents
that are really pushed."""

import json
import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from opa_eval import OpaEval

from detectors.gates import Order
from gatewatch.parts import utc_now
from tests.kit_command import ROOT
from tests.kit_gates import HOSTILE, OPA, ORDER, Opa, asked, gate

PAGE = (ROOT / "docs" / "containment.md").read_text(encoding="utf-8")
RULE, GATE = re.findall(r"^```rego\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
HOUR = timedelta(hours=1)


def denied(folder: Path, orders: list[Order], **given: str) -> Any:
    """What the rule says of a call, once these pauses were pushed."""
    opa = Opa()
    for order in orders:
        asked(gate(**OPA), "pause", opa, order)
    file = folder / "gatewatch.rego"
    file.write_text(RULE)
    rule = OpaEval(str(file), json.dumps(opa.data), "data.gatewatch.denied")
    return rule.evaluate_parsed(json.dumps(given))


def order(name: str = "a1", **changed: Any) -> Order:
    until = changed.pop("until", utc_now() + HOUR)
    return replace(ORDER, id=f"pa_{len(name)}", name=name, until=until, **changed)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"agent": "a1", "trace": "", "tenant": "acme"}, True),
        ({"agent": "a1", "tenant": "other"}, False),
        ({"agent": "a1"}, True),
        ({"agent": "a2", "trace": "a1", "tenant": "acme"}, False),
        ({}, False),
    ],
)
def test_whoever_is_paused_is_denied_and_nobody_else(
    tmp_path: Path, given: dict[str, str], says: bool
) -> None:
    assert denied(tmp_path, [order()], **given) is says


def test_a_pause_of_no_tenant_holds_for_each_and_a_trace_for_every_agent(tmp_path: Path) -> None:
    trace = order("t-17", kind="trace", tenant="")

    assert denied(tmp_path, [trace], agent="a9", trace="t-17", tenant="x") is True
    assert denied(tmp_path, [trace], agent="t-17", trace="", tenant="x") is False


def test_it_lets_go_by_itself_at_its_time(tmp_path: Path) -> None:
    over = order(until=utc_now() - timedelta(seconds=1))

    assert denied(tmp_path, [over], agent="a1", tenant="acme") is False
    assert denied(tmp_path, [over, order("a11")], agent="a11", tenant="acme") is True


def test_without_a_pause_nobody_is_denied_and_a_hostile_name_is_only_a_name(
    tmp_path: Path,
) -> None:
    assert denied(tmp_path, [], agent="a1") is False
    assert denied(tmp_path, [order(HOSTILE)], agent=HOSTILE, tenant="acme") is True
    assert denied(tmp_path, [order(HOSTILE)], agent="a1", tenant="acme") is False


@pytest.mark.parametrize(("says", "told"), [(True, ["paused by gatewatch"]), (False, [])])
def test_the_policy_that_decides_denies_with_a_reason(
    tmp_path: Path, says: bool, told: list[str]
) -> None:
    file = tmp_path / "gate.rego"
    file.write_text(GATE)
    policy = OpaEval(str(file), json.dumps({"gatewatch": {"denied": says}}), "data.gate.deny")

    assert policy.evaluate_parsed(json.dumps({"agent": "a1"})) == told
