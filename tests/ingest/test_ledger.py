"""The archive of lines: what a disk that refuses, and a process that dies, leave behind."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from ingest.batch import Offset
from ingest.chain import verify
from ingest.ledger import Ledger
from ingest.segment import Batched, Entry, Marker
from tests.world import World, at, denied


def put(ledger: Ledger, number: int, lines: int = 1) -> Batched:
    entries = [Entry(b'{"n":%d,"line":%d}' % (number, line)) for line in range(lines)]
    return ledger.append(entries, Marker("gate", "native"), at(number))


def refusing(name: str, times: int) -> Callable[[int], None]:
    """An fsync that fails for files of this name, so many times."""
    real, left = os.fsync, [times]

    def fsync(handle: int) -> None:
        if left[0] and Path(f"/proc/self/fd/{handle}").readlink().name.endswith(name):
            left[0] -= 1
            raise OSError(5, "Input/output error")
        real(handle)

    return fsync


def test_a_manifest_line_that_the_disk_refused_is_written_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger(tmp_path)
    put(ledger, 1)
    monkeypatch.setattr(os, "fsync", refusing("manifest.ndjson", 1))
    with pytest.raises(OSError, match="Input/output"):
        ledger.seal_if_due(at(2), force=True)

    ledger.seal_if_due(at(3), force=True)
    put(ledger, 4)

    assert verify(tmp_path).problems == ()
    assert [each.first for each in ledger.read(0)] == [1, 2]
    ledger.close()


def test_a_segment_whose_fsync_failed_goes_on_in_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger(tmp_path)
    put(ledger, 1)
    monkeypatch.setattr(os, "fsync", refusing("000001.ndjson", 9))

    put(ledger, 2, lines=3)
    ledger.close()

    again = Ledger(tmp_path)
    assert [(each.first, len(each.entries)) for each in again.read(0)] == [(1, 1), (2, 3)]
    assert verify(tmp_path).problems == ()
    again.close()


def test_a_batch_is_landed_though_its_segment_cannot_be_sealed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, policy=None)
    world.land([denied(0)], now=at(0))
    monkeypatch.setattr(os, "fsync", refusing(".tmp", 1))

    landed = world.land([denied(24 * 60)], now=at(24 * 60))  # of another day: the old one is sealed
    assert landed.events == 1
    world.land([denied(24 * 60 + 1)], now=at(24 * 60 + 1))

    assert verify(tmp_path / "gatewatch.ledger").segments == 1
    assert world.rows("SELECT count(*) AS n FROM events") == [{"n": 3}]
    world.close()


def test_looking_at_a_manifest_that_is_being_written_changes_nothing(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    put(ledger, 1)
    ledger.seal_if_due(at(1), force=True)
    ledger.close()
    manifest = tmp_path / "manifest.ndjson"
    manifest.write_bytes(manifest.read_bytes() + b'{"segment":"2026-')

    verify(tmp_path)

    assert manifest.read_bytes().endswith(b'"2026-')
    again = Ledger(tmp_path)
    again.close()
    assert manifest.read_bytes().endswith(b"\n")


def offset(pos: int) -> tuple[Offset, ...]:
    return (Offset("gate", "/var/log/gate", 1, 2, pos, "print", min(pos, 1024), False),)


def test_a_restart_takes_no_offset_back(tmp_path: Path) -> None:
    first = World(tmp_path, policy=None)
    first.land([denied(0)], offsets=offset(10))
    first.land([], offsets=offset(20))
    first.land([denied(1)], offsets=offset(30))
    before = first.rows("SELECT * FROM landed")
    first.close()

    second = World(tmp_path, policy=None)

    assert second.rows("SELECT pos FROM tail_offsets") == [{"pos": 30}]
    assert second.rows("SELECT * FROM landed") == before
    second.close()


def test_a_ledger_verifies_while_a_service_writes_and_seals_it(tmp_path: Path) -> None:
    ledger, over = Ledger(tmp_path, segment_bytes=200), threading.Event()

    def write() -> None:
        for number in range(10_000):
            put(ledger, number, lines=3)
            ledger.seal_if_due(at(0))
            if over.is_set():
                return

    writer = threading.Thread(target=write)
    writer.start()
    try:
        found = [verify(tmp_path) for _ in range(15)]
    finally:
        over.set()
        writer.join()
        ledger.close()

    assert [each.problems for each in found] == [()] * 15
    assert verify(tmp_path).seq == ledger.seq
