"""Recomputes the ledger's hash chain: what was changed, removed or cut afterwards shows.

A segment that was pruned is passed over by its line in the manifest; what is left of it must be
what a line of the ledger itself says was left.
Reads: the ledger folder. Writes: nothing. Next: gatewatch/commands/ledger.py.
"""

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import zstandard
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from ingest.ledger import opened
from ingest.manifest import GENESIS, Piece, Sealed, decode, file_of, pieces, raw_lines
from ingest.segment import OWN, Batched, read_batches
from ingest.signing import signed

Heads = Mapping[int, Collection[str]]  # what is known from elsewhere: position to chain hash


@dataclass(frozen=True)
class Verdict:
    """What `verify` found: the problems in words, and where the chain stands."""

    problems: tuple[str, ...]
    seq: int
    head: str
    segments: int
    pruned: int = 0  # lines that pruning took out
    unsigned: int = 0  # lines after the last signature; all of them without one


@dataclass
class _Walk:
    """How far the chain has been followed."""

    heads: Heads
    keys: Collection[Ed25519PublicKey]
    problems: list[str] = field(default_factory=list)
    prev: str = GENESIS
    seq: int = 0
    head: str = GENESIS
    lines: int = 0  # of the manifest
    segments: int = 0
    missing: int = 0  # lines that were pruned
    signed: int = 0  # the last position that a signature covers
    last_signed: bool = False
    left: dict[str, str] = field(default_factory=dict)  # per segment: sha256 of what holds now
    told: set[tuple[str, str]] = field(default_factory=set)  # what the ledger says was left
    met: dict[int, set[str]] = field(default_factory=dict)
    dark: list[tuple[int, int]] = field(default_factory=list)  # positions inside pruned segments


def verify(
    folder: Path, heads: Heads | None = None, keys: Collection[Ed25519PublicKey] = ()
) -> Verdict:
    """Recompute the whole chain. Reads every byte; changes nothing; a service may go on writing.

    `heads`: chain hashes that must be met on the way. `keys`: one of them must have signed.
    """
    while True:
        before = len(raw_lines(folder))
        found = _verified(folder, _Walk(heads or {}, keys))
        added = raw_lines(folder)[before:]
        if not found.problems or not any(b'"of":' in line for line in added):
            return found  # else a service has pruned while we looked: files were replaced


def _verified(folder: Path, walk: _Walk) -> Verdict:
    while True:
        try:
            entries = [decode(raw) for raw in raw_lines(folder)]
            now = {piece.sealed.segment: piece for piece in pieces(entries)}
            while walk.lines < len(entries):
                _line(walk, folder, raw_lines(folder)[walk.lines], now)
        except msgspec.MsgspecError as error:
            walk.problems.append(f"manifest.ndjson: line {walk.lines + 1} was changed: {error}.")
            return _verdict(walk, walk.seq, walk.head, [])
        try:
            seq, head, more = _open_end(walk, folder)
        except FileNotFoundError:
            continue  # it was sealed while we looked
        stray = _strays(folder)
        if len(raw_lines(folder)) > walk.lines:
            continue
        return _verdict(walk, seq, head, more + stray)


def _verdict(walk: _Walk, seq: int, head: str, more: list[str]) -> Verdict:
    problems = walk.problems + more
    for segment, sha256 in walk.left.items():
        if (segment, sha256) not in walk.told:
            problems.append(f"{segment}: lines were taken out, and no line of the ledger says so.")
    walk.met.setdefault(seq, set()).add(head)
    for position, wanted in walk.heads.items():
        if position > seq:
            problems.append(
                f"the ledger ends at line {seq}, it has been at {position}: it was cut."
            )
        elif not walk.met.get(position, set()) & set(wanted) and not _in(walk.dark, position):
            problems.append(f"the lines up to {position} are not those that were there before.")
    if walk.keys and walk.lines and not walk.last_signed:
        problems.append(f"manifest.ndjson: not signed after line {walk.signed} of the ledger.")
    return Verdict(tuple(problems), seq, head, walk.segments, walk.missing, seq - walk.signed)


def _in(ranges: list[tuple[int, int]], position: int) -> bool:
    return any(first <= position < last for first, last in ranges)


def _line(walk: _Walk, folder: Path, raw: bytes, now: Mapping[str, Piece]) -> None:
    """One line of the manifest, and the segment that it names."""
    each = decode(raw)
    if each.prev != walk.prev:
        walk.problems.append(f"manifest.ndjson: {each.segment} does not follow the line before it.")
    if msgspec.json.encode(each) != raw:
        walk.problems.append(f"manifest.ndjson: the line of {each.segment} was changed.")
    walk.prev = hashlib.sha256(raw).hexdigest()
    walk.lines += 1
    _signature(walk, each)
    piece = now.get(each.segment)
    if each.of is not None:
        _pruned(walk, folder, each, piece)
        return
    if each.first != walk.seq + 1:
        walk.problems.append(f"{each.segment}: begins at {each.first}, expected {walk.seq + 1}.")
    walk.segments += 1
    if piece is not None and piece.pruned:
        walk.dark.append((each.first, each.last))
        walk.left[each.segment] = each.sha256
    else:
        _check(walk, folder / file_of(each.segment, 0), each, walk.head, pruned=False)
    walk.seq, walk.head = each.last, each.head
    walk.met.setdefault(walk.seq, set()).add(walk.head)


