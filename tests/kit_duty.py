"""What tests of escalation are written with: a world whose receivers answer as one says."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import msgspec

from detectors import outbox, silences, triage
from detectors.receivers import Message
from detectors.routing import load
from detectors.worker import Worker
from tests.kit_telling import HOOK, SLACK
from tests.world import World, at, denied

QUIET = ("deny_retry", "unlisted_egress")  # the detectors of these worlds
RECEIVERS: dict[str, dict[str, Any]] = {
    "ops": HOOK, "soc": SLACK, "lead": HOOK, "boss": HOOK, "pager": SLACK | {"language": "zh"},
}  # fmt: skip
STEPS = [{"after": "15 minutes", "to": ["lead"]}, {"after": "1 hour", "to": ["boss"]}]
TREE: dict[str, Any] = {"to": ["ops"], "escalate": STEPS}


class Duty:
    """People on duty, and a clock in minutes after nine. `down`: receivers that do not answer;
    `deaf`: those that refuse."""

    def __init__(self, folder: Path, tree: dict[str, Any] | None = None, **more: Any) -> None:
        self.folder, self.tree, self.more = folder, TREE if tree is None else tree, more
        self.down: set[str] = set()
        self.deaf: set[str] = set()
        self.world = self._open()

    def _open(self) -> World:
        routes = load(RECEIVERS | self.more.get("receivers", {}))
        return World(self.folder, routes, only=QUIET, tree=self.tree)

    def restart(self) -> None:
        self.world.close()
        self._start()

    def _start(self) -> None:
        self.world = self._open()
        with self.world.store.writing() as db:
            outbox.reset(db)

    def rebuild(self) -> None:
        """What `gatewatch rebuild` leaves: the ledger, and nothing else."""
        self.world.close()
        for path in self.folder.glob("gatewatch.duckdb*"):
            path.unlink()
        self._start()

    def denials(self, *minutes: float, agent: str = "a1") -> None:
        self.world.land(
            [denied(m, agent, event_id=f"{agent}-{m}") for m in minutes], now=at(max(minutes))
        )

    def tick(self, minutes: float) -> list[str]:
        """A round, and all that it owes delivered: who was told what, sorted."""
        self.world.tick(at(minutes))
        self.deliver(minutes)
        return sorted(
            f"{row['receiver']} {row['kind']}" for row in self.rows()
            if row["created_at"] == at(minutes)
        )  # fmt: skip

    def deliver(self, minutes: float) -> None:
        for route in self.world.routes:
            with httpx.Client(transport=httpx.MockTransport(self._answer(route.name))) as client:
                worker = Worker(route, self.world.store, self.world.lander, (), client, lambda: 0.0)
                while worker.step(at(minutes)) == 0.0:
                    pass

    def _answer(self, name: str) -> Callable[[httpx.Request], httpx.Response]:
        def answer(_: httpx.Request) -> httpx.Response:
            if name in self.down:
                return httpx.Response(503)
            return httpx.Response(410) if name in self.deaf else httpx.Response(200, text="ok")

        return answer

    def ack(self, minutes: float, alert: str | None = None) -> None:
        store, lander = self.world.store, self.world.lander
        name = alert or self.alert["alert_id"]
        triage.acknowledge(store, lander, name, "wang", "", at(minutes))

    def silence(self, minutes: float, until: float) -> None:
        wanted, world = silences.Matchers(detector="deny_retry"), self.world
        silences.add(world.store, world.lander, wanted, at(until), "wang", "known", at(minutes))

    def rows(self) -> list[dict[str, Any]]:
        return self.world.rows(
            "SELECT delivery_id, receiver, kind, state, created_at FROM deliveries"
            " ORDER BY created_at, kind DESC, receiver"
        )

    def message(self, receiver: str, kind: str) -> Message:
        [row] = self.world.rows(
            "SELECT message FROM deliveries WHERE receiver = $receiver AND kind = $kind"
            " ORDER BY created_at DESC LIMIT 1", receiver=receiver, kind=kind,
        )  # fmt: skip
        return msgspec.json.decode(row["message"], type=Message)

    def messages(self, receiver: str) -> list[Message]:
        rows = self.world.rows(
            "SELECT message FROM deliveries WHERE receiver = $receiver ORDER BY created_at",
            receiver=receiver,
        )
        return [msgspec.json.decode(row["message"], type=Message) for row in rows]

    @property
    def alert(self) -> dict[str, Any]:
        [row] = self.world.rows("SELECT * FROM alerts WHERE status <> 'merged'")
        return row
