"""From a line appended to a followed file until a webhook has heard of it, beside other traffic.

The service is a process of its own, as it is in earnest; the traffic comes from this one.
"""

import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import msgspec

from gatewatch.chat_sink import Arrived, ChatSink
from gatewatch.demo import free_ports
from gatewatch.fleet import NOUNS, Fleet, Line, line
from gatewatch.parts import utc_now
from tests.bench.measure import Figure

STEP = 0.02  # seconds between two writes
EVERY = 0.5  # seconds between two probes: fewer than the webhook's five a second
AHEAD = timedelta(seconds=1)  # before the first line
AFTER = 60.0  # seconds that the last probes may take
SECRET = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="  # noqa: S105 - of this benchmark
CONFIG = """\
policy     = "policy.json"
redact_key = "redact.key"
[service]
port = {port}
[sources.gate]
paths = ["logs/*.jsonl"]
[receivers.hook]
type          = "webhook"
webhook       = "{hook}/webhook"
secrets       = ["{secret}"]
allow_http    = true
allow_private = true
[telling]
storm_after = 1000
"""  # each probe is an alert of one detector: of more than ten people would hear a summary


class Heard:
    """When the webhook heard of each subject first, on the monotonic clock."""

    def __init__(self) -> None:
        self.at: dict[str, float] = {}

    def __call__(self, message: Arrived) -> None:
        if message.accepted and message.body["data"]["kind"] == "open":
            self.at.setdefault(message.body["data"]["subject"], message.seconds)


def measure(folder: Path, rate: int, seconds: float) -> list[Figure]:
    folder.mkdir(parents=True)
    heard = Heard()
    sink = ChatSink(0, SECRET, utc_now, heard=heard)
    sink.start()
    [port] = free_ports(1)
    policy = {"egress": {"allowed_hosts": [f"*.{area}.example" for area in NOUNS]}}
    (folder / "policy.json").write_bytes(msgspec.json.encode(policy))
    config = CONFIG.format(port=port, hook=sink.url, secret=SECRET)
    (folder / "gatewatch.toml").write_text(config)
    (folder / "logs").mkdir()
    command = [
        sys.executable,
        "-m",
        "gatewatch",
        "serve",
        "--config",
        str(folder / "gatewatch.toml"),
    ]
    said = folder / "serve.err"
    with said.open("wb") as errors, subprocess.Popen(command, stderr=errors) as process:
        try:
            _await(f"http://127.0.0.1:{port}/readyz", process)
            sent, late = _traffic(folder / "logs" / "gate.jsonl", rate, seconds)
            limit = time.monotonic() + AFTER
            while not sent.keys() <= heard.at.keys() and time.monotonic() < limit:
                time.sleep(0.05)
            used = _cpu(process.pid)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)
            sink.stop()
    if not heard.at:  # no figure can be had: show what the service says
        raise RuntimeError(f"none of {len(sent)} probes was heard of: {said.read_text()[-2000:]}")
    return _figures(sent, heard.at, rate, late, used / seconds)


def _traffic(path: Path, rate: int, seconds: float) -> tuple[dict[str, float], float]:
    """Write what is due, every few milliseconds. Returns when each probe was written, and how late
    the writer itself was at worst."""
    start = utc_now() + AHEAD + timedelta(seconds=rate * seconds / 15_000)  # time to make them
    fleet = Fleet(start, UTC)
    fleet.quicken(rate)
    lines = fleet.until(start + timedelta(seconds=seconds))
    probes = [_probe(start, n) for n in range(int((seconds - 1) / EVERY))]
    waiting = sorted([*lines, *probes], reverse=True)
    sent: dict[str, float] = {}
    late = timedelta()
    with path.open("ab", buffering=0) as file:
        while waiting:
            now = utc_now()
            due: list[Line] = []
            while waiting and waiting[-1].at <= now:
                due.append(waiting.pop())
            if due:
                late = max(late, now - due[0].at)
                file.write(b"".join(each.data + b"\n" for each in due))
                at = time.monotonic()
                sent |= {
                    f"{e.agent} -> {_host(e.agent)}": at for e in due if e.agent[:6] == "probe-"
                }
            threading.Event().wait(STEP)
    return sent, late.total_seconds()


def _probe(start: datetime, number: int) -> Line:
    """A line that fires by itself: an agent of its own, at a host that no policy lists."""
    at, agent = start + timedelta(seconds=1 + number * EVERY), f"probe-{number}"
    return line(at, f"ev-{agent}", {"agent": agent, "kind": "egress", "host": _host(agent)})


def _host(agent: str) -> str:
    return f"{agent}.elsewhere.test"


def _figures(
    sent: dict[str, float], heard: dict[str, float], rate: int, late: float, busy: float
) -> list[Figure]:
    taken = sorted(heard[each] - at for each, at in sent.items() if each in heard)
    beside = f"{len(taken)} of {len(sent)} probes heard of, {rate:,} lines/s beside them"
    worst = f"worst {taken[-1]:.2f} s; the writer itself was up to {late:.2f} s late"
    p95 = statistics.quantiles(taken, n=20, method="inclusive")[-1]
    return [
        Figure("line to webhook, p50", f"{statistics.median(taken):.2f} s", beside),
        Figure("line to webhook, p95", f"{p95:.2f} s", worst),
        Figure("service busy", f"{busy:.2f} cores", "its processor time, over the traffic"),
    ]  # fmt: skip


def _cpu(pid: int) -> float:
    """Seconds of processor time that a process has used, where the system tells."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return float("nan")
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _await(url: str, process: subprocess.Popen[bytes]) -> None:
    limit = time.monotonic() + 30
    while time.monotonic() < limit and process.poll() is None:
        try:
            httpx.get(url, trust_env=False)
        except httpx.TransportError:
            time.sleep(0.1)
        else:
            return
    raise TimeoutError(f"{url} does not answer")
