"""Files as streams of lines, whatever they are packed in."""

import gzip
import io
import json
import resource
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import zstandard

from ingest.batch import Line, Oversized
from ingest.files import ReadError, is_compressed, read_file
from ingest.fingerprint import family

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT.parent / "shared" / "cases" / "fixtures"
SKIPPABLE = struct.pack("<II", 0x184D2A50, 5) + b"hello"  # what parallel zstd puts before a frame


def lines(data: bytes | Path, max_line: int = 1 << 20, batch_bytes: int = 1 << 16) -> list[Line]:
    path, stream = (data, None) if isinstance(data, Path) else (Path("-"), io.BytesIO(data))
    batches = read_file(path, "s", "native", max_line, batch_bytes, stream)
    return [line for batch in batches for line in batch.lines]


@pytest.mark.parametrize("case", ["B031", "B033"])
def test_every_member_and_frame_of_a_compressed_file_is_read(case: str) -> None:
    [path] = FIXTURES.glob(f"{case}-*")
    [expect] = [
        each["expect"]
        for each in json.loads((FIXTURES.parent / "manifest.json").read_text())
        if each["id"] == case
    ]

    found = [json.loads(line)["event_id"] for line in lines(path) if isinstance(line, bytes)]

    assert found == expect["event_ids_once"]


def test_skippable_frames_are_skipped() -> None:
    frames = [zstandard.compress(text) for text in (b"one\nt", b"wo\n")]

    assert lines(SKIPPABLE + frames[0] + SKIPPABLE + frames[1] + SKIPPABLE) == [b"one", b"two"]


@pytest.mark.parametrize("compress", [gzip.compress, zstandard.compress])
def test_a_cut_stream_gives_what_it_holds_and_then_an_error(compress: Any) -> None:
    packed = compress(b"".join(b"line %d\n" % number for number in range(100_000)))
    found: list[Line] = []
    batches = read_file(Path("-"), "s", "a", 100, 1000, io.BytesIO(packed[:-2000]))

    with pytest.raises(ReadError, match="ends in the middle of its compressed stream"):
        found.extend(line for batch in batches for line in batch.lines)

    assert found[:2] == [b"line 0", b"line 1"]
    assert len(found) > 1000


@pytest.mark.parametrize(
    "compress", [gzip.compress, zstandard.ZstdCompressor(write_checksum=True).compress]
)
def test_a_damaged_stream_is_an_error(compress: Any) -> None:
    packed = bytearray(compress(bytes(range(256)) * 400))
    packed[40:60] = b"\xff" * 20

    with pytest.raises(ReadError):
        lines(bytes(packed))


def test_what_a_file_is_shows_in_its_first_bytes_and_not_in_its_name(tmp_path: Path) -> None:
    plain, packed = tmp_path / "plain.gz", tmp_path / "packed.log"
    plain.write_bytes(b"one\n")
    packed.write_bytes(gzip.compress(b"one\n"))

    assert lines(plain) == lines(packed) == [b"one"]
    assert not is_compressed(b"")


def test_an_empty_file_has_no_lines(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()

    assert lines(tmp_path / "empty") == []
    assert lines(gzip.compress(b"")) == []


def test_a_last_line_without_an_end_is_read_and_batches_say_where_they_began() -> None:
    batches = list(
        read_file(Path("-"), "s", "native", 100, 8, io.BytesIO(b"one\ntwo\nthree\nfour"))
    )

    assert [line for batch in batches for line in batch.lines] == [
        b"one",
        b"two",
        b"three",
        b"four",
    ]
    assert [batch.pos for batch in batches] == ["-:0", "-:8"]
    assert {(batch.key, batch.offsets) for batch in batches} == {(None, ())}


@pytest.mark.parametrize(
    "text",
    [
        b'[\n  {"a": 1},\n  {"a": 2}\n]\n',
        b'[{"a": 1},{"a": 2}]',
        b'{\n"a": 1}\n{\n"a": 2\n}\n',
        b'\n\n [{"a": 1},\n{"a": 2}]\n',
    ],
)
def test_an_array_and_objects_over_several_lines_give_a_line_each(text: bytes) -> None:
    found = [json.loads(line) for line in lines(text, batch_bytes=9) if isinstance(line, bytes)]

    assert found == [{"a": 1}, {"a": 2}]


def test_the_name_of_a_rotated_file_leads_to_the_name_it_had() -> None:
    rotated = ["gate.log.1", "gate.log.2.gz", "gate-20260310.log", "gate.log-20260310.zst"]
    rotated += ["gate.2026-03-10T09-00-00.000.log", "gate.log.old", "gate.log~"]

    assert {family(name) for name in rotated} == {family("gate.log")}
    assert family("billing.log") != family("gate.log")


def test_a_line_of_100_mb_is_measured_in_flat_memory_and_its_neighbours_arrive(
    tmp_path: Path,
) -> None:
    [fixture] = FIXTURES.glob("B011-*")
    plan = json.loads(fixture.read_text())
    path = tmp_path / "b011.jsonl"
    with path.open("w") as file:
        for part in plan["parts"]:
            file.write(part["text"] * part.get("repeat", 1))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    found = lines(path, batch_bytes=1 << 20)

    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    first, long, last = found
    assert isinstance(first, bytes)
    assert isinstance(last, bytes)
    ids = [json.loads(line)["event_id"] for line in (first, last)]
    assert ids == plan["expect"]["event_ids_once"]
    assert isinstance(long, Oversized)
    assert long.length > 104_857_600
    assert grown < plan["expect"]["max_rss_growth_mb"]


BOMB = """
import io, resource, sys
from pathlib import Path
from ingest.files import read_file
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with open(sys.argv[1], "rb") as file:
    [line] = [l for b in read_file(Path("-"), "s", "a", 1 << 20, 1 << 20, file) for l in b.lines]
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
sys.exit(0 if line.length == 1 << 28 and grown < 64 << 10 else f"{line.length} {grown} KiB")
"""


@pytest.mark.parametrize("compress", [gzip.compress, zstandard.compress])
def test_a_small_file_that_unpacks_to_much_needs_little_memory(
    compress: Any, tmp_path: Path
) -> None:
    path = tmp_path / "bomb"
    path.write_bytes(compress(bytes(1 << 28)))

    done = subprocess.run(
        [sys.executable, "-c", BOMB, str(path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
