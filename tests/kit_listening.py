"""A gate that can be asked to pause, and a receiver, on a port of this machine."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import httpx

from gatewatch.parts import utc_now
from tests.kit_gates import KEY, Till
from tests.kit_sockets import answering

GATE = "/FAKE-till"


class Listening:
    """The gate of tests.kit_gates on a port of its own; `status` is what it answers instead. What
    is posted to any other path than the gate's is a message, and is `heard`."""

    def __init__(self) -> None:
        self.till, self.status, self.heard = Till(utc_now), 0, list[bytes]()
        self.till.answer = lambda: httpx.Response(self.status) if self.status else None
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                url = f"http://gate.example{self.path}"
                asked = httpx.Request("POST", url, headers=dict(self.headers), content=body)
                if self.path == GATE:
                    answer = owner.till(asked)
                else:
                    owner.heard.append(body)
                    answer = httpx.Response(204)
                self.send_response(answer.status_code)
                self.send_header("content-length", str(len(answer.content)))
                self.end_headers()
                self.wfile.write(answer.content)

            def log_message(self, *_: object) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.receiver = f"""
            [receivers.soc]
            type = "webhook"
            webhook = "http://127.0.0.1:{self.server.server_port}/soc"
            allow_http = true
            allow_private = true
        """
        self.config = f"""
            [containment.till]
            type = "webhook"
            webhook = "http://127.0.0.1:{self.server.server_port}{GATE}"
            secrets = ["{KEY}"]
            allow_http = true
            allow_private = true
        """


@contextmanager
def listening() -> Iterator[Listening]:
    made = Listening()
    with answering(made.server):
        yield made
