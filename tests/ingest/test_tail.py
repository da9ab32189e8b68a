"""The tail, on real files that rotate, shrink, move, and are written in halves."""

import gzip
import io
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
from ingest.cut import LINES, How
from ingest.fingerprint import fingerprint
from ingest.tail import Tail

FIXTURES = Path(__file__).parents[3] / "shared" / "cases" / "fixtures"
STEPS = ["B001", "B003", "B005", "B006", "B008", "B010"]


class Reader:
    """A tail that is stopped and started, and all that it landed."""

    def __init__(
        self,
        *patterns: Path,
        max_line: int = 1 << 20,
        batch_bytes: int = 1 << 16,
        how: How = LINES,
    ):
        self.patterns, self.how = [str(each) for each in patterns], how
        self.limits = max_line, batch_bytes
        self.offsets: dict[tuple[int, int], Offset] = {}
        self.lines: list[Any] = []
        self.start()

    def start(self) -> None:
        self.tail = Tail("s", "native", self.patterns, *self.limits, self.how)
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


DOCUMENTS = How(format="json")


def indented(first: int, last: int) -> str:
    return json.dumps([{"n": n, "more": {"x": [n]}} for n in range(first, last)], indent=2)


def numbers(lines: Sequence[Any]) -> list[int]:
    return [json.loads(line)["n"] for line in lines if line]


@pytest.mark.parametrize("how", [DOCUMENTS, LINES])
def test_an_array_over_many_lines_is_read_as_it_grows_and_after_a_restart(
    how: How, tmp_path: Path
) -> None:
    log, text = tmp_path / "a.json", indented(0, 30)
    reader = Reader(log, batch_bytes=200, how=how)
    for at in range(0, len(text), 333):
        append(log, text[at : at + 333], end="")
        reader.poll()
        reader.start()

    assert numbers(reader.lines) == list(range(30))
    append(log, "\n" + indented(30, 40))
    assert numbers(reader.poll()) == list(range(30, 40))
    reader.start()
    assert reader.poll() == []


