"""Whom a routing tree tells of what: tables of alerts, and what holds for any tree."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detectors import reach, tree_load
from detectors.hours import Moment
from detectors.tree import Facts, Tree, steps_of, told_by
from ingest.config import ConfigError

TAGS = {
    "deny_retry": ("denials", "loops"),
    "deny_rotation": ("denials",),
    "unlisted_egress": ("egress",),
    "silent_source": ("health",),
}
NAMES = ("ops", "soc", "lead", "pager")
DAY = Moment(datetime(2026, 3, 10, 12, 0, tzinfo=UTC))
NIGHT = Moment(datetime(2026, 3, 10, 23, 0, tzinfo=UTC), night=True)
WHERE = "gatewatch.toml: routing"


def tree(**table: Any) -> Tree:
    return tree_load.load({"to": ["ops"]} | table, WHERE, NAMES, TAGS)


def facts(
    severity: str = "high", detector: str = "deny_retry", *names: str, tenant: str = ""
) -> Facts:
    return Facts(severity, detector, names or ("a1",), tenant, TAGS[detector])


def told(found: Tree, alert: Facts, moment: Moment = DAY) -> list[str]:
    return list(told_by(found.chosen(alert, moment)))


@pytest.mark.parametrize(
    ("route", "alert", "moment", "takes"),
    [
        ({"severity": ["high", "critical"]}, facts("high"), DAY, True),
        ({"severity": ["high", "critical"]}, facts("medium"), DAY, False),
        ({"min_severity": "high"}, facts("critical"), DAY, True),
        ({"min_severity": "high"}, facts("medium"), DAY, False),
        ({"detectors": ["deny_*"]}, facts("high", "deny_rotation"), DAY, True),
        ({"detectors": ["deny_*"]}, facts("high", "unlisted_egress"), DAY, False),
        ({"agents": ["billing-*"]}, facts("high", "deny_retry", "billing-3"), DAY, True),
        ({"agents": ["billing-*"]}, facts("high", "deny_retry", "x", "billing-3"), DAY, True),
        ({"agents": ["billing-*"]}, facts("high", "deny_retry", "Billing-3"), DAY, False),
        ({"tenants": ["acme"]}, facts(tenant="acme"), DAY, True),
        ({"tenants": ["acme"]}, facts(), DAY, False),
        ({"tags": ["loops", "egress"]}, facts("low", "unlisted_egress"), DAY, True),
        ({"tags": ["loops", "egress"]}, facts("low", "silent_source"), DAY, False),
        ({"when": "unattended"}, facts(), NIGHT, True),
        ({"when": "unattended"}, facts(), DAY, False),
        ({"when": "attended"}, facts(), DAY, True),
        ({"when": {"from": "11:00", "to": "13:00"}}, facts(), DAY, True),
        ({"when": [{"days": ["sun"]}, "unattended"]}, facts(), NIGHT, True),
        ({"min_severity": "high", "tags": ["egress"]}, facts("high"), DAY, False),
    ],
)
def test_a_route_takes_what_all_of_its_matchers_hold_for(
    route: dict[str, Any], alert: Facts, moment: Moment, takes: bool
) -> None:
    found = tree(routes=[route | {"to": ["soc"]}])

    assert told(found, alert, moment) == (["soc"] if takes else ["ops"])


def test_the_first_route_that_takes_it_wins_unless_it_says_continue() -> None:
    routes = [
        {"tags": ["denials"], "to": ["soc"], "continue": True},
        {"min_severity": "high", "to": ["pager"]},
        {"detectors": ["deny_retry"], "to": ["lead"]},
    ]
    found = tree(routes=routes)

    assert told(found, facts("high")) == ["soc", "pager"]
    assert told(found, facts("low")) == ["soc", "lead"]
    assert told(found, facts("high", "silent_source")) == ["pager"]
    assert told(found, facts("low", "silent_source")) == ["ops"]
    assert told(found, facts("low", "deny_rotation")) == ["soc"]  # not the top's, too


def test_the_deepest_route_that_takes_it_decides_and_has_what_it_does_not_say_from_above() -> None:
    inner = [{"min_severity": "critical", "to": ["pager"]}, {"tags": ["loops"], "escalate": []}]
    lead = {"after": "15 minutes", "to": ["lead"]}
    found = tree(routes=[{"tags": ["denials"], "to": ["soc"], "escalate": lead, "routes": inner}])

    def both(alert: Facts) -> tuple[list[str], list[tuple[str, ...]]]:
        chosen = found.chosen(alert, DAY)
        return list(told_by(chosen)), [step.to for step in steps_of(chosen)]

    assert both(facts("critical")) == (["pager"], [("lead",)])
    assert both(facts("high")) == (["soc"], [])
    assert both(facts("high", "deny_rotation")) == (["soc"], [("lead",)])
    assert both(facts("high", "silent_source")) == (["ops"], [])


def test_without_routes_all_are_told_but_those_that_come_later() -> None:
    table = {"fallback": "pager", "escalate": {"after": "15 minutes", "to": ["lead"]}}

    found = tree_load.load(table, WHERE, NAMES, TAGS)

    assert told(found, facts()) == ["ops", "soc"]


def test_every_route_says_why_it_takes_an_alert_or_not() -> None:
    routes = [
        {"min_severity": "critical", "to": ["pager"]},
        {"tags": ["denials"], "to": ["soc"], "routes": [{"agents": ["billing-*"]}]},
        {"detectors": ["silent_source"], "routes": [{"when": "unattended"}]},
    ]

    told = tree(routes=routes).explain(facts("high"), DAY)

    assert [(each["route"], each["state"], each["decides"], each["why"]) for each in told] == [
        ("routing", "takes it", False, []),
        (
            "routing.routes[0]",
            "does not take it",
            False,
            ["severity high is not critical or worse"],
        ),
        ("routing.routes[1]", "takes it", True, ["tag denials and loops is denials"]),
        ("routing.routes[1].routes[0]", "does not take it", False, ["agent a1 is not billing-*"]),
        ("routing.routes[2]", "passed over", False, ["routing.routes[1] took it"]),
        ("routing.routes[2].routes[0]", "passed over", False, ["routing.routes[1] took it"]),
    ]


@pytest.mark.parametrize(
    ("table", "text"),
    [
        ({"to": ["opps"]}, "routing.to: no receiver called 'opps'. Did you mean 'ops'?"),
        ({"to": []}, "routing.to: empty: it would tell nobody."),
        ({"fallback": "pagr"}, "routing.fallback: no receiver called 'pagr'. Did you mean 'pager'"),
        ({"falback": "pager"}, "routing: unknown key 'falback'. Did you mean 'fallback'?"),
        ({"routes": {}}, "routing.routes: expected tables: write [[routing.routes]]."),
        ({"routes": [{"to": ["soc"], "tag": ["egress"]}]}, "routes[0]: unknown key 'tag'. Did you"),
        ({"routes": [{"tags": ["egres"]}]}, "routes[0].tags: no detector has the tag 'egres'. Did"),
        ({"routes": [{"detectors": ["deny_retri"]}]}, "called 'deny_retri'. Did you mean"),
        ({"routes": [{"detectors": []}]}, "routes[0].detectors: empty. Without `detectors` a"),
        ({"routes": [{"severity": ["urgent"]}]}, "routes[0]: Invalid enum value 'urgent'"),
        ({"routes": [{"when": "night"}]}, "routes[0].when: 'night' is neither a window nor"),
        ({"routes": [{"when": {"from": "25:00"}}]}, "when.from: '25:00' is no time of day."),
        ({"routes": [{"when": {"days": ["son"]}}]}, "when.days: no day 'son'. Did you mean 'sun'?"),
        ({"routes": [{"when": {"zone": "Europe/Berln"}}]}, "when.zone: 'Europe/Berln' is no time"),
        ({"routes": [{"when": {"until": "08:00"}}]}, "when: unknown key 'until'."),
        ({"routes": [{"when": 7}]}, "routes[0].when: 7 says no time."),
        ({"routes": [{"min_severity": "high", "routes": [{"to": ["sok"]}]}]},
         "routing.routes[0].routes[0].to: no receiver called 'sok'. Did you mean 'soc'?"),
        ({"escalate": {"after": "soon", "to": ["lead"]}}, "escalate: 'soon' is no length of time"),
        ({"escalate": {"after": "0 minutes", "to": ["lead"]}}, "escalate.after: no time at all"),
        ({"escalate": {"after": "5 minutes", "to": ["leed"]}}, "escalate.to: no receiver called"),
        ({"escalate": {"to": ["lead"]}}, "escalate: Object missing required field `after`"),
        ({"escalate": [{"after": "9 minutes", "to": ["lead"]},
                       {"after": "5 minutes", "to": ["ops"]}]},
         "routing.escalate[1].after: is not later than the step before it."),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_place(table: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError) as error:
        tree(**table)

    assert text in str(error.value)
    assert str(error.value).startswith("gatewatch.toml: routing")


def test_a_tree_with_routes_says_who_is_told_of_the_rest() -> None:
    with pytest.raises(ConfigError, match=r"routing: `to` is missing: who is told of what no rout"):
        tree_load.load({"routes": [{"to": ["soc"]}]}, WHERE, NAMES, TAGS)


SEVERITIES = st.sampled_from(["low", "medium", "high", "critical"])
SOME = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3)
ALERTS = st.builds(
    lambda severity, detector, name, tenant: facts(severity, detector, name, tenant=tenant),
    SEVERITIES, st.sampled_from(sorted(TAGS)), st.sampled_from(["a1", "billing-1", "billing-2"]),
    st.sampled_from(["", "acme"]),
)  # fmt: skip
MOMENTS = st.builds(
    lambda minutes, night: Moment(DAY.at + timedelta(minutes=minutes), night),
    st.integers(0, 60 * 24 * 365), st.booleans(),
)  # fmt: skip
MATCHERS = st.fixed_dictionaries(
    {"to": SOME},
    optional={
        "min_severity": SEVERITIES,
        "severity": st.lists(SEVERITIES, min_size=1, max_size=2),
        "detectors": st.lists(st.sampled_from(["deny_*", "*_source", "deny_retry"]), min_size=1),
        "agents": st.lists(st.sampled_from(["billing-*", "a1", "billing-1"]), min_size=1),
        "tenants": st.just(["acme"]),
        "tags": st.lists(st.sampled_from(["denials", "loops", "egress"]), min_size=1),
        "when": st.sampled_from(["unattended", "attended"]),
        "continue": st.booleans(),
    },
)
ROUTES = st.lists(
    st.builds(lambda route, inner: route | {"routes": inner}, MATCHERS,
              st.lists(MATCHERS, max_size=2)),
    max_size=4,
)  # fmt: skip


def grown(routes: list[dict[str, Any]]) -> Tree | None:
    """The tree, unless one of its routes can never take anything."""
    try:
        return tree(routes=routes)
    except ConfigError as error:
        if "can never match" not in str(error):
            raise
        return None


@given(ROUTES, ALERTS, MOMENTS)
def test_every_alert_is_told_to_somebody_and_the_explanation_agrees(
    routes: list[dict[str, Any]], alert: Facts, moment: Moment
) -> None:
    found = grown(routes)
    if found is None:
        return

    chosen = found.chosen(alert, moment)

    assert told_by(chosen)
    said = {each["route"]: each for each in found.explain(alert, moment)}
    assert [place for place, each in said.items() if each["decides"]] == [e.place for e in chosen]
    assert set(said) == {each.place for each in found.top.all()}


@given(ROUTES, MATCHERS, st.integers(0, 4), ALERTS, MOMENTS)
def test_another_route_changes_nothing_for_alerts_that_it_does_not_take(
    routes: list[dict[str, Any]], more: dict[str, Any], at: int, alert: Facts, moment: Moment
) -> None:
    before, after = grown(routes), grown([*routes[:at], more, *routes[at:]])
    alone = grown([more])
    if before is None or after is None or alone is None:
        return

    if not alone.top.routes[0].takes(alert, moment):
        assert told(after, alert, moment) == told(before, alert, moment)


@given(ROUTES, MATCHERS, ALERTS, MOMENTS)
def test_a_route_at_the_end_changes_nothing_for_what_others_take_for_good(
    routes: list[dict[str, Any]], more: dict[str, Any], alert: Facts, moment: Moment
) -> None:
    before, after = grown(routes), grown([*routes, more])
    if before is None or after is None:
        return

    takers = [each for each in before.top.routes if each.takes(alert, moment)]
    if any(not each.goes_on for each in takers):
        assert told(after, alert, moment) == told(before, alert, moment)


@given(ROUTES, ALERTS, MOMENTS)
def test_a_route_that_takes_an_alert_is_never_called_unreachable(
    routes: list[dict[str, Any]], alert: Facts, moment: Moment
) -> None:
    found = tree_load.read({"to": ["ops"], "routes": routes}, WHERE, NAMES, TAGS)

    refused = {problem.partition(": ")[0] for problem in reach.unreachable(found)}

    taken = {e["route"] for e in found.explain(alert, moment) if e["state"] == "takes it"}
    assert taken & refused == set()
