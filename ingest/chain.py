"""Recomputes the ledger's hash chain: what was changed, removed or cut afterwards shows.

Reads: the ledger folder. Writes: nothing. Next: gatewatch/commands/data.py.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import zstandard

from ingest.ledger import GENESIS, line_hash, manifest_of, opened
from ingest.segment import read_batches


@dataclass(frozen=True)
class Verdict:
    """What `verify` found: the problems in words, and where the chain stands."""

    problems: tuple[str, ...]
    seq: int
    head: str
    segments: int


def verify(folder: Path) -> Verdict:
    """Recompute the whole chain. Reads every byte; changes nothing."""
    problems: list[str] = []
    prev, seq, head = GENESIS, 0, GENESIS
    sealed = manifest_of(folder)
    for each in sealed:
        path = folder / f"{each.segment}.ndjson.zst"
        if each.prev != prev:
            problems.append(f"manifest.ndjson: {each.segment} does not follow the line before it.")
        if each.first != seq + 1:
            problems.append(f"{each.segment}: begins at {each.first}, expected {seq + 1}.")
        found = _recount(path, each.first, head)
        if found is None:
            problems.append(f"{path}: missing or unreadable.")
        elif found != (each.sha256, each.last, each.head):
            problems.append(f"{path}: was changed after it was sealed.")
        prev, seq, head = line_hash(each), each.last, each.head
    names = {each.segment for each in sealed}
    for path in sorted(folder.glob("*/*.ndjson")):
        if str(path.relative_to(folder).with_suffix("")) not in names:
            first = seq + 1
            found = _recount(path, first, head)
            if found is not None:
                _, seq, head = found
            if _whole_bytes(path, first) < path.stat().st_size:
                problems.append(f"{path}: does not end with a whole batch, or is damaged.")
    return Verdict(tuple(problems), seq, head, len(sealed))


def _recount(path: Path, first: int, head: str) -> tuple[str, int, str] | None:
    """A segment's sha256 over its plain text, its last position and the chain hash there."""
    digest, last = hashlib.sha256(), first - 1
    try:
        with opened(path) as stream:
            while chunk := stream.read(2**20):
                digest.update(chunk)
        with opened(path) as stream:
            for batch in read_batches(stream, first, head):
                last, head = batch.marker.last, batch.head
    except (OSError, zstandard.ZstdError):
        return None
    return digest.hexdigest(), last, head


def _whole_bytes(path: Path, first: int) -> int:
    """Up to where an open segment holds whole batches."""
    with path.open("rb") as stream:
        return max((batch.ends_at for batch in read_batches(stream, first, GENESIS)), default=0)
