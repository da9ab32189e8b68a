"""A process that reads topics as the service does, and dies where it is told to.

Run as: kafka_victim.py FOLDER BROKERS GROUP WANTED [COUNT DELAY_MS]. It ends when the database
holds WANTED events; with COUNT it sends itself SIGKILL so many milliseconds after its COUNTth batch
stood in the ledger, before that is committed to the database or after.
"""

import os
import signal
import sys
import threading
from pathlib import Path

from gatewatch.parts import utc_now
from ingest.adapter import Header
from ingest.batch import Offset
from ingest.config import Kafka, Source
from ingest.kafka import Stream
from tests.world import World

FOLDER, BROKERS, GROUP, WANTED = Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
COUNT, DELAY = (int(each) for each in (*sys.argv[5:7], "0", "0")[:2])
seen = {"ledger": 0}


def came_to(phase: str) -> None:
    if phase == "ledger":
        seen["ledger"] += 1
        if seen["ledger"] == COUNT and DELAY == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        if seen["ledger"] == COUNT:
            threading.Timer(DELAY / 1000, os.kill, (os.getpid(), signal.SIGKILL)).start()


def main() -> None:
    world = World(FOLDER, policy=None, step=came_to)
    source = Source(kafka=Kafka(BROKERS, ("calls",), GROUP, {"log_level": 0}))
    stream = Stream("gate", source, Header("native"), 2**20, 2_000)
    rows = world.rows("SELECT * EXCLUDE (seen_at) FROM tail_offsets WHERE source = 'gate'")
    stream.restore(Offset(**row) for row in rows)
    while world.rows("SELECT count(*) AS n FROM events")[0]["n"] < WANTED:
        for batch in stream.poll(0.2):
            world.lander.land(batch, utc_now())
            stream.done(batch)
    world.close()
    sys.stdout.write("done")


main()
