"""A large fleet in which nothing is wrong: people at work in three zones, queues, batches, polls,
deploys, approvals, hand-overs. All from a seed; no clock is read.
"""

import heapq
from collections.abc import Iterable
from datetime import date, datetime, timedelta
from operator import itemgetter
from zoneinfo import ZoneInfo

from gatewatch.fleet import OBJECTS, Stream
from tests.bench import talk
from tests.bench.cast import GATES, NEW_TOOLS, Who
from tests.bench.scene import Scene, Step

HOURS = (.03, .02, .02, .02, .02, .04, .1, .35, .8, 1, 1, .95, .6, .8, 1, 1, .9, .7, .4, .25, .15,
         .1, .07, .04)  # how busy people are in each hour of their day  # fmt: skip
MONDAY = 1.8  # its morning beside other mornings
WEEKEND = 0.12
SAME_DAY = 3  # changes of one object on one day and those beside it
HEARTBEAT = timedelta(minutes=4)  # of every gate but the last
RATES = {  # at most, for each agent that can do it, an hour; HOURS and the day of the week thin it
    "assistant": ("assistant", 1.1),
    "worker": ("worker", 2.2),
    "approval": ("assistant", 0.05),
    "deploy": ("ops", 0.2),
    "release": ("ops", 0.4),
    "delegation": ("worker", 0.08),
    "login": ("worker", 0.2),
}
ALWAYS = {"batch": ("batch", 0.16), "poll": ("poller", 0.8)}


class Quiet(Stream):
    """`steps(moment)` gives everything before that moment: when, through which gate, what."""

    def __init__(self, agents: Iterable[Who], start: datetime, seed: int) -> None:
        self._who = list(agents)
        self._start = self._beat = start
        self._changed: dict[tuple[str, date], int] = {}  # how often, of an object and a day
        self._roles: dict[str, list[Who]] = {}
        for each in self._who:
            self._roles.setdefault(each.role, []).append(each)
        acts = {
            "assistant": self._assistant, "worker": self._worker, "approval": self._approval,
            "deploy": self._deploy, "release": self._release,
            "delegation": self._delegation, "login": self._login,
            "batch": self._batch, "poll": self._poll,
        }  # fmt: skip
        able = {kind: act for kind, act in acts.items() if self._able(kind)}
        super().__init__(start, able, seed)

    def _able(self, kind: str) -> list[Who]:
        return self._roles.get((RATES | ALWAYS)[kind][0], [])

    def rate(self, kind: str, when: datetime) -> float:
        return (RATES | ALWAYS)[kind][1] * len(self._able(kind)) * MONDAY

    def steps(self, moment: datetime) -> list[Step]:
        beats: list[Step] = []
        while self._beat < moment:
            beats += [(self._beat, gate, {"kind": "heartbeat"}) for gate in GATES[:-1]]
            self._beat += HEARTBEAT
        return list(heapq.merge(
            ((at, gate, fields) for at, _, gate, fields in self.told(moment)), beats,
            key=itemgetter(0),
        ))  # fmt: skip

    def _scene(self, kind: str, at: datetime) -> Scene | None:
        """A run of an agent that works at this hour."""
        able = self._able(kind)
        who = self._rng.choices(able, [each.weight for each in able])[0]
        local = at.astimezone(ZoneInfo(who.zone))
        busy = 1.0
        if kind in RATES:
            busy = HOURS[local.hour] * (WEEKEND if local.weekday() > 4 else 1)
            if local.weekday() == 0 and 8 <= local.hour < 11:
                busy *= MONDAY
        if at < self._start + timedelta(days=who.joined) or self._rng.random() * MONDAY > busy:
            return None
        return Scene(who, at, self._rng)

    def _play(self, scene: Scene) -> None:
        for at, gate, fields in scene.steps:
            self._say(at, gate, **fields)

    def _assistant(self, at: datetime) -> None:
        """A person asks; the agent looks, checks, asks back, does it or leaves it."""
        if scene := self._scene("assistant", at):
            talk.session(scene, NEW_TOOLS if at > self._start + timedelta(days=12) else {})
            self._play(scene)

    def _worker(self, at: datetime) -> None:
        """A ticket of a queue: looked up, checked, done, without a person."""
        if scene := self._scene("worker", at):
            talk.ticket(scene)
            self._play(scene)

    def _approval(self, at: datetime) -> None:
        if scene := self._scene("approval", at):
            talk.approval(scene)
            self._play(scene)

    def _deploy(self, at: datetime) -> None:
        """People change configuration, and somebody else has said yes."""
        if scene := self._scene("deploy", at):
            day = at.date()
            free = [each for each in OBJECTS if self._changed.get((each, day), 0) < SAME_DAY]
            name = self._rng.choice(free)
            times = min(
                2 if self._rng.random() < 0.15 else 1, SAME_DAY - self._changed.get((name, day), 0)
            )
            for near in (day - timedelta(days=1), day, day + timedelta(days=1)):  # of any zone
                self._changed[name, near] = self._changed.get((name, near), 0) + times
            talk.deploy(scene, name, times)
            self._play(scene)

    def _release(self, at: datetime) -> None:
        if scene := self._scene("release", at):
            talk.release(scene)
            self._play(scene)

    def _delegation(self, at: datetime) -> None:
        if scene := self._scene("delegation", at):
            talk.delegation(scene)
            self._play(scene)

    def _login(self, at: datetime) -> None:
        if scene := self._scene("login", at):
            user = {"user": scene.who.principal, "password": scene.id("pw")}
            scene.call("auth.login", user, response_bytes=240)
            self._play(scene)

    def _batch(self, at: datetime) -> None:
        """On the hours that are the agent's own, and now and then one that was planned."""
        if scene := self._scene("batch", at):
            talk.batch(scene, self._rng.randint(40, 160))
            self._play(scene)

    def _poll(self, at: datetime) -> None:
        if scene := self._scene("poll", at):
            talk.poll(scene)
            self._play(scene)
