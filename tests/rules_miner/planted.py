"""Runs with a rule planted in them, so that whatever is mined can be judged; small and seeded.

A refund that follows an error is wrong in 95 of 100 runs; whatever else goes wrong does so by
chance, more in some families than in others. With `null=True` nothing is planted.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from rules_miner.traces import Event, Run

START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
TOOLS = {
    "search_items": "lookup",
    "get_order": "lookup",
    "check_stock": "verify",
    "refund_order": "commit",
    "refund_item": "commit",
    "cancel_order": "commit",
    "send_note": "commit",
}
TRUTH = {
    "then": "abstain",
    "when": {
        "domain": ["shop"],
        "point": "pre_commit",
        "signals": ["error_result"],
        "tool_prefix": ["refund_"],
    },
}


@dataclass(frozen=True)
class World:
    families: int = 60
    runs: int = 6
    calls: int = 5
    rate: float = 0.12  # of each trouble at a call, on average
    alike: float = 0.15  # intra-family correlation of troubles
    precision: float = 0.95
    background: float = 0.03
    null: bool = False
    unknown: float = 0.0


def draw(seed: int, world: World | None = None) -> list[Run]:
    """Every run of every family, in order."""
    world, rng = world or World(), random.Random(seed)  # noqa: S311 - a seeded draw, no secret
    return [
        _run(rng, world, family, number, rates, background)
        for family in range(world.families)
        for rates, background in [_habits(rng, world)]
        for number in range(world.runs)
    ]


def shuffled(runs: Sequence[Run], seed: int) -> list[Run]:
    """Labels dealt out anew: each family gets the labels of another of its size, in any order."""
    rng = random.Random(seed)  # noqa: S311
    families: dict[str, list[Run]] = {}
    for run in runs:
        families.setdefault(run.family, []).append(run)
    donors = list(families.values())
    rng.shuffle(donors)
    done = []
    for own, other in zip(families.values(), donors, strict=True):
        labels = [run.label for run in other]
        rng.shuffle(labels)
        for run, label in zip(own, labels, strict=True):
            calls = [at for at, event in enumerate(run.events) if event.tool]
            commit = rng.choice(calls) if label == "misaction" else None
            done.append(replace(run, label=label, commit=commit))
    return done


def _habits(rng: random.Random, world: World) -> tuple[list[float], float]:
    spread = 1 / world.alike - 1
    rates = [rng.betavariate(world.rate * spread, (1 - world.rate) * spread) for _ in range(4)]
    return rates, min(0.5, world.background * rng.lognormvariate(0, 1))


def _run(
    rng: random.Random,
    world: World,
    family: int,
    number: int,
    rates: list[float],
    background: float,
) -> Run:
    events: list[Event] = []
    planted = None
    failed = False
    begin = START + timedelta(hours=family, minutes=number)
    for step in range(1 + rng.randrange(2 * world.calls - 1)):
        tool = rng.choice(sorted(TOOLS))
        if failed and tool.startswith("refund_") and planted is None:
            planted = len(events)
        event = _call(rng, tool, rates, f"{family}-{number}-{step}")
        failed = event.status == "error" if event.kind == "tool_executed" else failed
        events.append(replace(event, ts=begin + timedelta(seconds=step)))
    label, commit = "good", None
    if planted is not None and not world.null and rng.random() < world.precision:
        label, commit = "misaction", planted
    elif rng.random() < background:
        label, commit = "misaction", rng.randrange(len(events))
    if rng.random() < world.unknown:
        label, commit = "", None
    return Run(
        trace_id=f"t-{family}-{number}",
        family=f"task:{family}",
        domain="shop",
        events=tuple(events),
        label=label or None,
        commit=commit,
    )


def _call(rng: random.Random, tool: str, rates: list[float], key: str) -> Event:
    error, empty, denied, repeat = rates
    params = {"order": f"o{rng.randrange(3) if rng.random() < repeat else rng.randrange(10_000)}"}
    event = Event(
        "tool_executed", agent="a1", tool=tool, op=TOOLS[tool], params=params, status="ok",
        response={"text": "fine"}, event_id=key, call_key=key,
    )  # fmt: skip
    if rng.random() < denied:
        return replace(event, kind="tool_decided", decision="deny", status=None, response=None)
    if rng.random() < error:
        return replace(event, status="error", error="time-out", response=None)
    if rng.random() < empty and TOOLS[tool] != "commit":
        return replace(event, response=[])
    return event
