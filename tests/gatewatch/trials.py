"""A service that is killed again and again, while lines come by file and over HTTP.

`python -m tests.gatewatch.trials 200` runs as many trials and says what was lost and doubled;
tests/gatewatch/test_trials.py runs fewer. One trial: the service starts, a writer appends to a
followed log, rotates it by rename or by copy and truncation, and posts batches that it sends again
until they are answered; at a random moment the service gets SIGKILL. All trials share one folder.
"""

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import httpx

ROOT = Path(__file__).parents[2]
CONFIG = """
[service]
port = {port}
tail_every = 0.05
judge_every = 0.2

[sources.gate]
paths = ["logs/gate.jsonl*"]
"""
LINES = 40  # that one batch has
UP = 60.0  # seconds within which a service must answer


@dataclass
class Result:
    """What became of all lines of all trials."""

    trials: int
    written: int  # lines that were appended to the log
    acknowledged: int  # lines of batches that were answered
    lost: int
    doubled: int
    killed: int = 0  # while it was at work
    rotations: int = 0
    resent: int = 0  # batches that were sent more than once
    problems: list[str] = field(default_factory=list)


class Writer:
    """Writes lines nobody else has, in every way that lines come. Remembers what must be there."""

    def __init__(self, folder: Path, url: str, chance: random.Random) -> None:
        self.folder, self.url, self.chance = folder, url, chance
        self.number = self.rotations = self.resent = 0
        self.written: list[str] = []
        self.acknowledged: list[str] = []
        self._open: tuple[str, list[str]] | None = None  # a batch without its answer
        self._http = httpx.Client(timeout=5, trust_env=False)

    def close(self) -> None:
        self._http.close()

    def lines(self, way: str) -> tuple[list[str], str]:
        """New lines: their ids, and the text."""
        ids = [f"{way}-{self.number + n}" for n in range(self.chance.randint(1, LINES))]
        self.number += len(ids)
        now = datetime.now(UTC).isoformat()
        docs = [{"ts": now, "kind": "tool_call", "agent": f"a{n % 3}", "event_id": name,
                 "tool": "crm.read", "decision": "allow", "params": {"pad": "x" * 300}}
                for n, name in enumerate(ids)]  # fmt: skip
        return ids, "".join(json.dumps(doc) + "\n" for doc in docs)

    def append(self) -> None:
        """Lines to the log, in pieces that end in the middle of a line."""
        ids, text = self.lines("file")
        data = text.encode()
        cut = self.chance.randint(0, len(data))
        with (self.folder / "gate.jsonl").open("ab", buffering=0) as log:
            for part in (data[:cut], data[cut:]):
                log.write(part)
        self.written += ids

    def rotate(self) -> None:
        """As logrotate does: a new file, or a copy and the same file emptied."""
        log = self.folder / "gate.jsonl"
        if not log.exists():
            return
        self.rotations += 1
        for number in range(8, 0, -1):
            old = self.folder / f"gate.jsonl.{number}"
            if old.exists():
                old.rename(self.folder / f"gate.jsonl.{number + 1}")
        if self.chance.random() < 0.5:
            log.rename(self.folder / "gate.jsonl.1")
        else:
            shutil.copyfile(log, self.folder / "gate.jsonl.1")
            os.truncate(log, 0)

    def post(self) -> None:
        """One batch; the one that had no answer first, under the same key."""
        if self._open is None:
            ids, text = self.lines("http")
            self._open = (text, ids)
        else:
            self.resent += 1
        text, ids = self._open
        with suppress(httpx.HTTPError):
            answer = self._http.post(
                f"{self.url}/v1/events", content=text, headers={"Idempotency-Key": ids[0]}
            )
            if answer.status_code == 200:
                self.acknowledged += ids
                self._open = None

    def work(self, over: threading.Event) -> None:
        while not over.is_set():
            match self.chance.random():
                case r if r < 0.5:
                    self.append()
                case r if r < 0.93:
                    self.post()
                case _:
                    self.rotate()
            over.wait(self.chance.uniform(0, 0.02))

    def settle(self) -> None:
        """What had no answer gets one."""
        until = time.monotonic() + UP
        while self._open is not None and time.monotonic() < until:
            self.post()


def serve(folder: Path, url: str) -> subprocess.Popen[bytes]:
    """A real service; returns when it answers."""
    command = [sys.executable, "-m", "gatewatch", "serve", "--config", "gatewatch.toml"]
    with (folder / "serve.log").open("ab") as log:
        process = subprocess.Popen(
            command, cwd=folder, stderr=log,
            env=os.environ | {"XDG_CONFIG_HOME": str(folder / "config"), "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
    until = time.monotonic() + UP
    while time.monotonic() < until and process.poll() is None:
        with suppress(httpx.HTTPError):
            if httpx.get(f"{url}/healthz", trust_env=False).status_code == 200:
                return process
        time.sleep(0.02)
    raise AssertionError((folder / "serve.log").read_text()[-2000:])


def stored(url: str) -> Counter[str]:
    """Every event that is there, by its own id, with how often."""
    import pyarrow as pa  # the answer is an Arrow stream

    found: Counter[str] = Counter()
    for way in ("file", "http"):
        for digit in "0123456789":  # one answer holds 200,000 rows at most
            sql = "SELECT native_id FROM events WHERE native_id LIKE $like"
            asked = {"sql": sql, "params": {"like": f"{way}-%{digit}"}}
            answer = httpx.post(f"{url}/v1/sql", json=asked, timeout=60, trust_env=False)
            answer.raise_for_status()
            with pa.ipc.open_stream(answer.content) as stream:
                found.update(row["native_id"] for row in stream.read_all().to_pylist())
    return found


def run(folder: Path, trials: int, seed: int = 0) -> Result:
    """All trials in one folder; the service ends in peace at last."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    logs, url = folder / "logs", f"http://127.0.0.1:{port}"
    logs.mkdir(parents=True)
    (folder / "gatewatch.toml").write_text(CONFIG.format(port=port))
    chance = random.Random(seed)  # noqa: S311 - when to kill, not a secret
    writer, killed = Writer(logs, url, chance), 0
    for _ in range(trials):
        process, over = serve(folder, url), threading.Event()
        at_work = threading.Thread(target=writer.work, args=(over,))
        at_work.start()
        time.sleep(chance.choice([0.0, 0.05, 0.2, 0.5]) + chance.uniform(0, 0.3))
        process.send_signal(signal.SIGKILL)
        killed += process.wait(10) == -signal.SIGKILL
        over.set()
        at_work.join()
    process = serve(folder, url)
    writer.settle()
    wanted = Counter(writer.written) + Counter(writer.acknowledged)
    found, until = stored(url), time.monotonic() + UP
    while (wanted - found) and time.monotonic() < until:
        time.sleep(0.2)
        found = stored(url)
    process.send_signal(signal.SIGTERM)
    process.wait(30)
    writer.close()
    return Result(
        trials, len(writer.written), len(writer.acknowledged), (wanted - found).total(),
        sum(n - 1 for n in found.values() if n > 1), killed, writer.rotations, writer.resent,
    )  # fmt: skip


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        began = time.monotonic()
        done = run(Path(name) / "trials", int(sys.argv[1]), int((*sys.argv, "0")[2]))
        sys.stdout.write(f"{done}\n{time.monotonic() - began:.0f} s\n")
        sys.exit(bool(done.lost or done.doubled))
