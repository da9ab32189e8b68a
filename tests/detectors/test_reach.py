"""Routes that can never match, and hours at which nobody would be told of a critical alert."""

from typing import Any

import pytest

from detectors import routing
from detectors.routing import Desk, load, load_tree
from ingest.config import ConfigError
from ingest.policy import Controls
from tests.kit_telling import HOOK, SLACK

TAGS = {
    "deny_retry": ("denials", "loops"),
    "deny_rotation": ("denials",),
    "unlisted_egress": ("egress",),
    "silent_source": ("health",),
}
TO = {"to": ["ops"]}


def desk(table: dict[str, Any] | None, **receivers: dict[str, Any]) -> Desk:
    routes = load(receivers or {"ops": SLACK, "pager": HOOK})
    return Desk(routes, tree=load_tree(table, routes, TAGS), policy=Controls())


@pytest.mark.parametrize(
    ("routes", "place", "why"),
    [
        ([{}, {}], 1, "routing.routes[0] before it takes everything that it would"),
        ([{"min_severity": "low"}, {"tags": ["loops"]}], 1, "routing.routes[0] before it takes"),
        ([{"min_severity": "high"}, {"severity": ["critical"]}], 1, "[0] before it takes every"),
        ([{"detectors": ["deny_*"]}, {"detectors": ["deny_retry"]}], 1, "[0] before it takes"),
        ([{"tags": ["denials"]}, {"tags": ["loops"]}], 1, "[0] before it takes everything"),
        ([{"agents": ["billing-*"]}, {"agents": ["billing-1"]}], 1, "[0] before it takes every"),
        ([{"agents": ["*"]}, {"tenants": ["acme"]}], 1, "routing.routes[0] before it takes"),
        ([{"tenants": ["a*"]}, {"tenants": ["acme"], "tags": ["loops"]}], 1, "[0] before it"),
        ([{"when": "attended"}, {"when": "unattended"}, {"tags": ["egress"]}], 2,
         "routing.routes[0] and routing.routes[1] before it take everything that it would"),
        ([{"when": {"days": ["sat", "sun"]}}, {"when": {"days": ["sun"], "from": "08:00"}}], 1,
         "[0] before it takes everything"),
        ([{"when": {"from": "06:00", "to": "20:00"}}, {"when": {"from": "20:00", "to": "06:00"}},
          {"min_severity": "high"}], 2, "[0] and routing.routes[1] before it take everything"),
        ([{"detectors": ["deny_*"], "tags": ["egress"]}], 0, "no alert is all that it and those"),
        ([{"severity": ["low"], "min_severity": "high"}], 0, "no alert is all that it and those"),
    ],
)  # fmt: skip
def test_a_route_that_can_never_match_is_a_mistake(
    routes: list[dict[str, Any]], place: int, why: str
) -> None:
    with pytest.raises(ConfigError) as error:
        desk(TO | {"routes": routes})

    start = f"gatewatch.toml: routing.routes[{place}]: can never match: "
    assert str(error.value).startswith(start)
    assert why in str(error.value)


def test_a_route_within_a_route_that_can_never_match_is_a_mistake() -> None:
    inner = [{"severity": ["low"]}]

    with pytest.raises(ConfigError, match=r"routes\[0\]\.routes\[0\]: can never match: no alert"):
        desk(TO | {"routes": [{"min_severity": "high", "routes": inner}]})


@pytest.mark.parametrize(
    "routes",
    [
        [{"continue": True}, {"tags": ["loops"]}],
        [{"severity": ["critical"]}, {"min_severity": "high"}],
        [{"agents": ["billing-1"]}, {"agents": ["billing-*"]}],
        [{"agents": ["billing-1"]}, {"agents": ["billing-[12]"]}],
        [{"agents": ["[!a]*"]}, {"agents": ["*"]}],
        [{"agents": ["??"]}, {"agents": ["a*"]}],
        [{"agents": ["billing-?"]}, {"agents": ["billing-12"]}],
        [{"tenants": ["acme"]}, {"agents": ["a1"]}],
        [{"when": "unattended"}, {"when": {"from": "23:00", "to": "01:00"}}],
        [{"when": {"days": ["sat"], "zone": "Asia/Tokyo"}}, {"when": {"days": ["sat"]}}],
        [{"agents": ["a-*"], "routes": [{"agents": ["*-b"]}]}],
        [{"tenants": ["a-*"], "routes": [{"tenants": ["*-b"]}]}],
    ],
)
def test_a_route_that_something_reaches_is_none(routes: list[dict[str, Any]]) -> None:
    assert desk(TO | {"routes": routes}).tree


def test_where_somebody_is_told_of_everything_critical_there_is_no_gap() -> None:
    assert desk(None).gaps(TAGS) == []
    assert desk(TO | {"routes": [{"when": "unattended", "to": ["pager"]}]}).gaps(TAGS) == []
    assert Desk().gaps(TAGS) == []  # who has no receivers does not expect to be told


def test_a_critical_alert_of_which_nobody_would_be_told_is_named_with_its_hour() -> None:
    deaf: dict[str, dict[str, Any]] = {
        "ops": SLACK | {"detectors": ["deny_retry"]},
        "pager": HOOK,
    }
    night = {"when": "unattended", "to": ["ops"]}
    table = {"to": ["pager"], "routes": [night]}

    assert desk(table, **deaf).gaps(TAGS) == [
        "nobody would be told of a critical alert of deny_rotation, unlisted_egress, silent_source"
        " at some hours (mon 00:00 UTC, unattended)"
    ]


def test_a_gap_at_any_time_and_a_gap_for_one_agent_are_told_apart() -> None:
    deaf: dict[str, dict[str, Any]] = {"ops": SLACK, "soc": HOOK | {"detectors": ["silent_source"]}}

    assert desk(None, soc=deaf["soc"]).gaps(TAGS) == [
        "nobody would be told of a critical alert of deny_retry, deny_rotation, unlisted_egress"
        " at any time"
    ]
    table = TO | {"routes": [{"agents": ["batch-*"], "tags": ["egress"], "to": ["soc"]}]}
    assert desk(table, **deaf).gaps(TAGS) == [
        "nobody would be told of a critical alert of unlisted_egress (agent batch-*) at any time"
    ]


def test_without_a_routing_table_there_is_no_tree() -> None:
    assert routing.load_tree(None, (), TAGS) is None
