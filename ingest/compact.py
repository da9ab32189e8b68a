"""Gives the space of deleted rows back: DuckDB reuses it, and never shrinks a file by itself.

Everything goes into a new file, which then takes the old one's name: at every moment the name
stands for a whole database.
Reads: the database file. Writes: the database file. Next: gatewatch/commands/ledger.py.
"""

import os
from collections.abc import Callable
from pathlib import Path

from ingest.manifest import sync
from ingest.store import StoreBrokenError, open_store


def compact(
    path: Path, memory_limit: str | None = None, step: Callable[[str], None] | None = None
) -> tuple[int, int]:
    """Write the file anew. Returns its size before and after.

    Raises StoreBusyError while another process holds it, StoreBrokenError, OSError; the old file
    stands then. `step` is told what has just been done; a test ends there.
    """
    came = step or (lambda _: None)
    target = path.with_name(path.name + ".compact")
    store = open_store(path, memory_limit)
    try:
        for left in (target, target.with_name(target.name + ".wal")):
            left.unlink(missing_ok=True)  # of a try that was ended
        store.copy_to(target)
    finally:
        store.close()
    came("copied")
    before, after = path.stat().st_size, target.stat().st_size
    if path.with_name(path.name + ".wal").exists():
        raise StoreBrokenError(f"{path}: has not been written whole; nothing was changed.")
    with target.open("rb") as file:
        os.fsync(file.fileno())
    target.rename(path)
    came("renamed")
    sync(path.parent)
    return before, after