@pytest.mark.parametrize("compress", [gzip.compress, zstandard.compress])
def test_a_document_in_a_compressed_file_needs_no_line_end(compress: Any, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(compress(indented(0, 500).encode()))
    reader = Reader(tmp_path / "*", batch_bytes=1000, how=DOCUMENTS)
    reader.poll()

    assert numbers(reader.poll()) == list(range(500))
    reader.start()
    assert reader.poll() == []


def test_an_envelope_in_a_tailed_file_gives_its_elements(tmp_path: Path) -> None:
    text = json.dumps({"Records": [{"n": n} for n in range(5)]})
    (tmp_path / "trail.json").write_text(text)
    reader = Reader(tmp_path / "*.json", how=How("json", "Records"))

    assert [json.loads(line)["Records"][0]["n"] for line in reader.poll()] == [0, 1, 2, 3, 4]


def test_a_last_object_without_its_line_end_is_read_when_nothing_more_comes(
    tmp_path: Path,
) -> None:
    log = tmp_path / "a.json"
    append(log, '{"n": 1}', '{"n": 2}', end="")
    reader = Reader(log)

    assert numbers(reader.poll()) == [1]
    assert reader.poll() == []
    assert numbers(reader.poll()) == [2]
    assert reader.poll() == []
    append(log, "", '{"n": 3}')
    assert numbers(reader.poll()) == [3]
    reader.start()
    append(log, '{"n": 4}')
    assert numbers(reader.poll()) == [4]


def test_a_last_line_that_is_no_whole_object_waits_for_its_end(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    append(log, '{"n": ', end="")
    reader = Reader(log)
    for _ in range(5):
        assert reader.poll() == []
    append(log, "5}")

    assert numbers(reader.poll()) == [5]


def test_a_text_log_waits_for_the_end_of_each_line(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    append(log, "{}", end="")
    reader = Reader(log, how=How("text"))

    assert [reader.poll() for _ in range(4)] == [[]] * 4


def test_the_log_of_a_container_gives_what_the_program_wrote_through_restarts(
    tmp_path: Path,
) -> None:
    log, stamp = tmp_path / "0.log", "2026-03-10T09:00:00Z stdout"
    reader = Reader(log, how=How(wrapper="cri"))
    for number in range(5):
        append(log, f'{stamp} P {{"n":', f"{stamp} P  ")
        reader.poll()
        reader.start()
        append(log, f"{stamp} F {number}}}")
        reader.poll()

    assert numbers(reader.lines) == [0, 1, 2, 3, 4]


def test_a_file_whose_inode_is_another_each_time_is_still_one_file(tmp_path: Path) -> None:
    log, reader = tmp_path / "a.log", Reader(tmp_path / "a.log")
    for number in range(12):
        text = log.read_text() if log.exists() else ""
        (tmp_path / "new").write_text(text + f"line {number}\n")
        (tmp_path / "new").replace(log)
        reader.poll()
        if number % 5 == 4:
            reader.start()
        assert reader.poll() == []

    assert texts(reader.lines) == [f"line {number}" for number in range(12)]
    assert len(reader.offsets) <= 4
    (tmp_path / "new").write_text("of another content\n")
    (tmp_path / "new").replace(log)
    assert texts(reader.poll()) == ["of another content"]


def test_where_no_file_has_an_inode_the_path_stands_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = {name: getattr(os, name) for name in ("stat", "fstat")}

    def without(name: str) -> Any:
        def stat(*args: Any, **more: Any) -> os.stat_result:
            info = real[name](*args, **more)
            kept = {key: getattr(info, key) for key in dir(info) if key.startswith("st_")}
            return os.stat_result([info[0], 0, *info[2:]], kept)

        return stat

    for name in real:
        monkeypatch.setattr(os, name, without(name))
    for name in "ab":
        append(tmp_path / f"{name}.log", "one", name)
    reader = Reader(tmp_path / "*.log*")

    assert sorted(texts(reader.poll())) == ["a", "b", "one", "one"]
    append(tmp_path / "a.log", "two")
    reader.start()
    assert texts(reader.poll()) == ["two"]
    append(tmp_path / "a.log", "three")
    (tmp_path / "a.log").rename(tmp_path / "a.log.1")
    append(tmp_path / "a.log", "four")
    assert sorted(texts(reader.poll())) == ["four", "three"]
    assert reader.poll() == []


def test_a_file_that_may_not_be_read_for_a_while_loses_nothing(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    append(log, "one")
    reader = Reader(log)
    reader.poll()
    append(log, "two")
    log.chmod(0)
    user = os.geteuid()
    try:
        if user == 0:  # whom no permission stops
            tmp_path.chmod(0o755)
            for folder in (tmp_path.parent, tmp_path.parent.parent):
                folder.chmod(0o755)
            os.seteuid(65_534)
        assert reader.poll() == []
        assert reader.tail.problems == [(str(log), "can't be read: Permission denied.")]
    finally:
        os.seteuid(user)
    log.chmod(0o600)

    assert texts(reader.poll()) == ["two"]
    assert reader.tail.problems == []


def test_a_file_that_is_deleted_while_it_is_read_is_no_trouble(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    append(log, *numbered(0, 100))
    reader = Reader(tmp_path / "*.log", batch_bytes=500)
    batches = reader.tail.poll()
    reader.land(next(batches))
    log.unlink()

    for batch in batches:
        reader.land(batch)

    assert texts(reader.lines) == numbered(0, len(reader.lines))
    append(tmp_path / "b.log", "next")
    assert texts(reader.poll()) == ["next"]
    assert reader.tail.problems == []


def test_a_poll_of_thousands_of_unchanged_files_opens_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(300):
        append(tmp_path / f"agent-{number}.log", f"first of {number}")
    reader = Reader(tmp_path / "*.log")
    reader.poll()
    opened: list[Any] = []
    real = io.open

    def noted(*args: Any, **more: Any) -> Any:
        opened.append(args)
        return real(*args, **more)

    monkeypatch.setattr(io, "open", noted)

    assert reader.poll() == []

    assert opened == []
    append(tmp_path / "agent-7.log", "second")
    opened.clear()
    assert texts(reader.poll()) == ["second"]
    assert 0 < len(opened) < 10
