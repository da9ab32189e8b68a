"""The tail, on real files that rotate, shrink, move, and are written in halves."""

import gzip
import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zstandard

from ingest.batch import Batch, Offset, Oversized
from ingest.fingerprint import fingerprint
from ingest.tail import Tail

FIXTURES = Path(__file__).parents[3] / "shared" / "cases" / "fixtures"
STEPS = ["B001", "B003", "B005", "B006", "B008", "B010"]


class Reader:
    """A tail that is stopped and started, and all that it landed."""

    def __init__(self, *patterns: Path, max_line: int = 1 << 20, batch_bytes: int = 1 << 16):
        self.patterns, self.limits = [str(each) for each in patterns], (max_line, batch_bytes)
        self.offsets: dict[tuple[int, int], Offset] = {}
        self.lines: list[Any] = []
        self.start()

    def start(self) -> None:
        self.tail = Tail("s", "native", self.patterns, *self.limits)
        self.tail.restore(self.offsets.values())

    def poll(self, final: bool = False, land: bool = True) -> list[Any]:
        """The lines of one poll; with `land` they are landed and done."""
        new: list[Any] = []
        for batch in self.tail.poll(final):
            new += batch.lines
            if land:
                self.land(batch)
        return new

    def land(self, batch: Batch) -> None:
        self.lines += batch.lines
        self.offsets |= {(each.device, each.inode): each for each in batch.offsets}
        self.tail.done(batch)


def append(path: Path, *lines: str, end: str = "\n") -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write("\n".join(lines) + end)


def numbered(first: int, last: int) -> list[str]:
    return [f"line {number} {'x' * 50}" for number in range(first, last)]


def texts(lines: Sequence[Any]) -> list[str]:
    return [line.decode() for line in lines]


def overwrite(path: Path, data: bytes) -> None:
    """New content under the inode that the file has."""
    with path.open("r+b") as file:
        file.truncate(0)
        file.write(data)


def ids(lines: Sequence[Any]) -> list[str]:
    return [json.loads(line)["event_id"] for line in lines]


class Steps:
    """Carries out a fixture of form steps/1."""

    def __init__(self, folder: Path, glob: str):
        self.folder, self.kept = folder, folder / ".kept"
        self.reader = Reader(folder / glob)

    def run(self, step: dict[str, Any]) -> None:
        here = {
            key: self.folder / step[key] for key in ("path", "src", "dst", "as_of") if key in step
        }
        match step["op"]:
            case "append":
                with here["path"].open("a", encoding="utf-8") as file:
                    file.write(step["text"])
            case "poll":
                self.reader.poll()
            case "start" | "kill9_at":
                self.reader.start()
            case "rename":
                here["src"].rename(here["dst"])
            case "copy":
                shutil.copy(here["src"], here["dst"])
            case "truncate":
                os.truncate(here["path"], step["size"])
            case "gzip":
                here["dst"].write_bytes(gzip.compress(here["src"].read_bytes()))
                here["src"].unlink()
            case "delete":
                here["path"].rename(self.kept)  # the inode stays, for the file that comes next
            case "create_same_inode":
                overwrite(self.kept, b"")
                self.kept.rename(here["path"])
            case "checkpoint":
                here["path"].touch()
                info = here["path"].stat()
                key, pos = (info.st_dev, info.st_ino), step["offset"]
                shown = fingerprint(b"y" * pos, b"y" * pos)
                self.reader.offsets[key] = Offset(
                    "s", str(here["path"]), *key, pos, shown, pos, False
                )
            case "expect":
                assert len(self.reader.lines) == step["rows"]
            case "stop":
                pass
            case other:
                raise AssertionError(other)


@pytest.mark.parametrize("case", STEPS)
def test_files_that_are_rotated_copied_or_replaced_give_each_event_once(
    case: str, tmp_path: Path
) -> None:
    [fixture] = FIXTURES.glob(f"{case}-*")
    plan = json.loads(fixture.read_text())
    steps = Steps(tmp_path, plan["glob"])

    for step in plan["steps"]:
        steps.run(step)

    assert ids(steps.reader.lines) == plan["expect"]["event_ids_once"]
    steps.reader.poll()
    steps.reader.start()
    steps.reader.poll()
    steps.reader.poll()
    assert ids(steps.reader.lines) == plan["expect"]["event_ids_once"]


