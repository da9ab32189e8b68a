"""How much memory landing one large file takes: the most that the process ever held."""

import resource
import subprocess
import sys
import time
from pathlib import Path

from gatewatch.parts import utc_now
from tests.bench.measure import Figure, history, size

PIECE = 200_000  # lines that are made once; copies of them get ids and times of their own


def measure(folder: Path, gigabytes: float) -> list[Figure]:
    path = folder / "fleet.jsonl"
    lines = _write(path, int(gigabytes * 1e9))
    length = path.stat().st_size
    command = [sys.executable, "-m", "gatewatch", "ingest", str(path), "--json"]
    began = time.perf_counter()
    done = subprocess.run(
        [*command, "--db", str(folder / "x.duckdb")], check=True, capture_output=True
    )
    seconds = time.perf_counter() - began
    held = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    events = f'"events": {lines}'.encode()
    assert events in done.stdout or events.replace(b" ", b"") in done.stdout, done.stdout
    stored = size(folder, "x.duckdb*")
    return [
        Figure("memory of a landing", f"{held:.0f} MiB", f"a file of {length / 1e9:.1f} GB"),
        Figure("its landing", f"{lines / seconds:,.0f} events/s", f"{lines:,} lines, one command"),
        Figure(
            "its database", f"{stored / lines:.0f} B/event", "the file as the command leaves it"
        ),
    ]


def _write(path: Path, length: int) -> int:
    """A file of at least so many bytes. Returns its lines, no two of which are one event."""
    piece = b"\n".join(history(PIECE, utc_now())) + b"\n"
    copies = length // len(piece) + 1
    with path.open("wb") as file:
        for number in range(copies):
            file.write(piece.replace(b'"ev-', b'"%d-' % number).replace(b'"c-', b'"c%d-' % number))
    return copies * PIECE
