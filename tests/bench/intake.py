"""Lines pushed over HTTP for a minute: how long a sender waits for the answer that they are kept.

The service is a process of its own; senders are connections that stay open, each with a batch under
way at most. What a sender is late by, because the answer before came late, counts as waiting.
"""

import asyncio
import signal
import statistics
import subprocess
import sys
import time
from datetime import UTC, timedelta
from pathlib import Path

import httpx
import msgspec

from gatewatch.demo import free_ports
from gatewatch.fleet import NOUNS, Fleet
from gatewatch.parts import utc_now
from tests.bench.latency import _await, _cpu
from tests.bench.measure import Figure

BATCH = 500  # lines of one request
SENDERS = 16  # connections
CONFIG = """\
policy     = "policy.json"
redact_key = "redact.key"
[service]
port = {port}
[sources.gate]
adapter = "native"
"""


def measure(folder: Path, rate: int, seconds: float) -> list[Figure]:
    """`rate` native lines a second for so many seconds."""
    folder.mkdir(parents=True, exist_ok=True)
    [port] = free_ports(1)
    policy = {"egress": {"allowed_hosts": [f"*.{area}.example" for area in NOUNS]}}
    (folder / "policy.json").write_bytes(msgspec.json.encode(policy))
    (folder / "gatewatch.toml").write_text(CONFIG.format(port=port))
    bodies = _bodies(rate, seconds)
    command = [sys.executable, "-m", "gatewatch", "serve", "--config"]
    url = f"http://127.0.0.1:{port}"
    with subprocess.Popen([*command, str(folder / "gatewatch.toml")]) as process:
        try:
            _await(f"{url}/readyz", process)
            before = _cpu(process.pid)
            began = time.monotonic()
            answers = asyncio.run(_send(url, bodies, rate))
            took, busy = time.monotonic() - began, _cpu(process.pid) - before
            held = _held(process.pid)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)
    return _figures(answers, rate, took, busy, held)


def _bodies(rate: int, seconds: float) -> list[bytes]:
    """Batches of the simulated fleet, all of its lines made beforehand."""
    start = utc_now()
    fleet = Fleet(start, UTC)
    fleet.quicken(rate)
    lines = [each.data for each in fleet.until(start + timedelta(seconds=seconds))]
    return [b"\n".join(lines[at : at + BATCH]) for at in range(0, len(lines), BATCH)]


async def _send(url: str, bodies: list[bytes], rate: int) -> list[tuple[float, int, int]]:
    """Of each batch: seconds from when it was due to its answer, the status, events landed."""
    answers: list[tuple[float, int, int]] = []
    waiting = iter(enumerate(bodies))
    start = time.monotonic() + 0.5
    async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=60) as client:

        async def sender() -> None:
            for number, body in waiting:
                due = start + number * BATCH / rate
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                answer = await client.post("/v1/events", content=body)
                done = time.monotonic() - due
                events = answer.json()["events"] if answer.status_code == 200 else 0
                answers.append((done, answer.status_code, events))

        await asyncio.gather(*(sender() for _ in range(SENDERS)))
    return answers


def _figures(
    answers: list[tuple[float, int, int]], rate: int, took: float, busy: float, held: float
) -> list[Figure]:
    waits = sorted(wait for wait, _, _ in answers)
    cuts = statistics.quantiles(waits, n=100, method="inclusive")
    refused = sum(status != 200 for _, status, _ in answers)
    events = sum(landed for _, _, landed in answers)
    beside = f"{len(answers):,} batches of {BATCH} lines, {SENDERS} connections, {refused} refused"
    return [
        Figure("intake", f"{events / took:,.0f} events/s", f"asked for {rate:,}; {took:.0f} s"),
        Figure("intake, p50", f"{statistics.median(waits) * 1000:.0f} ms", beside),
        Figure("intake, p99", f"{cuts[98] * 1000:.0f} ms", f"worst {waits[-1] * 1000:.0f} ms"),
        Figure("service busy", f"{busy / took:.2f} cores", f"{busy / events * 1e6:.0f} us/event"),
        Figure("service memory", f"{held:.0f} MiB", "at most"),
    ]


def _held(pid: int) -> float:
    """MiB that a process has held at most, where the system tells."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return float("nan")
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))
