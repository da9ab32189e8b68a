"""The whole catalogue over a month of events in one pass: seconds, each detector's own, and the
most memory that the process held. In a process of its own, so that nothing else is in the figure.
"""

import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from detectors import engine
from gatewatch.parts import Parts, open_parts
from ingest.config import Service, Settings
from tests.bench import history
from tests.bench.cast import rules
from tests.bench.measure import Figure
from tests.bench.memory import held

START = datetime(2026, 5, 4, tzinfo=UTC)
UNTIL = START + timedelta(days=30)
Took = tuple[float, float, int]  # of one detector: seconds, those of the processor, alerts
MEMORY = "3GB"  # what DuckDB may hold; the rest of 4 GiB is Python's, and the libraries'


def measure(folder: Path, events: int) -> list[Figure]:
    parts = opened(folder)
    history.fill(parts.store, START, UNTIL, events)
    parts.close()
    command = [sys.executable, "-m", "tests.bench.backtest", str(folder)]
    most, began = 0.0, time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        while process.poll() is None:
            most = max(most, held(process.pid))
            time.sleep(0.05)
        whole = time.perf_counter() - began
        assert process.stdout is not None
        assert process.returncode == 0
        took = msgspec.json.decode(process.stdout.read(), type=dict[str, Took])
    seconds, busy = (sum(each[n] for each in took.values()) for n in (0, 1))
    figures = [
        Figure("backtest, all detectors", f"{seconds:.1f} s", f"{events:,} events of 30 days;"
               f" {busy:.1f} s of processor; {whole:.0f} s with opening the database"),
        Figure("its memory", f"{most:.0f} MiB", f"at most; DuckDB may hold {MEMORY}"),
    ]  # fmt: skip
    slowest = sorted(took.items(), key=lambda item: -item[1][1])
    return figures + [
        Figure(f"  {name}", f"{each:.2f} s", f"{used:.2f} s of processor, {alerts:,} alerts")
        for name, (each, used, alerts) in slowest
    ]


def opened(folder: Path) -> Parts:
    """A database with the bench's policy, and with memory for a backtest."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "policy.json").write_bytes(msgspec.json.encode(rules()))
    settings = Settings(policy="policy.json", redact_key="redact.key", folder=str(folder),
                        service=Service(memory_limit=MEMORY))  # fmt: skip
    return open_parts(settings)


def _run(folder: Path) -> dict[str, Took]:
    parts, took = opened(folder), dict[str, Took]()
    for name, each in parts.detectors.items():
        began, used = time.perf_counter(), time.process_time()
        with parts.store.reading() as db:
            found = engine.backtest(db, [each], START, UNTIL)
        took[name] = (time.perf_counter() - began, time.process_time() - used, len(found))
        print(f"  {name}: {took[name][0]:.2f} s", file=sys.stderr, flush=True)  # noqa: T201
    parts.close()
    return took


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.json.encode(_run(Path(sys.argv[1]))))
