"""Runs of the release agents that leave their protocol (RELEASE in tests/bench/cast.py)."""

from collections.abc import Sequence

from tests.bench.plants import Plot, near, plant


def _steps(plot: Plot, steps: Sequence[str]) -> None:
    scene = plot.scene("ops")
    for n, step in enumerate(steps):
        scene.call(f"release.{step}", {"version": "4.2.0", "stage": n})
        scene.wait(20, 90)


@plant("protocol_violation", "policy_mismatch", "first_seen", clear=1)
def applied_unchecked(plot: Plot, _: int) -> None:
    _steps(plot, ("plan", "apply", "close"))


@plant("protocol_violation", "first_seen", clear=1, massive=5)
def goes_on_after_its_end(plot: Plot, count: int) -> None:
    _steps(plot, ("plan", "check", "apply", "close", *["apply"] * count))


@plant("protocol_violation", "policy_mismatch", "first_seen", clear=1)
def a_step_that_nobody_declared(plot: Plot, _: int) -> None:
    _steps(plot, ("plan", "check", "force", "apply", "close"))


@near("protocol_violation")
def rolled_back_and_applied_again(plot: Plot, _: int) -> None:
    _steps(
        plot, ("plan", "check", "check", "apply", "check", "rollback", "check", "apply", "close")
    )