def _signature(walk: _Walk, each: Sealed) -> None:
    """A signature covers, through the hashes, everything before it."""
    walk.last_signed = each.sig is not None
    if each.sig is None:
        return
    plain = msgspec.json.encode(msgspec.structs.replace(each, sig=None))
    if walk.keys and not signed(plain, each.sig, walk.keys):
        walk.problems.append(
            f"manifest.ndjson: the signature of {each.segment} is not of this key."
        )
    walk.signed = max(walk.signed, each.last)


def _pruned(walk: _Walk, folder: Path, each: Sealed, piece: Piece | None) -> None:
    """What pruning has left of a segment. Only the newest of several is there to be read."""
    before = walk.left.get(each.segment)
    if piece is None or each.of != before or each.head != piece.sealed.head:
        walk.problems.append(
            f"manifest.ndjson: {each.segment} was pruned, but not from what it is."
        )
        return
    walk.left[each.segment] = each.sha256
    if piece.now == each:
        whole = piece.sealed.last - piece.sealed.first + 1
        walk.missing += whole - each.count
        _check(walk, piece.path(folder), each, each.head, pruned=True)


def _check(walk: _Walk, path: Path, each: Sealed, head: str, pruned: bool) -> None:
    """A segment's file against its line."""
    digest, last, count = hashlib.sha256(), each.first - 1, 0
    try:
        packed = _hash_of(path)
        with opened(path) as stream:
            for batch in read_batches(_hashed(stream, digest.update), each.first, head, pruned):
                count += len(batch.entries)
                last, head = batch.marker.last, batch.head
                _met(walk, batch, pruned)
            while chunk := stream.read(2**20):
                digest.update(chunk)
    except (OSError, zstandard.ZstdError):
        walk.problems.append(f"{path}: missing or unreadable.")
        return
    found = (digest.hexdigest(), count, head, packed if each.zst else "")
    if found != (each.sha256, each.count, each.head, each.zst) or not (
        pruned or (last == each.last and count == each.last - each.first + 1)
    ):
        walk.problems.append(f"{path}: was changed after it was sealed.")


def _met(walk: _Walk, batch: Batched, pruned: bool) -> None:
    """Remember what the chain was here, and what the service has said of its own pruning."""
    if not pruned and batch.marker.last in walk.heads:
        walk.met.setdefault(batch.marker.last, set()).add(batch.head)
    if batch.marker.source != OWN:
        return
    for entry in batch.entries:
        if isinstance(entry.line, bytes) and b'"prune"' in entry.line:
            doc: dict[str, Any] = msgspec.json.decode(entry.line)
            if doc["action"] == "prune":
                walk.told |= {(each["segment"], each["sha256"]) for each in doc["detail"]["left"]}


def _open_end(walk: _Walk, folder: Path) -> tuple[int, str, list[str]]:
    """Position and head after what is not sealed yet, and what is wrong with it."""
    seq, head, problems = walk.seq, walk.head, []
    names = {decode(raw).segment for raw in raw_lines(folder)}
    for path in sorted(folder.glob("*/*.ndjson")):
        if str(path.relative_to(folder).with_suffix("")) in names:
            continue
        size, whole = path.stat().st_size, 0
        with path.open("rb") as stream:
            for batch in read_batches(stream, seq + 1, head):
                seq, head, whole = batch.marker.last, batch.head, batch.ends_at
                _met(walk, batch, pruned=False)
        if whole < size:
            problems.append(f"{path}: does not end with a whole batch, or is damaged.")
    return seq, head, problems


def _strays(folder: Path) -> list[str]:
    """Sealed segments that the manifest does not name, and that are not just being sealed."""
    found = sorted(folder.glob("*/*.zst"))
    plain = {str(path.relative_to(folder).with_suffix("")) for path in folder.glob("*/*.ndjson")}
    known = {decode(raw).segment for raw in raw_lines(folder)} | plain
    return [
        f"{path}: is not in the manifest: its line was taken out."
        for path in found
        if str(path.relative_to(folder)).partition(".")[0] not in known
    ]


def _hashed(stream: Iterator[bytes], update: Callable[[bytes], None]) -> Iterator[bytes]:
    for line in stream:
        update(line)
        yield line


def _hash_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
