"""Senders that are slow, many, or send far too much, against a real service."""

import gzip
import json
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import zstandard

from detectors import detector
from gatewatch import connections
from tests.kit_http import CASES, Running, lines, running, until

GROWTH = 256.0  # MiB for all the bodies of one moment, with what reading and landing them takes
CONNECTIONS = 24
HEAD = b"POST /v1/events HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n"
CONFIG = f"[limits]\nconnections = {CONNECTIONS}\nbody_bytes = 16777216\n"
CONFIG += "".join(  # what judging takes is bounded by service.memory_limit, and no matter of these
    f"[detectors.{name}]\nenabled = false\n" for name in detector.names() if name != "deny_retry"
)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("service")
    with running(folder, CONFIG, 'memory_limit = "512MB"') as found:
        yield found


def opened(service: Running, stack: ExitStack, *, begin: bytes = b"") -> socket.socket:
    client = stack.enter_context(socket.create_connection(("127.0.0.1", service.port)))
    client.settimeout(connections.HEAD_SECONDS + 10)
    client.sendall(begin)
    return client


def answered(client: socket.socket) -> bytes:
    """All that comes until the other side ends it."""
    found = b""
    with suppress(ConnectionResetError):
        while part := client.recv(65_536):
            found += part
    return found


def packed(body: bytes, coding: str) -> bytes:
    for each in coding.split(", "):
        body = gzip.compress(body) if each == "gzip" else zstandard.compress(body)
    return body


def test_a_small_body_that_unpacks_to_a_huge_one_costs_no_memory(tmp_path: Path) -> None:
    """B178."""
    case = json.loads((CASES / "B178-gzip-bomb.http.json").read_text())
    with running(tmp_path, CONFIG) as service:  # one whose memory nobody else makes grow
        service.http.post("/v1/events", content=lines(1))
        until(lambda: service.rows("SELECT min(runs) AS n FROM judged")[0]["n"])
        before = service.memory("VmHWM")

        statuses = [
            service.http.post(
                each["path"], content=packed(b"0" * each["expand_to"], each["encoding"]),
                headers={"content-encoding": each["encoding"]},
            ).status_code
            for each in case["requests"]
        ]  # fmt: skip

        assert statuses == case["expect"]["statuses"]
        assert service.memory("VmHWM") - before <= case["expect"]["max_rss_growth_mb"]
        assert service.rows("SELECT count(*) AS n FROM quarantine") == [{"n": 0}]


def test_a_client_that_drips_holds_up_nobody_and_is_let_go(service: Running) -> None:
    """One byte of a head now and then, a body that does not come, an answer that is not taken."""
    over = threading.Event()
    with ExitStack() as stack:
        dripping = opened(service, stack, begin=b"POST /v1/eve")
        waiting = [opened(service, stack, begin=HEAD) for _ in range(5)]

        def drip() -> None:
            with suppress(OSError):
                while not over.wait(0.5):
                    dripping.sendall(b"n")

        thread = threading.Thread(target=drip)
        thread.start()
        answers = [service.http.post("/v1/events", content=lines(n)) for n in range(10, 20)]
        ended = answered(dripping)
        over.set()
        thread.join()

        assert [each.status_code for each in answers] == [200] * 10
        assert max(each.elapsed.total_seconds() for each in answers) < 5
        assert ended == b""  # cut off without a word, in the time that a head may take
        for client in waiting:
            client.sendall(b"{}" * 500)
            assert client.recv(100).startswith(b"HTTP/1.1 200")


def test_more_connections_than_there_may_be_are_asked_to_come_back(service: Running) -> None:
    with ExitStack() as stack:
        held = [opened(service, stack, begin=HEAD) for _ in range(CONNECTIONS - 2)]
        extra = [opened(service, stack) for _ in range(20)]
        told = Counter(answered(each)[:12] for each in extra[-10:])

        assert told == {b"HTTP/1.1 503": 10}
        assert service.http.get("/healthz").status_code == 200  # who is in stays in
        del held

    until(lambda: _in(service))


def _in(service: Running) -> bool:
    with httpx.Client(base_url=service.url, trust_env=False) as fresh:
        return fresh.get("/healthz").status_code == 200


def test_memory_stays_bounded_whatever_is_sent_at_once(service: Running) -> None:
    """Large bodies from many connections: what there is no room for is sent back, not kept."""
    doc: dict[str, Any] = json.loads(lines(1))
    row = json.dumps(doc | {"params": {"pad": "y" * 900}}).encode()
    body = b"\n".join(row.replace(b'"e1"', b'"m%d"' % n) for n in range(9_000))
    assert 2**23 < len(body) < 2**24
    for letter in (b"u", b"v", b"w"):  # what DuckDB keeps at hand is no matter of this test
        service.http.post("/v1/events", content=body.replace(b'"m', b'"' + letter))
    before = service.memory("VmHWM")

    def post(number: int) -> httpx.Response:
        mine = body.replace(b'"m', b'"m%d-' % number, 9_000)
        with httpx.Client(base_url=service.url, trust_env=False, timeout=60) as client:
            return client.post("/v1/events", content=mine)

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(post, range(16)))

    told = Counter(each.status_code for each in answers)
    assert told.keys() <= {200, 429}
    assert told[200] >= 2
    assert told[429] >= 1
    assert all(each.headers["retry-after"] for each in answers if each.status_code == 429)
    assert service.memory("VmHWM") - before <= GROWTH, told
    assert service.http.post("/v1/events", content=lines(5_000)).status_code == 200
