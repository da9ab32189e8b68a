"""What goes wrong with a gate itself: silence, lost lines, a wrong clock, slow decisions."""

from datetime import timedelta
from typing import Any

from tests.bench.plants import Plot, near, plant
from tests.bench.stored import Fault

MINUTE = timedelta(minutes=1)


def _fault(plot: Plot, minutes: float, **what: Any) -> Fault:
    """In the middle of the day."""
    gate, at = plot.gate(hour=12)
    plot.faults.append(Fault(gate, at, at + minutes * MINUTE)._replace(**what))
    return plot.faults[-1]


def _busy(plot: Plot, fault: Fault) -> None:
    """Somebody works through the gate all the while."""
    scene = plot.behind(fault.gate, fault.since)
    while scene.at < fault.until:
        scene.look(
            scene.who.tool("get", scene.who.nouns[0]), {"id": scene.rng.randint(1000, 99999)}
        )
        scene.wait(6, 16)


@plant("silent_source", past=2, just=26, clear=120, massive=480)
def gate_is_down(plot: Plot, minutes: int) -> None:
    _fault(plot, minutes, down=True)


@near("silent_source", past=2)
def restart(plot: Plot, _: int) -> None:
    _fault(plot, 3, down=True)


@plant("sequence_gap", "silent_source", past=2, just=1, clear=8, massive=90)
def lines_get_lost(plot: Plot, minutes: int) -> None:
    """On the way, after they were numbered."""
    _fault(plot, minutes, lost=True)


@plant("clock_skew", "sequence_gap", "silent_source", past=1, just=100, clear=600, massive=2700)
def clock_is_ahead(plot: Plot, seconds: int) -> None:
    _fault(plot, 180, off=timedelta(seconds=seconds))


@plant("clock_skew", "sequence_gap", "silent_source", past=1, just=150, clear=900)
def clock_is_behind(plot: Plot, seconds: int) -> None:
    _fault(plot, 180, off=timedelta(seconds=-seconds))


@near("clock_skew")
def some_seconds(plot: Plot, _: int) -> None:
    _fault(plot, 180, off=timedelta(seconds=9))


@plant("slow_gate", past=1, just=6, clear=20, massive=200)
def decisions_take_long(plot: Plot, factor: int) -> None:
    """For an hour and a half each decision takes so many times as long."""
    _busy(plot, _fault(plot, 90, slow=float(factor)))


@near("slow_gate", past=1)
def slower_and_still_quick(plot: Plot, _: int) -> None:
    _busy(plot, _fault(plot, 90, slow=2.0))