@pytest.mark.parametrize("landed", [True, False])
def test_a_kill_around_the_commit_loses_and_doubles_nothing(landed: bool, tmp_path: Path) -> None:
    [fixture] = FIXTURES.glob("B046-*")
    plan = json.loads(fixture.read_text())
    steps = Steps(tmp_path, plan["glob"])

    for step in plan["steps"]:
        if step["op"] == "kill9_at":
            for _ in range(step["repeat"]):
                steps.reader.poll(land=landed)
                steps.reader.start()
        steps.run(step)

    assert ids(steps.reader.lines) == plan["expect"]["event_ids_once"]


def test_an_offset_in_the_middle_of_a_line_is_not_trusted(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    append(log, "one", "two")
    reader = Reader(log)
    reader.poll()
    [(key, offset)] = reader.offsets.items()
    shown = fingerprint(b"one\nt", b"one\nt")
    reader.offsets[key] = msgspec.structs.replace(offset, pos=5, print_bytes=5, print=shown)

    reader.start()

    assert texts(reader.poll()) == ["one", "two"]


def test_a_batch_that_is_not_done_is_given_again(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    append(log, "one", "two")
    reader = Reader(log)

    assert texts(reader.poll(land=False)) == ["one", "two"]
    append(log, "three")
    assert texts(reader.poll(land=False)) == ["one", "two", "three"]
    assert texts(reader.poll()) == ["one", "two", "three"]
    assert reader.poll() == []


def test_a_batch_holds_lines_of_one_file_and_no_more_bytes_than_allowed(tmp_path: Path) -> None:
    for name in "ab":
        append(tmp_path / f"{name}.log", *numbered(0, 500))
    reader = Reader(tmp_path / "*.log", batch_bytes=1000)

    batches = list(reader.tail.poll())

    assert sum(len(batch.lines) for batch in batches) == 1000
    assert all(sum(map(len, texts(batch.lines))) <= 1100 for batch in batches)
    assert {batch.pos.rpartition(":")[0] for batch in batches} == {
        str(tmp_path / "a.log"),
        str(tmp_path / "b.log"),
    }
    assert all(len(batch.offsets) == 1 for batch in batches)


def test_a_flood_in_one_file_does_not_hide_another(tmp_path: Path) -> None:
    append(tmp_path / "a.log", "one")
    append(tmp_path / "b.log", "one b")
    reader = Reader(tmp_path / "*.log", batch_bytes=100)
    reader.poll()
    append(tmp_path / "a.log", *numbered(0, 1000))
    append(tmp_path / "b.log", "two b")

    first = texts(reader.poll())

    assert "two b" in first[:3]
    assert reader.tail.behind
    while reader.tail.behind:
        first += texts(reader.poll())
    assert sorted(first) == sorted([*numbered(0, 1000), "two b"])


def test_the_copy_of_a_file_that_is_not_read_to_its_end_waits_for_it(tmp_path: Path) -> None:
    log = tmp_path / "gate.log"
    append(log, *numbered(0, 10))
    reader = Reader(tmp_path / "gate.log*", batch_bytes=100)
    reader.poll()
    append(log, *numbered(10, 1000))
    shutil.copy(log, tmp_path / "gate.log.1")

    reader.poll()
    while reader.tail.behind:
        reader.poll()
    reader.poll()

    assert texts(reader.lines) == numbered(0, 1000)


def test_the_unread_end_of_a_file_that_was_renamed_out_of_the_pattern_is_read(
    tmp_path: Path,
) -> None:
    log = tmp_path / "gate.log"
    append(log, "one")
    reader = Reader(log)
    reader.poll()
    append(log, "two")
    log.rename(tmp_path / "gate.log.1")
    append(log, "three")

    assert texts(reader.poll()) == ["two", "three"]
    append(tmp_path / "gate.log.1", "four, by a writer that still had it open")
    reader.start()
    assert texts(reader.poll()) == ["four, by a writer that still had it open"]


def test_the_unread_end_of_a_file_that_was_copied_and_truncated_is_read_from_the_copy(
    tmp_path: Path,
) -> None:
    log = tmp_path / "gate.log"
    append(log, *numbered(0, 50))
    reader = Reader(log)
    reader.poll()
    append(log, "unread")
    shutil.copy(log, tmp_path / "gate.log.1")
    overwrite(log, b"new\n")

    assert sorted(texts(reader.poll())) == ["new", "unread"]
    reader.start()
    assert reader.poll() == []


def test_a_truncated_file_that_grew_past_the_offset_is_read_from_its_start(tmp_path: Path) -> None:
    log = tmp_path / "gate.log"
    append(log, *numbered(0, 3))
    reader = Reader(log)
    reader.poll()
    overwrite(log, "\n".join([*numbered(10, 20), ""]).encode())

    assert texts(reader.poll()) == numbered(10, 20)


def test_equal_first_bytes_do_not_make_two_files_one(tmp_path: Path) -> None:
    head = numbered(0, 40)  # more than the print of the first bytes covers
    log = tmp_path / "gate.log"
    append(log, *head, "one end")
    reader = Reader(tmp_path / "gate.log*")
    reader.poll()
    append(tmp_path / "gate.log.1", *head, "no end!", "more")

    assert len(reader.poll()) == 42


def test_files_of_other_names_with_equal_lines_are_two_files(tmp_path: Path) -> None:
    append(tmp_path / "billing.log", "started")
    append(tmp_path / "refunds.log", "started")

    assert texts(Reader(tmp_path / "*.log").poll()) == ["started", "started"]


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_the_unread_end_of_a_file_is_read_from_the_compressed_one(
    suffix: str, tmp_path: Path
) -> None:
    log = tmp_path / "gate.log"
    append(log, *numbered(0, 100))
    reader = Reader(tmp_path / "gate.log*")
    reader.poll()
    append(log, "unread", end="")
    compress = gzip.compress if suffix == ".gz" else zstandard.compress
    (tmp_path / f"gate.log.1{suffix}").write_bytes(compress(log.read_bytes()))
    log.unlink()
    append(log, "new")

    assert sorted(texts(reader.poll() + reader.poll())) == ["new", "unread"]
    reader.start()
    assert reader.poll() + reader.poll() == []


def test_a_compressed_file_that_is_still_growing_is_left_alone(tmp_path: Path) -> None:
    packed = gzip.compress("\n".join(numbered(0, 2000)).encode())
    path = tmp_path / "a.gz"
    reader = Reader(path)

    path.write_bytes(packed[:100])
    assert reader.poll() == []
    path.write_bytes(packed[:200])
    assert reader.poll() == []
    path.write_bytes(packed)
    assert reader.poll() == []
    assert texts(reader.poll()) == numbered(0, 2000)
    assert reader.tail.problems == []


def test_a_cut_archive_gives_what_it_holds_and_says_so_and_goes_on_when_it_is_whole(
    tmp_path: Path,
) -> None:
    packed = gzip.compress("\n".join(numbered(0, 9000)).encode())
    path = tmp_path / "a.gz"
    path.write_bytes(packed[: len(packed) // 2])
    reader = Reader(path)

    first = reader.poll(final=True)
    assert 0 < len(first) < 9000
    assert reader.tail.problems == [(str(path), "ends in the middle of its compressed stream.")]
    path.write_bytes(packed)
    assert texts(first + reader.poll() + reader.poll()) == numbered(0, 9000)
    assert reader.tail.problems == []


def test_an_editor_that_saves_the_file_anew_costs_no_line(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    append(log, "one", "two")
    reader = Reader(log)
    reader.poll()
    kept = tmp_path / "a.log.swp"
    append(kept, "one", "2", "three")
    kept.replace(log)

    assert texts(reader.poll()) == ["one", "2", "three"]


def test_the_last_line_without_an_end_waits_and_is_given_by_a_final_poll(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    append(log, "one", "tw", end="")
    reader = Reader(log)

    assert texts(reader.poll()) == ["one"]
    assert texts(reader.poll(final=True)) == ["tw"]
    assert reader.poll(final=True) == []
    append(log, "o")
    assert texts(reader.poll()) == ["one", "two"]  # known lines again: their ids are known


def test_a_folder_that_appears_later_is_found(tmp_path: Path) -> None:
    reader = Reader(tmp_path / "**" / "*.log")
    assert reader.poll() == []
    (tmp_path / "later" / "deep").mkdir(parents=True)
    append(tmp_path / "later" / "deep" / "a.log", "one")

    assert texts(reader.poll()) == ["one"]


def test_a_file_that_cannot_be_read_is_named_and_the_others_go_on(tmp_path: Path) -> None:
    loop = tmp_path / "loop.log"
    loop.symlink_to(loop)
    os.mkfifo(tmp_path / "pipe.log")
    (tmp_path / "gone.log").symlink_to(tmp_path / "nowhere")
    (tmp_path / "folder.log").mkdir()
    append(tmp_path / "a.log", "one")
    reader = Reader(tmp_path / "*.log")

    assert texts(reader.poll()) == ["one"]
    assert reader.tail.problems == [
        (str(loop), "can't be read: Too many levels of symbolic links."),
        (str(tmp_path / "pipe.log"), "is no regular file."),
    ]


def test_a_link_and_its_target_are_one_file(tmp_path: Path) -> None:
    append(tmp_path / "gate-1.log", "one")
    (tmp_path / "current.log").symlink_to(tmp_path / "gate-1.log")
    reader = Reader(tmp_path / "*.log")

    assert texts(reader.poll()) == ["one"]
    append(tmp_path / "gate-2.log", "two")
    (tmp_path / "current.log").unlink()
    (tmp_path / "current.log").symlink_to(tmp_path / "gate-2.log")
    assert texts(reader.poll()) == ["two"]


def test_a_line_of_many_reads_is_put_together_and_a_longer_one_is_measured(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    reader = Reader(log, max_line=100_000, batch_bytes=1000)
    whole: list[Any] = []
    for _ in range(20):
        append(log, "x" * 4000, end="")
        whole += reader.poll()
    assert whole == []
    append(log, "", "y" * 300_000, "z")

    line, long, last = reader.poll()

    assert (line, last) == (b"x" * 80_000, b"z")
    assert isinstance(long, Oversized)
    assert (long.length, long.head) == (300_000, b"y" * 1024)


def test_many_files_are_read_once_each(tmp_path: Path) -> None:
    for number in range(1500):
        append(tmp_path / f"agent-{number}.log", f"first of {number}")
    reader = Reader(tmp_path / "*.log")

    assert len(reader.poll()) == 1500
    append(tmp_path / "agent-77.log", "second")
    assert texts(reader.poll()) == ["second"]
    reader.start()
    assert reader.poll() == []


def test_offsets_of_another_source_are_left_alone(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    append(log, "one")
    reader = Reader(log)
    reader.poll()
    other = Tail("t", "native", [str(log)], 1000, 1000)

    other.restore(reader.offsets.values())

    assert [line for batch in other.poll() for line in batch.lines] == [b"one"]


@pytest.mark.parametrize("seed", range(12))
def test_any_order_of_writing_rotating_and_restarting_gives_each_line_once(
    seed: int, tmp_path: Path
) -> None:
    log, reader, written, rotated = tmp_path / "gate.log", Reader(tmp_path / "gate.log*"), 0, 0
    for step in range(60):
        append(log, *numbered(written, written + step % 7))
        written += max(1, step % 7) if step % 7 else 0
        match (seed * 7919 + step * 104729 + step * step * seed) % 9:
            case 0:
                log.rename(tmp_path / f"gate.log.{(rotated := rotated + 1)}")
            case 1 | 2 if log.exists():
                shutil.copy(log, tmp_path / f"gate.log.{(rotated := rotated + 1)}")
                os.truncate(log, 0)
            case 3:
                reader.start()
            case 4:
                reader.poll(land=False)
            case 5 if rotated and (old := tmp_path / f"gate.log.{rotated}").exists():
                (tmp_path / f"gate.log.{rotated}.gz").write_bytes(gzip.compress(old.read_bytes()))
                old.unlink()
            case _:
                reader.poll()
    reader.poll()
    reader.poll()
    reader.poll()

    found = [text for text in texts(reader.lines) if text]
    assert sorted(found) == sorted(numbered(0, written))
