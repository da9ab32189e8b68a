"""Recomputes the ledger's hash chain: what was changed, removed or cut afterwards shows.

Reads: the ledger folder. Writes: nothing. Next: gatewatch/commands/data.py.
"""

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

import zstandard

from ingest.ledger import GENESIS, Sealed, line_hash, manifest_of, opened
from ingest.segment import read_batches


@dataclass(frozen=True)
class Verdict:
    """What `verify` found: the problems in words, and where the chain stands."""

    problems: tuple[str, ...]
    seq: int
    head: str
    segments: int


@dataclass
class _Walk:
    """How far the chain has been followed."""

    problems: list[str] = field(default_factory=list)
    prev: str = GENESIS
    seq: int = 0
    head: str = GENESIS
    sealed: int = 0


def verify(folder: Path) -> Verdict:
    """Recompute the whole chain. Reads every byte; changes nothing; a service may go on writing."""
    walk = _Walk()
    while True:
        for each in manifest_of(folder)[walk.sealed :]:
            _sealed(walk, folder, each)
        try:
            seq, head, more = _open_end(walk, folder)
        except FileNotFoundError:
            continue  # it was sealed while we looked
        return Verdict((*walk.problems, *more), seq, head, walk.sealed)


def _sealed(walk: _Walk, folder: Path, each: Sealed) -> None:
    path = folder / f"{each.segment}.ndjson.zst"
    if each.prev != walk.prev:
        walk.problems.append(f"manifest.ndjson: {each.segment} does not follow the line before it.")
    if each.first != walk.seq + 1:
        walk.problems.append(f"{each.segment}: begins at {each.first}, expected {walk.seq + 1}.")
    found = _recount(path, each.first, walk.head)
    if found is None:
        walk.problems.append(f"{path}: missing or unreadable.")
    elif found != (each.sha256, each.last, each.head):
        walk.problems.append(f"{path}: was changed after it was sealed.")
    walk.prev, walk.seq, walk.head = line_hash(each), each.last, each.head
    walk.sealed += 1


def _open_end(walk: _Walk, folder: Path) -> tuple[int, str, list[str]]:
    """Position and head after what is not sealed yet, and what is wrong with it."""
    seq, head, problems = walk.seq, walk.head, []
    names = {each.segment for each in manifest_of(folder)[: walk.sealed]}
    for path in sorted(folder.glob("*/*.ndjson")):
        if str(path.relative_to(folder).with_suffix("")) in names:
            continue
        size, whole = path.stat().st_size, 0
        with path.open("rb") as stream:
            for batch in read_batches(stream, seq + 1, head):
                seq, head, whole = batch.marker.last, batch.head, batch.ends_at
        if whole < size:
            problems.append(f"{path}: does not end with a whole batch, or is damaged.")
    return seq, head, problems


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
