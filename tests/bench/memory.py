"""How much memory landing one large file takes: the most that the process ever held."""

import subprocess
import sys
import time
from pathlib import Path

import msgspec

from gatewatch.parts import utc_now
from tests.bench.measure import Figure, history, size

PIECE = 200_000  # lines that are made once; copies of them get ids and times of their own


def measure(folder: Path, gigabytes: float) -> list[Figure]:
    path = folder / "fleet.jsonl"
    lines = _write(path, int(gigabytes * 1e9))
    length = path.stat().st_size
    command = [sys.executable, "-m", "gatewatch", "ingest", str(path), "--json"]
    began = time.perf_counter()
    most = 0.0
    with subprocess.Popen(
        [*command, "--db", str(folder / "x.duckdb")], stdout=subprocess.PIPE
    ) as process:
        while process.poll() is None:  # once it has ended nobody can tell
            most = max(most, held(process.pid))
            time.sleep(0.1)
        seconds = time.perf_counter() - began
        assert process.stdout is not None
        told = msgspec.json.decode(process.stdout.read())
    assert told["events"] == lines, told
    stored = size(folder, "x.duckdb*")
    return [
        Figure("memory of a landing", f"{most:.0f} MiB", f"a file of {length / 1e9:.1f} GB"),
        Figure("its landing", f"{lines / seconds:,.0f} events/s", f"{lines:,} lines, one command"),
        Figure(
            "its database", f"{stored / lines:.0f} B/event", "the file as the command leaves it"
        ),
    ]


def held(pid: int) -> float:
    """MiB that a process has held at most so far, where the system tells."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return max((int(e.split()[1]) / 1024 for e in lines if e.startswith("VmHWM:")), default=0.0)


def _write(path: Path, length: int) -> int:
    """A file of at least so many bytes. Returns its lines, no two of which are one event."""
    piece = b"\n".join(history(PIECE, utc_now())) + b"\n"
    copies = length // len(piece) + 1
    with path.open("wb") as file:
        for number in range(copies):
            file.write(piece.replace(b'"ev-', b'"%d-' % number).replace(b'"c-', b'"c%d-' % number))
    return copies * PIECE
