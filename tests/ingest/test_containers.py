"""What a program wrote comes out of its container's log: pieces joined, the rest as it is."""

import json

import pytest

from ingest.batch import Line, Oversized
from ingest.containers import HELD, Unwrapped, Wrapper

STAMP = "2026-03-10T09:00:00.123456789Z"


def cri(stream: str, tag: str, text: str) -> bytes:
    return f"{STAMP} {stream} {tag} {text}\n".encode()


def docker(log: str, stream: str = "stdout") -> bytes:
    return json.dumps({"log": log, "stream": stream, "time": STAMP}).encode() + b"\n"


def unwrap(wrapper: Wrapper, data: bytes, size: int = 7, max_line: int = 1 << 20) -> list[Line]:
    cutter, found = Unwrapped(wrapper, max_line), list[Line]()
    for at in range(0, len(data), size):
        found += cutter.split(data[at : at + size])
        assert cutter.consumed + cutter.pending == at + len(data[at : at + size])
    return found + cutter.finish()


@pytest.mark.parametrize("size", [1, 9, 10_000])
def test_pieces_of_a_cri_log_are_one_line_and_streams_do_not_mix(size: int) -> None:
    log = cri("stdout", "P", '{"a":') + cri("stderr", "F", "warning") + cri("stdout", "F", '"b"}')
    log += cri("stdout", "F:tag", '{"c":1}') + b"not of a runtime\n"

    assert unwrap("cri", log, size) == [b"warning", b'{"a":"b"}', b'{"c":1}', b"not of a runtime"]


@pytest.mark.parametrize("size", [1, 9, 10_000])
def test_lines_that_docker_cut_at_16_kb_are_one_line(size: int) -> None:
    long = json.dumps({"text": "é" * 20_000}, ensure_ascii=False) + "\n"
    log = docker(long[:16_384]) + docker(long[16_384:]) + docker("{}\r\n", "stderr") + b"{broken\n"

    assert unwrap("docker", log, size) == [long[:-1].encode(), b"{}", b"{broken"]


def test_a_position_is_never_inside_a_line_that_is_under_way() -> None:
    first = cri("stdout", "F", "one")
    cutter = Unwrapped("cri", 1000)

    assert cutter.split(first + cri("stdout", "P", "tw") + cri("stderr", "F", "x")) == [b"one"]
    assert cutter.consumed == len(first)
    assert Unwrapped("cri", 1000).split(
        cri("stdout", "P", "tw") + cri("stderr", "F", "x") + cri("stdout", "F", "o")
    ) == [b"x", b"two"]


def test_a_line_of_many_pieces_over_the_limit_is_measured() -> None:
    log = cri("stdout", "P", "x" * 900) * 3 + cri("stdout", "F", "") + cri("stdout", "F", "y")

    long, last = unwrap("cri", log, 100, max_line=1000)

    assert last == b"y"
    assert isinstance(long, Oversized)
    assert long.length == 2700


def test_a_piece_whose_end_never_comes_holds_up_no_other_stream_for_long() -> None:
    cutter = Unwrapped("cri", 1 << 20)
    given = cutter.split(cri("stderr", "P", "lost"))
    line = cri("stdout", "F", "z" * 60_000)
    for _ in range(2 * HELD // len(line)):
        given += cutter.split(line)

    assert b"lost" in given
    assert len(given) > HELD // len(line)
