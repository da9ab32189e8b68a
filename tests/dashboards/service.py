"""A service for pages: the real schema in memory, its SQL answered over HTTP as the product does.

Speaks the part of the product's HTTP interface that the dashboard uses, on a free local port.
"""

import importlib
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any
from urllib.parse import unquote

import duckdb
import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from dashboards.client import Client
from ingest.store import Store
from tests.dashboards.insert import NOW

pa: Any = importlib.import_module("pyarrow")  # it has no types
STREAM = "application/vnd.apache.arrow.stream"
ACTION = re.compile(r"/v1/alerts/([^/]+)/(ack|verdict)")


def answer(store: Store, request: httpx.Request, now: datetime = NOW) -> httpx.Response:
    """What the service says to one request; its clock stands at `now`."""
    date = {"date": f"{now:%a, %d %b %Y %H:%M:%S GMT}"}
    if request.url.path == "/healthz":
        return httpx.Response(200, json={"ok": True}, headers=date)
    if request.method == "GET":
        return httpx.Response(404, json={"error": "no such address"})
    body = httpx.Response(200, content=request.content).json()
    if request.url.path == "/v1/sql":
        try:
            return httpx.Response(
                200, content=_arrow(store, body), headers={"content-type": STREAM}
            )
        except duckdb.Error as error:
            return httpx.Response(400, json={"error": str(error)})
    if action := ACTION.fullmatch(request.url.path):
        _triage(store, unquote(action[1]), action[2], body, now)
        return httpx.Response(200, json={"ok": True})
    return httpx.Response(404, json={"error": "no such address"})


def client(store: Store) -> Client:
    """A client that reaches the store without a network."""
    return Client("http://service", "", httpx.MockTransport(lambda asked: answer(store, asked)))


@contextmanager
def serving(store: Store, port: int | None = None) -> Iterator[str]:
    """The service on a local port; yields its address."""

    async def reply(request: Request) -> Response:
        sent = httpx.Request(
            request.method, str(request.url), content=await request.body(), headers=request.headers
        )
        got = answer(store, sent)
        return Response(got.content, got.status_code, dict(got.headers))

    routes = [Route("/{path:path}", reply, methods=["GET", "POST"])]
    port = port or free_port()
    settings = uvicorn.Config(
        Starlette(routes=routes), port=port, log_level="error", date_header=False
    )
    server = uvicorn.Server(settings)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _arrow(store: Store, body: dict[str, Any]) -> bytes:
    with store.reading() as db:
        rows: Any = db.sql(body["sql"], params=body.get("params") or None).to_arrow_table()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    body_bytes: bytes = sink.getvalue().to_pybytes()
    return body_bytes


def _triage(store: Store, alert: str, action: str, body: dict[str, str], now: datetime) -> None:
    with store.writing() as db:
        if action == "ack":
            sql = "UPDATE alerts SET acked_by = $actor, acked_at = $now WHERE alert_id = $alert"
            db.execute(sql, {"actor": body["actor"], "now": now, "alert": alert})
            return
        db.execute(
            "UPDATE alerts SET verdict = $verdict, verdict_by = $actor, verdict_reason = $reason,"
            " verdict_at = $now WHERE alert_id = $alert",
            {**body, "now": now, "alert": alert},
        )


def listening(port: int, patience: float = 60.0) -> None:
    """Wait until a process of ours answers on this port."""
    until = time.monotonic() + patience
    while time.monotonic() < until:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)  # the process says nothing when it is ready
    raise TimeoutError(f"nobody listens on port {port}")
