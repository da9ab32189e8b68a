"""What a gate would have been told at each decision point of a run.

Reads: nothing. Writes: nothing. Next: rules_miner/mine.py, rules_miner/backtest.py.
"""

from typing import Any

from detectors.controls.stopping import Observation, Past
from rules_miner.signals import Prefix, observed, things
from rules_miner.traces import Call, Point, Run, printable

REACH = 500  # events that a gate is taken to remember: what lies further back is forgotten


def points(run: Run) -> list[Point]:
    """Where a gate could stop the run: before the first event of each call whose op is known."""
    found: list[Point] = []
    heard: set[str] = set()
    for at, event in enumerate(run.events):
        if not event.tool or event.call_key in heard:
            continue
        heard.add(event.call_key)
        if event.op in ("commit", "lookup", "verify"):
            call = Call(event.tool, event.op, event.params, domain_of(run, event.tool))
            found.append(Point(at, "pre_commit" if event.op == "commit" else "pre_call", call))
    return found


def domain_of(run: Run, tool: str) -> str:
    """The user's own mapping first, then the tool's namespace, then where the run comes from."""
    for prefix, domain in run.domains:
        if tool.startswith(prefix):
            return domain
    space, dot, _ = tool.partition(".")
    return printable(space.lower()) if dot and space else run.domain


def observations(run: Run) -> list[tuple[Point, Observation]]:
    """Every decision point with its observation, in order; each from what came before it alone."""
    return [
        (point, observation(run.events[max(0, point.at - REACH) : point.at], point))
        for point in points(run)
    ]


def observation(prefix: Prefix, point: Point) -> Observation:
    call = point.call
    return Observation(
        point=point.point,
        tool=call.tool,
        domain=call.domain,
        signals=observed(prefix, call),
        op=call.op,
        args=call.params,
        target=_target(prefix, call),
        history=history(prefix),
    )


def history(prefix: Prefix) -> list[Past]:
    """The calls before the point, oldest first, each once, and how far back they lie."""
    user = max((at for at, event in enumerate(prefix) if event.role == "user"), default=-1)
    commit = max((at for at, event in enumerate(prefix) if event.op == "commit"), default=-1)
    past, heard = [], set()
    for at, event in enumerate(prefix):
        if event.tool and event.call_key not in heard:
            heard.add(event.call_key)
            past.append(Past(event.tool, event.op, at > user, at > commit))
    return past


def _target(prefix: Prefix, call: Call) -> Any:
    """The latest record seen in an answer whose id is among the arguments."""
    for event in reversed(prefix):
        for thing, record in things(event.response):
            if thing.partition("=")[2] in call.asked:
                return record
    return None
