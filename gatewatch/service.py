"""One process: HTTP, tails, the judge, and a worker per receiver.

Every loop runs in its own thread and on monotonic time; what one of them cannot do is shown on
/readyz, and the others go on. SIGTERM stops taking lines, finishes what is under way, and ends.
Reads: gatewatch.toml. Writes: through its parts. Next: gatewatch/api.py.
"""

import json
import logging
import os
import subprocess
import threading
import time
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import uvicorn

from dashboards import launch
from detectors import rounds, settling
from detectors.pausing import Keeper
from detectors.worker import Worker
from gatewatch import keeping
from gatewatch.access import LOCAL
from gatewatch.alarming import pusher
from gatewatch.api import Api
from gatewatch.connections import IDLE_SECONDS, bounded
from gatewatch.direct import Direct, told_of
from gatewatch.disk import REFUSALS, Disk
from gatewatch.following import Follower, drained
from gatewatch.loops import Loops
from gatewatch.parts import Parts, utc_now
from gatewatch.reloading import Reloader
from ingest.apply import Landed
from ingest.batch import Batch, Offset
from ingest.config import ConfigError, Source
from ingest.cut import how
from ingest.kafka import Stream
from ingest.segment import OWN
from ingest.tail import Tail

log = logging.getLogger("gatewatch")
PRUNE_EVERY, PRUNE_FIRST = timedelta(days=1), timedelta(minutes=10)
STALE = timedelta(seconds=120)  # a detector without a good round for so long is not well
CONTAIN_EVERY = 0.5  # seconds between looks at what gates are to be asked
RELOAD_EVERY = 2.0  # seconds between looks at gatewatch.toml, policy and detectors


