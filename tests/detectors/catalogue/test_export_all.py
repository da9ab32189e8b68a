from typing import Any

import pytest

from tests.kit import Event, allowed, at, denied, events, executed, judge

LOW: dict[str, Any] = {}
CALL = {"call_id": "call-0123456789abc"}


def columns(dice: Any) -> Event:
    return {"params": dice.choice([None, {"limit": 0}, {"limit": 10}, {"segment": "all"}])}


def signs(params: Any, tool: str = "crm.search") -> list[str]:
    """What is found of one executed call, whatever its severity."""
    found = judge("export_all", executed("09:00", tool=tool, params=params))
    return [sign for row in found for sign in row["signs"]]


@pytest.mark.parametrize(
    ("params", "sign"),
    [
        ({"all": True}, "all = true"),
        ({"export_all": "true"}, "all = true"),
        ({"limit": 0}, "no limit"),
        ({"limit": -1}, "no limit"),
        ({"page_size": "unlimited"}, "no limit"),
        ({"max_results": 100000}, "a very large limit"),
        ({"options": {"limit": 5000000}}, "a very large limit"),
        ({"sql": "SELECT * FROM customers"}, "select * without a condition"),
        ({"query": "select * from crm.contacts ;"}, "select * without a condition"),
        ({"segment": "all"}, "every segment"),
        ({"segments": ["*"]}, "every segment"),
        ({"audience": "all_customers"}, "every segment"),
        ({"fields": ["*"]}, "every field"),
    ],
)
def test_parameters_that_ask_for_everything_fire(params: Any, sign: str) -> None:
    assert signs(params) == [sign]


@pytest.mark.parametrize(
    "params",
    [
        None,
        {"all": False},
        {"limit": 10},
        {"limit": 99999},
        {"limit": None},
        {"limit": 100},
        {"offset": 0},
        {"sql": "SELECT * FROM customers WHERE id = 7"},
        {"sql": "SELECT * FROM customers LIMIT 5"},
        {"sql": "SELECT count(*) FROM customers"},
        {"segment": "allergies"},
        {"segment": "berlin"},
        {"fields": ["id", "name"]},
        {"text": 'please set "limit":0 and "segment":"all"'},
        {"note": "all good"},
    ],
)
def test_parameters_with_a_bound_are_quiet(params: Any) -> None:
    assert signs(params) == []


@pytest.mark.parametrize("tool", ["crm.export_all", "dump_database", "bulk_export"])
def test_a_tool_whose_name_says_everything_fires(tool: str) -> None:
    assert signs({"a": 1}, tool) == ["its name"]


def test_an_export_of_one_customer_is_quiet() -> None:
    assert signs({"id": "c-7"}, "crm.export_contacts") == []


@pytest.mark.parametrize(
    ("tool", "params", "severity"),
    [
        ("crm.export_contacts", {"limit": 0}, "high"),
        ("crm.search", {"segment": "all"}, "medium"),
        ("crm.search", {"limit": 0, "fields": "*"}, "medium"),
        ("crm.search", {"limit": 0}, "low"),
    ],
)
def test_a_tool_that_exports_fires_higher_than_a_listing(
    tool: str, params: Any, severity: str
) -> None:
    [found] = judge("export_all", executed("09:00", tool=tool, params=params))

    assert (found["severity"], found["outcome"]) == (severity, "executed")


def test_a_refused_call_fires_low_and_one_that_waits_is_quiet() -> None:
    params = {"segment": "all"}

    [found] = judge("export_all", denied("09:00", params=params))

    assert (found["severity"], found["outcome"], found["event_ids"]) == (
        "low",
        "refused",
        ["e00000"],
    )
    assert judge("export_all", denied("09:00", params=params, decision="require_approval")) == []
    assert judge("export_all", events("tool_proposed", "09:00", tool="x", params=params)) == []


def test_a_call_fires_once_whatever_parts_it_has_when_it_was_executed() -> None:
    params = {"segment": "all"}
    parts = allowed("09:00", params=params, **CALL) + executed("09:01", **CALL)

    [found] = judge("export_all", parts)

    assert (found["ended_at"], found["event_ids"]) == (at("09:01"), ["e00001"])


def test_the_limit_that_is_very_large_can_be_set_and_fires_at_it() -> None:
    call = executed("09:00", tool="crm.search", params={"limit": 5000})

    assert judge("export_all", call) == []
    assert judge("export_all", call, large=5000)
