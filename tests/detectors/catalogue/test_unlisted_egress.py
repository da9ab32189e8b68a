from pathlib import Path
from typing import Any

import pytest

from tests.kit import case, denied, events, executed, expected, judge

LIST = {"egress": {"allowed_hosts": ["api.crm.example", "*.billing.example"]}}


def test_a_host_that_is_not_listed_fires_for_each_call() -> None:
    calls = events("egress", "09:00", "09:05", host="evil.example")

    [first, second] = judge("unlisted_egress", calls, LIST)

    assert first["subject"] == "a1 -> evil.example"
    assert (first["severity"], first["outcome"]) == ("high", "allowed")
    assert (second["event_ids"], second["ended_at"] > first["ended_at"]) == (["e00001"], True)


@pytest.mark.parametrize("host", ["api.crm.example", "eu.billing.example", "a.b.billing.example"])
def test_a_listed_host_is_quiet(host: str) -> None:
    assert judge("unlisted_egress", events("egress", "09:00", host=host), LIST) == []


@pytest.mark.parametrize(
    "host", ["billing.example", "xbilling.example", "api.crm.example.evil.net"]
)
def test_a_host_that_only_looks_listed_fires(host: str) -> None:
    assert judge("unlisted_egress", events("egress", "09:00", host=host), LIST)


def test_without_a_list_everything_is_quiet_and_with_an_empty_one_everything_fires() -> None:
    call = events("egress", "09:00", host="evil.example")

    assert judge("unlisted_egress", call) == []
    assert judge("unlisted_egress", call, {"tools": []}) == []
    assert judge("unlisted_egress", call, {"egress": {"allowed_hosts": []}})


@pytest.mark.parametrize(
    ("columns", "severity", "outcome"),
    [
        ({"decision": "deny"}, "low", "denied"),
        ({"status": "denied"}, "low", "denied"),
        ({"decision": "allow", "status": "ok"}, "high", "allowed"),
    ],
)
def test_an_attempt_that_was_refused_fires_low(
    columns: dict[str, Any], severity: str, outcome: str
) -> None:
    call = events("egress", "09:00", host="evil.example", **columns)

    [found] = judge("unlisted_egress", call, LIST)

    assert (found["severity"], found["outcome"]) == (severity, outcome)


def test_a_call_with_a_host_fires_once_whatever_parts_it_has() -> None:
    call = {"host": "evil.example", "call_id": "call-0123456789abc"}
    parts = denied("09:00", decision="allow", **call) + executed("09:01", **call)

    [found] = judge("unlisted_egress", parts, LIST)

    assert (found["outcome"], found["event_ids"]) == ("executed", ["e00001"])


def test_a_denied_call_fires_low_and_one_that_waits_for_approval_is_quiet() -> None:
    [found] = judge("unlisted_egress", denied("09:00", host="evil.example"), LIST)

    assert found["severity"] == "low"
    pending = denied("09:00", host="evil.example", decision="require_approval")
    assert judge("unlisted_egress", pending, LIST) == []


def test_a_denied_call_that_was_executed_fires_high() -> None:
    call = {"host": "evil.example", "call_id": "call-0123456789abc"}

    [found] = judge("unlisted_egress", denied("09:00", **call) + executed("09:01", **call), LIST)

    assert found["severity"] == "high"


def test_an_address_that_nobody_can_read_is_on_no_list_so_it_fires() -> None:
    [found] = judge("unlisted_egress", events("egress", "09:00", host=None), LIST)

    assert found["subject"] == "a1 -> (unreadable host)"


def test_one_host_in_many_spellings_fires_as_one_subject_b086(tmp_path: Path) -> None:
    rows = case("unlisted_egress", tmp_path, "B086", {"egress": {"allowed_hosts": []}})

    found = [row["host"] for row in rows]
    assert {host: found.count(host) for host in found} == expected("B086")["hosts"]
