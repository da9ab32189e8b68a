"""A whole service whose receiver says no: the alert reaches people by another road."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.gatewatch.test_route import denials
from tests.kit_http import running, until
from tests.kit_sockets import answering


class Door(ThreadingHTTPServer):
    """Two receivers: /ops is gone for good, /pager takes what it is sent."""

    def __init__(self) -> None:
        self.taken: list[dict[str, Any]] = []
        super().__init__(("127.0.0.1", 0), Handler)

    def receiver(self, name: str) -> str:
        return (
            f'[receivers.{name}]\ntype = "webhook"\n'
            f'webhook = "http://127.0.0.1:{self.server_port}/{name}"\n'
            "allow_http = true\nallow_private = true\n"
        )


class Handler(BaseHTTPRequestHandler):
    server: Door

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/pager":
            self.server.taken.append(body)
        self.send_response(200 if self.path == "/pager" else 410)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Silent."""


@pytest.fixture
def door() -> Iterator[Door]:
    server = Door()
    with answering(server):
        yield server


def test_what_its_receiver_refuses_reaches_the_fallback_with_the_reason(
    tmp_path: Path, door: Door
) -> None:
    (tmp_path / "gate.jsonl").write_text(denials())
    config = '[sources.gate]\npaths = ["gate.jsonl"]\n' + door.receiver("ops")
    config += door.receiver("pager") + '[routing]\nto = ["ops"]\nfallback = "pager"\n'

    with running(tmp_path, config) as service:
        sql = "SELECT alert_id AS id FROM alerts WHERE detector = 'deny_retry'"
        until(lambda: service.rows(sql))
        [alert] = service.rows(sql)

        def sent() -> set[tuple[str, str, str]]:
            found = service.http.get(f"/v1/alerts/{alert['id']}/route").json()
            return {(each["receiver"], each["kind"], each["state"]) for each in found["sent"]}

        until(lambda: ("pager", "escalated", "delivered") in sent())
        assert ("ops", "open", "dead") in sent()

    text = json.dumps(door.taken)
    assert alert["id"] in text
    assert "nobody of ops can be reached: clientError: HTTP 410" in text