class Service:
    """`start()` returns when everything runs; `stop()` when nothing does any more."""

    def __init__(self, parts: Parts, dashboard: bool = False, config: Path | None = None) -> None:
        keeping.check(parts)
        self._parts, self._dashboard = parts, dashboard
        self._loops = Loops()
        self._reloader = Reloader(parts, config)
        self._steps = rounds.Steps()
        self._changed = threading.Event()  # lines have landed: judge now rather than at the tick
        self._owed = threading.Event()  # a message is owed: deliver now
        self._child: subprocess.Popen[bytes] | None = None
        self._followers = [
            self._follower(name, each)
            for name, each in parts.settings.sources.items() if each.paths
        ]  # fmt: skip
        limits = parts.settings.limits
        self._streams = [
            Stream(name, each, parts.lander.check(each.adapter, name), limits.line_bytes,
                   limits.batch_bytes)
            for name, each in parts.settings.sources.items() if each.kafka is not None
        ]  # fmt: skip
        self._readers: list[Tail | Stream] = [each.tail for each in self._followers]
        self._readers += self._streams
        self._disk = Disk(
            parts.ledger.folder, parts.settings.limits.free_bytes, self._trial, self._note
        )
        self._server = self._http()
        self._pusher = pusher(parts)

    @property
    def url(self) -> str:
        service = self._parts.settings.service
        host = f"[{service.host}]" if ":" in service.host else service.host
        return f"http://{host}:{service.port}"

    def start(self) -> None:
        for reader in self._readers:
            rows = self._parts.store.rows(
                "SELECT * EXCLUDE (seen_at) FROM tail_offsets WHERE source = $s", s=reader.source
            )
            reader.restore(Offset(**row) for row in rows)
        for stream in self._streams:
            self._loops.loop(f"kafka {stream.source}", partial(drained, stream, self.land))
        for follower in self._followers:
            self._loops.loop(f"tail {follower.tail.source}", follower.turn)
            self._loops.run("watch", follower.watch)
        self._loops.loop("disk", lambda: self._disk.step(utc_now()))
        self._loops.loop("judge", self._judge)
        self._loops.loop("reload", self._reload)
        self._start_telling()
        self._loops.every(self._housekeep, timedelta(seconds=20), utc_now())
        self._loops.every(self._seal, timedelta(minutes=1))
        if self._parts.settings.retention is not None:
            self._loops.every(self._prune, PRUNE_EVERY, utc_now() + PRUNE_FIRST)
        self._loops.scheduler.start()
        http = self._loops.run("http", self._listen)
        while not self._server.started:
            if not http.is_alive():
                self.stop()
                raise ConfigError(f"service.port: cannot listen on {self.url}: is it in use?")
            time.sleep(0.02)
        self._announce()
        for gap in self._parts.gaps():
            log.warning("routing: %s.", gap)
        if self._dashboard:
            dashboard = self._parts.settings.dashboard
            self._child = subprocess.Popen(  # noqa: S603 - our own command line
                launch.command(dashboard.port, dashboard.host),
                env=os.environ | {"GATEWATCH_URL": self.url},
                stdout=subprocess.DEVNULL,
            )

    def _start_telling(self) -> None:
        """A worker for each receiver, each gate, and the Alertmanagers."""
        self._loops.run("bury", self._bury)
        for route in told_of(self._parts.desk.routes):
            direct = Direct(route, self._parts.settings.public_url)
            self._loops.loop(f"tell {route.name}", partial(self._tell, direct))
        for route in self._parts.desk.routes:
            worker = Worker(
                route, self._parts.store, self._parts.lander, self._parts.desk.routes,
                links=self._parts.desk.links,
            )  # fmt: skip
            self._loops.loop(f"deliver {route.name}", partial(self._deliver, worker))
        for gate in self._parts.gates:
            keeper = Keeper(
                gate, self._parts.store, self._parts.lander, self._parts.settings.public_url
            )
            self._loops.loop(f"contain {gate.name}", partial(self._contain, keeper))
        if self._pusher is not None:
            self._loops.loop("alertmanager", self._pusher)

    def _bury(self) -> None:
        """What is owed to receivers that are configured no more would wait for ever."""
        parts = self._parts
        with suppress(*REFUSALS):  # a full disk: the next start says it
            if gone := settling.bury(parts.store, parts.lander, parts.desk.names, utc_now()):
                log.warning("%d messages to receivers that are not configured any more are given"
                            " up: gatewatch deliveries --dead", gone)  # fmt: skip

    def _listen(self) -> None:
        with suppress(SystemExit):  # the server ends its thread so when the port is taken
            self._server.run()

    def stop(self) -> None:
        self._loops.over.set()
        self._changed.set()
        self._owed.set()
        for follower in self._followers:
            follower.ring()
        self._server.should_exit = True
        self._loops.end()
        for stream in self._streams:
            stream.close()
        if self._child is not None:
            self._child.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._child.wait(5)
        _address(self._parts).unlink(missing_ok=True)
        self._parts.close()

    def land(self, batch: Batch, now: datetime) -> Landed:
        """Land a batch, and have it judged soon."""
        self._disk.refuse()
        try:
            landed = self._parts.lander.land(batch, now)
        except REFUSALS as error:
            self._disk.failed(error)
            raise
        self._changed.set()
        return landed

    def _follower(self, name: str, source: Source) -> Follower:
        limits, paths = self._parts.settings.limits, _absolute(self._parts, source.paths)
        cut = how(self._parts.lander.check(source.adapter, name), source)
        tail = Tail(name, source.adapter, paths, limits.line_bytes, limits.batch_bytes, cut)
        return Follower(
            tail, paths, self.land, self._parts.settings.service.tail_every, self._loops.over
        )

    def _judge(self) -> float:
        self._changed.wait(self._parts.settings.service.judge_every)
        self._changed.clear()
        if self._loops.over.is_set():
            return 0.0
        began = time.monotonic()
        self._reloader.adopt()
        if step := self._steps.seen(utc_now()):
            log.warning(
                "the clock was set by %.0f s: rounds go on, windows are those of events", step
            )
            with self._parts.store.writing() as db:
                rounds.stepped(db, utc_now(), step)
        tick = self._parts.tick(utc_now())
        if tick.told:
            self._owed.set()
        state = "; ".join(f"{name}: {reason}" for name, reason in tick.failed.items()) or "ok"
        if state not in ("ok", self._loops.state.get("detectors")):
            log.error("detectors: %s", state)
        self._loops.state["detectors"] = state
        # lines come all the time: judging takes four fifths of it at most
        return max(self._parts.settings.service.judge_every, (time.monotonic() - began) / 4)

    def _tell(self, direct: Direct) -> float:
        return direct.step(self._disk.why, utc_now())

    def _deliver(self, worker: Worker) -> float:
        wait = worker.step(utc_now())
        if wait is None or wait > 0:
            self._owed.wait(min(wait or 1.0, 1.0))
            self._owed.clear()
        return 0.0

    def _contain(self, keeper: Keeper) -> float:
        wait = keeper.step(utc_now())
        return CONTAIN_EVERY if wait is None else min(wait, CONTAIN_EVERY)

    def _housekeep(self) -> None:
        """Say that we are listening, and to whom, often enough that no minute is missed."""
        with self._parts.store.writing() as db:
            rounds.listened(db, (OWN, *self._parts.settings.sources), utc_now())
            rounds.forget(db, utc_now())

    def _seal(self) -> None:
        """A segment of another day, or an old one, though no line comes that would seal it."""
        self._loops.done("ledger", lambda: self._parts.lander.seal(utc_now()))

    def _prune(self) -> None:
        self._loops.done("retention", lambda: keeping.pruned(self._parts, utc_now()))

    def _trial(self) -> None:
        """Raises what keeps lines out of ledger or database, if anything does."""
        self._parts.lander.recover()
        self._housekeep()

    def _note(self, why: str, since: datetime) -> None:
        detail = {"why": why, "since": since}
        self._parts.lander.record("intake_stopped", OWN, OWN, detail, utc_now())

    def reload(self) -> None:
        """Load detectors and policy anew, whether a file has changed or not."""
        self._reloader.ask()

    def _reload(self) -> float:
        if self._reloader.look():
            self._changed.set()
        return RELOAD_EVERY

    def health(self) -> dict[str, str]:
        """Every loop and its state: `ok`, or what is wrong."""
        found = self._loops.health() | {"disk": self._disk.why or "ok"}
        found["reload"] = self._reloader.problem or "ok"
        stale = self._parts.engine.rounds.stale(self._parts.detectors, STALE.total_seconds())
        found |= {f"detector {name}": reason for name, reason in stale.items()}
        for reader in self._readers:
            for path, problem in reader.problems:
                kind = "tail" if isinstance(reader, Tail) else "kafka"
                found[f"{kind} {reader.source}"] = f"{path}: {problem}"
        return found

    def _http(self) -> uvicorn.Server:
        settings = self._parts.settings
        host = settings.service.host
        if not settings.tokens and host not in LOCAL and host != "::1":
            raise ConfigError(
                f"service.host: {host!r} can be reached from elsewhere, so [[tokens]] must be set."
            )
        app = Api(self._parts, self.health, self._changed.set, self._disk, self._reloader.own).app()
        config = uvicorn.Config(
            app, host=host, port=settings.service.port, log_level="warning", access_log=False,
            timeout_graceful_shutdown=10, lifespan="off", timeout_keep_alive=IDLE_SECONDS,
            http=bounded(settings.limits.connections),
        )  # fmt: skip
        server = uvicorn.Server(config)
        server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
        return server

    def _announce(self) -> None:
        """Leave our address beside the database, for commands that find it held."""
        _address(self._parts).write_text(json.dumps({"url": self.url, "pid": os.getpid()}))


def _address(parts: Parts) -> Path:
    return (parts.store.path or Path("memory")).with_suffix(".service.json")


def _absolute(parts: Parts, paths: tuple[str, ...]) -> list[str]:
    return [str(Path(parts.settings.folder, path).expanduser()) for path in paths]
