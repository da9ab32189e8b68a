"""A process that tails, judges and delivers as the service does, and dies where it is told to.

Run as: victim.py FOLDER SINK_URL HOURS [PHASE COUNT DELAY_MS]. With a phase, the process sends
itself SIGKILL so many milliseconds after it has come to that phase for the COUNTth time; without
one it works until nothing is left to do. HOURS is added to the clock, so that alerts are over.
"""

import os
import signal
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path

from detectors.routing import load
from detectors.worker import Worker
from gatewatch.parts import utc_now
from ingest.batch import Offset
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


def main() -> None:
    table = {"type": "webhook", "webhook": SINK, "allow_http": True, "allow_private": True}
    world = World(FOLDER, load({"hook": table}), policy=None, step=came_to)
    tail = Tail("gate", "native", [str(FOLDER / "logs" / "*.jsonl")], 2**20, 4_000)
    rows = world.rows("SELECT * EXCLUDE (seen_at) FROM tail_offsets WHERE source = 'gate'")
    tail.restore(Offset(**row) for row in rows)
    worker = Worker(world.routes[0], world.store, world.lander, chance=lambda: 0.01)
    idle = 0
    while idle < 3:
        busy = False
        for batch in tail.poll():
            world.lander.land(batch, utc_now())
            tail.done(batch)
            busy = True
        came_to("judging")
        tick = world.tick(utc_now() + timedelta(hours=HOURS))
        came_to("judged")
        while (wait := worker_step(worker)) is not None:
            busy = True
            time.sleep(min(wait, 0.05))
        busy = busy or bool(tick.told)
        idle = 0 if busy else idle + 1
    sys.stdout.write("done")


def worker_step(worker: Worker) -> float | None:
    came_to("delivery")
    return worker.step(utc_now() + timedelta(hours=HOURS))


main()
