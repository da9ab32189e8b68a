"""Troubles of every kind, at several strengths, that are planted in a quiet fleet.

A plant is a function of a `Plot` and of a number that says how strong it is. It is written as such
a thing would show in a gate's log, not by what its detector asks for. `near` ones look like it and
are in order: an alert about one is a false alarm.
"""

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pkgutil import iter_modules
from zoneinfo import ZoneInfo

from tests.bench.cast import GATES, HOME, Who
from tests.bench.scene import Scene, Step
from tests.bench.stored import Fault

DAY = timedelta(days=1)


@dataclass(frozen=True)
class Kind:
    """One way in which `detector` must speak. `also`: others that may rightly speak of it too.

    `near`: it may not. `past`: days of history that it needs.
    """

    detector: str
    name: str
    play: Callable[["Plot", int], None]
    strengths: Mapping[str, int]
    also: frozenset[str]
    near: bool
    past: int

    @property
    def speak(self) -> frozenset[str]:
        """Every detector that may."""
        return self.also if self.near else self.also | {self.detector}


@dataclass
class Plant:
    """One that was planted: `names` are whom or what an alert about it may be about."""

    kind: Kind
    strength: str
    since: datetime
    until: datetime
    names: frozenset[str]
    steps: list[Step] = field(repr=False)
    faults: list[Fault] = field(repr=False)


KINDS: list[Kind] = []
Play = Callable[["Plot", int], None]


def plant(detector: str, *also: str, past: int = 1, **strengths: int) -> Callable[[Play], Play]:
    """Register a kind, for each strength with its number."""

    def register(play: Play) -> Play:
        numbers = strengths or {"clear": 1}
        KINDS.append(
            Kind(detector, play.__name__, play, numbers, frozenset(also), near=False, past=past)
        )
        return play

    return register


def near(detector: str, *also: str, past: int = 1) -> Callable[[Play], Play]:
    """Register what looks like `detector`'s trouble and is none."""

    def register(play: Play) -> Play:
        KINDS.append(Kind(detector, play.__name__, play, {"near": 1}, frozenset(also), True, past))
        return play

    return register


class Plot:
    """Where one plant takes place: it gives out scenes, of agents and days that no other has."""

    def __init__(self, slots: "Slots", kind: Kind) -> None:
        self.rng, self._slots, self._kind = slots.rng, slots, kind
        self.scenes: list[Scene] = []
        self.names: set[str] = set()
        self.faults: list[Fault] = []

    def scene(
        self, role: str = "assistant", hour: float | None = None, like: Scene | None = None
    ) -> Scene:
        """A run of an agent that no other plant has on that day, at an hour of the policy's zone,
        else within its own working hours. `like`: beside that one, by another agent."""
        who, day = self._slots.take(role, self._kind.past, like)
        if like is None:
            at = day.astimezone(ZoneInfo(HOME if hour is not None else who.zone))
            hour = self.rng.uniform(10, 16) if hour is None else hour
            at = at.replace(
                hour=int(hour), minute=int(hour % 1 * 60), second=self.rng.randint(0, 59)
            )
        else:
            at = like.at
        return self.by(who, at.astimezone(UTC))

    def by(self, who: Who, at: datetime) -> Scene:
        """Another run of the same agent."""
        scene = Scene(who, at, self.rng)
        self.scenes.append(scene)
        return scene

    def gate(self, hour: int) -> tuple[str, datetime]:
        """A gate that sends heartbeats and has no other fault on that day."""
        gate, at = self._slots.gate(self._kind.past)
        self.names.add(gate)
        return gate, at.astimezone(ZoneInfo(HOME)).replace(hour=hour).astimezone(UTC)

    def everybody(self, role: str) -> list[Who]:
        return self._slots.roles[role]

    def behind(self, gate: str, at: datetime) -> Scene:
        """A run of whoever works through that gate."""
        workers = [each for each in self.everybody("worker") if each.gate == gate]
        return self.by(self.rng.choice(workers), at)

    def done(self, strength: str) -> Plant:
        steps = [step for scene in self.scenes for step in scene.steps]
        times = [at for at, _, _ in steps]
        for each in self.faults:  # by its own clock, too
            times += [each.since, each.until, each.since + each.off, each.until + each.off]
        keys = ("agent", "trace_id", "session")
        names = {str(each[key]) for _, _, each in steps for key in keys if key in each}
        whole = frozenset(names | self.names)
        return Plant(self._kind, strength, min(times), max(times), whole, steps, self.faults)


class Slots:
    """Pairs of agent and day, each given out once. Days are weekdays after the first."""

    def __init__(self, agents: Iterable[Who], start: datetime, days: int, seed: int) -> None:
        self.rng = random.Random(seed)  # noqa: S311 - a simulation
        self._start, self._days = start, days
        self.roles: dict[str, list[Who]] = {}
        for each in agents:
            self.roles.setdefault(each.role, []).append(each)
        self._taken: set[tuple[str, int]] = set()  # of agents, and of gates with a fault

    def close(self, fault: Fault) -> None:
        """One fault a gate and day; and nobody else's lines get lost, or another time, in it."""
        day = (fault.since - self._start) // DAY
        self._taken.add((f"fault at {fault.gate}", day))
        if fault.down or fault.lost or fault.off:
            self._taken.add((fault.gate, day))

    def gate(self, past: int) -> tuple[str, datetime]:
        while True:
            gate = self.rng.choice(GATES[:-1])
            day = self.rng.randrange(min(past, self._days - 1), self._days)
            at = self._start + day * DAY + DAY / 2
            if at.weekday() < 5 and (f"fault at {gate}", day) not in self._taken:
                return gate, at

    def take(self, role: str, past: int, like: Scene | None) -> tuple[Who, datetime]:
        agents = [e for e in self.roles[role] if not e.joined]
        for _ in range(10_000):
            who = self.rng.choice(agents)
            day = self.rng.randrange(min(past, self._days - 1), self._days)
            at = self._start + day * DAY + DAY / 2
            if like is not None:
                at, day = like.at, (like.at - self._start) // DAY
                if who.name == like.who.name:
                    continue
            elif at.weekday() > 4 and self._days > 7:
                continue
            if not {(who.name, day), (who.gate, day)} & self._taken:
                self._taken.add((who.name, day))
                return who, at
        raise RuntimeError(f"no {role} is free")


def plants(
    agents: Iterable[Who], start: datetime, days: int, seed: int, only: Iterable[str] = (),
    one: bool = False,
) -> list[Plant]:  # fmt: skip
    """Each kind at each strength, as far as the days have history for it. `one`: at the first."""
    for each in iter_modules(__path__):
        import_module(f"{__name__}.{each.name}")
    slots = Slots(agents, start, days, seed)
    found = []
    gates_first = {f"{__name__}.gateways": 0}
    for kind in sorted(
        KINDS, key=lambda e: (gates_first.get(e.play.__module__, 1), e.detector, e.name)
    ):
        if kind.past >= days or (only and kind.detector not in only):
            continue
        strengths = list(kind.strengths.items())
        for strength, number in strengths[:1] if one else strengths:
            plot = Plot(slots, kind)
            kind.play(plot, number)
            found.append(plot.done(strength))
            for fault in plot.faults:
                slots.close(fault)
    return found
