"""A disk that is really full: a small file system of its own, mounted for the test (needs root)."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import duckdb
import httpx
import pytest

from detectors.routing import Route, load
from gatewatch.chat_sink import Arrived, ChatSink
from gatewatch.demo import free_ports
from gatewatch.direct import CALM, Direct, told_of
from gatewatch.disk import Disk
from gatewatch.parts import utc_now
from ingest.chain import verify
from ingest.ledger import LedgerError
from ingest.store import open_store
from tests.kit_http import Running, lines, running, until

MIB = 2**20
SECRET = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="  # noqa: S105 - of this test
HOOK = """
[receivers.hook]
type          = "webhook"
webhook       = "{url}/webhook"
secrets       = ["{secret}"]
allow_http    = true
allow_private = true
"""


@contextmanager
def small_disk(folder: Path, size: int) -> Iterator[Path]:
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    subprocess.run(command, check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(disk: Path, leave: int = 0) -> Path:
    """Somebody else takes the room; removing the file gives it back."""
    path = disk / "other.bin"
    with path.open("ab", buffering=0) as file:
        try:
            while Disk(disk, 0, print).free > leave:
                file.write(b"\0" * min(MIB, Disk(disk, 0, print).free - leave))
        except OSError:
            pass  # not a byte more
    return path


def send(service: Running, first: int, count: int = 400) -> httpx.Response:
    body = lines(*range(first, first + count), params={"pad": "x" * 300})
    return service.http.post("/v1/events", content=body)


def stopped(service: Running) -> bool:
    return "gatewatch_intake_stopped 1.0" in service.http.get("/metrics").text


def test_a_full_disk_stops_the_intake_is_told_and_ends_by_itself(tmp_path: Path) -> None:
    """The room that is left over serves the alerts; nothing that was acknowledged is missing."""
    heard: list[Arrived] = []
    sink = ChatSink(free_ports(1)[0], SECRET, utc_now, heard=heard.append)
    sink.start()
    config = 'data = "disk/data"\n[limits]\nfree_bytes = 4194304\n'
    config += HOOK.format(url=sink.url, secret=SECRET)
    with small_disk(tmp_path / "disk", 48 * MIB) as disk, running(tmp_path, config) as service:
        assert send(service, 0).status_code == 200
        other = fill(disk, leave=3 * MIB)

        until(lambda: service.http.get("/readyz").status_code == 503)
        refused = send(service, 1_000)
        said = service.http.get("/readyz").json()["disk"]

        assert refused.status_code == 503
        assert int(refused.headers["retry-after"]) > 0
        assert "the disk is full" in said
        assert stopped(service)
        until(lambda: any(each.body["data"]["detector"] == "intake_stopped" for each in heard))
        assert service.rows("SELECT count(*) AS n FROM events") == [{"n": 400}]

        other.unlink()
        until(lambda: service.http.get("/readyz").status_code == 200)
        assert send(service, 1_000).json()["events"] == 400
        assert not stopped(service)
        assert service.rows("SELECT count(*) AS n FROM events") == [{"n": 800}]
        kept = service.rows("SELECT detail FROM operator_log WHERE action = 'intake_stopped'")
        assert "the disk is full" in json.loads(kept[0]["detail"])["why"]
    sink.stop()


def test_a_disk_without_one_free_byte_loses_and_doubles_nothing(tmp_path: Path) -> None:
    """What was refused is sent again, whether or not the ledger had taken it already."""
    config = 'data = "disk/data"\n[limits]\nfree_bytes = 0\n'
    with small_disk(tmp_path / "disk", 32 * MIB) as disk, running(tmp_path, config) as service:
        bodies = [
            lines(*range(n * 400, n * 400 + 400), params={"pad": "x" * 300}) for n in range(8)
        ]
        answers = [service.http.post("/v1/events", content=bodies[0])]
        other = fill(disk)
        answers += [service.http.post("/v1/events", content=body) for body in bodies[1:]]

        assert [each.status_code for each in answers] == [200] + [503] * 7
        assert service.http.get("/readyz").status_code == 503
        assert stopped(service)

        other.unlink()
        until(lambda: service.http.get("/readyz").status_code == 200)
        for body in bodies:
            assert service.http.post("/v1/events", content=body).status_code == 200
        [row] = service.rows("SELECT count(*) AS n, count(DISTINCT event_id) AS ids FROM events")
        assert row == {"n": 3_200, "ids": 3_200}
        service.stopped()
        assert verify(tmp_path / "disk" / "data" / "gatewatch.ledger").problems == ()


def test_a_database_that_was_given_up_on_a_full_disk_is_opened_again(tmp_path: Path) -> None:
    rows = "INSERT INTO t SELECT range, random()::VARCHAR || random() FROM range(50000)"
    with small_disk(tmp_path / "disk", 24 * MIB) as disk:
        store = open_store(disk / "x.duckdb")
        with store.writing() as db:
            db.execute("CREATE TABLE t (x INT, y VARCHAR)")
            db.execute(rows)
        other = fill(disk)
        store.checkpoint()

        for _ in range(2):
            with pytest.raises(duckdb.Error), store.writing() as db:
                db.execute(rows)
        other.unlink()

        assert store.rows("SELECT count(*) AS n FROM t") == [{"n": 50_000}]
        with store.writing() as db:
            db.execute(rows)
        assert store.rows("SELECT count(*) AS n FROM t") == [{"n": 100_000}]
        store.close()


def test_lines_are_taken_again_only_when_there_is_some_more_room(tmp_path: Path) -> None:
    over: list[object] = []
    with small_disk(tmp_path / "disk", 16 * MIB) as place:
        disk = Disk(place, 4 * MIB, lambda: None, lambda *each: over.append(each))
        disk.refuse()
        other = fill(place, leave=4 * MIB - 4_096)
        with pytest.raises(LedgerError, match="the disk is full"):
            disk.refuse()

        began = utc_now()
        disk.step(began)
        with other.open("r+b") as file:
            file.truncate(other.stat().st_size - 8_192)  # more than the limit, but not by much
        disk.step(utc_now())
        assert disk.why is not None

        other.unlink()
        disk.step(utc_now())
        assert disk.why is None
        assert [each[1] for each in over] == [began]


def routes(**more: object) -> tuple[Route, ...]:
    table = {"type": "webhook", "webhook": "http://127.0.0.1:1/x", "allow_http": True}
    return load({"hook": table | {"allow_private": True} | more})


def test_each_receiver_is_told_once_when_it_begins_and_once_when_it_is_over() -> None:
    got: list[str] = []
    answers = [httpx.Response(503), *[httpx.Response(204) for _ in range(5)]]

    def answer(request: httpx.Request) -> httpx.Response:
        got.append(json.loads(request.content)["type"])
        return answers.pop(0)

    direct = Direct(routes()[0], "", httpx.Client(transport=httpx.MockTransport(answer)))
    now = utc_now()
    for seconds in range(400):
        why = "the disk is full" if seconds < 30 or 60 <= seconds < 90 else None
        direct.step(why, now + timedelta(seconds=seconds))

    assert timedelta(seconds=60) == CALM  # so a pause of half a minute ends nothing
    opened = "gatewatch.alert.open"
    assert got == [opened, opened, "gatewatch.alert.resolved"]


def test_when_no_receiver_wants_it_all_are_told() -> None:
    [deaf], [open_to_all] = routes(detectors=["deny_retry"]), routes()

    assert told_of([deaf]) == (deaf,)
    assert told_of([deaf, open_to_all]) == [open_to_all]
