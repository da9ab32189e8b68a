from dataclasses import replace
from typing import Any

import pytest

from detectors.controls.stopping import Rule
from rules_miner.backtest import replay
from rules_miner.mine import Mined, mine
from rules_miner.rule import Doc, build
from rules_miner.settings import Settings
from rules_miner.traces import Run, runs
from tests.rules_miner.kit import done, failed, standing, stored
from tests.rules_miner.planted import TRUTH, World, draw, shuffled

SETTINGS = Settings()


def mined(runs: list[Run], *existing: Any, **settings: Any) -> Mined:
    return mine(runs, existing, Settings(**settings))


def rules(found: Mined) -> list[Doc]:
    return [each.normal for each in found.proposals]


def wrong_refunds(count: int, families: int) -> list[Run]:
    """Incidents after an error, and ten times as many good runs without one."""
    made = []
    for number in range(count * 11):
        bad = number < count
        family = number % families if bad else number
        events = [failed("get_order") if bad else done("get_order"), done("refund_order", "commit")]
        made.append(
            Run(
                trace_id=f"t-{number}",
                family=f"task:{family}",
                domain="shop",
                events=tuple(
                    replace(event, event_id=f"{number}-{at}", call_key=f"{number}-{at}")
                    for at, event in enumerate(events)
                ),
                label="misaction" if bad else "good",
                commit=1 if bad else None,
            )
        )
    return made


def test_a_planted_rule_is_found_with_exactly_its_conditions() -> None:
    assert rules(mined(draw(0))) == [TRUTH]


def test_a_planted_rule_is_found_in_nearly_every_world() -> None:
    assert sum(TRUTH in rules(mined(draw(seed))) for seed in range(10)) >= 9


@pytest.mark.parametrize("seed", range(10))
def test_nothing_is_proposed_where_nothing_is_planted(seed: int) -> None:
    assert rules(mined(draw(seed, World(null=True, background=0.15)))) == []


@pytest.mark.parametrize("seed", range(10))
def test_nothing_is_proposed_when_families_swap_their_labels(seed: int) -> None:
    assert rules(mined(shuffled(draw(seed), seed))) == []


def test_the_order_of_rows_changes_nothing() -> None:
    planted = draw(3, World(families=25))
    first, second = (runs(stored(planted, seed)) for seed in (1, 2))

    assert first == second
    assert repr(mined(first)) == repr(mined(first[::-1]))


def test_the_bits_say_what_a_replay_of_the_rule_says() -> None:
    planted = draw(1, World(unknown=0.1))
    [found] = mined(planted).proposals
    rule: Rule = build({"id": "x-v1", **found.normal}, "x").rule

    again = replay([rule], planted)["x-v1"]

    score = found.hypothesis.score
    assert (again.stopped, again.late, again.good_stopped, again.unknown_fired) == (
        score.k, score.late.bit_count(), score.g, score.unknown.bit_count(),
    )  # fmt: skip
    assert again.unknown_fired > 0


def test_a_rule_that_fires_after_the_wrong_call_has_not_stopped_it() -> None:
    late = [
        replace(run, commit=0) if run.label == "misaction" else run for run in wrong_refunds(30, 15)
    ]

    assert rules(mined(wrong_refunds(30, 15))) != []
    assert rules(mined(late)) == []


def test_unknown_runs_are_neither_good_nor_bad() -> None:
    known = wrong_refunds(30, 15)
    unknown = [replace(run, trace_id=f"u-{run.trace_id}", label=None, commit=None) for run in known]
    [alone], [beside] = mined(known).proposals, mined(known + unknown).proposals

    assert beside.normal == alone.normal
    assert beside.hypothesis.score.unknown.bit_count() == 30
    assert (beside.plain, beside.harm) == (alone.plain, alone.harm)


def test_too_few_incidents_get_a_line_that_says_what_is_missing() -> None:
    found = mined(wrong_refunds(3, 3))

    assert found.proposals == ()
    assert "needs evidence: 2 more incidents from 2 more families" in {
        each.reason for each in found.refused
    }


def test_one_family_is_one_witness_however_many_incidents() -> None:
    assert rules(mined(wrong_refunds(30, 2))) == []


@pytest.mark.parametrize("state", ["enforced", "canary", "shadow", "experimental", "rejected"])
def test_what_a_rule_covers_already_is_not_proposed(state: str) -> None:
    old = standing(state, signal="error_result", domain="shop")

    found = mined(draw(0), old)

    assert found.proposals == ()
    assert f"covered by old-v1, which is {state}" in {each.reason for each in found.refused}


def test_a_rule_on_its_way_out_covers_nothing() -> None:
    assert rules(mined(draw(0), standing("deprecated", signal="error_result"))) == [TRUTH]


def test_what_rules_in_force_stop_by_another_road_is_not_proposed() -> None:
    """In these worlds every other spelling of the planted rule is a different rule."""
    old = [
        standing("enforced", rule=f"old{at}-v1", signal="error_result", tool=tool)
        for at, tool in enumerate(("refund_order", "refund_item"))
    ]

    found = mined(draw(0), *old)

    assert found.proposals == ()
    assert any("are stopped by other rules" in each.reason for each in found.refused)


def test_a_wider_rule_replaces_the_one_in_force_when_it_adds_enough() -> None:
    [found] = mined(draw(0), standing("enforced", **(TRUTH["when"] | {  # type: ignore[operator]
        "tool_prefix": ["refund_o"]}))).proposals  # fmt: skip

    assert found.replaces == ("old-v1",)
    assert 0 < found.marginal < found.hypothesis.score.k


def test_an_empty_history_gives_an_empty_answer() -> None:
    found = mined([])

    assert (found.proposals, found.refused, found.tests) == ((), (), (0, 0, 0))


def test_the_cap_holds_and_the_rest_is_listed() -> None:
    found = mined(draw(0), max_new_per_week=0)

    assert found.proposals == ()
    assert "0 new proposals a week are enough" in {each.reason for each in found.refused}
