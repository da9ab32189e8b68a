import json
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

from gatewatch.fleet import AGENTS, line
from gatewatch.gates import CUT, TWICE, Gates, LogFile, Pusher

NOW = datetime(2026, 6, 3, 15, 20, tzinfo=UTC)


class Service:
    """A service that answers with what `answers` says, in this order, then with 200."""

    def __init__(self, *answers: int) -> None:
        self.heard: list[tuple[str, bytes]] = []
        self._answers = list(answers)
        self._server = HTTPServer(("127.0.0.1", 0), self._handler())
        Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        heard, answers = self.heard, self._answers

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                heard.append((self.headers["idempotency-key"], body))
                self.send_response(answers.pop(0) if answers else 200)
                self.end_headers()

            def log_message(self, *given: object) -> None: ...

        return Handler


def test_what_is_written_before_and_after_a_rotation_is_all_there(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "gate.jsonl")
    log.write([b"one", b"two"])
    log.rotate()
    log.write([b"three"])
    log.close()

    assert (tmp_path / "gate.jsonl.1").read_bytes() == b"one\ntwo\n"
    assert (tmp_path / "gate.jsonl").read_bytes() == b"three\n"


def test_a_batch_is_sent_again_under_its_key_until_the_service_says_yes() -> None:
    service = Service(503, 429)
    pusher = Pusher(service.url)
    pusher.write([b"one", b"two"])
    pusher.close()
    service.close()

    assert service.heard == [("demo-1", b"one\ntwo")] * 3
    assert pusher.lost == 0


def test_a_line_is_counted_as_often_as_it_is_written(tmp_path: Path) -> None:
    service = Service()
    gates = Gates(tmp_path, service.url)
    fields = {"kind": "message", "text": "hello"}
    agents = [AGENTS[n % 4] for n in range(1000)]
    gates.take(line(NOW, f"e{n}", {"agent": agent, **fields}) for n, agent in enumerate(agents))
    gates.close()
    service.close()

    lines = [each for path in tmp_path.iterdir() for each in path.read_bytes().splitlines()]
    assert gates.written == len(lines)
    assert len(lines) - len(set(lines)) == gates.written // TWICE
    assert sum(not _whole(each) for each in lines) == gates.written // CUT


def _whole(data: bytes) -> bool:
    try:
        json.loads(data)
    except ValueError:
        return False
    return True
