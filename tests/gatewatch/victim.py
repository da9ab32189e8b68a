"""A process that tails, judges and delivers as the service does, and dies where it is told to.

Run as: victim.py FOLDER SINK_URL HOURS [PHASE COUNT DELAY_MS]. With a phase, the process sends
itself SIGKILL so many milliseconds after it has come to that phase for the COUNTth time; without
one it works until nothing is left to do. HOURS is added to the clock, so that alerts are over.
It tells a webhook at SINK_URL, or whom FOLDER/receivers.json names; what is meant for PagerDuty
goes to the path /pager beside SINK_URL.
"""

import json
import os
import random
import signal
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path

import httpx

from detectors import delivery, outbox
from detectors.routing import Route, load
from detectors.worker import Worker
from gatewatch.parts import utc_now
from ingest.batch import Offset
from ingest.config import Telling
from ingest.tail import Tail
from tests.world import World

FOLDER, SINK, HOURS = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])
PHASE, COUNT, DELAY = (*sys.argv[4:7], "", "0", "0")[:3]
seen = {"n": 0}


def came_to(phase: str) -> None:
    if phase != PHASE:
        return
    seen["n"] += 1
    if seen["n"] == int(COUNT):
        if DELAY == "0":
            os.kill(os.getpid(), signal.SIGKILL)
        threading.Timer(float(DELAY) / 1000, os.kill, (os.getpid(), signal.SIGKILL)).start()


class Aside(httpx.BaseTransport):
    """Takes what is meant for PagerDuty to the sink: its address cannot be configured."""

    def __init__(self) -> None:
        self._way = delivery.client(5.0, allow_http=True, allow_private=True)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        url = httpx.URL(SINK).copy_with(path="/pager")
        return self._way.post(url, content=request.read())


def worker(route: Route, world: World) -> Worker:
    client = httpx.Client(transport=Aside()) if route.type == "pagerduty" else None
    return Worker(route, world.store, world.lander, world.routes, client, chance=lambda: 0.01)


def main() -> None:
    table = {"type": "webhook", "webhook": SINK, "allow_http": True, "allow_private": True}
    named = FOLDER / "receivers.json"
    several = named.exists()
    routes = load(json.loads(named.read_text()) if several else {"hook": table})
    only = ["deny_retry"] if several else None  # loading the whole catalogue takes seconds
    # what the dead have left untold comes all at once: it is counted one by one, not as a storm
    figures = Telling(storm_after=1_000)
    world = World(FOLDER, routes, policy=None, step=came_to, only=only, figures=figures)
    with world.store.writing() as db:
        outbox.reset(db)
    tail = Tail("gate", "native", [str(FOLDER / "logs" / "*.jsonl")], 2**20, 4_000)
    rows = world.rows("SELECT * EXCLUDE (seen_at) FROM tail_offsets WHERE source = 'gate'")
    tail.restore(Offset(**row) for row in rows)
    workers = [worker(route, world) for route in routes]
    random.shuffle(workers)  # each is the first now and then
    idle = 0
    while idle < 3:
        busy = False
        for batch in tail.poll():
            world.lander.land(batch, utc_now() + timedelta(hours=HOURS))
            tail.done(batch)
            busy = True
        came_to("judging")
        tick = world.tick(utc_now() + timedelta(hours=HOURS))
        came_to("judged")
        for each in workers:
            while (wait := worker_step(each)) is not None:
                busy = True
                time.sleep(min(wait, 0.05))
        busy = busy or bool(tick.told)
        idle = 0 if busy else idle + 1
    sys.stdout.write("done")


def worker_step(worker: Worker) -> float | None:
    came_to("delivery")
    return worker.step(utc_now() + timedelta(hours=HOURS))


main()
