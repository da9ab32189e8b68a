from typing import Any

from detectors.controls.stopping import Rule
from rules_miner.backtest import Backtest, replay
from rules_miner.traces import Run
from tests.rules_miner.kit import done, failed, run_of, standing

RULE: Rule = standing("shadow", signal="error_result", rule="late-v1").file.rule
OTHER: Rule = standing("shadow", signal="repeat_same_call", rule="other-v1").file.rule


def incident(*events: Any, commit: int) -> Run:
    return run_of(*events, label="misaction", commit=commit)


def figures(*runs: Run, beside: tuple[Rule, ...] = ()) -> Backtest:
    return replay([RULE], runs, beside)["late-v1"]


def test_an_incident_is_stopped_only_at_or_before_the_wrong_call() -> None:
    at_it = incident(failed("get"), done("pay", "commit"), commit=1)
    after = incident(done("pay", "commit"), failed("get"), done("get"), commit=0)
    never = incident(done("get"), done("pay", "commit"), commit=1)

    found = figures(at_it, after, never)

    assert (found.incidents, found.stopped, found.late) == (3, 1, 1)


def test_good_and_unknown_runs_are_counted_apart() -> None:
    fired = (failed("get"), done("pay", "commit"))

    found = figures(run_of(*fired, label="good"), run_of(*fired), run_of(done("get"), label="good"))

    assert (found.good, found.good_stopped, found.unknown, found.unknown_fired) == (2, 1, 1, 1)


def test_a_commit_that_took_effect_after_the_match_is_counted_once_a_run() -> None:
    went_on = run_of(failed("get"), done("pay", "commit"), done("pay", "commit"))
    gave_up = run_of(failed("get"), failed("pay", op="commit"))
    before = run_of(done("pay", "commit"), failed("get"), done("get"))

    assert figures(went_on, gave_up, before).commits_after_match == 1


def test_the_lag_is_the_calls_between_the_signal_and_the_stop() -> None:
    slow = standing("shadow", signal="errors_ge_2", tool="pay", rule="late-v1").file.rule
    run = incident(failed("a"), failed("a"), done("b"), done("c"), done("pay", "commit"), commit=4)

    found = replay([slow], [run])["late-v1"]

    assert (found.stopped, found.timely, found.strictly_timely) == (1, 0, 0)
    assert (found.lag_median, found.lag_max) == (2.0, 2)


def test_overlap_counts_incidents_that_both_stop_in_time() -> None:
    both = incident(failed("get"), done("get"), commit=1)
    one = incident(failed("get"), done("pay", "commit"), commit=1)

    assert figures(both, one, beside=(OTHER,)).overlap == {"other-v1": 1}


def test_runs_without_a_decision_point_are_left_out() -> None:
    assert figures(run_of(done("x", op="")), run_of()) == Backtest()
