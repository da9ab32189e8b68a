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
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

import uvicorn
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler

from dashboards import launch
from detectors.worker import Worker
from gatewatch import keeping
from gatewatch.access import LOCAL
from gatewatch.api import Api
from gatewatch.connections import IDLE_SECONDS, bounded
from gatewatch.direct import Direct, told_of
from gatewatch.disk import REFUSALS, Disk
from gatewatch.following import Follower, drained
from gatewatch.parts import Parts, utc_now
from ingest.apply import Landed
from ingest.batch import Batch, Offset
from ingest.config import ConfigError, Source
from ingest.cut import how
from ingest.kafka import Stream
from ingest.land import BehindError
from ingest.ledger import LedgerError
from ingest.segment import OWN
from ingest.tail import Tail

log = logging.getLogger("gatewatch")
ARRIVALS_KEPT = timedelta(days=7)  # silent_source looks back over three
PRUNE_EVERY, PRUNE_FIRST = timedelta(days=1), timedelta(minutes=10)
STALE = timedelta(seconds=120)  # a loop that has not come round for so long is not well


class Service:
    """`start()` returns when everything runs; `stop()` when nothing does any more."""

    def __init__(self, parts: Parts, dashboard: bool = False) -> None:
        keeping.check(parts)
        self._parts, self._dashboard = parts, dashboard
        self._over = threading.Event()
        self._changed = threading.Event()  # lines have landed: judge now rather than at the tick
        self._owed = threading.Event()  # a message is owed: deliver now
        self._threads: list[threading.Thread] = []
        self._state: dict[str, str] = {}
        self._rounds: dict[str, float] = {}
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
        self._scheduler = BackgroundScheduler(
            timezone="UTC", executors={"default": ThreadPoolExecutor(2)}
        )
        self._disk = Disk(
            parts.ledger.folder, parts.settings.limits.free_bytes, self._trial, self._note
        )
        self._server = self._http()

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
            self._loop(f"kafka {stream.source}", lambda s=stream: drained(s, self.land))  # type: ignore[misc]
        for follower in self._followers:
            self._loop(f"tail {follower.tail.source}", follower.turn)
            self._run("watch", follower.watch)
        self._loop("disk", lambda: self._disk.step(utc_now()))
        self._loop("judge", self._judge)
        for route in told_of(self._parts.routes):
            direct = Direct(route, self._parts.settings.public_url)
            self._loop(f"tell {route.name}", lambda d=direct: d.step(self._disk.why, utc_now()))  # type: ignore[misc]
        for route in self._parts.routes:
            worker = Worker(route, self._parts.store, self._parts.lander, self._parts.routes)
            self._loop(f"deliver {route.name}", lambda w=worker: self._deliver(w))  # type: ignore[misc]
        self._every(self._housekeep, timedelta(seconds=20))
        self._every(self._seal, timedelta(minutes=1))
        if self._parts.settings.retention is not None:
            self._every(self._prune, PRUNE_EVERY, utc_now() + PRUNE_FIRST)
        self._scheduler.start()
        http = self._run("http", self._listen)
        while not self._server.started:
            if not http.is_alive():
                self.stop()
                raise ConfigError(f"service.port: cannot listen on {self.url}: is it in use?")
            time.sleep(0.02)
        self._announce()
        if self._dashboard:
            dashboard = self._parts.settings.dashboard
            self._child = subprocess.Popen(  # noqa: S603 - our own command line
                launch.command(dashboard.port, dashboard.host),
                env=os.environ | {"GATEWATCH_URL": self.url},
                stdout=subprocess.DEVNULL,
            )

    def _listen(self) -> None:
        with suppress(SystemExit):  # the server ends its thread so when the port is taken
            self._server.run()

    def stop(self) -> None:
        self._over.set()
        self._changed.set()
        self._owed.set()
        for follower in self._followers:
            follower.ring()
        self._server.should_exit = True
        if self._scheduler.running:
            self._scheduler.shutdown(wait=True)
        for thread in self._threads:
            thread.join(timeout=20)
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
        return Follower(tail, paths, self.land, self._parts.settings.service.tail_every, self._over)

    def _judge(self) -> float:
        self._changed.wait(self._parts.settings.service.judge_every)
        self._changed.clear()
        if self._over.is_set():
            return 0.0
        began = time.monotonic()
        tick = self._parts.tick(utc_now())
        if tick.told:
            self._owed.set()
        state = "; ".join(f"{name}: {reason}" for name, reason in tick.failed.items()) or "ok"
        if state not in ("ok", self._state.get("detectors")):
            log.error("detectors: %s", state)
        self._state["detectors"] = state
        # lines come all the time: judging takes half of the time at most
        return max(self._parts.settings.service.judge_every, time.monotonic() - began)

    def _deliver(self, worker: Worker) -> float:
        wait = worker.step(utc_now())
        if wait is None or wait > 0:
            self._owed.wait(min(wait or 1.0, 1.0))
            self._owed.clear()
        return 0.0

    def _housekeep(self) -> None:
        """Say that we are listening, three times a minute so that none is missed: silent_source."""
        with self._parts.store.writing() as db:
            minute = utc_now().replace(second=0, microsecond=0)
            db.execute("INSERT INTO arrivals VALUES (?, ?, 0, NULL)", [OWN, minute])
            db.execute("DELETE FROM arrivals WHERE minute < ?", [minute - ARRIVALS_KEPT])

    def _every(
        self, job: Callable[[], None], often: timedelta, first: datetime | None = None
    ) -> None:
        self._scheduler.add_job(
            job, "interval", seconds=often.total_seconds(), coalesce=True, max_instances=1,
            misfire_grace_time=None, **({"next_run_time": first} if first else {}),
        )  # fmt: skip

    def _seal(self) -> None:
        """A segment of another day, or an old one, though no line comes that would seal it."""
        self._done("ledger", lambda: self._parts.lander.seal(utc_now()))

    def _prune(self) -> None:
        self._done("retention", lambda: keeping.pruned(self._parts, utc_now()))

    def _done(self, name: str, job: Callable[[], object]) -> None:
        try:
            job()
            self._state[name] = "ok"
        except (*REFUSALS, ConfigError, OSError) as error:
            self._state[name] = str(error)
            log.error("%s: %s", name, error)

    def _trial(self) -> None:
        """Raises what keeps lines out of ledger or database, if anything does."""
        self._parts.lander.recover()
        self._housekeep()

    def _note(self, why: str, since: datetime) -> None:
        detail = {"why": why, "since": since}
        self._parts.lander.record("intake_stopped", OWN, OWN, detail, utc_now())

    def _loop(self, name: str, turn: Callable[[], float]) -> None:
        """Run `turn` again and again; it returns how long to wait. Errors are shown, not fatal."""

        def run() -> None:
            wait = 0.0
            while not self._over.wait(wait):
                try:
                    wait = turn()
                    self._state[name] = "ok"
                except (BehindError, LedgerError, OSError) as error:
                    self._state[name], wait = str(error), 2.0
                    log.error("%s: %s", name, error)
                except Exception as error:
                    self._state[name], wait = f"{type(error).__name__}: {error}", 2.0
                    log.exception("%s", name)
                self._rounds[name] = time.monotonic()

        self._state[name], self._rounds[name] = "ok", time.monotonic()
        self._run(name, run)

    def _run(self, name: str, target: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=target, name=name, daemon=True)
        thread.start()
        self._threads.append(thread)
        return thread

    def health(self) -> dict[str, str]:
        """Every loop and its state: `ok`, or what is wrong."""
        found = self._state | {"disk": self._disk.why or "ok"}
        for name, at in self._rounds.items():
            if time.monotonic() - at > STALE.total_seconds():
                found[name] = f"has not come round for {time.monotonic() - at:.0f} s"
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
        app = Api(self._parts, self.health, self._changed.set, self._disk).app()
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
