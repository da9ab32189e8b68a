"""A gate that can be asked to pause, on a port of this machine."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import httpx

from gatewatch.parts import utc_now
from tests.kit_gates import KEY, Till


class Listening:
    """The gate of tests.kit_gates on a port of its own; `status` is what it answers instead."""

    def __init__(self) -> None:
        self.till, self.status = Till(utc_now), 0
        self.till.answer = lambda: httpx.Response(self.status) if self.status else None
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                url = f"http://gate.example{self.path}"
                asked = httpx.Request("POST", url, headers=dict(self.headers), content=body)
                answer = owner.till(asked)
                self.send_response(answer.status_code)
                self.send_header("content-length", str(len(answer.content)))
                self.end_headers()
                self.wfile.write(answer.content)

            def log_message(self, *_: object) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.config = f"""
            [containment.till]
            type = "webhook"
            webhook = "http://127.0.0.1:{self.server.server_port}/FAKE-till"
            secrets = ["{KEY}"]
            allow_http = true
            allow_private = true
        """


@contextmanager
def listening() -> Iterator[Listening]:
    made = Listening()
    thread = threading.Thread(target=made.server.serve_forever)
    thread.start()
    try:
        yield made
    finally:
        made.server.shutdown()
        thread.join()
        made.server.server_close()
